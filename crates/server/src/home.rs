//! The fragment that holds names, with what is counted once for all namespaces of it.
//!
//! Any thread may call. The lock is never held during a system call.

use crate::fragment::Fragment;
use crate::fragment::state::{self, State};
use crate::ids::FileIds;
use crate::recover::Stubs;
use forebay_wire::{FileId, FsError, Moved, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

/// See the module.
pub(crate) struct Home {
    pub(crate) fragment: Arc<Fragment>,
    /// Position of the fragment among those of the instance.
    pub(crate) position: u32,
    ids: FileIds,
    /// Files created, by namespace, of those that are not open.
    created: Mutex<BTreeMap<String, u64>>,
    /// What users of a namespace have read and written, as of when it was opened or closed last.
    moved: Mutex<BTreeMap<String, Moved>>,
    /// The striped files that each namespace had when it was walked, until somebody looks at what the other fragments
    /// hold of them; none of a namespace that was closed cleanly.
    walked: Mutex<BTreeMap<String, Stubs>>,
    /// Something was left behind that only a walk finds.
    walk: AtomicBool,
}

impl Home {
    pub(crate) fn new(
        fragment: Arc<Fragment>,
        position: u32,
        ids: FileIds,
        (created, moved): (BTreeMap<String, u64>, BTreeMap<String, Moved>),
        walked: BTreeMap<String, Stubs>,
    ) -> Home {
        let (created, moved, walked) = (Mutex::new(created), Mutex::new(moved), Mutex::new(walked));
        Home { fragment, position, ids, created, moved, walked, walk: AtomicBool::new(false) }
    }

    /// A new id for the content of a striped file.
    pub(crate) fn take_id(&self) -> Result<FileId> {
        self.ids.take(&self.fragment)
    }

    /// The next id that nobody has.
    pub(crate) fn next_id(&self) -> FileId {
        FileId(self.ids.next())
    }

    /// Something could not be removed, or is not as the record would say: the next open has to look for it.
    pub(crate) fn walk_next_time(&self) {
        self.walk.store(true, SeqCst);
    }

    /// A namespace is in use from now on; returns how many files were created in it. `Busy` when it is already.
    pub(crate) fn opened_namespace(&self, name: &str) -> Result<u64> {
        /// In place of a count: the namespace is open.
        const OPEN: u64 = u64::MAX;
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        match created.insert(name.to_owned(), OPEN) {
            Some(OPEN) => Err(FsError::Busy),
            count => Ok(count.unwrap_or(0)),
        }
    }

    /// A namespace is no longer in use.
    pub(crate) fn closed_namespace(&self, name: &str, count: u64, moved: Moved) {
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        created.insert(name.to_owned(), count);
        self.moved.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), moved);
    }

    /// What was read and written in a namespace before it was opened.
    pub(crate) fn moved(&self, name: &str) -> Moved {
        let moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        moved.get(name).copied().unwrap_or_default()
    }

    /// The striped files that a namespace had when it was walked; `None` if it needed no walk.
    pub(crate) fn take_walked(&self, name: &str) -> Option<Stubs> {
        self.walked.lock().unwrap_or_else(PoisonError::into_inner).remove(name)
    }

    /// Records that the fragment is closed, with the use of the fragments that the record is about. `Busy` while a
    /// namespace is in use: then, as when a walk is needed, the record goes on to say that the fragment is open.
    pub(crate) fn close(self: Arc<Home>, used: Vec<u64>) -> Result<()> {
        let home = Arc::try_unwrap(self).map_err(|_| FsError::Busy)?;
        let walked = home.walked.into_inner().unwrap_or_else(PoisonError::into_inner);
        if home.walk.load(SeqCst) || !walked.is_empty() {
            return Ok(());
        }
        let created = home.created.into_inner().unwrap_or_else(PoisonError::into_inner);
        let moved = home.moved.into_inner().unwrap_or_else(PoisonError::into_inner);
        let state = State::counters(home.ids.next(), used, created).and_moved(moved);
        state::write_closed(&home.fragment, state)
    }
}
