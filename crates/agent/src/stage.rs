//! A staging to be done, and how it can fail.

use crate::error::AgentError;
use forebay_model::ids::ConfigurationId;
use std::path::PathBuf;

/// A `stage_in` or `stage_out` line, resolved to paths.
#[derive(Clone, Debug)]
pub struct StageTask {
    /// The namespace that is read or written.
    pub configuration: ConfigurationId,
    /// Which way the data goes.
    pub direction: Direction,
    /// What the paths name.
    pub kind: StageKind,
    /// The path on the parallel file system: absolute.
    pub pfs: PathBuf,
    /// The path in the namespace: relative to its root, without `.` and `..`; empty is the root.
    pub instance_path: Vec<u8>,
    /// Go on after a file that failed, and report it at the end.
    pub tolerate_errors: bool,
}

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the parallel file system into the instance.
    In,
    /// From the instance to the parallel file system.
    Out,
}

/// What the paths of a staging name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StageKind {
    /// One regular file.
    File,
    /// The contents of a directory.
    Directory,
    /// A file that lists pairs of paths.
    List,
}

/// A staging that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// It could not be carried out at all.
    #[error(transparent)]
    Agent(#[from] AgentError),
}
