//! From calls to the request, and back when they end.
//!
//! Who answers a call counts it. When [`CALLS`] have come quickly a thread asks the kernel, looks every [`LOOK_EVERY`] whether calls
//! still come, and asks no more and ends when they do not. So a process without work has no thread and no timer here, only the open
//! device: were it opened for each burst, its number would be free in between, and servers judge by such numbers how many descriptors there are.

use crate::idle::{Idle, Request};
use crate::pace::{CALLS, Pace, WITHIN};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How often it is looked whether calls still come as fast, and so how long processors stay awake for nothing, once or twice.
const LOOK_EVERY: Duration = WITHIN;
const THREAD_NAME: &str = "awake";

#[derive(Debug)]
struct Inner {
    request: Request,
    /// Wraps.
    calls: AtomicU32,
    pace: Mutex<Pace>,
    /// It is asked for, or cannot be: more calls change nothing.
    is_settled: AtomicBool,
}

/// See the module. By default, and where the device cannot be opened, calls are not even counted.
#[derive(Clone, Debug, Default)]
pub struct Awake(Option<Arc<Inner>>);

impl Awake {
    /// Nothing is asked for yet.
    pub fn new(idle: &Idle) -> Awake {
        let (calls, is_settled) = (AtomicU32::new(0), AtomicBool::new(false));
        let inner = |request| Arc::new(Inner { request, calls, pace: Mutex::default(), is_settled });
        Awake(idle.request().ok().map(inner))
    }

    /// A call has come.
    pub fn called(&self) {
        let Some(inner) = &self.0 else { return };
        let calls = inner.calls.fetch_add(1, Relaxed).wrapping_add(1);
        if calls.is_multiple_of(CALLS) && !inner.is_settled.load(Relaxed) {
            inner.consider(Instant::now());
        }
    }
}

impl Inner {
    /// Asks; how many calls there were before.
    fn hold(&self) -> Option<u32> {
        self.request.hold().ok().map(|()| self.calls.load(Relaxed))
    }

    fn consider(self: &Arc<Self>, now: Instant) {
        let is_fast = self.pace.lock().unwrap_or_else(PoisonError::into_inner).is_fast(now);
        if is_fast && !self.is_settled.swap(true, Relaxed) {
            let inner = Arc::downgrade(self);
            // Without a thread nothing is asked for, nor tried again: there will be none for calls either.
            _ = std::thread::Builder::new().name(THREAD_NAME.into()).spawn(move || keep(&inner));
        }
    }
}

/// Asks until no more calls come, or nobody is left who could count one. What the kernel refuses once is not tried again.
fn keep(inner: &Weak<Inner>) {
    let Some(mut seen) = inner.upgrade().and_then(|inner| inner.hold()) else { return };
    loop {
        std::thread::sleep(LOOK_EVERY);
        // Who drops the last one closes the device.
        let Some(inner) = inner.upgrade() else { return };
        let now = inner.calls.load(Relaxed);
        if now.wrapping_sub(seen) < CALLS {
            let is_let_go = inner.request.let_go().is_ok();
            return inner.is_settled.store(!is_let_go, Relaxed);
        }
        seen = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    /// Longer than anything here takes.
    const LONG: Duration = Duration::from_secs(30);

    fn device(directory: &Path) -> PathBuf {
        let path = directory.join("latency");
        std::fs::write(&path, "").unwrap();
        path
    }

    fn asked(device: &Path) -> Vec<u8> {
        std::fs::read(device).unwrap()
    }

    fn is_settled(awake: &Awake) -> bool {
        awake.0.as_ref().unwrap().is_settled.load(Relaxed)
    }

    fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let end = Instant::now() + LONG;
        while !holds() {
            assert!(Instant::now() < end, "{what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn processors_are_kept_awake_while_calls_come_and_again_when_they_come_again() {
        let directory = tempfile::tempdir().unwrap();
        let device = device(directory.path());
        let awake = Awake::new(&Idle::at(&device, "haltpoll"));
        assert!(asked(&device).is_empty());
        for _ in 0..2 {
            until("many calls change nothing", || {
                awake.called();
                asked(&device) == [0; 4]
            });
            until("it is asked for although nobody calls", || asked(&device) != [0; 4]);
            until("it is not over", || !is_settled(&awake));
        }
    }

    #[test]
    fn who_is_gone_asks_for_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let device = device(directory.path());
        let awake = Awake::new(&Idle::at(&device, "haltpoll"));
        until("many calls change nothing", || {
            awake.called();
            is_settled(&awake)
        });
        let inner = Arc::downgrade(awake.0.as_ref().unwrap());
        drop(awake);
        until("the device is open although nobody is left", || inner.strong_count() == 0);
    }

    #[test]
    fn a_few_calls_change_nothing() {
        let awake = Awake::new(&Idle::at(Path::new("/dev/null"), "haltpoll"));
        let (inner, begin) = (awake.0.as_ref().unwrap(), Instant::now());
        inner.consider(begin);
        inner.consider(begin + Duration::from_secs(1));
        assert!(!is_settled(&awake));
        inner.consider(begin + Duration::from_millis(1001));
        assert!(is_settled(&awake));
    }

    #[test]
    fn where_it_cannot_be_asked_for_calls_are_answered_all_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let awake = Awake::new(&Idle::at(&directory.path().join("missing"), "haltpoll"));
        (0..10 * CALLS).for_each(|_| awake.called());
        assert!(awake.0.is_none());
    }
}
