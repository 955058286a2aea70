//! Who may still show what an earlier server of the namespace granted.
//!
//! A server that was started anew does not know the grants of the one before it, but it knows who was there: as long as
//! such a grant can last, everybody who was there counts as one who shows everything. Order of events of a change in that
//! time: those who were there are waited for until they are back, or the time is over; those who are back are told, as
//! others who hold a grant are. So nobody goes on showing what was before a completed change.
//!
//! Who takes up a file that he had open for writing changes nothing by it: nobody else was granted anything on it.
//!
//! Any thread may call; the lock is held for memory operations only. Nothing of this survives a crash: the next start
//! begins with the list of sessions ([`super::recovery`]).

use crate::locks::Session;
use forebay_wire::message::SessionId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// See the module.
#[derive(Debug)]
pub(crate) struct Earlier {
    /// Those who were there, with their number once they are back.
    sessions: Mutex<BTreeMap<SessionId, Option<Session>>>,
    /// When the last grant of the earlier server has ended.
    until: Instant,
    came: Condvar,
}

impl Earlier {
    pub(crate) fn begin(sessions: BTreeSet<SessionId>, until: Instant) -> Earlier {
        let sessions = sessions.into_iter().map(|id| (id, None)).collect();
        Earlier { sessions: Mutex::new(sessions), until, came: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, Option<Session>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session is there, under this number.
    pub(crate) fn came(&self, id: SessionId, number: Session) {
        if let Some(place) = self.lock().get_mut(&id) {
            *place = Some(number);
            self.came.notify_all();
        }
    }

    /// A session ended, and shows nothing any more.
    pub(crate) fn ended(&self, id: SessionId) {
        self.lock().remove(&id);
        self.came.notify_all();
    }

    /// Who else has to be told of a change of anything, when all of them are back. Nobody when the time is over.
    pub(crate) fn others(&self, by: SessionId) -> Vec<Session> {
        let mut sessions = self.lock();
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                sessions.clear();
            }
            let others = sessions.iter().filter(|(id, _)| **id != by).map(|(_, number)| *number);
            if let Some(all) = others.collect() {
                return all;
            }
            sessions = self.came.wait_timeout(sessions, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(60);
    const IDS: [SessionId; 3] = [SessionId([1; 16]), SessionId([2; 16]), SessionId([3; 16])];

    fn with(sessions: &[SessionId], until: Instant) -> Earlier {
        Earlier::begin(sessions.iter().copied().collect(), until)
    }

    #[test]
    fn who_was_there_is_waited_for_and_told() {
        let earlier = with(&IDS[..2], Instant::now() + LONG);
        earlier.came(IDS[0], Session(7));
        earlier.came(IDS[2], Session(9));
        assert_eq!(earlier.others(IDS[1]), [Session(7)], "the one who asks is not waited for");
        std::thread::scope(|scope| {
            let others = scope.spawn(|| earlier.others(IDS[0]));
            earlier.came(IDS[1], Session(8));
            assert_eq!(others.join().unwrap(), [Session(8)]);
            assert_eq!(earlier.others(IDS[2]), [Session(7), Session(8)]);
        });
        earlier.ended(IDS[1]);
        assert_eq!(earlier.others(IDS[0]), []);
    }

    #[test]
    fn nobody_is_told_when_the_time_is_over() {
        let earlier = with(&IDS[..2], Instant::now());
        earlier.came(IDS[1], Session(8));
        assert_eq!(earlier.others(IDS[2]), []);
    }
}
