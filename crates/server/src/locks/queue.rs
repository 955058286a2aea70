//! Requests that wait, in the order in which they came.
//!
//! Invariant: the four indexes name exactly the requests in `waiting`.

use super::{Owner, RequestId, Session};
use forebay_wire::{Ino, LockFamily, LockRequest};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;

/// The place of a request in the order of arrival; never used twice.
pub(super) type Arrival = u64;

/// A request that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) session: Session,
    pub(super) id: RequestId,
    pub(super) request: LockRequest,
}

impl Waiting {
    pub(super) fn owner(&self) -> Owner {
        Owner { session: self.session, owner: self.request.owner }
    }

    /// The file and family it waits on.
    pub(super) fn place(&self) -> (Ino, LockFamily) {
        (self.request.file, self.request.scope.family())
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeMap<Arrival, Waiting>,
    next: Arrival,
    by_number: HashMap<(Session, RequestId), Arrival>,
    by_place: HashMap<(Ino, LockFamily), BTreeSet<Arrival>>,
    by_owner: HashMap<Owner, BTreeSet<Arrival>>,
    by_session: HashMap<Session, BTreeSet<Arrival>>,
}

impl Queue {
    pub(super) fn push(&mut self, waiting: Waiting) {
        let arrival = self.next;
        self.next += 1;
        self.by_number.insert((waiting.session, waiting.id), arrival);
        self.by_place.entry(waiting.place()).or_default().insert(arrival);
        self.by_owner.entry(waiting.owner()).or_default().insert(arrival);
        self.by_session.entry(waiting.session).or_default().insert(arrival);
        self.waiting.insert(arrival, waiting);
    }

    pub(super) fn remove(&mut self, arrival: Arrival) -> Option<Waiting> {
        let waiting = self.waiting.remove(&arrival)?;
        self.by_number.remove(&(waiting.session, waiting.id));
        remove_from(&mut self.by_place, &waiting.place(), arrival);
        remove_from(&mut self.by_owner, &waiting.owner(), arrival);
        remove_from(&mut self.by_session, &waiting.session, arrival);
        Some(waiting)
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn find(&self, session: Session, id: RequestId) -> Option<Arrival> {
        self.by_number.get(&(session, id)).copied()
    }

    pub(super) fn count_of(&self, session: Session) -> usize {
        self.by_session.get(&session).map_or(0, BTreeSet::len)
    }

    /// All of one client, oldest first.
    pub(super) fn of_session(&self, session: Session) -> Vec<Arrival> {
        self.by_session.get(&session).into_iter().flatten().copied().collect()
    }

    /// All of one owner, oldest first.
    pub(super) fn of_owner(&self, owner: Owner) -> impl Iterator<Item = (Arrival, &Waiting)> {
        let arrivals = self.by_owner.get(&owner).into_iter().flatten();
        arrivals.filter_map(|arrival| Some((*arrival, self.waiting.get(arrival)?)))
    }

    /// Those on one file in one family that came at `from` or later, oldest first.
    pub(super) fn at_place(
        &self,
        place: (Ino, LockFamily),
        from: Arrival,
    ) -> impl Iterator<Item = (Arrival, &Waiting)> {
        let arrivals = self.by_place.get(&place).into_iter().flat_map(move |all| all.range(from..));
        arrivals.filter_map(|arrival| Some((*arrival, self.waiting.get(arrival)?)))
    }

    /// Nothing waits, and no index says otherwise.
    #[cfg(test)]
    pub(super) fn is_bare(&self) -> bool {
        let indexes = [self.by_number.len(), self.by_place.len(), self.by_owner.len(), self.by_session.len()];
        self.waiting.is_empty() && indexes == [0; 4]
    }

    /// All of them, oldest first.
    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.values()
    }
}

fn remove_from<K: Eq + Hash>(index: &mut HashMap<K, BTreeSet<Arrival>>, key: &K, arrival: Arrival) {
    if let Some(arrivals) = index.get_mut(key) {
        arrivals.remove(&arrival);
        if arrivals.is_empty() {
            index.remove(key);
        }
    }
}
