//! A fragment that is a plain directory.
//!
//! Needs no rights and no mounts. Its size is counted by the file system above it, or by nobody.

use super::Fragment;
use super::mark::Mark;
use crate::error::AgentError;
use crate::mounting::Departure;
use forebay_model::units::Bytes;
use std::io::ErrorKind;
use std::path::PathBuf;

const CONTENT: &str = "root";

/// See the module.
pub(crate) struct PlainDirectory {
    mark: Mark,
    capacity: Bytes,
}

impl PlainDirectory {
    pub fn new(mark: Mark, capacity: Bytes) -> PlainDirectory {
        PlainDirectory { mark, capacity }
    }
}

impl Fragment for PlainDirectory {
    fn make(&self) -> Result<(), AgentError> {
        self.mark.make()?;
        let content = self.mark.path(CONTENT);
        match std::fs::create_dir(&content) {
            Ok(()) => crate::atomic_file::sync_directory(self.mark.directory()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(AgentError::system("make directory", content, error)),
        }
    }

    fn bring_up(&self) -> Result<PathBuf, AgentError> {
        self.mark.check()?;
        let content = self.mark.path(CONTENT);
        content.canonicalize().map_err(|error| AgentError::system("find the fragment in", content, error))
    }

    fn take_down(&self) -> Result<Departure, AgentError> {
        Ok(Departure::Clean)
    }

    fn remove(&self) -> Result<Departure, AgentError> {
        self.mark.remove()?;
        Ok(Departure::Clean)
    }

    fn hard_size(&self) -> bool {
        false
    }

    fn capacity(&self) -> Bytes {
        self.capacity
    }
}
