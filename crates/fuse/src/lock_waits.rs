//! Requests for locks that wait, and the interrupts that end their waiting.
//!
//! An interrupt can be read by one thread before another one, which read the request itself, has come to say that it waits:
//! the last interrupts that met nothing are remembered, and a request that one of them names does not begin to wait.
//!
//! One lock, held for table work only. A crash ends the mount, and the kernel answers those who wait.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Requests of a mount that may wait at the same time: each has a thread.
const WAITING_MAX: usize = 1024;
/// Interrupts remembered: far more than there are serving threads, each of which has read one request at most.
const EARLY_MAX: usize = 256;

/// What comes of a request that wants to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// It waits from now on.
    Waits,
    /// It was interrupted already.
    Interrupted,
    /// Too many wait.
    TooMany,
}

/// See the module.
#[derive(Default)]
pub(crate) struct LockWaits(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    waiting: HashSet<u64>,
    early: VecDeque<u64>,
}

impl LockWaits {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request is about to wait.
    pub(crate) fn begin(&self, unique: u64) -> Begin {
        let mut inner = self.inner();
        if let Some(at) = inner.early.iter().position(|early| *early == unique) {
            inner.early.remove(at);
            return Begin::Interrupted;
        }
        if inner.waiting.len() >= WAITING_MAX {
            return Begin::TooMany;
        }
        inner.waiting.insert(unique);
        Begin::Waits
    }

    /// It waits no more.
    pub(crate) fn end(&self, unique: u64) {
        self.inner().waiting.remove(&unique);
    }

    /// A request is interrupted; `true` when it waits.
    pub(crate) fn interrupt(&self, unique: u64) -> bool {
        let mut inner = self.inner();
        if inner.waiting.contains(&unique) {
            return true;
        }
        inner.early.truncate(EARLY_MAX - 1);
        inner.early.push_front(unique);
        false
    }

    /// All that wait.
    pub(crate) fn all(&self) -> Vec<u64> {
        self.inner().waiting.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_meets_a_request_before_while_and_after_it_waits() {
        let waits = LockWaits::default();
        assert!(!waits.interrupt(2));
        assert_eq!(waits.begin(2), Begin::Interrupted);
        assert_eq!(waits.begin(4), Begin::Waits);
        assert!(waits.interrupt(4) && waits.interrupt(4), "until it has ended");
        waits.end(4);
        assert!(!waits.interrupt(4));
        assert!(waits.all().is_empty());
    }

    #[test]
    fn what_waits_and_what_is_remembered_is_limited() {
        let waits = LockWaits::default();
        for unique in 0..WAITING_MAX as u64 {
            assert_eq!(waits.begin(unique), Begin::Waits);
        }
        assert_eq!(waits.begin(9_999), Begin::TooMany);
        for unique in 100_000..100_000 + 2 * EARLY_MAX as u64 {
            waits.interrupt(unique);
        }
        assert_eq!(waits.inner().early.len(), EARLY_MAX);
    }
}
