//! A lock table that is too simple to be wrong: for each unit of a file a list of who has it how.
//!
//! A file has [`UNITS`] units; the last one reaches to the largest offset. Knows nothing of ranges, merging or indexes,
//! and finds circles by closing the relation "waits for".

use crate::locks::{Answer, Event, LockLimits, Owner, RequestId, Session};
use forebay_wire::{
    HeldLock, Ino, LockFamily, LockKind, LockLimit, LockRange, LockRefusal, LockRequest, LockScope,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

pub(super) const UNITS: usize = 7;
const UNIT_BYTES: u64 = 1000;

pub(super) type Place = (Ino, LockFamily);
type Unit = BTreeMap<Owner, LockKind>;

/// The bytes of some units.
pub(super) fn bytes_of(units: Range<usize>) -> LockRange {
    let end = if units.end == UNITS { LockRange::LAST_MAX } else { units.end as u64 * UNIT_BYTES - 1 };
    LockRange::new(units.start as u64 * UNIT_BYTES, end).unwrap()
}

/// The units of some bytes.
pub(super) fn units_of(range: LockRange) -> Range<usize> {
    let last = (range.last() / UNIT_BYTES).min(UNITS as u64 - 1) as usize;
    let units = (range.start() / UNIT_BYTES) as usize..last + 1;
    assert_eq!(bytes_of(units.clone()), range, "a lock ends where no request did");
    units
}

/// Process of an owner: one number for each, so that merging cannot hide whose it is.
pub(super) fn pid_of(owner: Owner) -> u32 {
    (owner.session.0 * 100 + owner.owner.0) as u32
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) session: Session,
    pub(super) id: RequestId,
    pub(super) request: LockRequest,
}

impl Wanted {
    fn owner(&self) -> Owner {
        Owner { session: self.session, owner: self.request.owner }
    }

    fn place(&self) -> Place {
        (self.request.file, self.request.scope.family())
    }
}

pub(super) struct Reference {
    limits: LockLimits,
    pub(super) units: BTreeMap<Place, Vec<Unit>>,
    pub(super) waiting: Vec<Wanted>,
}

impl Reference {
    pub(super) fn new(limits: LockLimits) -> Reference {
        Reference { limits, units: BTreeMap::new(), waiting: Vec::new() }
    }

    /// What is due after an event, but for circles that others close by what they got: see [`Reference::in_circle`].
    pub(super) fn apply(&mut self, event: &Event) -> Vec<Answer> {
        let mut answers = Vec::new();
        match *event {
            Event::Lock { session, id, request, wait } => {
                let wanted = Wanted { session, id, request };
                match self.lock(&wanted, wait) {
                    Some(outcome) => answers.push(Answer { session, id, outcome }),
                    None => self.waiting.push(wanted),
                }
            }
            Event::Unlock { session, id, file, owner, scope } => {
                let owner = Owner { session, owner };
                let outcome = self.set(owner, (file, scope.family()), scope.range(), None);
                answers.push(Answer { session, id, outcome });
            }
            Event::Cancel { session, id } => {
                self.call_back(&mut answers, |wanted| wanted.session == session && wanted.id == id);
            }
            Event::OwnerClosed { session, file, owner, family } => {
                let owner = Owner { session, owner };
                self.call_back(&mut answers, |wanted| {
                    let here = wanted.place() == (file, family) && wanted.owner() == owner;
                    here && family == LockFamily::File
                });
                self.drop_locks(|place, other| place == (file, family) && other == owner);
            }
            Event::FileClosed { session, file } => {
                for family in [LockFamily::File, LockFamily::Bytes] {
                    self.call_back(&mut answers, |wanted| {
                        wanted.session == session && wanted.place() == (file, family)
                    });
                }
                self.drop_locks(|place, other| place.0 == file && other.session == session);
            }
            Event::SessionEnded { session } => {
                self.waiting.retain(|wanted| wanted.session != session);
                self.drop_locks(|_, other| other.session == session);
            }
        }
        self.grant_all(&mut answers);
        answers
    }

    pub(super) fn test(&self, session: Session, request: &LockRequest) -> Option<HeldLock> {
        let place = (request.file, request.scope.family());
        let asking = Owner { session, owner: request.owner };
        let asked = request.scope.range();
        let in_the_way = |(owner, range, kind): &(Owner, LockRange, LockKind)| {
            *owner != asking && range.overlaps(asked) && kind.conflicts_with(request.kind)
        };
        let runs = self.runs(place).into_iter().filter(in_the_way);
        let (owner, range, kind) = runs.min_by_key(|(owner, range, _)| (range.start(), *owner))?;
        Some(HeldLock { kind, range, pid: pid_of(owner), same_client: owner.session == session })
    }

    /// All locks at a place, touching units of one kind as one.
    pub(super) fn runs(&self, place: Place) -> Vec<(Owner, LockRange, LockKind)> {
        let Some(units) = self.units.get(&place) else { return Vec::new() };
        let owners: BTreeSet<Owner> = units.iter().flat_map(|unit| unit.keys().copied()).collect();
        let mut runs = Vec::new();
        for owner in owners {
            let mut at = 0;
            while at < UNITS {
                let kind = units[at].get(&owner).copied();
                let end = (at..UNITS).find(|&unit| units[unit].get(&owner).copied() != kind).unwrap_or(UNITS);
                runs.extend(kind.map(|kind| (owner, bytes_of(at..end), kind)));
                at = end;
            }
        }
        runs
    }

    /// The request that waits under this number is in a circle.
    pub(super) fn in_circle(&self, session: Session, id: RequestId) -> bool {
        let wanted = self.waiting.iter().find(|wanted| (wanted.session, wanted.id) == (session, id));
        wanted.is_some_and(|wanted| self.closes_circle(wanted))
    }

    pub(super) fn any_circle(&self) -> bool {
        self.waiting.iter().any(|wanted| self.closes_circle(wanted))
    }

    pub(super) fn any_grantable(&self) -> bool {
        self.waiting.iter().any(|wanted| self.blockers(wanted).is_empty())
    }

    pub(super) fn forget(&mut self, session: Session, id: RequestId) {
        self.waiting.retain(|wanted| (wanted.session, wanted.id) != (session, id));
    }

    fn lock(&mut self, wanted: &Wanted, wait: bool) -> Option<Result<(), LockRefusal>> {
        if self.waiting.iter().any(|other| (other.session, other.id) == (wanted.session, wanted.id)) {
            return Some(Err(LockRefusal::NumberInUse));
        }
        let (owner, place) = (wanted.owner(), wanted.place());
        if self.blockers(wanted).is_empty() {
            return Some(self.grant(wanted));
        }
        let limit = self.limits.waiting_of_session;
        if wait && self.waiting.iter().filter(|other| other.session == wanted.session).count() >= limit {
            return Some(Err(LockRefusal::TooMany { what: LockLimit::WaitingOfClient, limit }));
        }
        if place.1 == LockFamily::File {
            self.drop_locks(|at, other| at == place && other == owner);
        }
        match (wait, self.closes_circle(wanted)) {
            (false, _) => Some(Err(LockRefusal::WouldBlock)),
            (true, true) => Some(Err(LockRefusal::Deadlock)),
            (true, false) => None,
        }
    }

    fn grant(&mut self, wanted: &Wanted) -> Result<(), LockRefusal> {
        let range = wanted.request.scope.range();
        self.set(wanted.owner(), wanted.place(), range, Some(wanted.request.kind))
    }

    fn set(
        &mut self,
        owner: Owner,
        place: Place,
        range: LockRange,
        to: Option<LockKind>,
    ) -> Result<(), LockRefusal> {
        let before = self.units.clone();
        let (of_file, of_session) = (self.locks_of_file(place.0), self.locks_of_session(owner.session));
        let units = self.units.entry(place).or_insert_with(|| vec![Unit::new(); UNITS]);
        for unit in &mut units[units_of(range)] {
            match to {
                Some(kind) => unit.insert(owner, kind),
                None => unit.remove(&owner),
            };
        }
        let LockLimits { locks_of_file, locks_of_session, .. } = self.limits;
        let file_now = self.locks_of_file(place.0);
        let session_now = self.locks_of_session(owner.session);
        let refusal = if file_now > of_file && file_now > locks_of_file {
            LockRefusal::TooMany { what: LockLimit::LocksOfFile, limit: locks_of_file }
        } else if session_now > of_session && session_now > locks_of_session {
            LockRefusal::TooMany { what: LockLimit::LocksOfClient, limit: locks_of_session }
        } else {
            return Ok(());
        };
        self.units = before;
        Err(refusal)
    }

    fn locks_of_file(&self, file: Ino) -> usize {
        self.runs((file, LockFamily::File)).len() + self.runs((file, LockFamily::Bytes)).len()
    }

    fn locks_of_session(&self, session: Session) -> usize {
        let runs = self.units.keys().flat_map(|place| self.runs(*place));
        runs.filter(|(owner, ..)| owner.session == session).count()
    }

    fn drop_locks(&mut self, which: impl Fn(Place, Owner) -> bool) {
        for (place, units) in &mut self.units {
            for unit in units {
                unit.retain(|owner, _| !which(*place, *owner));
            }
        }
    }

    fn call_back(&mut self, answers: &mut Vec<Answer>, which: impl Fn(&Wanted) -> bool) {
        let gone: Vec<Wanted> = self.waiting.extract_if(.., |wanted| which(wanted)).collect();
        let outcome = Err(LockRefusal::Cancelled);
        answers.extend(gone.iter().map(|gone| Answer { session: gone.session, id: gone.id, outcome }));
    }

    /// Always the oldest that can be granted, file by file.
    fn grant_all(&mut self, answers: &mut Vec<Answer>) {
        let oldest = |reference: &Reference| {
            let waiting = reference.waiting.iter().enumerate();
            let free = waiting.filter(|(_, wanted)| reference.blockers(wanted).is_empty());
            free.min_by_key(|(at, wanted)| (wanted.place(), *at)).map(|(at, _)| at)
        };
        while let Some(at) = oldest(self) {
            let wanted = self.waiting.remove(at);
            let outcome = self.grant(&wanted);
            answers.push(Answer { session: wanted.session, id: wanted.id, outcome });
        }
    }

    fn blockers(&self, wanted: &Wanted) -> BTreeSet<Owner> {
        let Some(units) = self.units.get(&wanted.place()) else { return BTreeSet::new() };
        let units = &units[units_of(wanted.request.scope.range())];
        let holders = units.iter().flatten();
        let others = holders
            .filter(|(owner, kind)| **owner != wanted.owner() && kind.conflicts_with(wanted.request.kind));
        others.map(|(owner, _)| *owner).collect()
    }

    fn closes_circle(&self, wanted: &Wanted) -> bool {
        if matches!(wanted.request.scope, LockScope::File) {
            return false;
        }
        let bytes = self.waiting.iter().filter(|other| other.place().1 == LockFamily::Bytes);
        let mut pairs: BTreeSet<(Owner, Owner)> = bytes
            .chain([wanted])
            .flat_map(|one| self.blockers(one).into_iter().map(|other| (one.owner(), other)))
            .collect();
        loop {
            let longer: BTreeSet<(Owner, Owner)> = pairs
                .iter()
                .flat_map(|(one, middle)| {
                    let on = pairs.iter().filter(move |(from, _)| from == middle);
                    on.map(|(_, other)| (*one, *other))
                })
                .collect();
            let known = pairs.len();
            pairs.extend(longer);
            if pairs.len() == known {
                break;
            }
        }
        self.blockers(wanted)
            .iter()
            .any(|next| *next == wanted.owner() || pairs.contains(&(*next, wanted.owner())))
    }
}
