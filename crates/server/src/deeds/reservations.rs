//! What is reserved at the ends of striped files for appends that are under way, and where cuts of them are that are not synced.
//!
//! A client that was given a range writes it at the data services, whether or not the home lives: the next life must not give
//! the range to somebody else. And who syncs a file that an earlier life has cut has to be told if a server of its content has lost
//! that since. One entry for each file that is appended to or cut while it is open: its number, the end of what is reserved, and
//! which memories have the cut. It is freed with the last opening. When all entries are taken, what is beyond is forgotten with
//! the process, as the number of files that are appended to at a time has to have a limit.
//!
//! Order of events of a reservation: a free entry gets its end and then its number; one that has its number gets another
//! end; then it is answered. Of a cut: it is made; the entry gets the memories; then it is answered. Any thread may call.

use super::intent::INTENT_WORDS;
use super::page::Page;
use forebay_wire::Ino;
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Files, at most.
const ENTRIES: usize = 4096;
/// Words of each: a number, an end, the memories that have a cut.
const WORDS: usize = 3;
const END: usize = 1;
const CUT: usize = 2;
/// Words of all.
pub(super) const RESERVATION_WORDS: usize = WORDS * ENTRIES;

/// See the module.
pub(crate) struct Reservations {
    page: Arc<Page>,
    places: Mutex<Places>,
}

/// The entry of a file.
#[derive(Clone, Copy)]
struct Place {
    entry: usize,
    /// How many in this process have it.
    holders: usize,
    /// Who wrote it down may be claimed, and has a range that nobody in this process knows of.
    is_of_earlier_life: bool,
}

struct Places {
    of: HashMap<Ino, Place>,
    free: Vec<usize>,
    /// Files may be claimed that nobody in this process has open.
    is_awaiting: bool,
}

fn place(entry: usize) -> usize {
    INTENT_WORDS + WORDS * entry
}

impl Reservations {
    pub(super) fn load(page: Arc<Page>) -> Reservations {
        let mut places = Places { of: HashMap::new(), free: Vec::new(), is_awaiting: true };
        for entry in (0..ENTRIES).rev() {
            match page.word(place(entry)) {
                0 => places.free.push(entry),
                ino => {
                    let place = Place { entry, holders: 0, is_of_earlier_life: true };
                    places.of.insert(Ino(ino), place);
                }
            }
        }
        Reservations { page, places: Mutex::new(places) }
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry of a file that is open, if there is a place for one; with what was reserved before.
    pub(crate) fn of(self: &Arc<Self>, ino: Ino) -> Option<Reservation> {
        let mut places = self.places();
        let known = match places.of.get(&ino) {
            Some(known) => *known,
            None => {
                let entry = places.free.pop()?;
                self.page.set(place(entry) + END, 0);
                self.page.set(place(entry) + CUT, 0);
                self.page.set(place(entry), ino.0);
                Place { entry, holders: 0, is_of_earlier_life: false }
            }
        };
        places.of.insert(ino, Place { holders: known.holders + 1, ..known });
        Some(Reservation { all: self.clone(), ino, entry: known.entry })
    }

    /// The same if something was reserved before.
    pub(crate) fn known(self: &Arc<Self>, ino: Ino) -> Option<Reservation> {
        let is_known = self.places().of.contains_key(&ino);
        if is_known { self.of(ino) } else { None }
    }

    /// A file was cut before the start: what was reserved at its end is behind its end now.
    pub(crate) fn was_cut(&self, ino: Ino) {
        if let Some(known) = self.places().of.get(&ino) {
            self.page.set(place(known.entry) + END, 0);
        }
    }

    fn free(&self, places: &mut Places, ino: Ino, entry: usize) {
        self.page.set(place(entry), 0);
        places.of.remove(&ino);
        places.free.push(entry);
    }

    /// Those who had files open before the start have opened them again or never will.
    pub(crate) fn claims_are_over(&self, is_open: impl Fn(Ino) -> bool) {
        let mut places = self.places();
        places.is_awaiting = false;
        let unclaimed = places.of.iter().filter(|(ino, place)| place.holders == 0 && !is_open(**ino));
        let unclaimed: Vec<_> = unclaimed.map(|(ino, place)| (*ino, place.entry)).collect();
        unclaimed.into_iter().for_each(|(ino, entry)| self.free(&mut places, ino, entry));
    }
}

/// What is reserved at the end of a file that is open.
pub(crate) struct Reservation {
    all: Arc<Reservations>,
    ino: Ino,
    entry: usize,
}

impl Reservation {
    /// The end of it.
    pub(crate) fn end(&self) -> u64 {
        self.all.page.word(place(self.entry) + END)
    }

    /// Another end.
    pub(crate) fn set_end(&self, end: u64) {
        self.all.page.set(place(self.entry) + END, end);
    }

    /// Which memories have a cut of the file that is not synced; `None`: there is none.
    pub(crate) fn cut(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.all.page.word(place(self.entry) + CUT))
    }

    /// These have one now.
    pub(crate) fn set_cut(&self, memories: Option<NonZeroU64>) {
        self.all.page.set(place(self.entry) + CUT, memories.map_or(0, NonZeroU64::get));
    }

    /// The file is closed.
    pub(crate) fn closed(self) {
        let mut places = self.all.places();
        let Some(known) = places.of.get_mut(&self.ino) else { return };
        known.holders -= 1;
        let is_unused = known.holders == 0;
        // Whoever is awaited knows only of what an earlier life has reserved.
        let is_done = !known.is_of_earlier_life || !places.is_awaiting;
        if is_unused && is_done {
            self.all.free(&mut places, self.ino, self.entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::intent::NOW_BYTES;
    use super::*;
    use std::path::Path;

    fn load(directory: &Path) -> Arc<Reservations> {
        let page = Page::open(&directory.join("now"), NOW_BYTES, [1, 2]).unwrap();
        Arc::new(Reservations::load(Arc::new(page)))
    }

    #[test]
    fn what_is_reserved_is_known_in_the_next_life_until_claims_are_over() {
        let directory = tempfile::tempdir().unwrap();
        let load = || load(directory.path());
        let first = load();
        first.claims_are_over(|_| false);
        let of = |all: &Arc<Reservations>, ino| all.of(Ino(ino)).unwrap();
        of(&first, 7).set_end(100);
        let freed = of(&first, 8);
        freed.set_end(200);
        freed.closed();
        let next = load();
        assert!(next.known(Ino(8)).is_none());
        let claimed = next.known(Ino(7)).unwrap();
        assert_eq!(claimed.end(), 100);
        claimed.closed();
        assert_eq!(next.known(Ino(7)).unwrap().end(), 100, "somebody else may claim it");
        next.claims_are_over(|ino| ino == Ino(7));
        assert_eq!(next.known(Ino(7)).unwrap().end(), 100, "it is open");
        let last = load();
        last.claims_are_over(|_| false);
        assert!(last.known(Ino(7)).is_none());
    }

    #[test]
    fn a_cut_is_known_in_the_next_life_until_the_file_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        let load = || load(directory.path());
        let memories = NonZeroU64::new(5);
        let first = load();
        let cut = first.of(Ino(7)).unwrap();
        assert_eq!(cut.cut(), None);
        cut.set_cut(memories);
        assert_eq!(cut.end(), 0, "nothing is reserved by that");
        let next = load();
        let claimed = next.known(Ino(7)).unwrap();
        assert_eq!(claimed.cut(), memories);
        next.claims_are_over(|ino| ino == Ino(7));
        claimed.closed();
        assert!(next.known(Ino(7)).is_none());
        assert_eq!(
            next.of(Ino(7)).unwrap().cut(),
            None,
            "an entry that is used again says nothing of earlier ones"
        );
    }

    /// Else what is appended to it next would begin behind an append that had failed, and a hole.
    #[test]
    fn a_file_that_is_closed_while_others_are_awaited_has_nothing_reserved() {
        let directory = tempfile::tempdir().unwrap();
        let all = load(directory.path());
        let first = all.of(Ino(7)).unwrap();
        first.set_end(100);
        first.closed();
        assert!(all.known(Ino(7)).is_none());
        assert_eq!(all.of(Ino(7)).unwrap().end(), 0);
    }

    /// The last of those who were awaited may say goodbye while the server ends.
    #[test]
    fn what_is_left_to_the_next_life_is_not_freed_when_claims_are_over() {
        let directory = tempfile::tempdir().unwrap();
        let all = load(directory.path());
        let left = all.of(Ino(7)).unwrap();
        left.set_end(100);
        all.claims_are_over(|_| false);
        assert_eq!(load(directory.path()).known(Ino(7)).unwrap().end(), 100);
    }

    #[test]
    fn there_is_a_limit_and_places_are_used_again() {
        let directory = tempfile::tempdir().unwrap();
        let all = load(directory.path());
        all.claims_are_over(|_| false);
        let mut held: Vec<_> = (1..=ENTRIES as u64).map(|ino| all.of(Ino(ino)).unwrap()).collect();
        assert!(all.of(Ino(99_999)).is_none());
        held.pop().unwrap().closed();
        assert_eq!(all.of(Ino(99_999)).unwrap().end(), 0);
    }
}
