//! Whether the disk that is there is the one that was there.
//!
//! A disk that is not mounted looks like one that has lost everything, and the controller would believe it. So the directory for
//! fragments gets a mark, `forebay.json`, and the agent keeps a copy of it. Nothing is held, made or registered unless both say
//! the same, nor while others could change what is on it: with that, nobody but root can lead a path below it elsewhere.
//!
//! Order of events at the first start: the mark - the copy. A crash in between: the mark is taken over by the next start.

use super::config::StorageConfig;
use super::error::TaskError;
use super::state;
use crate::error::AgentError;
use forebay_controller::custody;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Name of the mark; no fragment's record is called so.
const NAME: &str = "forebay.json";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mark {
    /// The node that the disk is in.
    node: String,
    /// A number that no other disk has.
    disk: String,
}

/// Checks the disk, and marks it if it is new; `copy` is the agent's own.
pub(super) fn check(storage: &StorageConfig, node: &str, copy: &Path) -> Result<(), TaskError> {
    let directory = &storage.directory;
    let wrong = |problem: String| Err(TaskError::WrongDisk { path: directory.clone(), problem });
    if !directory.is_dir() {
        return wrong("is no directory: mount the disk, or make it".into());
    }
    custody::unchangeable(directory).map_err(AgentError::from)?;
    let mark = directory.join(NAME);
    let (found, known) = (state::read::<Mark>(&mark)?, state::read::<Mark>(copy)?);
    match (found, known) {
        (Some(found), Some(known)) if found == known => Ok(()),
        (Some(found), _) if found.node != node => wrong(format!(
            "is a disk of node {}, this is {node}: put it back, or remove {mark:?} after its fragments",
            found.node
        )),
        (Some(found), None) => Ok(state::write(copy, &found)?),
        (None, None) => {
            let new = Mark { node: node.to_owned(), disk: random()? };
            state::write(&mark, &new)?;
            crate::atomic_file::sync_directory(directory)?;
            Ok(state::write(copy, &new)?)
        }
        (_, Some(_)) => wrong(format!(
            "is not the disk that this node had: mount that one, or, if it is gone for good, remove {copy:?}"
        )),
    }
}

fn random() -> Result<String, TaskError> {
    let mut bytes = [0; 16];
    let path = PathBuf::from("/dev/urandom");
    let read =
        std::fs::File::open(&path).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes));
    read.map_err(|error| AgentError::system("read", path, error))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
