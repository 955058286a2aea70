//! Each change is made once, also when it is asked for twice.
//!
//! A client numbers its changes within a slot, one after the other. When a connection breaks, the client does not know
//! whether its last change was made, and asks again with the same number on another connection: it gets the answer that
//! was made for the first asking. If that one is still being worked on, the second waits for it.
//!
//! Memory: one answer for each slot that was used. Any thread may call; a slot is held locked for memory operations only.

use forebay_wire::message::SLOTS_MAX;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Slots of a session.
const SLOTS: usize = SLOTS_MAX as usize;

/// A number that makes no sense in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SlotError {
    /// There are not so many slots.
    #[error("there is no slot {0}")]
    NoSuchSlot(u16),
    /// The answer is not kept any more: the client has asked for a later change since.
    #[error("change {asked} of a slot was asked for after change {last}")]
    Past {
        /// The number.
        asked: u64,
        /// The last one before.
        last: u64,
    },
}

/// What a change is to do.
#[derive(Debug)]
pub(crate) enum Turn<'a, R> {
    /// Make it, and give the answer to the ticket.
    Make(Making<'a, R>),
    /// It was made: this was the answer.
    Made(Arc<R>),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Slots<R> {
    slots: Vec<Slot<R>>,
}

#[derive(Debug)]
struct Slot<R> {
    state: Mutex<State<R>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<R> {
    last: u64,
    answer: Option<Arc<R>>,
    busy: bool,
    /// Who waits until it is not busy any more: to wake nobody costs a system call too.
    waiting: u32,
}

impl<R> Slot<R> {
    fn lock(&self) -> MutexGuard<'_, State<R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R> Slots<R> {
    pub(crate) fn new() -> Slots<R> {
        let slot = || Slot {
            state: Mutex::new(State { last: 0, answer: None, busy: false, waiting: 0 }),
            changed: Condvar::new(),
        };
        Slots { slots: (0..SLOTS).map(|_| slot()).collect() }
    }

    /// Begins a change, or waits for the answer that it had. Numbers begin at 1 and rise.
    pub(crate) fn begin(&self, number: u16, sequence: u64) -> Result<Turn<'_, R>, SlotError> {
        let slot = self.slots.get(usize::from(number)).ok_or(SlotError::NoSuchSlot(number))?;
        let mut state = slot.lock();
        while state.busy {
            state.waiting += 1;
            state = slot.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        if sequence < state.last {
            return Err(SlotError::Past { asked: sequence, last: state.last });
        }
        if let Some(answer) = state.answer.as_ref().filter(|_| sequence == state.last) {
            return Ok(Turn::Made(answer.clone()));
        }
        let is_first = state.last == 0;
        *state = State { last: sequence, answer: None, busy: true, waiting: state.waiting };
        Ok(Turn::Make(Making { slot, is_first }))
    }
}

/// A change that is being made. Dropped without an answer (its thread panicked), it counts as not made.
#[derive(Debug)]
pub(crate) struct Making<'a, R> {
    slot: &'a Slot<R>,
    /// Nothing is known of the slot before this.
    pub(crate) is_first: bool,
}

impl<R> Making<'_, R> {
    /// The change was made, or refused.
    pub(crate) fn answered(self, answer: R) -> Arc<R> {
        let answer = Arc::new(answer);
        self.slot.lock().answer = Some(answer.clone());
        answer
    }
}

impl<R> Drop for Making<'_, R> {
    fn drop(&mut self) {
        let mut state = self.slot.lock();
        state.busy = false;
        if state.waiting > 0 {
            self.slot.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn made(turn: Turn<'_, &'static str>) -> Option<&'static str> {
        match turn {
            Turn::Made(answer) => Some(*answer),
            Turn::Make(_) => None,
        }
    }

    #[test]
    fn a_change_asked_for_again_has_the_answer_it_had() {
        let slots = Slots::new();
        let Turn::Make(making) = slots.begin(3, 1).unwrap() else { panic!("it was never made") };
        making.answered("first");
        assert_eq!(made(slots.begin(3, 1).unwrap()), Some("first"));
        assert_eq!(made(slots.begin(4, 1).unwrap()), None, "another slot");
        assert_eq!(made(slots.begin(3, 2).unwrap()), None, "the next change");
        assert_eq!(slots.begin(3, 1).unwrap_err(), SlotError::Past { asked: 1, last: 2 });
        assert_eq!(slots.begin(64, 1).unwrap_err(), SlotError::NoSuchSlot(64));
    }

    #[test]
    fn a_change_that_is_being_made_is_waited_for() {
        let slots = Slots::new();
        let Turn::Make(making) = slots.begin(0, 1).unwrap() else { panic!("it was never made") };
        let (begun, begins) = mpsc::channel();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                begun.send(()).unwrap();
                made(slots.begin(0, 1).unwrap())
            });
            begins.recv().unwrap();
            making.answered("once");
            assert_eq!(second.join().unwrap(), Some("once"));
        });
    }
}
