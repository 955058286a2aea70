//! Places for requests that are answered late.
//!
//! A lock that is waited for (SETLKW) keeps its place until it is granted. If all places of a queue were kept so, the unlock that ends
//! the waits could not come. So [`FREE_MIN`] places of each queue are never kept: a request that would keep one of them
//! is refused. That this does not happen, a queue gets [`PLACES_AT_ONCE`] places more for each request that leaves it fewer than half of
//! what it had at first. It has to be early: the kernel gives a new place only what is asked after it was registered, and nothing of what
//! has been in the queue already. Places once made stay: what waited is free later.
//!
//! When the connection ends, nobody who waits for a late answer goes on waiting for it ([`Reserve::end`]): who gives the answer may
//! himself wait for the mount to be gone.
//!
//! Called from the serving threads; the locks are held for memory operations only.

use super::slot::Slot;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    queues: Vec<Mutex<Queue>>,
    /// Free places of a queue below which it wants more.
    free_wanted: usize,
    is_over: AtomicBool,
}

impl Reserve {
    /// For queues that have so many places each.
    pub(crate) fn new(queues: usize, places: usize) -> Reserve {
        let queue = |_| Mutex::new(Queue { places, coming: 0, waiting: Vec::new() });
        Reserve {
            queues: (0..queues).map(queue).collect(),
            free_wanted: places.div_ceil(2),
            is_over: AtomicBool::new(false),
        }
    }

    fn queue(&self, processor: u16) -> Option<MutexGuard<'_, Queue>> {
        Some(self.queues.get(usize::from(processor))?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The request in this slot may be answered late.
    pub(super) fn begin(&self, processor: u16, slot: &Arc<Slot>) -> Begun {
        let Some(mut queue) = self.queue(processor) else { return Begun::Refused };
        // The second is asked under the lock: `end` either sees this slot or was seen here.
        if queue.places <= queue.waiting.len() + FREE_MIN || self.is_over.load(Ordering::SeqCst) {
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
    }

    /// It is answered.
    pub(super) fn done(&self, processor: u16, slot: &Arc<Slot>) {
        if let Some(mut queue) = self.queue(processor) {
            queue.waiting.retain(|waiting| !Arc::ptr_eq(waiting, slot));
        }
    }

    /// The connection is cut.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        for queue in &self.queues {
            let queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.waiting.iter().for_each(|slot| slot.give_up());
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
        let slots: Vec<_> = (0..7).map(|_| slot()).collect();
        let begun: Vec<_> = slots.iter().map(|slot| reserve.begin(1, slot)).collect();
        // The last ones are refused as long as none of the places that are coming is there.
        let (kept, wanting) = ([Begun::Kept; 4], [Begun::Wants(2), Begun::Kept]);
        assert_eq!(begun, [&kept[..], &wanting, &[Begun::Refused]].concat());
        reserve.came(1, false);
        assert_eq!(reserve.begin(1, &slots[6]), Begun::Refused);
        reserve.came(1, true);
        assert_eq!(reserve.begin(1, &slots[6]), Begun::Wants(2));
        assert_eq!(reserve.begin(0, &slot()), Begun::Kept, "each queue has its own");
        assert_eq!(reserve.begin(7, &slot()), Begun::Refused, "no such queue");
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
