//! The locks of one owner on one file in one family: ranges that do not overlap.
//!
//! Ranges of the same kind that touch are one lock. A change is computed first ([`Ranges::change`]) and made afterwards
//! ([`Ranges::make`]), so that a limit can refuse it in between without leaving a trace.

use forebay_wire::{LockKind, LockRange};
use std::collections::BTreeMap;

/// One lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) range: LockRange,
    pub(super) kind: LockKind,
    /// The process that took it.
    pub(super) pid: u32,
}

impl Held {
    /// The same lock on other bytes; none if there are no bytes.
    fn cut(self, start: u64, last: Option<u64>) -> Option<Held> {
        LockRange::new(start, last?).map(|range| Held { range, ..self })
    }
}

/// What a change does to the locks of an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) removed: Vec<Held>,
    pub(super) added: Vec<Held>,
}

impl Change {
    /// By how many the locks become more.
    pub(super) fn growth(&self) -> usize {
        self.added.len().saturating_sub(self.removed.len())
    }

    /// After it somebody else may get what he could not get before.
    pub(super) fn gives_up(&self) -> bool {
        // Whatever is added covers what was removed if it is one lock, as strong as the strongest, over all of it.
        let [new] = self.added.as_slice() else { return !self.removed.is_empty() };
        !self.removed.iter().all(|old| {
            let covered = new.range.start() <= old.range.start() && old.range.last() <= new.range.last();
            covered && (new.kind == LockKind::Exclusive || old.kind == LockKind::Shared)
        })
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    by_start: BTreeMap<u64, Held>,
    exclusive: usize,
}

impl Ranges {
    pub(super) fn len(&self) -> usize {
        self.by_start.len()
    }

    /// Some of the locks can be shared.
    pub(super) fn has_shared(&self) -> bool {
        self.exclusive < self.by_start.len()
    }

    #[cfg(test)]
    pub(super) fn all(&self) -> impl Iterator<Item = Held> + '_ {
        self.by_start.values().copied()
    }

    /// The locks that have a byte in `range`, first byte first.
    pub(super) fn within(&self, range: LockRange) -> impl Iterator<Item = Held> + '_ {
        let before = self.by_start.range(..range.start()).next_back();
        let before = before.map(|(_, held)| *held).filter(|held| held.range.overlaps(range));
        before.into_iter().chain(self.by_start.range(range.start()..=range.last()).map(|(_, held)| *held))
    }

    /// What has to change for `range` to be locked this way, or not at all.
    pub(super) fn change(&self, range: LockRange, to: Option<(LockKind, u32)>) -> Change {
        let touching = LockRange::new(
            range.start().saturating_sub(1),
            range.last().saturating_add(1).min(LockRange::LAST_MAX),
        );
        let mut change = Change::default();
        let mut merged = range;
        for held in self.within(touching.unwrap_or(range)) {
            if to.is_some_and(|(kind, _)| kind == held.kind) {
                merged = around(merged, held.range);
                change.removed.push(held);
            } else if held.range.overlaps(range) {
                change.removed.push(held);
                change.added.extend(held.cut(held.range.start(), range.start().checked_sub(1)));
                change.added.extend(held.cut(range.last() + 1, Some(held.range.last())));
            }
        }
        change.added.extend(to.map(|(kind, pid)| Held { range: merged, kind, pid }));
        change
    }

    /// Carries a change out.
    pub(super) fn make(&mut self, change: &Change) {
        for held in &change.removed {
            self.by_start.remove(&held.range.start());
            self.exclusive -= usize::from(held.kind == LockKind::Exclusive);
        }
        for held in &change.added {
            self.by_start.insert(held.range.start(), *held);
            self.exclusive += usize::from(held.kind == LockKind::Exclusive);
        }
    }
}

/// The smallest range that has both.
fn around(one: LockRange, other: LockRange) -> LockRange {
    let (start, last) = (one.start().min(other.start()), one.last().max(other.last()));
    LockRange::new(start, last).unwrap_or(one)
}
