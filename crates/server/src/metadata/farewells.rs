//! Objects that lost their last name while somebody still holds their number.
//!
//! A kernel looks a name up and opens the number, or reads the link, a moment later; when the name was given to another file in
//! between, that must still succeed. A kernel may also have a fifo, a directory or a mere path open without telling us; and a
//! number that is used again while a kernel holds it makes the kernel give up on the old object. So the object is kept:
//! the stub of a replaced regular file is held open, of anything else a descriptor that stands for it.
//!
//! Kept until the number is forgotten, or until there are too many (then the oldest goes), or, for regular files, until
//! space is needed. After that its last attributes still answer for it ([`super::table`]).
//!
//! The stub of a file holds the tree, and so does who keeps it: whatever is kept here for good keeps the tree open. So whoever keeps
//! something looks afterwards whether the number is still held, and when the server ends nothing is kept any more.
//!
//! Any thread may call. What is taken out is dropped by the caller, outside the lock: dropping the stub of a file
//! without a name removes its content.

use super::stub::LocalStub;
use forebay_wire::Ino;
use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Objects kept, at most.
const KEPT_MAX: usize = 256;

/// What keeps an object.
#[derive(Clone)]
pub(super) enum Kept {
    /// Found through the list of open stubs.
    Stub(#[expect(dead_code, reason = "it is only there to be dropped")] Arc<LocalStub>),
    Node(Arc<OwnedFd>),
    /// The same for a regular file: it may hold space.
    File(Arc<OwnedFd>),
}

/// See the module.
#[derive(Default)]
pub(super) struct Farewells {
    /// Numbers kept; read without the lock, since there are almost always none.
    count: AtomicUsize,
    kept: Mutex<Objects>,
}

#[derive(Default)]
struct Objects {
    /// With the place in the order.
    by_number: HashMap<Ino, (u64, Kept)>,
    /// Oldest first.
    order: BTreeMap<u64, Ino>,
    places: u64,
    /// Nothing is kept any more.
    is_over: bool,
}

impl Objects {
    fn take(&mut self, ino: Ino) -> Option<Kept> {
        let (place, kept) = self.by_number.remove(&ino)?;
        self.order.remove(&place);
        Some(kept)
    }

    /// The new one is the youngest, also when its number was kept before: what has gone gives its number to others.
    fn put(&mut self, ino: Ino, kept: Kept) -> Option<Kept> {
        let before = self.take(ino);
        self.places += 1;
        self.order.insert(self.places, ino);
        self.by_number.insert(ino, (self.places, kept));
        before
    }

    /// Takes the oldest out if there are too many.
    fn take_surplus(&mut self) -> Option<Kept> {
        let is_surplus = self.by_number.len() > KEPT_MAX;
        let (_, oldest) = self.order.first_key_value().filter(|_| is_surplus)?;
        self.take(*oldest)
    }
}

impl Farewells {
    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_empty(&self) -> bool {
        self.count.load(SeqCst) == 0
    }

    /// Keeps an object; returns what has to go for it.
    #[must_use = "to be dropped outside any lock"]
    pub(super) fn keep(&self, ino: Ino, kept: Kept) -> Vec<Kept> {
        let mut objects = self.objects();
        if objects.is_over {
            return vec![kept];
        }
        let mut gone: Vec<Kept> = objects.put(ino, kept).into_iter().collect();
        gone.extend(objects.take_surplus());
        self.count.store(objects.by_number.len(), SeqCst);
        gone
    }

    pub(super) fn get(&self, ino: Ino) -> Option<Kept> {
        if self.is_empty() { None } else { self.objects().by_number.get(&ino).map(|(_, kept)| kept.clone()) }
    }

    /// Stops keeping an object.
    #[must_use = "to be dropped outside any lock"]
    pub(super) fn take(&self, ino: Ino) -> Option<Kept> {
        if self.is_empty() {
            return None;
        }
        let mut objects = self.objects();
        let gone = objects.take(ino);
        self.count.store(objects.by_number.len(), SeqCst);
        gone
    }

    /// Stops keeping anything, for good.
    #[must_use = "to be dropped outside any lock"]
    pub(super) fn end(&self) -> Vec<Kept> {
        let mut objects = self.objects();
        objects.is_over = true;
        objects.order.clear();
        self.count.store(0, SeqCst);
        objects.by_number.drain().map(|(_, (_, kept))| kept).collect()
    }

    /// Stops keeping regular files.
    #[must_use = "to be dropped outside any lock"]
    pub(super) fn take_files(&self) -> Vec<Kept> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut objects = self.objects();
        let is_file = |kept: &Kept| matches!(kept, Kept::Stub(_) | Kept::File(_));
        let files = objects.by_number.iter().filter(|(_, (_, kept))| is_file(kept));
        let files: Vec<Ino> = files.map(|(ino, _)| *ino).collect();
        let gone = files.into_iter().filter_map(|ino| objects.take(ino)).collect();
        self.count.store(objects.by_number.len(), SeqCst);
        gone
    }
}

#[cfg(test)]
mod tests;
