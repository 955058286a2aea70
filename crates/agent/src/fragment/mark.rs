//! The mark in a fragment's directory: whose it is.
//!
//! Guards user data: nothing is ever removed from a directory that does not carry the right mark.

use crate::atomic_file::{self, Content};
use crate::error::{AgentError, RecordFault};
use crate::mount_table;
use forebay_model::ids::{FragmentId, InstanceId};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

const FILE: &str = "fragment.json";
const FORMAT: u64 = 1;
const SIZE_LIMIT: u64 = 4096;

/// A fragment's directory and whose it must be.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    content: MarkContent,
    directory: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MarkContent {
    format: u64,
    instance: InstanceId,
    fragment: FragmentId,
}

/// What a fragment's directory is found to be.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Empty,
    Ours,
    Foreign,
}

impl Mark {
    /// The mark of a fragment that lies in `directory`.
    pub fn new(instance: InstanceId, fragment: FragmentId, directory: &Path) -> Mark {
        let content = MarkContent { format: FORMAT, instance, fragment };
        Mark { content, directory: directory.to_owned() }
    }

    /// A path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Makes the directory and the mark in it.
    pub fn make(&self) -> Result<(), AgentError> {
        match self.look()? {
            Found::Ours => return Ok(()),
            Found::Foreign => return Err(AgentError::MountPointNotEmpty { path: self.directory.clone() }),
            Found::Empty => {}
            Found::Nothing => self.make_directory()?,
        }
        let path = self.path(FILE);
        let text = serde_json::to_vec(&self.content)
            .map_err(|fault| AgentError::BadRecord { path: path.clone(), fault: fault.into() })?;
        atomic_file::replace(&path, &text)?;
        self.directory.parent().map_or(Ok(()), atomic_file::sync_directory)
    }

    /// The directory belongs to its owner alone: the files in it are the file system's, not the job's.
    fn make_directory(&self) -> Result<(), AgentError> {
        if let Some(parent) = self.directory.parent() {
            std::fs::create_dir_all(parent)
                .map_err(|error| AgentError::system("make directory", parent, error))?;
        }
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&self.directory)
            .map_err(|error| AgentError::system("make directory", &self.directory, error))
    }

    /// Refuses unless the directory carries the mark.
    pub fn check(&self) -> Result<(), AgentError> {
        match self.look()? {
            Found::Ours => Ok(()),
            Found::Foreign => Err(AgentError::MountPointNotEmpty { path: self.directory.clone() }),
            Found::Nothing | Found::Empty => {
                let missing = std::io::Error::from(ErrorKind::NotFound);
                Err(AgentError::system("find the fragment in", &self.directory, missing))
            }
        }
    }

    /// Removes the directory with all that is in it, the mark last. Refuses while something is mounted in it.
    pub fn remove(&self) -> Result<(), AgentError> {
        match self.look()? {
            Found::Nothing => return Ok(()),
            Found::Foreign => return Err(AgentError::MountPointNotEmpty { path: self.directory.clone() }),
            Found::Empty => return self.remove_directory(),
            Found::Ours => {}
        }
        if let Some(point) = mount_table::below(&super::resolved(&self.directory))?.first() {
            let busy = std::io::Error::from_raw_os_error(libc::EBUSY);
            return Err(AgentError::system("remove the fragment under the mount", point, busy));
        }
        self.remove_content()?;
        let mark = self.path(FILE);
        std::fs::remove_file(&mark).map_err(|error| AgentError::system("remove", &mark, error))?;
        self.remove_directory()
    }

    fn remove_content(&self) -> Result<(), AgentError> {
        let failed = |error| AgentError::system("read", &self.directory, error);
        for entry in std::fs::read_dir(&self.directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name() == FILE {
                continue;
            }
            let path = entry.path();
            let is_directory = entry.file_type().map_err(failed)?.is_dir();
            let removed = if is_directory { remove_tree(&path) } else { std::fs::remove_file(&path) };
            removed.map_err(|error| AgentError::system("remove", &path, error))?;
        }
        Ok(())
    }

    fn remove_directory(&self) -> Result<(), AgentError> {
        // A mark that was not finished before a crash.
        let unfinished = atomic_file::new_name(&self.path(FILE));
        let _ = std::fs::remove_file(unfinished);
        std::fs::remove_dir(&self.directory)
            .map_err(|error| AgentError::system("remove directory", &self.directory, error))
    }

    fn look(&self) -> Result<Found, AgentError> {
        let path = self.path(FILE);
        match atomic_file::read(&path, SIZE_LIMIT)? {
            Some(Content::TooLarge { size }) => {
                Err(AgentError::BadRecord { path, fault: RecordFault::TooLarge { size, limit: SIZE_LIMIT } })
            }
            Some(Content::Bytes(bytes)) => match serde_json::from_slice::<MarkContent>(&bytes) {
                Ok(found) if found == self.content => Ok(Found::Ours),
                Ok(_) => Ok(Found::Foreign),
                Err(fault) => Err(AgentError::BadRecord { path, fault: fault.into() }),
            },
            None => self.look_for_content(),
        }
    }

    fn look_for_content(&self) -> Result<Found, AgentError> {
        let unfinished = atomic_file::new_name(&self.path(FILE));
        match std::fs::read_dir(&self.directory) {
            Ok(entries) => {
                let foreign = entries.flatten().any(|entry| entry.path() != unfinished);
                Ok(if foreign { Found::Foreign } else { Found::Empty })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Found::Nothing),
            Err(error) => Err(AgentError::system("read", &self.directory, error)),
        }
    }
}

/// Removes a tree, also where its owner has taken away their own right to write in a directory of it (the rule for
/// what a job leaves behind: `chmod -w` must not make space leak).
fn remove_tree(path: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            open_directories(path)?;
            std::fs::remove_dir_all(path)
        }
        other => other,
    }
}

fn open_directories(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
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

    fn mark(directory: &Path) -> Mark {
        Mark::new(InstanceId(7), FragmentId(8), directory)
    }

    #[test]
    fn a_directory_of_somebody_else_is_neither_used_nor_removed() {
        let dir = tempfile::tempdir().unwrap();
        let foreign = dir.path().join("foreign");
        std::fs::create_dir(&foreign).unwrap();
        std::fs::write(foreign.join("thesis.tex"), "years of work").unwrap();
        assert!(matches!(mark(&foreign).make(), Err(AgentError::MountPointNotEmpty { .. })));
        assert!(matches!(mark(&foreign).remove(), Err(AgentError::MountPointNotEmpty { .. })));
        assert!(foreign.join("thesis.tex").exists());

        let other = dir.path().join("other");
        Mark::new(InstanceId(7), FragmentId(9), &other).make().unwrap();
        assert!(matches!(mark(&other).remove(), Err(AgentError::MountPointNotEmpty { .. })));
        assert!(other.join(FILE).exists());
    }

    #[test]
    fn making_and_removing_can_be_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let mark = mark(&dir.path().join("deep/fragment"));
        mark.make().unwrap();
        mark.make().unwrap();
        mark.check().unwrap();
        std::fs::create_dir_all(mark.path("root/a")).unwrap();
        mark.remove().unwrap();
        mark.remove().unwrap();
        assert!(!mark.directory().exists());
    }

    #[test]
    fn a_mark_broken_off_by_a_crash_does_not_stand_in_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let mark = mark(&dir.path().join("fragment"));
        std::fs::create_dir(mark.directory()).unwrap();
        std::fs::write(atomic_file::new_name(&mark.path(FILE)), "{").unwrap();
        mark.remove().unwrap();
        assert!(!mark.directory().exists());
    }
}
