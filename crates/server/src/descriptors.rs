//! How many descriptors the process may hold, and who may have them.
//!
//! ```text
//! 0 ........................... 3/4 of the limit | .......................... the limit
//! anybody: files that clients open, connections  | no file that a client opens
//! ```
//!
//! * A file that a client opens has the descriptor of its stub for as long as it is open. It is refused what is left for
//!   others ([`is_for_others`]), so that those who have files open can use them and names can be changed.
//! * Substripe files are opened at first use and stay open until their budget is used up; then the ones that were not
//!   used lately are closed. A closed one is opened again at its next use, so the budget costs time but no operation.
//!
//! The system gives the lowest number that is free, so the number of a new descriptor says how many there are at least.
//!
//! Any thread may call. The queue's lock is never held while a file is opened, read or written.

use crate::data::share::LocalShare;
use crate::host::host;
use forebay_wire::Result;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// Descriptors assumed where the system sets no limit.
const UNLIMITED: u64 = 1 << 20;
/// Never fewer data descriptors than this, however low the limit.
const DATA_DESCRIPTORS_MIN: usize = 16;
/// One of so many descriptors may be a substripe file's: half of what clients' open files leave.
const DATA_PART: usize = 8;
/// One of so many is left by the open files of clients.
const OTHERS_PART: usize = 4;

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

/// A new descriptor is one of those that files opened by clients leave to others.
pub(crate) fn is_for_others(new: impl AsFd) -> bool {
    let limit = descriptor_limit();
    new.as_fd().as_raw_fd().unsigned_abs() as usize >= limit - limit / OTHERS_PART
}

/// The open substripe files of all fragments that share a budget.
pub(crate) struct DataDescriptors {
    limit: AtomicUsize,
    open: AtomicUsize,
    queue: Mutex<VecDeque<(Weak<LocalShare>, u32)>>,
}

impl DataDescriptors {
    /// For a process that has one instance open.
    pub(crate) fn new() -> DataDescriptors {
        let limit = AtomicUsize::new(data_limit());
        DataDescriptors { limit, open: AtomicUsize::new(0), queue: Mutex::default() }
    }

    /// For all instances of a process together, by the limit that holds now.
    pub(crate) fn of_process() -> Arc<DataDescriptors> {
        static OF_PROCESS: OnceLock<Arc<DataDescriptors>> = OnceLock::new();
        let all = OF_PROCESS.get_or_init(|| Arc::new(DataDescriptors::new()));
        all.limit.store(data_limit(), Relaxed);
        all.clone()
    }

    /// A substripe file was opened. Closes others if there are too many; call without holding a slot's lock.
    pub(crate) fn opened(&self, share: Weak<LocalShare>, slot: u32) {
        let (open, limit) = (self.open.fetch_add(1, Relaxed) + 1, self.limit.load(Relaxed));
        {
            let mut queue = self.queue();
            queue.push_back((share, slot));
            if queue.len() > 2 * limit.max(open) {
                queue.retain(|(share, _)| share.strong_count() > 0);
            }
        }
        if open > limit {
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
        while chances > 0 && self.open.load(Relaxed) > self.limit.load(Relaxed) {
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
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn data_limit() -> usize {
    (descriptor_limit() / DATA_PART).max(DATA_DESCRIPTORS_MIN)
}
