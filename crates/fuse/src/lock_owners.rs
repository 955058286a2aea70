//! Which owners took byte ranges through which open file.
//!
//! A process gives its ranges on a file up with any close of that file, and the kernel names the process then. The owner of
//! locks of an open file description is never named: its ranges go with the last close, so whoever took ranges through
//! a handle and was not named since gives them up with the handle.
//!
//! One lock, held for table work only.

use forebay_client::Handle;
use forebay_wire::{Ino, LockOwner};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// See the module.
#[derive(Default)]
pub(crate) struct LockOwners(Mutex<HashMap<Handle, (Ino, HashSet<LockOwner>)>>);

impl LockOwners {
    fn table(&self) -> MutexGuard<'_, HashMap<Handle, (Ino, HashSet<LockOwner>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An owner asks for ranges through a handle.
    pub(crate) fn took(&self, handle: Handle, ino: Ino, owner: LockOwner) {
        self.table().entry(handle).or_insert_with(|| (ino, HashSet::new())).1.insert(owner);
    }

    /// An owner closed a file, through whichever handle.
    pub(crate) fn closed(&self, ino: Ino, owner: LockOwner) {
        self.table().retain(|_, (file, owners)| {
            if *file == ino {
                owners.remove(&owner);
            }
            !owners.is_empty()
        });
    }

    /// A handle is closed: the owners that were never named.
    pub(crate) fn left(&self, handle: Handle) -> Vec<LockOwner> {
        self.table().remove(&handle).map_or_else(Vec::new, |(_, owners)| owners.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_owners_that_were_not_named_are_left() {
        let owners = LockOwners::default();
        let (process, description) = (LockOwner(1), LockOwner(2));
        owners.took(Handle(5), Ino(9), process);
        owners.took(Handle(5), Ino(9), description);
        owners.took(Handle(6), Ino(8), process);
        owners.closed(Ino(9), process);
        assert_eq!(owners.left(Handle(5)), [description]);
        assert_eq!(owners.left(Handle(5)), []);
        assert_eq!(owners.left(Handle(6)), [process], "of another file");
    }
}
