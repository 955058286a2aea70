//! Requests for locks that wait for their answer on the callback connection.
//!
//! A request is registered before it is sent, so that an answer that overtakes the reply is not lost. When the server is
//! started anew it has forgotten who waits: all are asked to send their request again. Any thread.

use forebay_wire::{FsError, Result, WaitId};
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The server's answer.
    Answered(Result<()>),
    /// Send it again.
    AskAgain,
}

#[derive(Default)]
struct Waiter {
    outcome: Option<Outcome>,
    is_cancelled: bool,
}

#[derive(Default)]
struct State {
    waiters: HashMap<WaitId, Waiter>,
    is_closed: bool,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Waiting {
    state: Mutex<State>,
    changed: Condvar,
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request is about to be sent.
    pub(crate) fn begin(&self, wait: WaitId) -> Result<()> {
        let mut state = self.lock();
        if state.waiters.contains_key(&wait) {
            return Err(FsError::InvalidArgument);
        }
        state.waiters.insert(wait, Waiter::default());
        Ok(())
    }

    /// Nobody waits any more.
    pub(crate) fn end(&self, wait: WaitId) {
        self.lock().waiters.remove(&wait);
    }

    /// The server answered.
    pub(crate) fn answer(&self, wait: WaitId, answer: Result<()>) -> bool {
        let mut state = self.lock();
        let Some(waiter) = state.waiters.get_mut(&wait) else { return false };
        waiter.outcome = Some(Outcome::Answered(answer));
        self.changed.notify_all();
        true
    }

    /// The server has forgotten everybody.
    pub(crate) fn ask_again(&self) {
        let mut state = self.lock();
        for waiter in state.waiters.values_mut() {
            waiter.outcome.get_or_insert(Outcome::AskAgain);
        }
        self.changed.notify_all();
    }

    /// The request is called back; the one who waits sees it before he sends it again.
    pub(crate) fn cancel(&self, wait: WaitId) -> bool {
        let mut state = self.lock();
        let Some(waiter) = state.waiters.get_mut(&wait) else { return false };
        waiter.is_cancelled = true;
        self.changed.notify_all();
        true
    }

    /// It was called back.
    pub(crate) fn is_cancelled(&self, wait: WaitId) -> bool {
        self.lock().waiters.get(&wait).is_some_and(|waiter| waiter.is_cancelled)
    }

    /// Waits for what comes of a request; takes it.
    pub(crate) fn outcome(&self, wait: WaitId) -> Outcome {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return Outcome::Answered(Err(FsError::Unreachable));
            }
            let Some(waiter) = state.waiters.get_mut(&wait) else {
                return Outcome::Answered(Err(FsError::Interrupted));
            };
            if let Some(outcome) = waiter.outcome.take() {
                return outcome;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Nobody answers any more.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }
}
