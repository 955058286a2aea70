//! Locks that a client which is alone decides about by itself.
//!
//! The locks of a file are *entrusted* to the only session of a namespace, with the answer to a lock. From then on until it gives
//! them back nobody else is let to the locks of this file: whoever asks for one has them called back first, and waits for their
//! return or for the end of that session, however long that takes, since its client may have given a lock to one of its
//! processes that only it knows of. With the return comes what is held, and the table says so again.
//!
//! 1. [`Home::entrust`]: the number of the entrustment goes out with the answer to a lock. A client that does not take it up goes
//!    on asking, and the table goes on being right.
//! 2. [`Home::await_entrusted`]: another session asks. The first one of these has a message put into the outbox; from then on the
//!    number is not told any more.
//! 3. [`Home::return_locks`] of that session and number: what is held is in the table, and whoever waits goes on.
//!
//! A client decides for a limited time after it asked, which is shorter than a session lives without a connection. So it has stopped
//! before its session is over here and others are given its locks. After a start nothing is entrusted, and the client, which
//! claims what it holds, knows that. Nothing is entrusted while somebody is awaited.

use super::grants::VALID_ALONE_MS;
use super::home::Home;
use super::session::Session;
use crate::locks::{self, Answer, Event, LockLimits, LockTable};
use forebay_wire::message::CallbackRequest;
use forebay_wire::{FsError, Ino, LockRequest, Result};
use std::collections::HashMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Files whose locks are entrusted, at most.
const FILES_MAX: usize = 4096;
/// Below these limits nothing is entrusted: what clients decide about by themselves is less.
const LOCKS_OF_FILE_MIN: usize = 1024;
const LOCKS_OF_SESSION_MIN: usize = 16_384;
/// Whoever waits for a return looks again after so long whether the server ends.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
struct To {
    session: locks::Session,
    number: u64,
    is_recalled: bool,
}

/// The table of the locks, and of which files it does not say all.
pub(crate) struct Locks {
    pub(super) table: LockTable,
    entrusted: HashMap<Ino, To>,
    last: u64,
}

impl Locks {
    pub(super) fn new(limits: LockLimits) -> Locks {
        Locks { table: LockTable::new(limits), entrusted: HashMap::new(), last: 0 }
    }

    /// A session that ended decides about nothing.
    pub(super) fn apply(&mut self, event: Event) -> Vec<Answer> {
        if let Event::SessionEnded { session } = event {
            self.entrusted.retain(|_, to| to.session != session);
        }
        self.table.apply(event)
    }

    /// The number of an entrustment to the only session there is.
    fn entrust(&mut self, file: Ino, session: locks::Session) -> Option<u64> {
        if self.table.is_waited_for(file) {
            return None;
        }
        if let Some(to) = self.entrusted.get(&file) {
            return (to.session == session && !to.is_recalled).then_some(to.number);
        }
        if self.entrusted.len() >= FILES_MAX {
            return None;
        }
        self.last += 1;
        self.entrusted.insert(file, To { session, number: self.last, is_recalled: false });
        Some(self.last)
    }

    /// Another session decides about the locks of a file; it, and the number if it is to be told now that it shall not.
    fn other(&mut self, file: Ino, session: locks::Session) -> Option<(locks::Session, Option<u64>)> {
        let to = self.entrusted.get_mut(&file).filter(|to| to.session != session)?;
        let is_first = !std::mem::replace(&mut to.is_recalled, true);
        Some((to.session, is_first.then_some(to.number)))
    }

    /// It could not be told: the next one who looks tries again.
    fn was_not_told(&mut self, file: Ino, number: u64) {
        if let Some(to) = self.entrusted.get_mut(&file).filter(|to| to.number == number) {
            to.is_recalled = false;
        }
    }
}

impl Home {
    /// Entrusts the locks of a file to a session that was just given one, if that is right: the number, and for how long.
    pub(crate) fn entrust(&self, file: Ino, session: &Session) -> Option<(u64, u32)> {
        let limits = self.terms.locks;
        let are_enough =
            limits.locks_of_file >= LOCKS_OF_FILE_MIN && limits.locks_of_session >= LOCKS_OF_SESSION_MIN;
        if !are_enough || !session.outbox.is_prompt() || !self.recovery.is_over() {
            return None;
        }
        let half_of_grace = u32::try_from(self.terms.grace.as_millis() / 2).unwrap_or(u32::MAX);
        let mut locks = self.locks();
        // Under the lock: who comes in after this looks for his locks later, and finds that they are entrusted.
        if !self.is_alone.load(SeqCst) {
            return None;
        }
        let number = locks.entrust(file, session.number)?;
        Some((number, VALID_ALONE_MS.min(half_of_grace)))
    }

    /// Waits until no other session decides about the locks of a file.
    pub(crate) fn await_entrusted(&self, file: Ino, by: &Session) -> Result<()> {
        let mut locks = self.locks();
        while let Some((session, number)) = locks.other(file, by.number) {
            if self.is_closing() {
                return Err(FsError::Unreachable);
            }
            if let Some(number) = number {
                drop(locks);
                let recall = CallbackRequest::ReturnLocks { ino: file, number };
                let is_told = self.session(session).is_some_and(|holder| holder.outbox.put(recall).is_some());
                locks = self.locks();
                if !is_told {
                    locks.was_not_told(file, number);
                }
            }
            let is_over = !locks.entrusted.contains_key(&file);
            if !is_over {
                let waited = self.returned.wait_timeout(locks, LOOK);
                locks = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        Ok(())
    }

    /// A session gives the locks of a file back. `held`: what it holds there; none: the table knows.
    pub(crate) fn return_locks(
        &self,
        file: Ino,
        session: &Session,
        number: u64,
        held: Option<Vec<LockRequest>>,
    ) {
        let answers = {
            let mut locks = self.locks();
            let is_it = |to: &To| to.session == session.number && to.number == number;
            if !locks.entrusted.get(&file).is_some_and(is_it) {
                return;
            }
            locks.entrusted.remove(&file);
            held.map(|held| locks.table.replace(session.number, file, &held))
        };
        self.returned.notify_all();
        answers.into_iter().flatten().for_each(|answer| self.deliver(&answer));
    }
}
