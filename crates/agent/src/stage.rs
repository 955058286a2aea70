//! A staging to be done, and how it can fail.

use crate::error::AgentError;
use forebay_model::ids::ConfigurationId;
use forebay_stager::{Direction, ListPair, StageFailure, StageOptions, StageReport, What};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A `stage_in` or `stage_out` line, resolved to paths. Paths of the parallel file system are relative to `/`, those of
/// the instance relative to the root of the namespace; the constructors take care of that.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageTask {
    /// The namespace that is read or written.
    pub configuration: ConfigurationId,
    /// Which way the data goes.
    pub direction: Direction,
    /// What is copied.
    pub what: What,
    /// How, `tolerate_errors` among it.
    pub options: StageOptions,
}

impl StageTask {
    /// One regular file. `pfs` is absolute; `inside` is relative to the namespace. A destination that is empty or ends
    /// in `/` takes the source's base name.
    pub fn file(
        configuration: ConfigurationId,
        direction: Direction,
        pfs: &Path,
        inside: &[u8],
        options: StageOptions,
    ) -> StageTask {
        let what = What::File(pair(direction, pfs, inside));
        StageTask { configuration, direction, what, options }
    }

    /// The contents of a directory, recursively.
    pub fn directory(
        configuration: ConfigurationId,
        direction: Direction,
        pfs: &Path,
        inside: &[u8],
        options: StageOptions,
    ) -> StageTask {
        let what = What::Directory(pair(direction, pfs, inside));
        StageTask { configuration, direction, what, options }
    }

    /// Regular files one by one: pairs of an absolute path of the parallel file system and a path inside.
    pub fn list(
        configuration: ConfigurationId,
        direction: Direction,
        files: &[(PathBuf, Vec<u8>)],
        options: StageOptions,
    ) -> StageTask {
        let pairs = files.iter().map(|(pfs, inside)| pair(direction, pfs, inside)).collect();
        StageTask { configuration, direction, what: What::List { pairs }, options }
    }
}

fn pair(direction: Direction, pfs: &Path, inside: &[u8]) -> ListPair {
    let outer = PathBuf::from(relative(pfs.as_os_str().as_bytes()));
    let inner = PathBuf::from(relative(inside));
    match direction {
        Direction::In => ListPair { source: outer, destination: inner },
        Direction::Out => ListPair { source: inner, destination: outer },
    }
}

/// Without slashes at the front; one at the end stays, it has a meaning.
fn relative(path: &[u8]) -> &OsStr {
    let begin = path.iter().position(|byte| *byte != b'/').unwrap_or(path.len());
    OsStr::from_bytes(&path[begin..])
}

/// Bytes that a staging took out of the instance and brought in, also one that failed in the middle.
pub(crate) fn moved(direction: Direction, done: &Result<StageReport, StageFailure>) -> (u64, u64) {
    let report = match done {
        Ok(report) => report,
        Err(failure) => &failure.report,
    };
    match direction {
        Direction::In => (0, report.bytes_moved),
        Direction::Out => (report.bytes_moved, 0),
    }
}

/// A staging that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The stager failed on files, or was stopped; the account of what was done is in it.
    #[error("{0}")]
    Failed(Box<StageFailure>),
    /// It could not be carried out, or the process that did it has died.
    #[error(transparent)]
    Agent(#[from] AgentError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_direction_decides_which_path_is_the_source() {
        let options = StageOptions::default;
        let into = StageTask::file(ConfigurationId(1), Direction::In, Path::new("//pfs/a"), b"x/", options());
        let pair = ListPair { source: "pfs/a".into(), destination: "x/".into() };
        assert_eq!(into.what, What::File(pair));
        let out =
            StageTask::directory(ConfigurationId(1), Direction::Out, Path::new("/pfs/a"), b"", options());
        let pair = ListPair { source: "".into(), destination: "pfs/a".into() };
        assert_eq!(out.what, What::Directory(pair));
    }
}
