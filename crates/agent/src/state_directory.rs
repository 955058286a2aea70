//! The directory that holds what is known of one instance on this machine.
//!
//! ```text
//! <instances>/<id>/instance.json       what it is made of; see `record` (`removing.json` while it is removed)
//! <instances>/<id>/gate, lease, mounted-c<id>    locks; see `lease`
//! <instances>/<id>/socket, process, log          of the instance process; see `process`
//! ```
//!
//! Removing: rename to `.removed-<id>` - content - directory. A crash after the rename leaves a few small files, which
//! removing the instance again, or making any other one, takes along.

use crate::error::AgentError;
use crate::fragment;
use crate::lease::Gate;
use crate::record::Record;
use forebay_model::ids::InstanceId;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const REMOVED: &str = ".removed-";

/// The state directory of an instance; it need not exist.
#[derive(Clone, Debug)]
pub(crate) struct StateDirectory {
    instance: InstanceId,
    path: PathBuf,
}

impl StateDirectory {
    pub fn new(instances: &Path, instance: InstanceId) -> StateDirectory {
        StateDirectory { instance, path: instances.join(instance.to_string()) }
    }

    pub fn instance(&self) -> InstanceId {
        self.instance
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the instance process says.
    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Makes the directory, for its owner alone.
    pub fn make(&self) -> Result<(), AgentError> {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder
            .create(&self.path)
            .map_err(|error| AgentError::system("make directory", &self.path, error))?;
        sweep(self.path.parent().unwrap_or(Path::new("/")));
        Ok(())
    }

    /// The right to change the instance; `None` if it has no directory.
    pub fn gate(&self) -> Result<Option<Gate>, AgentError> {
        Gate::enter(&self.path, self.instance)
    }

    /// The same for an instance that must exist.
    pub fn existing_gate(&self) -> Result<Gate, AgentError> {
        self.gate()?.ok_or_else(|| self.unknown())
    }

    /// The record, if there is one.
    pub fn record(&self) -> Result<Option<Record>, AgentError> {
        Record::read(&self.path, self.instance)
    }

    /// The record of an instance that can be attached.
    pub fn complete_record(&self) -> Result<Record, AgentError> {
        match self.record()? {
            None => Err(self.unknown()),
            Some(record) => {
                let fragments = fragment::of_instance(&record.description, record.fragments);
                let complete = !record.removing && fragments.iter().all(|fragment| fragment.is_made());
                if complete { Ok(record) } else { Err(AgentError::Incomplete { instance: self.instance }) }
            }
        }
    }

    fn unknown(&self) -> AgentError {
        AgentError::UnknownInstance { instance: self.instance, directory: self.path.clone() }
    }

    /// Removes the directory. The caller holds the gate and has removed everything that the record names.
    pub fn remove(&self) -> Result<(), AgentError> {
        self.remove_rest()?;
        std::fs::rename(&self.path, self.removed())
            .map_err(|error| AgentError::system("remove", &self.path, error))?;
        self.remove_rest()
    }

    /// Removes what is left of a directory that was being removed; nothing is fine.
    pub fn remove_rest(&self) -> Result<(), AgentError> {
        remove_removed(&self.removed())
    }

    fn removed(&self) -> PathBuf {
        self.path.with_file_name(format!("{REMOVED}{}", self.instance))
    }
}

/// Holds locks, socket and log of an instance that is gone: no data.
fn remove_removed(path: &Path) -> Result<(), AgentError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(AgentError::system("remove", path, error)),
        _ => Ok(()),
    }
}

/// Removes what a crash left of removed instances. Another process may be at it too; neither needs to succeed.
fn sweep(instances: &Path) {
    for entry in std::fs::read_dir(instances).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(REMOVED) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes a file that may be gone.
pub(crate) fn remove_file(path: &Path) -> Result<(), AgentError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(AgentError::system("remove", path, error)),
        _ => Ok(()),
    }
}

/// Ids that have a state directory, in order.
pub(crate) fn instances(directory: &Path) -> Result<Vec<InstanceId>, AgentError> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(AgentError::system("read", directory, error)),
    };
    let mut ids = Vec::new();
    for entry in entries {
        let name = entry.map_err(|error| AgentError::system("read", directory, error))?.file_name();
        ids.extend(name.to_str().and_then(|name| name.parse().ok()).map(InstanceId));
    }
    ids.sort_unstable();
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_again_takes_along_what_a_crash_left() {
        let instances = tempfile::tempdir().unwrap();
        let rest = instances.path().join(".removed-7");
        std::fs::create_dir(&rest).unwrap();
        std::fs::write(rest.join("log"), "last words").unwrap();
        crate::destroy::destroy(&StateDirectory::new(instances.path(), InstanceId(7))).unwrap();
        assert!(!rest.exists());
    }
}
