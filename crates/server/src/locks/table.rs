//! The table: what each event does to the locks and to those who wait.

use super::deadlock::{Files, closes_circle};
use super::file::FileLocks;
use super::queue::{Queue, Waiting};
use super::ranges::Change;
use super::{Answer, Event, LockLimits, Owner, RequestId, Session};
use forebay_wire::{HeldLock, Ino, LockFamily, LockKind, LockLimit, LockRange, LockRefusal, LockRequest};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A file in one family.
type Place = (Ino, LockFamily);

/// The locks of one namespace; see [`crate::locks`].
#[derive(Debug)]
pub struct LockTable {
    limits: LockLimits,
    /// Only files with locks.
    pub(super) files: Files,
    pub(super) queue: Queue,
    /// Only clients with locks.
    held: HashMap<Session, HeldOf>,
    answers: Vec<Answer>,
    /// Where locks were given up in this event, and nobody looked yet whom that lets in.
    loosened: BTreeSet<Place>,
    /// Who got locks in this event, and where.
    got: Vec<(Place, Owner)>,
}

/// What a client holds.
#[derive(Debug, Default)]
struct HeldOf {
    places: BTreeMap<Place, usize>,
    total: usize,
}

impl LockTable {
    /// A table without locks.
    pub fn new(limits: LockLimits) -> LockTable {
        LockTable {
            limits,
            files: Files::new(),
            queue: Queue::default(),
            held: HashMap::new(),
            answers: Vec::new(),
            loosened: BTreeSet::new(),
            got: Vec::new(),
        }
    }

    /// Takes note of an event; returns the answers that are due by it, in the order of their making.
    pub fn apply(&mut self, event: Event) -> Vec<Answer> {
        match event {
            Event::Lock { session, id, request, wait } => self.lock(Waiting { session, id, request }, wait),
            Event::Unlock { session, id, file, owner, scope } => {
                let place = (file, scope.family());
                let outcome = self.set(Owner { session, owner }, place, scope.range(), None);
                self.answers.push(Answer { session, id, outcome });
            }
            Event::Cancel { session, id } => self.cancel(session, id),
            Event::OwnerClosed { session, file, owner, family } => {
                self.owner_closed(Owner { session, owner }, (file, family));
            }
            Event::FileClosed { session, file } => self.file_closed(session, file),
            Event::SessionEnded { session } => self.session_ended(session),
        }
        self.wake();
        self.break_circles();
        std::mem::take(&mut self.answers)
    }

    /// A lock that is in the way of a request, the one with the lowest byte; `None` when it could be granted.
    pub fn test(&self, session: Session, request: &LockRequest) -> Option<HeldLock> {
        let owner = Owner { session, owner: request.owner };
        let locks = self.files.get(&(request.file, request.scope.family()))?;
        let in_the_way = locks.in_the_way(owner, request.kind, request.scope.range());
        let (other, held) = in_the_way.min_by_key(|(other, held)| (held.range.start(), *other))?;
        let same_client = other.session == session;
        Some(HeldLock { kind: held.kind, range: held.range, pid: held.pid, same_client })
    }

    /// What a client decided by itself while nobody else was let in: it holds these on a file and nothing else. Nobody waits there.
    pub fn replace(&mut self, session: Session, file: Ino, held: &[LockRequest]) -> Vec<Answer> {
        for family in [LockFamily::File, LockFamily::Bytes] {
            self.give_up_all(session, (file, family));
        }
        for request in held.iter().filter(|request| request.file == file) {
            let wanted = Waiting { session, id: RequestId(0), request: *request };
            if self.is_free(&wanted) {
                // The limits are larger than what a client may decide about.
                let _ = self.grant(&wanted);
            }
        }
        self.wake();
        self.break_circles();
        std::mem::take(&mut self.answers)
    }

    /// Somebody waits for a lock of a file.
    pub fn is_waited_for(&self, file: Ino) -> bool {
        let waits = |family| self.queue.at_place((file, family), 0).next().is_some();
        waits(LockFamily::File) || waits(LockFamily::Bytes)
    }

    /// Locks that are held.
    pub fn held(&self) -> usize {
        self.files.values().map(FileLocks::len).sum()
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Nothing is remembered of anybody.
    #[cfg(test)]
    pub(super) fn is_bare(&self) -> bool {
        self.files.is_empty() && self.held.is_empty() && self.queue.is_bare()
    }

    fn lock(&mut self, wanted: Waiting, wait: bool) {
        match self.grant_or_wait(&wanted, wait) {
            Some(outcome) => self.answer(&wanted, outcome),
            None => self.queue.push(wanted),
        }
    }

    /// Grants or refuses a request; `None` when it has to wait.
    fn grant_or_wait(&mut self, wanted: &Waiting, wait: bool) -> Option<Result<(), LockRefusal>> {
        if self.queue.find(wanted.session, wanted.id).is_some() {
            return Some(Err(LockRefusal::NumberInUse));
        }
        if self.is_free(wanted) {
            return Some(self.grant(wanted));
        }
        let limit = self.limits.waiting_of_session;
        if wait && self.queue.count_of(wanted.session) >= limit {
            return Some(Err(LockRefusal::TooMany { what: LockLimit::WaitingOfClient, limit }));
        }
        if wanted.place().1 == LockFamily::File {
            self.give_up(wanted.owner(), wanted.place());
        }
        if !wait {
            return Some(Err(LockRefusal::WouldBlock));
        }
        closes_circle(&self.files, &self.queue, wanted).then_some(Err(LockRefusal::Deadlock))
    }

    fn cancel(&mut self, session: Session, id: RequestId) {
        if let Some(waiting) = self.queue.find(session, id).and_then(|arrival| self.queue.remove(arrival)) {
            self.answer(&waiting, Err(LockRefusal::Cancelled));
        }
    }

    fn owner_closed(&mut self, owner: Owner, place: Place) {
        if place.1 == LockFamily::File {
            let of_owner = self.queue.of_owner(owner).filter(|(_, waiting)| waiting.place() == place);
            let arrivals: Vec<_> = of_owner.map(|(arrival, _)| arrival).collect();
            self.call_back(arrivals);
        }
        self.give_up(owner, place);
    }

    fn file_closed(&mut self, session: Session, file: Ino) {
        for place in [(file, LockFamily::File), (file, LockFamily::Bytes)] {
            let at_place = self.queue.at_place(place, 0).filter(|(_, waiting)| waiting.session == session);
            let arrivals: Vec<_> = at_place.map(|(arrival, _)| arrival).collect();
            self.call_back(arrivals);
            self.give_up_all(session, place);
        }
    }

    fn session_ended(&mut self, session: Session) {
        for arrival in self.queue.of_session(session) {
            self.queue.remove(arrival);
        }
        let held = self.held.get(&session).into_iter();
        let places: Vec<Place> = held.flat_map(|held| held.places.keys()).copied().collect();
        for place in places {
            self.give_up_all(session, place);
        }
    }

    /// Ends requests that wait without granting them.
    fn call_back(&mut self, arrivals: Vec<u64>) {
        for arrival in arrivals {
            if let Some(waiting) = self.queue.remove(arrival) {
                self.answer(&waiting, Err(LockRefusal::Cancelled));
            }
        }
    }

    /// Gives up all that the owners of a client hold at a place.
    fn give_up_all(&mut self, session: Session, place: Place) {
        let owners = self.files.get(&place).map(|locks| locks.owners_of(session)).unwrap_or_default();
        for owner in owners {
            self.give_up(owner, place);
        }
    }

    /// Gives up all that an owner holds at a place.
    fn give_up(&mut self, owner: Owner, place: Place) {
        if let Some(locks) = self.files.get(&place) {
            let change = locks.change(owner, LockRange::WHOLE, None);
            self.make(owner, place, &change);
        }
    }

    /// Grants what can be granted where locks were given up, oldest first.
    fn wake(&mut self) {
        while let Some(place) = self.loosened.pop_first() {
            let mut from = 0;
            while let Some((arrival, waiting)) = self.next_free(place, from) {
                self.queue.remove(arrival);
                let outcome = self.grant(&waiting);
                self.answer(&waiting, outcome);
                // A lock that replaces a stronger one of its owner may let somebody in who came before.
                from = if self.loosened.remove(&place) { 0 } else { arrival };
            }
        }
    }

    fn next_free(&self, place: Place, from: u64) -> Option<(u64, Waiting)> {
        let free = self.queue.at_place(place, from).find(|(_, waiting)| self.is_free(waiting));
        free.map(|(arrival, waiting)| (arrival, *waiting))
    }

    /// Refuses those who wait in a circle since somebody was granted a lock. Only an owner with several threads can
    /// bring that about: it waits, and gets another lock meanwhile.
    fn break_circles(&mut self) {
        while let Some((place, owner)) = self.got.pop() {
            if self.queue.of_owner(owner).next().is_none() {
                continue;
            }
            while let Some(arrival) = self.first_in_circle(place) {
                let refused = self.queue.remove(arrival);
                refused.inspect(|waiting| self.answer(waiting, Err(LockRefusal::Deadlock)));
            }
        }
    }

    fn first_in_circle(&self, place: Place) -> Option<u64> {
        let mut at_place = self.queue.at_place(place, 0);
        let in_circle = at_place.find(|(_, waiting)| closes_circle(&self.files, &self.queue, waiting));
        in_circle.map(|(arrival, _)| arrival)
    }

    /// Nobody's lock is in the way.
    fn is_free(&self, wanted: &Waiting) -> bool {
        let Some(locks) = self.files.get(&wanted.place()) else { return true };
        let (kind, range) = (wanted.request.kind, wanted.request.scope.range());
        locks.in_the_way(wanted.owner(), kind, range).next().is_none()
    }

    /// Gives a lock that nobody is in the way of, within the limits.
    fn grant(&mut self, wanted: &Waiting) -> Result<(), LockRefusal> {
        let to = Some((wanted.request.kind, wanted.request.pid));
        self.set(wanted.owner(), wanted.place(), wanted.request.scope.range(), to)
    }

    /// Sets what an owner holds of a range, within the limits. Nobody else may be in the way.
    fn set(
        &mut self,
        owner: Owner,
        place: Place,
        range: LockRange,
        to: Option<(LockKind, u32)>,
    ) -> Result<(), LockRefusal> {
        let change = match self.files.get(&place) {
            Some(locks) => locks.change(owner, range, to),
            None => FileLocks::default().change(owner, range, to),
        };
        self.check_limits(owner.session, place.0, change.growth())?;
        self.make(owner, place, &change);
        Ok(())
    }

    fn check_limits(&self, session: Session, file: Ino, growth: usize) -> Result<(), LockRefusal> {
        if growth == 0 {
            return Ok(());
        }
        let at = |family| self.files.get(&(file, family)).map_or(0, FileLocks::len);
        let of_file = at(LockFamily::File) + at(LockFamily::Bytes);
        let of_session = self.held.get(&session).map_or(0, |held| held.total);
        let check = |what, now: usize, limit: usize| {
            if now + growth > limit { Err(LockRefusal::TooMany { what, limit }) } else { Ok(()) }
        };
        check(LockLimit::LocksOfFile, of_file, self.limits.locks_of_file)?;
        check(LockLimit::LocksOfClient, of_session, self.limits.locks_of_session)
    }

    fn make(&mut self, owner: Owner, place: Place, change: &Change) {
        let locks = self.files.entry(place).or_default();
        locks.make(owner, change);
        if locks.len() == 0 {
            self.files.remove(&place);
        }
        self.count(owner.session, place, change);
        if change.gives_up() {
            self.loosened.insert(place);
        }
        if !change.added.is_empty() {
            self.got.push((place, owner));
        }
    }

    fn count(&mut self, session: Session, place: Place, change: &Change) {
        let held = self.held.entry(session).or_default();
        let count = held.places.entry(place).or_default();
        *count = *count + change.added.len() - change.removed.len();
        held.total = held.total + change.added.len() - change.removed.len();
        if *count == 0 {
            held.places.remove(&place);
        }
        if held.total == 0 {
            self.held.remove(&session);
        }
    }

    fn answer(&mut self, waiting: &Waiting, outcome: Result<(), LockRefusal>) {
        self.answers.push(Answer { session: waiting.session, id: waiting.id, outcome });
    }
}
