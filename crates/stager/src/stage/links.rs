//! Hard links within the request.
//!
//! The first name of a file met is copied; the others wait for it or, when it is in place, are made links to it. A file is
//! forgotten when all its names have been met, so only files with names still to come are kept, and of those at most
//! [`KEPT_MAX`]: beyond that, names are copied as files of their own and warned of.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::entry::Entry;
use crate::tree::Metadata;

/// Files kept at once, some 200 bytes each plus the path.
const KEPT_MAX: usize = 128 * 1024;

/// Device and inode number in the source.
pub type Key = (u64, u64);

/// What to do with a name.
pub enum Turn {
    /// Copy it, and tell [`Links::complete`] or [`Links::fail`].
    First(Key),
    /// Nothing: whoever copies the first name will link it.
    Wait,
    /// Link it to this target.
    Link(PathBuf),
    /// Copy it: the table is full.
    Unknown,
}

enum State {
    Copying(Vec<Entry>),
    There(PathBuf),
}

struct File {
    /// Names not met yet.
    to_come: u64,
    state: State,
}

/// See the module.
pub struct Links(Mutex<HashMap<Key, File>>);

impl Links {
    pub fn new() -> Self {
        Self(Mutex::default())
    }

    fn files(&self) -> std::sync::MutexGuard<'_, HashMap<Key, File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name of a file with several.
    pub fn arrive(&self, found: &Metadata, entry: &Entry) -> Turn {
        let key = (found.device, found.inode);
        let mut files = self.files();
        let Some(file) = files.get_mut(&key) else {
            if files.len() >= KEPT_MAX {
                return Turn::Unknown;
            }
            files.insert(key, File { to_come: found.links - 1, state: State::Copying(Vec::new()) });
            return Turn::First(key);
        };
        file.to_come = file.to_come.saturating_sub(1);
        match &mut file.state {
            State::Copying(waiting) => {
                waiting.push(entry.clone());
                Turn::Wait
            }
            State::There(existing) => {
                let existing = existing.clone();
                if file.to_come == 0 {
                    files.remove(&key);
                }
                Turn::Link(existing)
            }
        }
    }

    /// The first name is in place; the ones that waited.
    pub fn complete(&self, key: Key, target: &Path) -> Vec<Entry> {
        let mut files = self.files();
        let Some(file) = files.get_mut(&key) else { return Vec::new() };
        let was = std::mem::replace(&mut file.state, State::There(target.to_path_buf()));
        if file.to_come == 0 {
            files.remove(&key);
        }
        match was {
            State::Copying(waiting) => waiting,
            State::There(_) => Vec::new(),
        }
    }

    /// The first name could not be copied; the ones that waited. A name met later is tried as a first one.
    pub fn fail(&self, key: Key) -> Vec<Entry> {
        match self.files().remove(&key).map(|file| file.state) {
            Some(State::Copying(waiting)) => waiting,
            _ => Vec::new(),
        }
    }
}
