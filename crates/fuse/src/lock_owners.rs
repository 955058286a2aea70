//! Which owners took byte ranges through which open file.
//!
//! A process gives its ranges on a file up with any close of that file, and the kernel names the process then. The owner of
//! locks of an open file description is never named: its ranges go with the last close, so whoever took ranges through
//! a handle and was not named since gives them up with the handle.
//!
//! The kernel's number of a description is used again for another one as soon as it is closed, and the close is told a
//! moment later: an owner that has come back through another handle meanwhile gives nothing up. [`LockOwners::leaving`] is
//! held from that look until the service was told, so that nobody comes back in between.
//!
//! The table's lock is held for table work only.

use forebay_client::Handle;
use forebay_wire::{Ino, LockOwner};
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

type Table = HashMap<Handle, (Ino, HashSet<LockOwner>)>;

/// See the module.
#[derive(Default)]
pub(crate) struct LockOwners {
    table: Mutex<Table>,
    leaving: Mutex<()>,
}

impl LockOwners {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held by whoever gives up what a closed handle left.
    pub(crate) fn leaving(&self) -> MutexGuard<'_, ()> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An owner asks for ranges through a handle.
    pub(crate) fn took(&self, handle: Handle, ino: Ino, owner: LockOwner) {
        let _nobody_leaves = self.leaving();
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

    /// Somebody took ranges through a handle and was not named since.
    pub(crate) fn has(&self, handle: Handle) -> bool {
        self.table().contains_key(&handle)
    }

    /// A handle is closed: the owners that were never named and have not come back. Call with [`LockOwners::leaving`] held.
    pub(crate) fn left(&self, handle: Handle) -> Vec<LockOwner> {
        let mut table = self.table();
        let Some((ino, owners)) = table.remove(&handle) else { return Vec::new() };
        let is_back =
            |owner: &LockOwner| table.values().any(|(file, now)| *file == ino && now.contains(owner));
        owners.into_iter().filter(|owner| !is_back(owner)).collect()
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
        owners.took(Handle(7), Ino(9), description);
        owners.took(Handle(8), Ino(9), description);
        assert_eq!(owners.left(Handle(7)), [], "the number is another description's by now");
        assert_eq!(owners.left(Handle(8)), [description]);
    }
}
