//! How far a striped file reaches, where others write it without telling the tree: asked of the data services.
//!
//! In a shared tree a file is *live* while somebody has it open for writing: its length is the larger of the stub's and of
//! what its substripe files reach to, its time the newest of the stub's and of those substripe files that were changed since
//! the stub's was set. When the last writer closes, it is *settled*: the stub is given both, and answers alone from then on.
//! A file that could not be settled, because a data service was away or the servers were killed, is *unsettled* until
//! somebody looks at it. After a start, as long as clients of before are awaited, none becomes settled: they may write with
//! the rights that they had, and close the file, before they come.
//!
//! A file is *narrow* while nobody who has it open has said that he writes beyond its first stripe, and it is known that it had
//! nothing there before: then only the server of that stripe is asked. It is so when it is made, and at an opening when it was settled so
//! and all who wrote it had said what they did ([`super::places`]); never of what was there before a start. Who says that he
//! will write elsewhere counts as a writer until that is noted, and has written nothing elsewhere before.
//!
//! The order of events when a file is settled, and what a crash after each leaves: the stub's length, the stub's time. A
//! crash anywhere leaves the file unsettled, with the same answer.
//!
//! Lock order: the state of a file (in its open stub) is held while data services are asked, so nothing of the tree may be
//! held then.

use super::Tree;
use super::places::Slots;
use crate::recover::end_of;
use forebay_model::layout::{Layout, Substripe};
use forebay_wire::{DataService, Extent, FileId, FsError, Result, Spread, Timestamp};
use std::collections::HashSet;
use std::sync::Arc;

/// The substripe files of a file, server by server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// End of the last byte.
    pub(super) end: u64,
    /// Allocated space in units of 512 bytes.
    pub(super) blocks: u64,
    extents: Vec<(Substripe, Extent)>,
}

impl Reach {
    fn add(&mut self, layout: &Layout, substripe: Substripe, extent: Extent) {
        self.end = self.end.max(end_of(layout, substripe, extent.length));
        self.blocks += extent.blocks;
        if extent != Extent::default() {
            self.extents.push((substripe, extent));
        }
    }

    /// Positions of the file's ring of servers on which there is something of it.
    pub(super) fn slots(&self) -> Slots {
        self.extents.iter().fold(Slots::default(), |slots, (substripe, _)| slots.with(substripe.slot))
    }

    /// The newest time of those whose content was changed since an earlier look. Their space says nothing: the local file system gives
    /// some back that it had put aside, and finds places for what was written before.
    pub(super) fn changed_since(&self, before: &Reach) -> Option<Timestamp> {
        let content = |extent: &Extent| (extent.length, extent.mtime);
        let was_so = |substripe: &Substripe, extent: &Extent| {
            before
                .extents
                .iter()
                .any(|(earlier, one)| earlier == substripe && content(one) == content(extent))
        };
        let changed = self.extents.iter().filter(|(substripe, extent)| !was_so(substripe, extent));
        changed.map(|(_, extent)| extent.mtime).max()
    }

    /// The newest time, if it is after another.
    pub(super) fn changed_after(&self, time: Timestamp) -> Option<Timestamp> {
        self.extents.iter().map(|(_, extent)| extent.mtime).max().filter(|newest| *newest > time)
    }
}

/// Which striped files are unsettled though nobody has them open for writing.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    /// These are.
    some: HashSet<FileId>,
    /// And all below this id, since the tree was not closed cleanly,
    below: u64,
    /// (the same before every file was looked at)
    walked_below: u64,
    /// but these.
    settled: HashSet<FileId>,
    /// Clients that were there before the start may write, and close what they wrote, before they say that they are there:
    /// what a file says now is not the last word.
    awaits_claims: bool,
}

impl Unsettled {
    /// All files below an id are.
    pub(super) fn all_below(below: FileId) -> Unsettled {
        Unsettled { below: below.0, walked_below: below.0, ..Unsettled::default() }
    }

    pub(super) fn contains(&self, file: FileId) -> bool {
        self.some.contains(&file) || (file.0 < self.below && !self.settled.contains(&file))
    }

    pub(super) fn add(&mut self, file: FileId) {
        self.some.insert(file);
    }

    /// It was settled. That does not count while clients are awaited.
    pub(super) fn remove(&mut self, file: FileId) {
        if self.awaits_claims {
            return;
        }
        self.some.remove(&file);
        if file.0 < self.below {
            self.settled.insert(file);
        }
    }

    /// The file is gone.
    pub(super) fn gone(&mut self, file: FileId) {
        self.some.remove(&file);
    }

    /// Clients are awaited from now on. What was found before counts for nothing: they may write now.
    pub(super) fn await_claims(&mut self) {
        self.awaits_claims = true;
        (self.below, self.settled) = (self.walked_below, HashSet::new());
    }

    /// They have come, or lost what they had.
    pub(super) fn claims_are_over(&mut self) {
        self.awaits_claims = false;
    }

    /// They are awaited.
    pub(super) fn awaits_claims(&self) -> bool {
        self.awaits_claims
    }

    /// Every file was looked at: of those that a walk knew only these still are. `false`: that does not count, as clients are awaited
    /// since.
    pub(super) fn swept(&mut self, still: impl Iterator<Item = FileId>) -> bool {
        if self.awaits_claims {
            return false;
        }
        let still: Vec<FileId> = still.filter(|file| self.contains(*file)).collect();
        self.some.extend(still);
        (self.below, self.settled) = (0, HashSet::new());
        true
    }

    /// The record of a clean end would be right.
    pub(super) fn is_none(&self) -> bool {
        self.some.is_empty() && self.below == 0
    }
}

impl Tree {
    /// Asks every data service that may have something of a file; those on other machines at the same time.
    pub(super) fn reach(&self, file: FileId, layout: &Layout, spread: Spread) -> Result<Reach> {
        let substripes = layout.substripes();
        let count = if spread == Spread::First { 1 } else { layout.stripe_count() };
        let servers = (0..count).map(|slot| self.data_of(layout, slot)).collect::<Result<Vec<_>>>()?;
        let begun: Vec<_> = servers.iter().map(|server| server.begin_extents(file, substripes)).collect();
        // What was begun is ended before anything else is asked: nobody holds a connection while he waits for another.
        let ended: Vec<_> = begun.into_iter().map(|begun| begun.and_then(|end| end())).collect();
        let mut reach = Reach::default();
        for ((slot, server), ended) in (0..count).zip(servers).zip(ended) {
            let extents = ended.unwrap_or_else(|| server.extents(file, substripes))?;
            for (index, extent) in (0..substripes).zip(extents) {
                reach.add(layout, Substripe { slot, index }, extent);
            }
        }
        Ok(reach)
    }

    /// The data service at a place of a file's ring of servers.
    pub(super) fn data_of(&self, layout: &Layout, slot: u32) -> Result<&dyn DataService> {
        server_of(&self.data, layout, slot)
    }
}

/// The same of these servers.
pub(super) fn server_of<'a>(
    data: &'a [Arc<dyn DataService>],
    layout: &Layout,
    slot: u32,
) -> Result<&'a dyn DataService> {
    let server = data.get(layout.server(slot) as usize);
    server.map(|server| &**server).ok_or(FsError::Damaged { what: "a layout names a missing fragment" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(extents: &[(u32, Extent)]) -> Reach {
        let place = |slot| Substripe { slot, index: 0 };
        Reach {
            extents: extents.iter().map(|(slot, extent)| (place(*slot), *extent)).collect(),
            ..Reach::default()
        }
    }

    fn extent(length: u64, blocks: u64, secs: i64) -> Extent {
        Extent { length, blocks, mtime: Timestamp { secs, nanos: 0 } }
    }

    #[test]
    fn space_that_is_given_back_is_no_change_of_the_content() {
        let before = reach(&[(0, extent(100, 8, 5)), (1, extent(70, 128, 6))]);
        assert_eq!(before.changed_since(&before), None);
        assert_eq!(reach(&[(0, extent(100, 8, 5)), (1, extent(70, 8, 6))]).changed_since(&before), None);
        let time = |secs| Some(Timestamp { secs, nanos: 0 });
        assert_eq!(reach(&[(0, extent(100, 8, 7)), (1, extent(70, 8, 6))]).changed_since(&before), time(7));
        assert_eq!(reach(&[(0, extent(101, 8, 5)), (1, extent(70, 8, 6))]).changed_since(&before), time(5));
        assert_eq!(reach(&[(2, extent(1, 8, 9))]).changed_since(&before), time(9));
    }

    /// A sweep begins before the clients of before are known, and they write with the rights that they had.
    #[test]
    fn what_a_sweep_finds_before_clients_are_awaited_or_while_they_are_does_not_count() {
        let file = FileId(3);
        let mut before = Unsettled::all_below(FileId(10));
        assert!(before.swept(std::iter::empty()));
        before.await_claims();
        assert!(before.contains(file));
        let mut meanwhile = Unsettled::all_below(FileId(10));
        meanwhile.await_claims();
        assert!(!meanwhile.swept(std::iter::empty()));
        assert!(meanwhile.contains(file));
        meanwhile.claims_are_over();
        assert!(meanwhile.swept(std::iter::empty()));
        assert!(!meanwhile.contains(file) && meanwhile.is_none());
    }
}
