//! Requests that wait, and the interrupts that end their waiting.
//!
//! A lock that another holds is answered when it is free; until then its reply is kept here under the request's number.
//! An interrupt may be read by one thread before another thread, which read the request itself, has come to keep it:
//! so the last interrupts that met nothing are remembered, and a request one of them names is not kept but handed back.
//!
//! Everything is under one lock of the type's own, held for table work only. Nothing survives a crash; the kernel answers
//! the waiting callers itself then.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

/// Interrupts remembered. Each serving thread has at most one request that it read and has not yet kept, so this is far
/// more than can matter at a time.
const EARLY_MAX: usize = 256;

/// Why a reply was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotKept {
    /// Its request was interrupted already.
    Interrupted,
    /// As many wait as may.
    TooMany,
}

/// Waiting replies, by the number of their request.
#[derive(Debug)]
pub struct Waiters<R>(Mutex<Inner<R>>);

#[derive(Debug)]
struct Inner<R> {
    waiting: HashMap<u64, R>,
    early: VecDeque<u64>,
}

impl<R> Default for Waiters<R> {
    fn default() -> Waiters<R> {
        Waiters(Mutex::new(Inner { waiting: HashMap::new(), early: VecDeque::new() }))
    }
}

impl<R> Waiters<R> {
    /// A thread that panicked in here left a table that is still whole: every change is one call.
    fn locked(&self) -> MutexGuard<'_, Inner<R>> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Keeps the reply of a request. Handed back, to be answered EINTR, when it was interrupted already.
    pub fn keep(&self, unique: u64, reply: R) -> Result<(), R> {
        self.keep_of(usize::MAX, unique, reply).map_err(|(_, reply)| reply)
    }

    /// Keeps the reply of a request, if fewer than `most` wait. Otherwise handed back, with the reason.
    pub fn keep_of(&self, most: usize, unique: u64, reply: R) -> Result<(), (NotKept, R)> {
        let mut inner = self.locked();
        if let Some(at) = inner.early.iter().position(|early| *early == unique) {
            inner.early.remove(at);
            return Err((NotKept::Interrupted, reply));
        }
        if inner.waiting.len() >= most {
            return Err((NotKept::TooMany, reply));
        }
        inner.waiting.insert(unique, reply);
        Ok(())
    }

    /// An interrupt of a request: its reply when it waits, to be answered EINTR.
    pub fn interrupt(&self, unique: u64) -> Option<R> {
        let waits = self.hear(unique);
        if waits { self.take(unique) } else { None }
    }

    /// An interrupt of a request that somebody else will answer; `true` when it waits, and does so until it is taken out.
    pub fn hear(&self, unique: u64) -> bool {
        let mut inner = self.locked();
        let waits = inner.waiting.contains_key(&unique);
        if !waits {
            inner.early.truncate(EARLY_MAX - 1);
            inner.early.push_front(unique);
        }
        waits
    }

    /// The numbers of all that wait.
    pub fn numbers(&self) -> Vec<u64> {
        self.locked().waiting.keys().copied().collect()
    }

    /// Takes a reply out to answer it; `None` when it was interrupted.
    pub fn take(&self, unique: u64) -> Option<R> {
        self.locked().waiting.remove(&unique)
    }

    /// Takes all out.
    pub fn drain(&self) -> Vec<R> {
        self.locked().waiting.drain().map(|(_, reply)| reply).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_request_is_taken_once() {
        let waiters = Waiters::default();
        assert_eq!(waiters.keep(4, "reply"), Ok(()));
        assert_eq!((waiters.take(4), waiters.take(4)), (Some("reply"), None));
        waiters.keep(6, "other").unwrap();
        assert_eq!((waiters.interrupt(6), waiters.take(6)), (Some("other"), None));
        waiters.keep(8, "last").unwrap();
        assert_eq!(waiters.drain(), ["last"]);
    }

    #[test]
    fn an_interrupt_that_comes_before_its_request_counts() {
        let waiters = Waiters::default();
        assert_eq!(waiters.interrupt(4), None);
        assert_eq!(waiters.keep(4, "reply"), Err("reply"));
        assert_eq!(waiters.keep(4, "reply"), Ok(()), "once");
    }

    #[test]
    fn an_interrupt_meets_a_request_before_while_and_after_it_waits() {
        let waits = Waiters::default();
        assert!(!waits.hear(2));
        assert_eq!(waits.keep_of(9, 2, ()), Err((NotKept::Interrupted, ())));
        assert_eq!(waits.keep_of(9, 4, ()), Ok(()));
        assert!(waits.hear(4) && waits.hear(4), "until it has ended");
        assert_eq!(waits.take(4), Some(()));
        assert!(!waits.hear(4));
        assert!(waits.numbers().is_empty());
    }

    #[test]
    fn what_waits_is_limited() {
        let waits = Waiters::default();
        assert_eq!((waits.keep_of(2, 1, ()), waits.keep_of(2, 3, ())), (Ok(()), Ok(())));
        assert_eq!(waits.keep_of(2, 5, ()), Err((NotKept::TooMany, ())));
        assert_eq!(waits.numbers().len(), 2);
    }

    #[test]
    fn interrupts_of_nothing_take_bounded_memory() {
        let waiters = Waiters::<()>::default();
        for unique in 0..10 * EARLY_MAX as u64 {
            waiters.interrupt(unique);
        }
        assert_eq!(waiters.locked().early.len(), EARLY_MAX);
        assert_eq!(waiters.keep(10 * EARLY_MAX as u64 - 1, ()), Err(()), "the newest are remembered");
        assert_eq!(waiters.keep(0, ()), Ok(()));
    }
}
