//! A fragment that is a plain directory.
//!
//! Needs no rights and no mounts. Its size is counted by the file system above it, or by nobody.

use super::Fragment;
use super::place::Place;
use crate::error::AgentError;
use crate::mounting::Departure;
use forebay_model::units::Bytes;
use std::io::ErrorKind;
use std::path::PathBuf;

const CONTENT: &str = "root";

/// See the module.
pub(crate) struct PlainDirectory {
    place: Place,
    capacity: Bytes,
}

impl PlainDirectory {
    pub fn new(place: Place, capacity: Bytes) -> PlainDirectory {
        PlainDirectory { place, capacity }
    }
}

impl Fragment for PlainDirectory {
    fn make(&self) -> Result<(), AgentError> {
        self.place.make()?;
        let content = self.place.path(CONTENT);
        match std::fs::create_dir(&content) {
            Ok(()) => crate::atomic_file::sync_directory(&self.place.inside()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(AgentError::system("make directory", content, error)),
        }
    }

    fn is_made(&self) -> bool {
        self.place.path(CONTENT).is_dir()
    }

    fn bring_up(&self) -> Result<PathBuf, AgentError> {
        let content = self.place.path(CONTENT);
        content.canonicalize().map_err(|error| AgentError::system("find the fragment in", content, error))
    }

    fn take_down(&self) -> Result<Departure, AgentError> {
        Ok(Departure::Clean)
    }

    /// What was not written back is dropped when the files are removed.
    fn abandon(&self) {}

    fn remove(&self) -> Result<Departure, AgentError> {
        self.place.remove()?;
        Ok(Departure::Clean)
    }

    fn hard_size(&self) -> bool {
        false
    }

    fn capacity(&self) -> Bytes {
        self.capacity
    }
}
