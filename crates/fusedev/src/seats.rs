//! Who of the serving threads waits at the device.
//!
//! A mount has many threads, since a request may hold one for long. The kernel gives a request to the thread that has waited
//! longest, so if all of them waited each request would meet a thread whose memory is cold, mostly on another
//! processor. So only a few wait at the device, and the others at a seat there. Who has taken a request gives his
//! seat up while he serves it. When nobody is left at the device the next one is called: requests never lie while a thread
//! is free.
//!
//! Called from the serving threads; the lock is held for memory operations only.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Threads that may wait at the device. Two requests under way at a time, as a call and the close before it, wake nobody else.
const SEATS: usize = 3;

#[derive(Debug, Default)]
struct Taken {
    /// Threads at the device.
    seats: usize,
    /// Threads that wait for a seat.
    waiting: usize,
    /// Nothing comes any more: nobody waits.
    is_over: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    taken: Mutex<Taken>,
    free: Condvar,
}

impl Seats {
    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is the caller's turn to wait at the device.
    pub(crate) fn take(&self) {
        let mut taken = self.lock();
        while taken.seats >= SEATS && !taken.is_over {
            taken.waiting += 1;
            taken = self.free.wait(taken).unwrap_or_else(PoisonError::into_inner);
            taken.waiting -= 1;
        }
        taken.seats += 1;
    }

    /// The caller has what he waited for.
    pub(crate) fn leave(&self) {
        let mut taken = self.lock();
        taken.seats -= 1;
        if taken.seats == 0 && taken.waiting > 0 {
            drop(taken);
            self.free.notify_one();
        }
    }

    /// The caller waits at the device no more, and nobody else needs to wait for a seat: they see by themselves what is wrong.
    pub(crate) fn end(&self) {
        let mut taken = self.lock();
        taken.seats -= 1;
        taken.is_over = true;
        drop(taken);
        self.free.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_seat_is_waited_for_and_the_next_is_called_when_nobody_is_left() {
        let seats = Seats::default();
        let at_device = AtomicUsize::new(0);
        let (came, come) = channel();
        std::thread::scope(|scope| {
            (0..SEATS).for_each(|_| seats.take());
            scope.spawn(|| {
                seats.take();
                at_device.fetch_add(1, SeqCst);
                came.send(()).unwrap();
            });
            while seats.lock().waiting == 0 {
                std::thread::yield_now();
            }
            (1..SEATS).for_each(|_| seats.leave());
            assert_eq!(seats.lock().waiting, 1, "one is still at the device");
            seats.leave();
            come.recv_timeout(LONG).unwrap();
        });
        assert_eq!(at_device.load(SeqCst), 1);
        assert_eq!(seats.lock().seats, 1);
    }

    #[test]
    fn at_the_end_nobody_waits() {
        let seats = Seats::default();
        std::thread::scope(|scope| {
            (0..SEATS).for_each(|_| seats.take());
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| seats.take())).collect();
            seats.end();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}
