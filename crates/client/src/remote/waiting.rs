//! Requests for locks that wait for their answer on the callback connection.
//!
//! A request is registered before it is sent, so that an answer that overtakes the reply is not lost. When the server is
//! started anew it has forgotten who waits: all are asked to send their request again. Any thread.

use super::held::Life;
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
    answer: Option<Result<()>>,
    /// The life of the session that began since, which knows of no request sent before.
    forgotten_by: Option<Life>,
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
        waiter.answer = Some(answer);
        self.changed.notify_all();
        true
    }

    /// A life of the session begins at a server that has forgotten everybody. Before anything else is asked in it.
    pub(crate) fn ask_again(&self, life: Life) {
        let mut state = self.lock();
        for waiter in state.waiters.values_mut() {
            waiter.forgotten_by = Some(life);
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

    /// Waits for what comes of a request that was sent in a life of the session; takes it. What was answered in a life
    /// before does not count.
    pub(crate) fn outcome(&self, wait: WaitId, sent_in: Life) -> Outcome {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return Outcome::Answered(Err(FsError::Unreachable));
            }
            let Some(waiter) = state.waiters.get_mut(&wait) else {
                return Outcome::Answered(Err(FsError::Interrupted));
            };
            if waiter.forgotten_by.take_if(|life| *life != sent_in).is_some() {
                waiter.answer = None;
                return Outcome::AskAgain;
            }
            if let Some(answer) = waiter.answer.take() {
                return Outcome::Answered(answer);
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

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Life = Life { boot: 1, incarnation: 1 };
    const SECOND: Life = Life { boot: 2, incarnation: 1 };
    const WAIT: WaitId = WaitId(1);

    #[test]
    fn a_request_that_a_new_server_has_is_not_sent_to_it_again() {
        let waiting = Waiting::default();
        waiting.begin(WAIT).unwrap();
        waiting.ask_again(SECOND);
        assert_eq!(waiting.outcome(WAIT, FIRST), Outcome::AskAgain);
        waiting.ask_again(SECOND);
        assert!(waiting.answer(WAIT, Ok(())));
        assert_eq!(
            waiting.outcome(WAIT, SECOND),
            Outcome::Answered(Ok(())),
            "it was sent after that one began"
        );
    }

    #[test]
    fn a_grant_of_a_server_that_is_gone_does_not_count() {
        let waiting = Waiting::default();
        waiting.begin(WAIT).unwrap();
        assert!(waiting.answer(WAIT, Ok(())));
        waiting.ask_again(SECOND);
        assert_eq!(waiting.outcome(WAIT, FIRST), Outcome::AskAgain);
        assert!(waiting.answer(WAIT, Err(FsError::Deadlock)));
        assert_eq!(waiting.outcome(WAIT, SECOND), Outcome::Answered(Err(FsError::Deadlock)));
    }
}
