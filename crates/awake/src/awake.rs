//! From calls to the request, and back when they end.
//!
//! Who answers a call counts it. When [`CALLS`] have come quickly a thread opens the device, looks every [`LOOK_EVERY`] whether calls
//! still come, and closes it and ends when they do not. So a process without work has no thread and no timer here. Where the
//! device cannot be opened nobody tries again.

use crate::idle::Idle;
use crate::pace::{CALLS, Pace, WITHIN};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How often it is looked whether calls still come as fast, and so how long processors stay awake for nothing, once or twice.
const LOOK_EVERY: Duration = WITHIN;
const THREAD_NAME: &str = "awake";

#[derive(Debug)]
struct Inner {
    idle: Idle,
    /// Wraps.
    calls: AtomicU32,
    pace: Mutex<Pace>,
    /// It is asked for, or cannot be: more calls change nothing.
    is_settled: AtomicBool,
}

/// See the module.
#[derive(Debug)]
pub struct Awake(Arc<Inner>);

impl Awake {
    /// Nothing is asked for yet.
    pub fn new(idle: Idle) -> Awake {
        let (calls, is_settled) = (AtomicU32::new(0), AtomicBool::new(false));
        Awake(Arc::new(Inner { idle, calls, pace: Mutex::default(), is_settled }))
    }

    /// A call has come.
    pub fn called(&self) {
        let calls = self.0.calls.fetch_add(1, Relaxed).wrapping_add(1);
        if calls.is_multiple_of(CALLS) && !self.0.is_settled.load(Relaxed) {
            self.consider(Instant::now());
        }
    }

    fn consider(&self, now: Instant) {
        let is_fast = self.0.pace.lock().unwrap_or_else(PoisonError::into_inner).is_fast(now);
        if is_fast && !self.0.is_settled.swap(true, Relaxed) {
            let inner = Arc::downgrade(&self.0);
            // Without a thread nothing is asked for, nor tried again: there will be none for calls either.
            _ = std::thread::Builder::new().name(THREAD_NAME.into()).spawn(move || keep(&inner));
        }
    }
}

/// Asks until no more calls come, or nobody is left who could count one.
fn keep(inner: &Weak<Inner>) {
    let Some(Ok(held)) = inner.upgrade().map(|inner| inner.idle.hold()) else { return };
    let mut seen = inner.upgrade().map(|inner| inner.calls.load(Relaxed));
    while let Some(before) = seen {
        std::thread::sleep(LOOK_EVERY);
        let now = inner.upgrade().map(|inner| inner.calls.load(Relaxed));
        seen = now.filter(|now| now.wrapping_sub(before) >= CALLS);
    }
    drop(held);
    if let Some(inner) = inner.upgrade() {
        inner.is_settled.store(false, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};

    /// Longer than anything here takes.
    const LONG: Duration = Duration::from_secs(30);

    /// This process has the file open.
    fn is_open(path: &Path) -> bool {
        let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        links.filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(|target| target == path)
    }

    fn device(directory: &Path) -> PathBuf {
        let path = directory.canonicalize().unwrap().join("latency");
        std::fs::write(&path, "").unwrap();
        path
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
        let awake = Awake::new(Idle::at(&device, "haltpoll"));
        for _ in 0..2 {
            assert!(!is_open(&device));
            until("many calls change nothing", || {
                awake.called();
                is_open(&device)
            });
            until("nothing is written", || std::fs::read(&device).unwrap() == [0; 4]);
            until("it is held although nobody calls", || !is_open(&device));
            until("it is not over", || !awake.0.is_settled.load(Relaxed));
        }
    }

    #[test]
    fn who_is_gone_asks_for_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let device = device(directory.path());
        let awake = Awake::new(Idle::at(&device, "haltpoll"));
        until("many calls change nothing", || {
            awake.called();
            is_open(&device)
        });
        drop(awake);
        until("it is held although nobody is left", || !is_open(&device));
    }

    #[test]
    fn a_few_calls_change_nothing() {
        let awake = Awake::new(Idle::at(Path::new("/dev/null"), "haltpoll"));
        let begin = Instant::now();
        awake.consider(begin);
        awake.consider(begin + Duration::from_secs(1));
        assert!(!awake.0.is_settled.load(Relaxed));
        awake.consider(begin + Duration::from_millis(1001));
        assert!(awake.0.is_settled.load(Relaxed));
    }

    #[test]
    fn where_it_cannot_be_asked_for_nobody_tries_again() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        let awake = Awake::new(Idle::at(&missing, "haltpoll"));
        until("calls are not looked at", || {
            awake.called();
            awake.0.is_settled.load(Relaxed)
        });
        until("its thread goes on", || Arc::weak_count(&awake.0) == 0);
        assert!(awake.0.is_settled.load(Relaxed));
    }
}
