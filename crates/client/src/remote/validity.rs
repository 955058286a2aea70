//! For how long an answer may still be shown when it arrives.
//!
//! The server allows a time from when it answered. An answer that was on its way while the server announced a change of
//! the same object must not be shown again: whoever asks notes the moment before, and looks afterwards whether something
//! was announced since. Any thread.
//!
//! It is also noted until when names of a directory may be shown. A kernel forgets a name only when nobody changes the directory there, and
//! two that both change it would wait for each other: so one that shows none of its names any more is not asked to.

use forebay_wire::{Attr, Ino};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Objects share their notes with others; an announcement may take a little more away than it has to.
const SHARDS: usize = 1024;
/// What was answered is on its way to who shows it for no longer than this.
const ON_ITS_WAY: Duration = Duration::from_secs(1);

/// A moment before a question.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    announcements: u64,
    at: Instant,
}

/// See the module.
pub(crate) struct Validity {
    announcements: AtomicU64,
    /// Number of the last announcement about objects of each shard.
    last: Box<[AtomicU64]>,
    last_of_all: AtomicU64,
    /// Until when names of the directories of each shard may be shown, in milliseconds since the beginning.
    names_until: Box<[AtomicU64]>,
    beginning: Instant,
}

impl Moment {
    /// When it was.
    pub(crate) fn at(self) -> Instant {
        self.at
    }
}

impl Default for Validity {
    fn default() -> Validity {
        let zeros = || (0..SHARDS).map(|_| AtomicU64::new(0)).collect();
        Validity {
            announcements: AtomicU64::new(0),
            last: zeros(),
            last_of_all: AtomicU64::new(0),
            names_until: zeros(),
            beginning: Instant::now(),
        }
    }
}

impl Validity {
    pub(crate) fn now(&self) -> Moment {
        Moment { announcements: self.announcements.load(SeqCst), at: Instant::now() }
    }

    /// A change of an object, or of the names in it, is announced. Before whoever shows it is told.
    pub(crate) fn announced(&self, ino: Ino) {
        let number = self.announcements.fetch_add(1, SeqCst) + 1;
        self.last[ino.0 as usize % SHARDS].fetch_max(number, SeqCst);
    }

    /// Announcements may have been missed.
    pub(crate) fn all_announced(&self) {
        let number = self.announcements.fetch_add(1, SeqCst) + 1;
        self.last_of_all.fetch_max(number, SeqCst);
    }

    /// A change of an object, or of the names in it, was announced.
    pub(crate) fn was_announced(&self, ino: Ino, since: Moment) -> bool {
        let last = self.last[ino.0 as usize % SHARDS].load(SeqCst).max(self.last_of_all.load(SeqCst));
        last > since.announcements
    }

    /// The attributes as they may be shown: `parent` when they were asked for by a name in it.
    pub(crate) fn shown(&self, attr: Attr, parent: Option<Ino>, since: Moment) -> Attr {
        // Before it is looked whether a change was announced: who announces one looks in the opposite order.
        parent.filter(|_| attr.valid_ms > 0).inspect(|ino| self.names_are_shown(*ino, attr.valid_ms));
        let stale =
            self.was_announced(attr.ino, since) || parent.is_some_and(|ino| self.was_announced(ino, since));
        let passed = u32::try_from(since.at.elapsed().as_millis()).unwrap_or(u32::MAX);
        let valid_ms = if stale { 0 } else { attr.valid_ms.saturating_sub(passed) };
        Attr { valid_ms, ..attr }
    }

    fn milliseconds(&self) -> u64 {
        self.beginning.elapsed().as_millis() as u64
    }

    fn names_until(&self, directory: Ino) -> &AtomicU64 {
        &self.names_until[directory.0 as usize % SHARDS]
    }

    fn names_are_shown(&self, directory: Ino, valid_ms: u32) {
        let until = self.milliseconds() + u64::from(valid_ms) + ON_ITS_WAY.as_millis() as u64;
        self.names_until(directory).fetch_max(until, SeqCst);
    }

    /// Names are going to be moved between two directories, and are shown there as long as they might be before.
    pub(crate) fn names_move(&self, between: [Ino; 2]) {
        let [one, other] = between.map(|directory| self.names_until(directory));
        let until = one.load(SeqCst).max(other.load(SeqCst));
        one.fetch_max(until, SeqCst);
        other.fetch_max(until, SeqCst);
    }

    /// A name of this directory may be shown, now or by an answer that is under way.
    pub(crate) fn shows_names_of(&self, directory: Ino) -> bool {
        self.milliseconds() < self.names_until(directory).load(SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::samples::attr;

    #[test]
    fn an_answer_that_a_change_overtook_is_not_kept() {
        let validity = Validity::default();
        let before = validity.now();
        assert!(validity.shown(attr(5), Some(Ino(6)), before).valid_ms > 0);
        validity.announced(Ino(6));
        assert!(validity.shown(attr(5), None, before).valid_ms > 0, "another object");
        assert_eq!(validity.shown(attr(5), Some(Ino(6)), before).valid_ms, 0);
        let after = validity.now();
        assert!(validity.shown(attr(5), Some(Ino(6)), after).valid_ms > 0);
        validity.all_announced();
        assert_eq!(validity.shown(attr(5), None, after).valid_ms, 0);
    }

    #[test]
    fn time_that_passed_is_taken_off() {
        let validity = Validity::default();
        let moment = validity.now();
        let earlier = Moment { at: moment.at - std::time::Duration::from_secs(40), ..moment };
        assert!(validity.shown(attr(1), None, earlier).valid_ms <= 60_000);
    }

    #[test]
    fn names_are_shown_where_they_were_looked_up_and_where_they_were_moved() {
        let validity = Validity::default();
        let before = validity.now();
        validity.shown(attr(5), None, before);
        validity.shown(Attr { valid_ms: 0, ..attr(5) }, Some(Ino(6)), before);
        assert!(!validity.shows_names_of(Ino(6)), "none that may be shown");
        validity.announced(Ino(6));
        assert_eq!(validity.shown(attr(5), Some(Ino(6)), before).valid_ms, 0);
        assert!(validity.shows_names_of(Ino(6)), "it was on its way when the change was announced");
        assert!(!validity.shows_names_of(Ino(7)));
        validity.names_move([Ino(6), Ino(7)]);
        assert!(validity.shows_names_of(Ino(7)));
    }
}
