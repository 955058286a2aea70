//! The threads of a stage: one walker, and as many workers as the knobs allow at the moment.
//!
//! The calling thread starts them, reports progress and waits. A worker above the allowed number waits in the queue; a number
//! that grows while running brings new threads.

use std::sync::{Condvar, Mutex, PoisonError};
use std::thread::{self, Scope};
use std::time::Duration;

use super::run::Run;
use super::{walk, worker};

/// How many threads are at work.
#[derive(Default)]
pub struct Running {
    threads: Mutex<usize>,
    ended: Condvar,
}

impl Running {
    fn begin(&self) {
        *self.threads.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    fn end(&self) {
        *self.threads.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.ended.notify_all();
    }

    /// Waits until all have ended, not longer than `time`; whether they have.
    fn wait(&self, time: Duration) -> bool {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ended.wait_timeout_while(threads, time, |threads| *threads > 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
    }
}

/// Counts a thread out however it ends. A thread that panics stops the others; the panic reaches the caller when the scope
/// ends.
struct Shift<'s, 'r>(&'s Run<'r>);

impl Drop for Shift<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
        self.0.running.end();
    }
}

/// Does the whole work of a stage. `report` is told whether the walk has ended.
pub fn work<'r>(run: &Run<'r>, report: &mut dyn FnMut(bool)) {
    let interval = Duration::from_millis(run.options.progress_interval_ms.max(10));
    thread::scope(|scope| {
        let _until_the_end = run.early.shift();
        if run.commit.is_durable() {
            scope.spawn(|| run.early.work(run));
        }
        start(scope, run, || {
            walk::walk(run);
            run.queue.walked();
        });
        let mut workers = 0;
        loop {
            while workers < run.workers() {
                let index = workers;
                start(scope, run, move || worker::work(run, index));
                workers += 1;
            }
            if run.running.wait(interval) {
                return;
            }
            report(run.queue.has_been_walked());
        }
    });
}

fn start<'s, 'r>(scope: &'s Scope<'s, '_>, run: &'s Run<'r>, job: impl FnOnce() + Send + 's) {
    run.running.begin();
    scope.spawn(move || {
        let _shift = Shift(run);
        job();
    });
}
