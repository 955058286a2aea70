//! All threads begin together or not at all.
//!
//! The kernel holds every request back until each queue has a place. If one thread cannot register its own, the others
//! must not wait for requests that never come: they end, the connection is cut, and programs get ENOTCONN.

use std::sync::{Condvar, Mutex, PoisonError};

/// Who has not yet come, and whether somebody could not.
#[derive(Debug)]
pub(crate) struct Muster {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug)]
struct State {
    missing: usize,
    failed: bool,
}

impl Muster {
    /// For so many threads.
    pub(crate) fn new(threads: usize) -> Muster {
        Muster { state: Mutex::new(State { missing: threads, failed: false }), changed: Condvar::new() }
    }

    /// One of them is ready, or cannot be. Does not wait.
    pub(crate) fn report(&self, ready: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.missing = state.missing.saturating_sub(1);
        state.failed |= !ready;
        self.changed.notify_all();
    }

    /// Waits until all have reported, or one has failed: whether to begin.
    pub(crate) fn wait(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let open = |state: &mut State| state.missing > 0 && !state.failed;
        !self.changed.wait_while(state, open).unwrap_or_else(PoisonError::into_inner).failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_begin_or_none_does() {
        for failing in [None, Some(0), Some(2)] {
            let muster = Muster::new(3);
            std::thread::scope(|scope| {
                let threads = [0, 1, 2].map(|number| {
                    let muster = &muster;
                    scope.spawn(move || {
                        muster.report(Some(number) != failing);
                        muster.wait()
                    })
                });
                for thread in threads {
                    assert_eq!(thread.join().unwrap(), failing.is_none());
                }
            });
        }
    }
}
