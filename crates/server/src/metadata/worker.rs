//! A thread that works in the background, made when there is something to do for the first time.
//!
//! It is told to end by whoever it works for, and joined by him.

use std::thread::{Builder, JoinHandle};

/// See the module.
#[derive(Default)]
pub(super) struct Worker(Option<JoinHandle<()>>);

impl Worker {
    /// There is a thread that does this, made now unless it was; `false`: none can be made.
    pub(super) fn is_there(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> bool {
        if self.0.is_none() {
            self.0 = Builder::new().name(name.to_owned()).spawn(work).ok();
        }
        self.0.is_some()
    }

    /// Waits for its end.
    pub(super) fn join(self) {
        // A panic of it was reported by it.
        let _ = self.0.map(JoinHandle::join);
    }
}
