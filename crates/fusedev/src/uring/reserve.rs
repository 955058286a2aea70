//! Places for requests that are answered late.
//!
//! A lock that is waited for (SETLKW) keeps its place until it is granted. If all places of a queue were kept so, the unlock that ends
//! the waits could not come. So [`FREE_MIN`] places of each queue are never kept: a request that would keep one of them
//! waits for the places that are coming, and is refused when there are none. That this does not happen, a queue gets [`PLACES_AT_ONCE`]
//! places more for each request that leaves it fewer than half of what it had at first. Places once made stay: what waited is free later.
//!
//! The kernel gives a new place what is asked after it was registered, and of what has been in the queue before nothing: that is given
//! to who answers something. When many ask at once those may all be kept. So each place that comes later has a request made to its
//! queue ([`super::nudge`]), whose answer takes one out of it that is there; and as long as there is one, further places are coming.
//!
//! When the connection ends, nobody who waits for a late answer goes on waiting for it ([`Reserve::end`]): who gives the answer may
//! himself wait for the mount to be gone.
//!
//! Called from the serving threads; the locks are held for memory operations only.

use super::slot::Slot;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Places of a queue that nothing waits in.
const FREE_MIN: usize = 2;
/// Places made for one request: more than it keeps.
const PLACES_AT_ONCE: usize = 2;
/// Most places of a queue: each has a thread.
const PLACES_MAX: usize = 1024;

#[derive(Debug, Default)]
struct Queue {
    /// Those the kernel knows.
    places: usize,
    /// Those it will know soon.
    coming: usize,
    /// Of the places, the ones whose requests may be answered late.
    waiting: Vec<Arc<Slot>>,
}

impl Queue {
    /// No other place of it may be kept.
    fn is_short(&self) -> bool {
        self.places <= self.waiting.len() + FREE_MIN
    }
}

/// What becomes of a request that may be answered late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// It has to be refused.
    Refused,
    /// It may keep its place.
    Kept,
    /// It may, and the queue wants so many places more.
    Wants(usize),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Reserve {
    queues: Vec<(Mutex<Queue>, Condvar)>,
    /// Free places of a queue below which it wants more.
    free_wanted: usize,
    is_over: AtomicBool,
}

impl Reserve {
    /// For queues that have so many places each.
    pub(crate) fn new(queues: usize, places: usize) -> Reserve {
        let queue = |_| (Mutex::new(Queue { places, coming: 0, waiting: Vec::new() }), Condvar::new());
        Reserve {
            queues: (0..queues).map(queue).collect(),
            free_wanted: places.div_ceil(2),
            is_over: AtomicBool::new(false),
        }
    }

    fn queue(&self, processor: u16) -> Option<MutexGuard<'_, Queue>> {
        let (queue, _) = self.queues.get(usize::from(processor))?;
        Some(queue.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The queue as soon as a place of it may be kept, or none is coming that might be.
    fn settled(&self, processor: u16) -> Option<MutexGuard<'_, Queue>> {
        let (_, changed) = self.queues.get(usize::from(processor))?;
        let is_open =
            |queue: &mut Queue| queue.is_short() && queue.coming > 0 && !self.is_over.load(Ordering::SeqCst);
        Some(changed.wait_while(self.queue(processor)?, is_open).unwrap_or_else(PoisonError::into_inner))
    }

    /// The request in this slot may be answered late.
    pub(super) fn begin(&self, processor: u16, slot: &Arc<Slot>) -> Begun {
        let Some(mut queue) = self.settled(processor) else { return Begun::Refused };
        // The second is asked under the lock: `end` either sees this slot or was seen here.
        if queue.is_short() || self.is_over.load(Ordering::SeqCst) {
            return Begun::Refused;
        }
        queue.waiting.push(Arc::clone(slot));
        let places = queue.places + queue.coming;
        let wanted = PLACES_AT_ONCE.min(PLACES_MAX - places);
        if wanted == 0 || places - queue.waiting.len() >= self.free_wanted {
            return Begun::Kept;
        }
        queue.coming += wanted;
        Begun::Wants(wanted)
    }

    /// One place that was wanted is there, or cannot be had.
    pub(crate) fn came(&self, processor: u16, is_there: bool) {
        if let Some(mut queue) = self.queue(processor) {
            queue.coming -= 1;
            queue.places += usize::from(is_there);
        }
        self.tell(processor);
    }

    fn tell(&self, processor: u16) {
        if let Some((_, changed)) = self.queues.get(usize::from(processor)) {
            changed.notify_all();
        }
    }

    /// It is answered.
    pub(super) fn done(&self, processor: u16, slot: &Arc<Slot>) {
        if let Some(mut queue) = self.queue(processor) {
            queue.waiting.retain(|waiting| !Arc::ptr_eq(waiting, slot));
        }
        self.tell(processor);
    }

    /// The connection is cut.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        for (queue, changed) in &self.queues {
            let queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.waiting.iter().for_each(|slot| slot.give_up());
            changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot() -> Arc<Slot> {
        Arc::new(Slot::new(0))
    }

    #[test]
    fn a_queue_wants_places_before_it_has_to_refuse() {
        let reserve = Reserve::new(2, 8);
        let slots: Vec<_> = (0..6).map(|_| slot()).collect();
        let begun: Vec<_> = slots.iter().map(|slot| reserve.begin(1, slot)).collect();
        let (kept, wanting) = ([Begun::Kept; 4], [Begun::Wants(2), Begun::Kept]);
        assert_eq!(begun, [&kept[..], &wanting].concat());
        assert_eq!(reserve.begin(0, &slot()), Begun::Kept, "each queue has its own");
        assert_eq!(reserve.begin(7, &slot()), Begun::Refused, "no such queue");
    }

    /// A queue of which two places more are coming, and no other may be kept before.
    fn short() -> Reserve {
        let reserve = Reserve::new(1, 8);
        let begun: Vec<_> = (0..6).map(|_| reserve.begin(0, &slot())).collect();
        assert_eq!(begun.iter().filter(|begun| **begun == Begun::Wants(2)).count(), 1);
        reserve
    }

    /// What becomes of a request to a queue that is short when this has happened.
    fn begun_after(happens: impl FnOnce(&Reserve)) -> Begun {
        let reserve = short();
        std::thread::scope(|scope| {
            let begun = scope.spawn(|| reserve.begin(0, &slot()));
            std::thread::sleep(std::time::Duration::from_millis(5));
            assert!(!begun.is_finished());
            happens(&reserve);
            begun.join().unwrap()
        })
    }

    #[test]
    fn who_would_be_refused_waits_for_the_places_that_are_coming() {
        let came = |reserve: &Reserve, are_there: [bool; 2]| are_there.map(|is| reserve.came(0, is));
        assert_eq!(begun_after(|reserve| _ = came(reserve, [false, true])), Begun::Wants(2));
        assert_eq!(begun_after(|reserve| _ = came(reserve, [false, false])), Begun::Refused);
        assert_eq!(begun_after(Reserve::end), Begun::Refused);
    }

    #[test]
    fn what_was_answered_is_free_again() {
        let reserve = Reserve::new(1, FREE_MIN + 1);
        let (first, second) = (slot(), slot());
        assert_eq!(reserve.begin(0, &first), Begun::Kept);
        assert_eq!(reserve.begin(0, &second), Begun::Refused);
        reserve.done(0, &first);
        assert_eq!(reserve.begin(0, &second), Begun::Kept);
    }

    #[test]
    fn places_are_limited() {
        let reserve = Reserve::new(1, 8);
        let mut kept = 0;
        loop {
            match reserve.begin(0, &slot()) {
                Begun::Refused => break,
                Begun::Kept => {}
                Begun::Wants(places) => (0..places).for_each(|_| reserve.came(0, true)),
            }
            kept += 1;
        }
        assert_eq!(kept, PLACES_MAX - FREE_MIN);
    }

    #[test]
    fn at_the_end_nobody_waits() {
        let reserve = Reserve::new(1, 8);
        let (early, late) = (slot(), slot());
        assert_eq!(reserve.begin(0, &early), Begun::Kept);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| early.take());
            reserve.end();
            assert_eq!(waiting.join().unwrap(), None);
        });
        assert_eq!(reserve.begin(0, &late), Begun::Refused);
    }
}
