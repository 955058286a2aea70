//! How many descriptors the process may hold, and the budget of those that can be closed and opened again.
//!
//! Substripe files are opened at first use and stay open until the budget is used up; then the ones that were not used
//! lately are closed. A closed one is opened again at its next use, so the budget costs time but no operation.
//!
//! Any thread may call. The queue's lock is never held while a file is opened, read or written.

use crate::data::share::LocalShare;
use crate::host::host;
use forebay_wire::Result;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, Weak};

/// Descriptors assumed where the system sets no limit.
const UNLIMITED: u64 = 1 << 20;
/// Never fewer data descriptors than this, however low the limit.
const DATA_DESCRIPTORS_MIN: usize = 16;

/// Raises the soft limit of open files of this process to the hard limit and returns the limit that holds then.
pub fn raise_descriptor_limit() -> Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
            .map_err(host("raise the limit of open files"))?;
    }
    Ok(limit.maximum.unwrap_or(UNLIMITED))
}

/// Descriptors that this process may have open.
pub(crate) fn descriptor_limit() -> usize {
    getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED).min(UNLIMITED) as usize
}

/// The open substripe files of all fragments of an instance.
pub(crate) struct DataDescriptors {
    limit: usize,
    open: AtomicUsize,
    queue: Mutex<VecDeque<(Weak<LocalShare>, u32)>>,
}

impl DataDescriptors {
    /// A quarter of what the process may open: as many stubs as substripe files may be open, and the rest is for the
    /// process itself.
    pub(crate) fn new() -> DataDescriptors {
        DataDescriptors::with_limit((descriptor_limit() / 4).max(DATA_DESCRIPTORS_MIN))
    }

    pub(crate) fn with_limit(limit: usize) -> DataDescriptors {
        DataDescriptors { limit, open: AtomicUsize::new(0), queue: Mutex::default() }
    }

    /// A substripe file was opened. Closes others if there are too many; call without holding a slot's lock.
    pub(crate) fn opened(&self, share: Weak<LocalShare>, slot: u32) {
        let open = self.open.fetch_add(1, Relaxed) + 1;
        {
            let mut queue = self.queue();
            queue.push_back((share, slot));
            if queue.len() > 2 * self.limit.max(open) {
                queue.retain(|(share, _)| share.strong_count() > 0);
            }
        }
        if open > self.limit {
            self.close_some();
        }
    }

    /// Substripe files were closed by their owner.
    pub(crate) fn closed(&self, count: usize) {
        self.open.fetch_sub(count, Relaxed);
    }

    /// Second-chance search for substripe files that were not used since they were last looked at.
    fn close_some(&self) {
        let mut chances = 2 * self.queue().len();
        while chances > 0 && self.open.load(Relaxed) > self.limit {
            chances -= 1;
            let Some((weak, slot)) = self.queue().pop_front() else { return };
            // Dropping the last reference closes the share, which calls `closed`: so not under the queue's lock.
            let Some(share) = weak.upgrade() else { continue };
            match share.try_close(slot) {
                Some(closed) => self.closed(usize::from(closed)),
                None => self.queue().push_back((weak, slot)),
            }
        }
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<(Weak<LocalShare>, u32)>> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
