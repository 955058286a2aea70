//! The locks of all owners on one file in one family.
//!
//! Exclusive locks never overlap those of others, so they stand in one ordered map, and the ranks of a job that each
//! lock a range of their own do not look at each other's. Only owners that have shared locks are looked at one by one.
//!
//! Invariants: `exclusive` holds exactly the exclusive locks of `owners`; `sharers` are exactly the owners with a shared
//! lock; no owner is kept without a lock.

use super::ranges::{Change, Held, Ranges};
use super::{Owner, Session};
use forebay_wire::{LockKind, LockOwner, LockRange};
use std::collections::{BTreeMap, BTreeSet};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct FileLocks {
    owners: BTreeMap<Owner, Ranges>,
    exclusive: BTreeMap<u64, (LockRange, Owner)>,
    sharers: BTreeSet<Owner>,
    count: usize,
}

impl FileLocks {
    /// Locks of all owners.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// The owners of one client that hold locks.
    pub(super) fn owners_of(&self, session: Session) -> Vec<Owner> {
        let named = |owner| Owner { session, owner: LockOwner(owner) };
        self.owners.range(named(0)..=named(u64::MAX)).map(|(owner, _)| *owner).collect()
    }

    /// The owners whose locks are in the way of a lock, each as often as it has such locks.
    pub(super) fn in_the_way(
        &self,
        owner: Owner,
        kind: LockKind,
        range: LockRange,
    ) -> impl Iterator<Item = (Owner, Held)> + '_ {
        let before = self.exclusive.range(..range.start()).next_back();
        let inside = self.exclusive.range(range.start()..=range.last());
        let exclusive = before.into_iter().chain(inside).map(|(_, entry)| *entry);
        let exclusive = exclusive.filter(move |(held, other)| held.overlaps(range) && *other != owner);
        let exclusive = exclusive.filter_map(|(held, other)| {
            let held = self.owners.get(&other)?.within(held).next()?;
            Some((other, held))
        });
        let sharers =
            self.sharers.iter().filter(move |other| kind == LockKind::Exclusive && **other != owner);
        let shared = sharers.flat_map(move |other| {
            let locks = self.owners.get(other).into_iter().flat_map(move |ranges| ranges.within(range));
            locks.filter(|held| held.kind == LockKind::Shared).map(|held| (*other, held))
        });
        exclusive.chain(shared)
    }

    /// What has to change for an owner to have a range locked this way, or not at all.
    pub(super) fn change(&self, owner: Owner, range: LockRange, to: Option<(LockKind, u32)>) -> Change {
        match self.owners.get(&owner) {
            Some(ranges) => ranges.change(range, to),
            None => Ranges::default().change(range, to),
        }
    }

    /// Carries a change out.
    pub(super) fn make(&mut self, owner: Owner, change: &Change) {
        let ranges = self.owners.entry(owner).or_default();
        self.count -= ranges.len();
        ranges.make(change);
        self.count += ranges.len();
        let (has_shared, is_empty) = (ranges.has_shared(), ranges.len() == 0);
        if has_shared {
            self.sharers.insert(owner);
        } else {
            self.sharers.remove(&owner);
        }
        if is_empty {
            self.owners.remove(&owner);
        }
        let exclusive = |held: &&Held| held.kind == LockKind::Exclusive;
        for held in change.removed.iter().filter(exclusive) {
            self.exclusive.remove(&held.range.start());
        }
        for held in change.added.iter().filter(exclusive) {
            self.exclusive.insert(held.range.start(), (held.range, owner));
        }
    }

    /// Every lock with its owner.
    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = (Owner, Held)> + '_ {
        self.owners.iter().flat_map(|(owner, ranges)| ranges.all().map(|held| (*owner, held)))
    }

    /// Panics unless the invariants of the module hold.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let of_kind = |kind| self.all().filter(move |(_, held)| held.kind == kind);
        let exclusive =
            of_kind(LockKind::Exclusive).map(|(owner, held)| (held.range.start(), (held.range, owner)));
        assert_eq!(self.exclusive, exclusive.collect());
        assert_eq!(self.sharers, of_kind(LockKind::Shared).map(|(owner, _)| owner).collect());
        assert_eq!(self.count, self.all().count());
        assert!(self.owners.values().all(|ranges| ranges.len() > 0));
    }
}
