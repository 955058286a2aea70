//! What a stage did: the snapshots while it runs and the account at its end.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::failure::ItemFailure;

/// How far a running stage is. Totals grow while the source is walked: until `walked` they are "at least".
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StageProgress {
    /// Bytes of files done or in work (holes count: it is the size users know).
    pub bytes_done: u64,
    /// Bytes found so far.
    pub bytes_total: u64,
    /// Files, links and fifos done (directories are not counted).
    pub files_done: u64,
    /// The same, found so far.
    pub files_total: u64,
    /// Whether the whole source has been walked, so that the totals are final.
    pub walked: bool,
    /// Milliseconds since the start.
    pub elapsed_ms: u64,
    /// Bytes per second over the last few seconds.
    pub bytes_per_second: u64,
    /// Estimate of the time left; `None` before the totals are final or while nothing moves.
    pub left_ms: Option<u64>,
}

/// What was not kept exactly although the stage went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarningKind {
    /// The destination's file system refused an extended attribute.
    XattrNotKept,
    /// Root could not give the file to its owner (a file system or a name space that knows no owners).
    OwnerNotKept,
    /// The set-user-id or set-group-id bit was dropped, because the copy belongs to somebody else.
    SetIdNotKept,
    /// A socket or device was left out.
    SpecialSkipped,
    /// The destination cannot have hard links; the file was copied instead.
    LinkCopied,
}

/// One named warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// What.
    pub kind: WarningKind,
    /// Where: the source path as users see it.
    #[serde(with = "crate::raw_path")]
    pub path: PathBuf,
}

/// The account of a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageReport {
    /// Sizes of the files that are complete at the destination through this run (holes count).
    pub bytes: u64,
    /// Bytes really read and written, without holes and skipped files.
    pub bytes_moved: u64,
    /// Regular files copied.
    pub files: u64,
    /// Files already complete from an interrupted run of the same stage, left as they were.
    pub files_skipped: u64,
    /// Their sizes.
    #[serde(default)]
    pub bytes_skipped: u64,
    /// Directories made or merged into.
    pub directories: u64,
    /// Symbolic links made.
    pub symlinks: u64,
    /// Hard links made.
    pub hard_links: u64,
    /// Fifos made.
    pub fifos: u64,
    /// Starts again because a source file changed.
    pub changed_retries: u64,
    /// Milliseconds from start to end, making it durable included.
    pub elapsed_ms: u64,
    /// Number of warnings.
    pub warnings_total: u64,
    /// The first of them.
    pub warnings: Vec<Warning>,
    /// Number of items that failed and were tolerated.
    pub failures_total: u64,
    /// The first of them.
    pub failures: Vec<ItemFailure>,
}
