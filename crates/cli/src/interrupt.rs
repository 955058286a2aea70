//! Ctrl-C and SIGTERM, counted.
//!
//! A job reacts to the first interrupt by ending its script and to the second by stopping its stage-out, so signals
//! are counted from the start of the process and each phase says what the next one does. The handler thread only runs
//! the hook that is set at that moment; the hook must not block for long (a later signal waits for it).

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a phase does about an interrupt; gets the signal and how many there have been with it.
type Hook = Box<dyn FnMut(i32, usize) + Send>;

/// The interrupts of this process.
pub struct Interrupts {
    shared: Arc<Shared>,
}

struct Shared {
    count: AtomicUsize,
    last_signal: AtomicUsize,
    hook: Mutex<Option<Hook>>,
}

impl Shared {
    fn hook(&self) -> MutexGuard<'_, Option<Hook>> {
        self.hook.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrived(&self, signal: i32) {
        let mut hook = self.hook();
        self.last_signal.store(signal.unsigned_abs() as usize, Ordering::SeqCst);
        let count = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(hook) = hook.as_mut() {
            hook(signal, count);
        }
    }
}

impl Interrupts {
    /// Takes SIGINT, SIGTERM and SIGHUP (a closed terminal must not lose data) over from their defaults.
    pub fn install() -> io::Result<Interrupts> {
        let shared = Arc::new(Shared {
            count: AtomicUsize::new(0),
            last_signal: AtomicUsize::new(0),
            hook: Mutex::new(None),
        });
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let handler = Arc::clone(&shared);
        std::thread::Builder::new().name("interrupts".into()).spawn(move || {
            for signal in signals.forever() {
                handler.arrived(signal);
            }
        })?;
        Ok(Interrupts { shared })
    }

    /// How many there have been.
    pub fn count(&self) -> usize {
        self.shared.count.load(Ordering::SeqCst)
    }

    /// The signal of the latest one.
    pub fn last_signal(&self) -> Option<i32> {
        match self.shared.last_signal.load(Ordering::SeqCst) {
            0 => None,
            signal => i32::try_from(signal).ok(),
        }
    }

    /// Runs `work` while `hook` answers interrupts. The hook is in place before the count is given to `work`, so no
    /// interrupt falls between the two.
    pub fn during<T>(
        &self,
        hook: impl FnMut(i32, usize) + Send + 'static,
        work: impl FnOnce(usize) -> T,
    ) -> T {
        *self.shared.hook() = Some(Box::new(hook));
        let result = work(self.count());
        *self.shared.hook() = None;
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn signals_are_counted_and_reach_the_hook_of_the_moment() {
        let interrupts = Interrupts::install().unwrap();
        let (sender, receiver) = mpsc::channel();
        interrupts.during(
            move |signal, count| sender.send((signal, count)).unwrap(),
            |before| {
                assert_eq!(before, 0);
                signal_hook::low_level::raise(SIGTERM).unwrap();
                assert_eq!(receiver.recv().unwrap(), (SIGTERM, 1));
                signal_hook::low_level::raise(SIGINT).unwrap();
                assert_eq!(receiver.recv().unwrap(), (SIGINT, 2));
            },
        );
        assert_eq!((interrupts.count(), interrupts.last_signal()), (2, Some(SIGINT)));
    }
}
