//! Which files are open, and in which way.
//!
//! Invariants:
//! - All opens of one file that overlap in time have the same way: the kernel refuses (EIO) to mix passthrough with
//!   requests on one file. The first open decides; it stays decided until the last release.
//! - One registration of a backing file per file, alive as long as any open of it. Dropping it earlier makes the kernel
//!   fail reads.
//! - Every handle given to the kernel is in the table until its release. The kernel drops releases that are still
//!   queued when it unmounts, so what is left at the end is taken out by [`Opens::drain`] and released then.
//!
//! One lock, held for table work and the registration (a few microseconds), never while the volume is called.

use crate::backing::Passed;
use forebay_client::Handle;
use forebay_wire::Ino;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

/// How one open file is served.
#[derive(Clone, Debug)]
pub(crate) enum Served {
    /// Each operation is a request.
    ByRequests,
    /// The kernel reads and writes this backing file itself.
    ByBacking(Arc<Passed>),
}

struct OpenFile {
    served: Served,
    handles: Vec<Handle>,
    /// One of the opens, perhaps released already, was for writing.
    for_writing: bool,
}

/// The table.
#[derive(Default)]
pub(crate) struct Opens {
    files: Mutex<HashMap<Ino, OpenFile>>,
    directories: Mutex<HashSet<Handle>>,
}

/// What was never released.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Leftover {
    pub files: Vec<Handle>,
    pub directories: Vec<Handle>,
}

impl Opens {
    /// Notes a new handle of `ino` and says how to serve it. `register` is called when no other open has decided yet.
    pub(crate) fn add(
        &self,
        ino: Ino,
        handle: Handle,
        for_writing: bool,
        register: impl FnOnce() -> Served,
    ) -> Served {
        match locked(&self.files).entry(ino) {
            Entry::Occupied(mut open) => {
                let open = open.get_mut();
                open.handles.push(handle);
                open.for_writing |= for_writing;
                open.served.clone()
            }
            Entry::Vacant(free) => {
                let served = register();
                free.insert(OpenFile { served: served.clone(), handles: vec![handle], for_writing });
                served
            }
        }
    }

    /// How this file is served is decided.
    pub(crate) fn is_open(&self, ino: Ino) -> bool {
        locked(&self.files).contains_key(&ino)
    }

    /// The kernel may have changed this file without a request.
    pub(crate) fn may_be_written_by_kernel(&self, ino: Ino) -> bool {
        let files = locked(&self.files);
        files.get(&ino).is_some_and(|open| open.for_writing && matches!(open.served, Served::ByBacking(_)))
    }

    /// Forgets a handle; `false` when it was not in the table.
    pub(crate) fn remove(&self, ino: Ino, handle: Handle) -> bool {
        let mut table = locked(&self.files);
        let Entry::Occupied(mut open) = table.entry(ino) else { return false };
        let handles = &mut open.get_mut().handles;
        let Some(at) = handles.iter().position(|known| *known == handle) else { return false };
        handles.swap_remove(at);
        let last = handles.is_empty().then(|| open.remove());
        drop(table);
        drop(last); // gives the registration back outside the lock
        true
    }

    /// Notes a new handle of a directory.
    pub(crate) fn add_directory(&self, handle: Handle) {
        locked(&self.directories).insert(handle);
    }

    /// Forgets a handle of a directory; `false` when it was not in the table.
    pub(crate) fn remove_directory(&self, handle: Handle) -> bool {
        locked(&self.directories).remove(&handle)
    }

    /// Takes every handle out.
    pub(crate) fn drain(&self) -> Leftover {
        Leftover {
            files: locked(&self.files).drain().flat_map(|(_, open)| open.handles).collect(),
            directories: locked(&self.directories).drain().collect(),
        }
    }
}

/// A thread that panicked in here left a table that is still whole: every change is one call.
fn locked<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: Ino = Ino(7);

    #[test]
    fn the_first_open_decides_until_the_last_release() {
        let opens = Opens::default();
        opens.add(FILE, Handle(1), false, || Served::ByRequests);
        opens.add(FILE, Handle(2), false, || panic!("decided already"));
        assert!(opens.remove(FILE, Handle(1)));
        opens.add(FILE, Handle(3), false, || panic!("still open"));
        assert!(opens.remove(FILE, Handle(2)) && opens.remove(FILE, Handle(3)));
        let mut asked = false;
        opens.add(FILE, Handle(4), false, || {
            asked = true;
            Served::ByRequests
        });
        assert!(asked);
    }

    #[test]
    fn what_was_not_released_is_found_at_the_end() {
        let opens = Opens::default();
        opens.add(FILE, Handle(1), false, || Served::ByRequests);
        opens.add(Ino(8), Handle(2), false, || Served::ByRequests);
        assert!(opens.remove(FILE, Handle(1)));
        assert!(!opens.remove(FILE, Handle(1)), "released twice");
        opens.add_directory(Handle(3));
        opens.add_directory(Handle(4));
        assert!(opens.remove_directory(Handle(3)) && !opens.remove_directory(Handle(3)));
        assert_eq!(opens.drain(), Leftover { files: vec![Handle(2)], directories: vec![Handle(4)] });
        assert_eq!(opens.drain(), Leftover::default());
    }
}
