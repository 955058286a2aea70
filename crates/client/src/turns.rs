//! Keeps those who write a file and those who show it apart.
//!
//! What is shown is read from the page cache after the local file system has let go of the file, so a write at the same time
//! could be seen in part. A write therefore waits until everything shown is handed over, which takes as long as copying
//! it; who would show while somebody writes reads instead, and nobody waits for a writer.
//!
//! Any thread. Nothing is locked but to wait.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, PoisonError};

/// The turns of one file.
#[derive(Default)]
pub(crate) struct Turns {
    showing: AtomicU32,
    writing: AtomicU32,
    /// Held to wait, and to wake who waits.
    waiting: Mutex<()>,
    shown: Condvar,
}

/// Somebody shows.
pub(crate) struct Showing<'a>(&'a Turns);

/// Somebody writes.
pub(crate) struct Writing<'a>(&'a Turns);

impl Turns {
    /// Lets the caller show until the result is dropped; `None` while somebody writes.
    pub(crate) fn show(&self) -> Option<Showing<'_>> {
        // Each says first what it does and looks for the other then: one of two sees the other.
        self.showing.fetch_add(1, SeqCst);
        let showing = Showing(self);
        (self.writing.load(SeqCst) == 0).then_some(showing)
    }

    /// Waits until nobody shows, and lets the caller write until the result is dropped.
    pub(crate) fn write(&self) -> Writing<'_> {
        self.writing.fetch_add(1, SeqCst);
        if self.showing.load(SeqCst) > 0 {
            let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let is_showing = |_: &mut ()| self.showing.load(SeqCst) > 0;
            drop(self.shown.wait_while(waiting, is_showing).unwrap_or_else(PoisonError::into_inner));
        }
        Writing(self)
    }
}

impl Drop for Showing<'_> {
    fn drop(&mut self) {
        let was_last = self.0.showing.fetch_sub(1, SeqCst) == 1;
        if was_last && self.0.writing.load(SeqCst) > 0 {
            // A writer that has looked and does not wait yet holds the lock.
            drop(self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            self.0.shown.notify_all();
        }
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.writing.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use std::time::{Duration, Instant};

    #[test]
    fn many_write_or_many_show() {
        let turns = Turns::default();
        let (first, second) = (turns.write(), turns.write());
        assert!(turns.show().is_none());
        drop(first);
        assert!(turns.show().is_none());
        drop(second);
        let (first, second) = (turns.show(), turns.show());
        assert!(first.is_some() && second.is_some());
    }

    /// A pair of words that a writer changes one after the other is never shown half changed, and nobody waits for ever.
    #[test]
    fn nothing_is_shown_half_written() {
        let (turns, pair) = (Turns::default(), [AtomicU64::new(0), AtomicU64::new(0)]);
        let end = Instant::now() + Duration::from_millis(300);
        let (shown, written) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while Instant::now() < end {
                    let writing = turns.write();
                    pair.iter().for_each(|word| {
                        word.fetch_add(1, SeqCst);
                    });
                    drop(writing);
                    written.fetch_add(1, SeqCst);
                    std::thread::yield_now();
                }
            });
            for _ in 0..2 {
                scope.spawn(|| {
                    while Instant::now() < end {
                        let Some(showing) = turns.show() else { continue };
                        let first = pair[0].load(SeqCst);
                        std::hint::spin_loop();
                        assert_eq!(first, pair[1].load(SeqCst));
                        drop(showing);
                        shown.fetch_add(1, SeqCst);
                        std::thread::yield_now();
                    }
                });
            }
        });
        assert!(shown.into_inner() > 0 && written.into_inner() > 0);
    }
}
