//! What to stage, and how.
//!
//! Plain data: made by the caller, only read here. [`StageOptions`] can travel between processes as JSON; the
//! [`Tuning`] handle in it stays behind and starts afresh on the other side.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use crate::tree::Tree;

/// Which way the data goes. It decides the rules where the two differ: [`In`](Direction::In) makes missing directories of the
/// destination; [`Out`](Direction::Out) makes none but the target directory of a directory stage, and its result is on
/// disk before success is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the parallel file system to the instance.
    In,
    /// From the instance to the parallel file system.
    Out,
}

/// One file of a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListPair {
    /// Relative to the root of the source tree.
    #[serde(with = "crate::raw_path")]
    pub source: PathBuf,
    /// Relative to the root of the destination tree; empty or with a `/` at the end takes the source's base name.
    #[serde(with = "crate::raw_path")]
    pub destination: PathBuf,
}

/// What is staged. Paths are relative to the root of their tree (for [`PosixTree::everywhere`](crate::PosixTree::everywhere)
/// that is the absolute path without its first `/`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum What {
    /// One regular file. A destination that is empty or has a `/` at the end takes the source's base name.
    File(ListPair),
    /// The contents of a directory, recursively; merged into the destination directory. A `/` at the end changes nothing.
    Directory(ListPair),
    /// Regular files one by one.
    List {
        /// The files, in the order of the list.
        pairs: Vec<ListPair>,
    },
}

/// One stage.
pub struct StageRequest<'a> {
    /// Which way.
    pub direction: Direction,
    /// Where the data is.
    pub source: &'a dyn Tree,
    /// Where it goes.
    pub destination: &'a dyn Tree,
    /// What.
    pub what: What,
}

/// How far the copy is checked before it is called done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    /// Only that the source did not change and that all bytes were accepted.
    Off,
    /// Also that the destination, read back, holds what was read from the source, compared byte by byte.
    #[default]
    Checksum,
}

/// How to stage.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StageOptions {
    /// Files and ranges in flight at once; `None` chooses by the number of cores. Limited to [`StageOptions::WORKERS_MAX`].
    pub workers: Option<usize>,
    /// Limit in bytes per second over all workers; `None` is unlimited.
    pub bytes_per_second_max: Option<u64>,
    /// See [`Verify`].
    pub verify: Verify,
    /// Whether success means that everything is on disk. `None`: a stage-out is durable, a stage-in is not, because its source
    /// stays and a job does not outlive its machine; ask for it where the instance does. A stage-out that is not durable may
    /// replace a good target by one that a power cut loses.
    pub durable: Option<bool>,
    /// Go on after a failed file (`tolerate_errors=yes`); the failures are in the report and the result is a success.
    pub tolerate_errors: bool,
    /// Where to remember finished files, so that the next run of the same stage can skip them. Its directory must exist.
    #[serde(with = "crate::raw_path::optional")]
    pub journal: Option<PathBuf>,
    /// The same as a file that is open already, for reading and appending: for who may not open it by its path. It stays when
    /// the stage is complete, and is used instead of [`journal`](Self::journal).
    #[serde(skip)]
    pub journal_file: Option<Arc<File>>,
    /// How often a file that changes while it is copied is started again.
    pub changed_retries_max: u32,
    /// How many failed items and warnings are named; the others are only counted.
    pub items_listed_max: usize,
    /// Shortest time between two progress reports.
    pub progress_interval_ms: u64,
    /// Changes of `workers` and `bytes_per_second_max` while running.
    #[serde(skip)]
    pub tuning: Tuning,
}

impl StageOptions {
    /// What [`durable`](Self::durable) means for a direction.
    pub fn is_durable(&self, direction: Direction) -> bool {
        self.durable.unwrap_or(direction == Direction::Out)
    }

    /// Most workers of one stage.
    pub const WORKERS_MAX: usize = 64;
}

impl Default for StageOptions {
    fn default() -> Self {
        Self {
            workers: None,
            bytes_per_second_max: None,
            verify: Verify::default(),
            durable: None,
            tolerate_errors: false,
            journal: None,
            journal_file: None,
            changed_retries_max: 3,
            items_listed_max: 20,
            progress_interval_ms: 200,
            tuning: Tuning::default(),
        }
    }
}

/// Knobs of a running stage; clones share them. Zero, the start, means "as the options say".
#[derive(Clone, Debug, Default)]
pub struct Tuning(Arc<Knobs>);

#[derive(Debug, Default)]
struct Knobs {
    workers: AtomicUsize,
    bytes_per_second: AtomicU64,
}

impl Tuning {
    /// Files and ranges in flight from now on, 1 to [`StageOptions::WORKERS_MAX`] (larger is cut); 0 gives back to the options.
    pub fn set_workers(&self, workers: usize) {
        self.0.workers.store(workers.min(StageOptions::WORKERS_MAX), Ordering::Relaxed);
    }

    /// Bytes per second from now on; 0 gives back to the options.
    pub fn set_bytes_per_second_max(&self, bytes: u64) {
        self.0.bytes_per_second.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn workers(&self) -> Option<usize> {
        Some(self.0.workers.load(Ordering::Relaxed)).filter(|n| *n > 0)
    }

    pub(crate) fn bytes_per_second_max(&self) -> Option<u64> {
        Some(self.0.bytes_per_second.load(Ordering::Relaxed)).filter(|n| *n > 0)
    }
}
