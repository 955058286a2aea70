//! Ctrl-C and SIGTERM.
//!
//! A job reacts to the first interrupt by ending its script and to the second by stopping its stage-out; which it is,
//! the job's own state knows. The handler thread only runs the hook that is set at that moment; the hook must not block
//! for long (a later signal waits for it). No interrupt is lost: those that find no hook are answered by the next one.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is done about an interrupt.
type Hook = Box<dyn FnMut() + Send>;

/// The interrupts of this process.
pub struct Interrupts {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Interrupts that no hook has been run for.
    unanswered: usize,
    last_signal: Option<i32>,
    hook: Option<Hook>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn arrived(&mut self, signal: i32) {
        self.last_signal = Some(signal);
        self.unanswered += 1;
        self.answer();
    }

    fn answer(&mut self) {
        let Some(hook) = self.hook.as_mut() else { return };
        for _ in 0..std::mem::take(&mut self.unanswered) {
            hook();
        }
    }
}

/// A write beyond `ulimit -f` is to fail, not to end the process between two steps. A handler, unlike an ignored signal,
/// is not inherited by the script.
pub fn outlive_file_size_limit() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
}

impl Interrupts {
    /// Takes SIGINT, SIGTERM and SIGHUP (a closed terminal must not lose data) over from their defaults.
    pub fn install() -> io::Result<Interrupts> {
        let shared = Arc::new(Shared::default());
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let handler = Arc::clone(&shared);
        std::thread::Builder::new().name("interrupts".into()).spawn(move || {
            for signal in signals.forever() {
                handler.lock().arrived(signal);
            }
        })?;
        Ok(Interrupts { shared })
    }

    /// The signal of the latest one.
    pub fn last_signal(&self) -> Option<i32> {
        self.shared.lock().last_signal
    }

    /// Runs `work` while `hook` answers interrupts, one call each, beginning with those that came before.
    pub fn during<T>(&self, hook: impl FnMut() + Send + 'static, work: impl FnOnce() -> T) -> T {
        {
            let mut inner = self.shared.lock();
            inner.hook = Some(Box::new(hook));
            inner.answer();
        }
        let result = work();
        self.shared.lock().hook = None;
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn every_signal_reaches_the_hook_of_the_moment_or_the_next_one() {
        let interrupts = Interrupts::install().unwrap();
        let (sender, answers) = mpsc::channel();
        let late = sender.clone();
        interrupts.during(
            move || sender.send("first").unwrap(),
            || {
                signal_hook::low_level::raise(SIGTERM).unwrap();
                assert_eq!(answers.recv().unwrap(), "first");
            },
        );
        signal_hook::low_level::raise(SIGINT).unwrap();
        while interrupts.last_signal() != Some(SIGINT) {
            std::thread::yield_now();
        }
        interrupts.during(move || late.send("second").unwrap(), || ());
        assert_eq!(answers.try_recv(), Ok("second"), "it came while there was no hook");
        assert!(answers.try_recv().is_err(), "each is answered once");
    }
}
