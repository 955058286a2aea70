//! What the server says to a client on its own account: that something changes, and that a lock was granted.
//!
//! The messages of a session wait here until its callback connection takes them, one at a time. A message is gone when
//! the client has answered it; when the connection breaks before, the next one begins with it. Clients take a message
//! twice without harm.
//!
//! Several threads put messages in and may wait for the answer; one takes them out. A session that is gone has a closed
//! outbox: nothing is put in, nobody waits.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Messages that may wait. A client that does not take them has no grants left long before there are so many.
const MESSAGES_MAX: usize = 65_536;

/// With so many unanswered messages a client is not prompt.
const PROMPT_MAX: usize = 16;

/// Names a message within its outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(pub(crate) u64);

#[derive(Debug)]
struct State<M> {
    /// Not answered yet, oldest first.
    messages: VecDeque<M>,
    /// Number of the first of them.
    first: u64,
    /// Who takes: the last connection that came.
    taker: u64,
    /// That connection is there.
    is_taken: bool,
    closed: bool,
}

/// Names a connection that takes messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taker(u64);

/// See the module.
#[derive(Debug)]
pub(crate) struct Outbox<M> {
    state: Mutex<State<M>>,
    changed: Condvar,
}

impl<M: Clone> Outbox<M> {
    pub(crate) fn new() -> Outbox<M> {
        let state = State { messages: VecDeque::new(), first: 0, taker: 0, is_taken: false, closed: false };
        Outbox { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a message in. `None` when nobody will take it, or too many wait.
    pub(crate) fn put(&self, message: M) -> Option<Ticket> {
        let mut state = self.lock();
        if state.closed || state.messages.len() >= MESSAGES_MAX {
            return None;
        }
        state.messages.push_back(message);
        self.changed.notify_all();
        Some(Ticket(state.first + state.messages.len() as u64 - 1))
    }

    /// Waits until a message was answered; `false` when it was not by `deadline`. A closed outbox counts as answered:
    /// there is no client that could be wrong.
    pub(crate) fn answered_by(&self, ticket: Ticket, deadline: Instant) -> bool {
        let mut state = self.lock();
        while !state.closed && state.first <= ticket.0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// A connection takes the messages from now on; one that did before gets no more.
    pub(crate) fn take_over(&self) -> Taker {
        let mut state = self.lock();
        state.taker += 1;
        state.is_taken = true;
        self.changed.notify_all();
        Taker(state.taker)
    }

    /// A connection takes no more messages.
    pub(crate) fn leave(&self, taker: Taker) {
        let mut state = self.lock();
        if state.taker == taker.0 {
            state.is_taken = false;
        }
    }

    /// Messages are taken, and few wait: the client can be told something in a short time.
    pub(crate) fn is_prompt(&self) -> bool {
        let state = self.lock();
        state.is_taken && state.messages.len() < PROMPT_MAX
    }

    /// Waits for the next message to send; `None` when somebody else takes them, the outbox was closed, or `enough` says
    /// so, which is asked again whenever [`Outbox::wake`] is called.
    pub(crate) fn next(&self, taker: Taker, enough: impl Fn() -> bool) -> Option<(Ticket, M)> {
        let state = self.wait_for(taker, enough, |state| !state.messages.is_empty())?;
        state.messages.front().map(|message| (Ticket(state.first), message.clone()))
    }

    /// Waits until the message that was sent is answered; `false` as [`Outbox::next`] returns none.
    pub(crate) fn is_answered(&self, taker: Taker, ticket: Ticket, enough: impl Fn() -> bool) -> bool {
        self.wait_for(taker, enough, |state| state.first > ticket.0).is_some()
    }

    fn wait_for(
        &self,
        taker: Taker,
        enough: impl Fn() -> bool,
        so_far: impl Fn(&State<M>) -> bool,
    ) -> Option<MutexGuard<'_, State<M>>> {
        let mut state = self.lock();
        loop {
            if state.closed || state.taker != taker.0 || enough() {
                return None;
            }
            if so_far(&state) {
                return Some(state);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The client has answered the message that [`Outbox::next`] returned; `false`: that was not it.
    pub(crate) fn answered(&self, ticket: Ticket) -> bool {
        let mut state = self.lock();
        let is_it = state.first == ticket.0 && state.messages.pop_front().is_some();
        if is_it {
            state.first += 1;
            self.changed.notify_all();
        }
        is_it
    }

    /// Lets the one who takes look whether it is enough.
    pub(crate) fn wake(&self) {
        let _state = self.lock();
        self.changed.notify_all();
    }

    /// The session is gone.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.messages.clear();
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_message_stays_until_it_is_answered() {
        let outbox = Outbox::new();
        let ticket = outbox.put("first").unwrap();
        outbox.put("second").unwrap();
        let before = outbox.take_over();
        assert_eq!(outbox.next(before, || false), Some((ticket, "first")));
        let taker = outbox.take_over();
        assert_eq!(outbox.next(before, || false), None, "another connection takes");
        assert!(!outbox.is_answered(before, ticket, || false));
        assert_eq!(outbox.next(taker, || false), Some((ticket, "first")), "it was not answered");
        assert!(!outbox.answered_by(ticket, Instant::now()));
        assert!(outbox.answered(ticket) && !outbox.answered(ticket));
        assert!(outbox.answered_by(ticket, Instant::now()) && outbox.is_answered(taker, ticket, || false));
        assert_eq!(outbox.next(taker, || false).map(|(_, message)| message), Some("second"));
        assert_eq!(outbox.next(taker, || true), None);
        outbox.leave(before);
        assert!(outbox.is_prompt(), "another connection left");
        (0..PROMPT_MAX).for_each(|_| assert!(outbox.put("more").is_some()));
        assert!(!outbox.is_prompt(), "it does not answer");
        for _ in 0..=PROMPT_MAX {
            outbox.answered(outbox.next(taker, || false).unwrap().0);
        }
        assert!(outbox.is_prompt());
        outbox.leave(taker);
        assert!(!outbox.is_prompt());
    }

    #[test]
    fn nobody_waits_for_a_session_that_is_gone() {
        let outbox = Outbox::new();
        let ticket = outbox.put(1).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| outbox.answered_by(ticket, Instant::now() + LONG));
            outbox.close();
            assert!(waiting.join().unwrap());
        });
        assert_eq!(outbox.put(2), None);
        assert_eq!(outbox.next(outbox.take_over(), || false), None);
    }
}
