//! Why a stage failed: typed, so that the caller can decide, and with one text per cause in the words of the user.
//!
//! A failure never means that something of the user's was deleted: the source is untouched and a target has either its
//! old or its new content.

mod text;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::report::StageReport;
use crate::tree::{Cause, EntryKind};

/// Why one item could not be staged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
pub enum Reason {
    /// The source does not exist.
    SourceMissing {
        /// The nearest directory above that exists.
        #[serde(with = "crate::raw_path")]
        nearest: PathBuf,
        /// A name there that looks like the missing one.
        #[serde(with = "crate::raw_path::optional")]
        similar: Option<PathBuf>,
    },
    /// The directory to write into does not exist.
    TargetDirectoryMissing {
        /// The nearest directory above that exists.
        #[serde(with = "crate::raw_path")]
        nearest: PathBuf,
    },
    /// Reading the source is not permitted.
    SourcePermission,
    /// Writing the target is not permitted.
    TargetPermission {
        /// The directory or file that refused.
        #[serde(with = "crate::raw_path")]
        refused: PathBuf,
    },
    /// The target's file system is mounted read-only (or the write window is used up).
    ReadOnly,
    /// The target is full.
    NoSpace {
        /// Bytes the stage needs at least, where known.
        needed: Option<u64>,
        /// Bytes free, where known.
        free: Option<u64>,
    },
    /// The user's quota on the target is used up.
    Quota,
    /// A name or path is longer than the target allows.
    NameTooLong,
    /// The file is larger than the target allows.
    FileTooLarge {
        /// Its size.
        size: u64,
    },
    /// The target's limit on the number of files is reached.
    TooManyFiles,
    /// The source kept changing while it was copied.
    SourceChanged {
        /// How often it was tried.
        attempts: u32,
    },
    /// A file was asked for, the source is something else.
    NotRegularFile {
        /// What it is.
        kind: EntryKind,
    },
    /// A directory was asked for, the source is something else.
    NotDirectory {
        /// What it is.
        kind: EntryKind,
    },
    /// A directory stands where a file should be written.
    TargetIsDirectory,
    /// Something else stands where a directory is needed.
    TargetNotDirectory {
        /// What it is.
        kind: EntryKind,
    },
    /// Two files of the list have the same target.
    DuplicateTarget {
        /// The source of the first.
        #[serde(with = "crate::raw_path")]
        other: PathBuf,
    },
    /// Source and destination are the same or one lies inside the other.
    Overlap {
        /// The destination.
        #[serde(with = "crate::raw_path")]
        destination: PathBuf,
    },
    /// A symbolic link leads out of the instance, or round in circles.
    LinkUnusable {
        /// Where the link stands.
        #[serde(with = "crate::raw_path")]
        link: PathBuf,
    },
    /// What the destination holds is not what was read from the source.
    ChecksumMismatch {
        /// Of the source.
        expected: u64,
        /// Of the destination read back.
        found: u64,
    },
    /// This process has too many files open.
    TooManyOpenFiles,
    /// The journal cannot be used.
    Journal {
        /// Why.
        error: Cause,
    },
    /// Any other failure of a file system.
    FileSystem {
        /// What was tried.
        operation: String,
        /// Whether the source or the target failed.
        side: Side,
        /// Why.
        error: Cause,
    },
    /// The caller asked to stop.
    Cancelled,
}

/// Which side of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Where the data comes from.
    Source,
    /// Where it goes.
    Target,
}

/// One item that could not be staged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ItemFailure {
    /// The path concerned, as users see it (source side for source reasons, target side for target reasons).
    #[serde(with = "crate::raw_path")]
    pub path: PathBuf,
    /// Why.
    pub reason: Reason,
}

/// A stage that did not finish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageFailure {
    /// What failed first.
    pub first: ItemFailure,
    /// Number of items that failed.
    pub failures_total: u64,
    /// The first of them (as many as the options list), `first` included.
    pub failures: Vec<ItemFailure>,
    /// What had been done by then. Boxed, so that results stay small.
    pub report: Box<StageReport>,
}

impl StageFailure {
    /// Whether it is not a fault but the caller's wish.
    pub fn is_cancelled(&self) -> bool {
        self.first.reason == Reason::Cancelled
    }
}

impl std::error::Error for StageFailure {}
impl std::error::Error for ItemFailure {}
