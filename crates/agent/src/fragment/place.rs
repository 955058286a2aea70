//! The place of a fragment on its node: a directory with one entry, which is named after instance and fragment.
//!
//! The name guards user data: a directory that holds anything else belongs to somebody else, and nothing is ever made
//! or removed in it.
//!
//! Crash in making: a directory that is empty or has the one entry, both of which making completes and removing
//! removes. Crash in removing: the same.

use crate::error::AgentError;
use crate::mount_table;
use forebay_model::ids::{FragmentId, InstanceId};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    directory: PathBuf,
    name: String,
}

/// What a fragment's directory is found to be.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Empty,
    Ours,
    Foreign,
}

impl Place {
    /// The place of a fragment that lies in `directory`.
    pub fn new(instance: InstanceId, fragment: FragmentId, directory: &Path) -> Place {
        Place { directory: directory.to_owned(), name: format!("instance-{instance}-fragment-{fragment}") }
    }

    /// Where the fragment's own files are.
    pub fn inside(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    /// One of them.
    pub fn path(&self, name: &str) -> PathBuf {
        self.inside().join(name)
    }

    /// The directory as the controller named it.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes it, for its owner alone: the files in it are the file system's, not the job's.
    pub fn make(&self) -> Result<(), AgentError> {
        if self.look()? == Found::Foreign {
            return Err(AgentError::ForeignDirectory { path: self.directory.clone() });
        }
        let inside = self.inside();
        let mut builder = std::fs::DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(&inside);
        made.map_err(|error| AgentError::system("make directory", inside, error))
    }

    /// Removes it with all that is in it. Refuses while something is mounted in it.
    pub fn remove(&self) -> Result<(), AgentError> {
        match self.look()? {
            Found::Nothing => return Ok(()),
            Found::Foreign => return Err(AgentError::ForeignDirectory { path: self.directory.clone() }),
            Found::Empty | Found::Ours => {}
        }
        if let Some(point) = mount_table::below(&super::resolved(&self.directory))?.first() {
            let busy = std::io::Error::from_raw_os_error(libc::EBUSY);
            return Err(AgentError::system("remove the fragment under the mount", point, busy));
        }
        let inside = self.inside();
        remove_tree(&inside).map_err(|error| AgentError::system("remove", &inside, error))?;
        let removed = std::fs::remove_dir(&self.directory);
        removed.map_err(|error| AgentError::system("remove directory", &self.directory, error))
    }

    fn look(&self) -> Result<Found, AgentError> {
        let failed = |error| AgentError::system("read", &self.directory, error);
        let entries = match std::fs::read_dir(&self.directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => return Err(failed(error)),
        };
        let mut found = Found::Empty;
        for entry in entries {
            if entry.map_err(failed)?.file_name() != *self.name {
                return Ok(Found::Foreign);
            }
            found = Found::Ours;
        }
        Ok(found)
    }
}

/// Removes a tree, also where its owner has taken away their own right to write in a directory of it (the rule for
/// what a job leaves behind: `chmod -w` must not make space leak).
fn remove_tree(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            open_directories(path)?;
            std::fs::remove_dir_all(path)
        }
        other => other,
    }
}

fn open_directories(path: &Path) -> std::io::Result<()> {
    let mut waiting = vec![path.to_owned()];
    while let Some(directory) = waiting.pop() {
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o700))?;
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(directory: &Path) -> Place {
        Place::new(InstanceId(7), FragmentId(8), directory)
    }

    #[test]
    fn a_directory_of_somebody_else_is_neither_used_nor_removed() {
        let dir = tempfile::tempdir().unwrap();
        let foreign = dir.path().join("foreign");
        std::fs::create_dir(&foreign).unwrap();
        std::fs::write(foreign.join("thesis.tex"), "years of work").unwrap();
        assert!(matches!(place(&foreign).make(), Err(AgentError::ForeignDirectory { .. })));
        assert!(matches!(place(&foreign).remove(), Err(AgentError::ForeignDirectory { .. })));
        assert!(foreign.join("thesis.tex").exists());

        let other = dir.path().join("other");
        let others = Place::new(InstanceId(7), FragmentId(9), &other);
        others.make().unwrap();
        assert!(matches!(place(&other).remove(), Err(AgentError::ForeignDirectory { .. })));
        assert!(others.inside().exists());
    }

    #[test]
    fn making_and_removing_can_be_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(&dir.path().join("deep/fragment"));
        place.make().unwrap();
        place.make().unwrap();
        std::fs::create_dir_all(place.path("root/a")).unwrap();
        place.remove().unwrap();
        place.remove().unwrap();
        assert!(!place.directory().exists());
    }

    #[test]
    fn an_empty_directory_left_by_a_crash_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let place = place(&dir.path().join("fragment"));
        std::fs::create_dir(place.directory()).unwrap();
        place.remove().unwrap();
        assert!(!place.directory().exists());
    }
}
