//! Requests whose senders wait for an answer.
//!
//! Not stored: when the controller dies, so do its connections, and who still wants to know asks again. What was asked
//! for is in the rows and goes on.

use super::request::{Caller, CreatePersistent, RequestId, Setup};
use forebay_model::ids::SessionId;
use std::collections::{BTreeMap, BTreeSet};

/// What a request waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The session's instances can be used.
    Ready,
    /// All stage-ins are done.
    StagedIn,
    /// All is mounted everywhere.
    Mounted,
    /// Nothing is mounted any more.
    Unmounted,
    /// All stage-outs are done.
    StagedOut,
    /// The session is gone.
    Gone,
    /// The session is gone; then this is set up under its token.
    FreeForJob(Box<Setup>),
    /// The session is gone; then this is made under its name.
    FreeForPersistent(Box<CreatePersistent>),
}

/// A request that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub request: RequestId,
    pub caller: Caller,
    /// Its word, for the log.
    pub name: &'static str,
    pub session: SessionId,
    pub token: String,
    pub until: Until,
}

/// All that wait.
#[derive(Clone, Debug, Default)]
pub(super) struct WaitingRoom {
    all: BTreeMap<RequestId, Waiting>,
    by_session: BTreeMap<SessionId, BTreeSet<RequestId>>,
}

impl WaitingRoom {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn count_for(&self, session: SessionId) -> usize {
        self.by_session.get(&session).map_or(0, BTreeSet::len)
    }

    pub fn enter(&mut self, waiting: Waiting) {
        self.by_session.entry(waiting.session).or_default().insert(waiting.request);
        self.all.insert(waiting.request, waiting);
    }

    pub fn leave(&mut self, request: RequestId) -> Option<Waiting> {
        let waiting = self.all.remove(&request)?;
        if let Some(set) = self.by_session.get_mut(&waiting.session) {
            set.remove(&request);
            if set.is_empty() {
                self.by_session.remove(&waiting.session);
            }
        }
        Some(waiting)
    }

    pub fn of(&self, session: SessionId) -> Vec<Waiting> {
        let ids = self.by_session.get(&session).into_iter().flatten();
        ids.filter_map(|id| self.all.get(id)).cloned().collect()
    }
}
