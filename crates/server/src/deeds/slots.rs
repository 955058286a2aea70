//! The last deed of each slot of a session.

use super::intent::{Intent, Now};
use super::page::Page;
use forebay_wire::message::{Once, SLOTS_MAX, SessionId};

/// What there is to know of a deed.
pub(crate) type Values = [u64; 4];

/// State, number and values.
const RECORD_WORDS: usize = 2 + size_of::<Values>() / size_of::<u64>();
/// Size of a session's file.
pub(super) const SESSION_BYTES: usize = Page::bytes_for(SLOTS_MAX as usize * RECORD_WORDS);

/// States of a slot; the kind of the request is above.
const EMPTY: u64 = 0;
const UNDERWAY: u64 = 1;
const DONE: u64 = 2;
const KIND_SHIFT: u32 = 8;

/// What is known of a request that is asked for again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Past {
    /// Nothing: neither that it was done nor that it was not.
    Unknown,
    /// It did not get so far that it changed anything.
    Never,
    /// It was begun, so.
    Begun(Values),
    /// It was done, and this came of it.
    Done(Values),
}

/// See the module.
pub(crate) struct SessionDeeds {
    session: SessionId,
    page: Page,
}

impl SessionDeeds {
    pub(super) fn new(session: SessionId, page: Page) -> SessionDeeds {
        SessionDeeds { session, page }
    }

    fn set(&self, slot: u16, state: u64, (kind, sequence): (u16, u64), values: Values) {
        let at = usize::from(slot) * RECORD_WORDS;
        self.page.set(at, EMPTY);
        self.page.set(at + 1, sequence);
        values.into_iter().enumerate().for_each(|(index, value)| self.page.set(at + 2 + index, value));
        self.page.set(at, state | u64::from(kind) << KIND_SHIFT);
    }

    fn get(&self, slot: u16) -> (u64, u16, u64, Values) {
        let at = usize::from(slot) * RECORD_WORDS;
        let word = self.page.word(at);
        let values = std::array::from_fn(|index| self.page.word(at + 2 + index));
        (word & ((1 << KIND_SHIFT) - 1), (word >> KIND_SHIFT) as u16, self.page.word(at + 1), values)
    }

    /// What is known of a request.
    pub(crate) fn past(&self, once: Once, kind: u16) -> Past {
        let (state, of_kind, sequence, values) = self.get(once.slot);
        match state {
            _ if !self.page.knows_past => Past::Unknown,
            DONE if (of_kind, sequence) == (kind, once.sequence) => Past::Done(values),
            UNDERWAY if (of_kind, sequence) == (kind, once.sequence) => Past::Begun(values),
            _ => Past::Never,
        }
    }

    pub(super) fn is_done(&self, slot: u16, sequence: u64) -> bool {
        let (state, _, number, _) = self.get(slot);
        state == DONE && number == sequence
    }

    pub(super) fn set_done(&self, slot: u16, sequence: u64, kind: u16, values: Values) {
        self.set(slot, DONE, (kind, sequence), values);
    }

    /// What was begun and is not known to be done: slot, kind and values.
    pub(crate) fn begun(&self) -> Vec<(u16, u16, Values)> {
        let of = |slot| {
            let (state, kind, _, values) = self.get(slot);
            (state == UNDERWAY).then_some((slot, kind, values))
        };
        (0..SLOTS_MAX).filter_map(of).collect()
    }

    /// What was begun in a slot came to nothing.
    pub(crate) fn forget(&self, slot: u16) {
        self.page.set(usize::from(slot) * RECORD_WORDS, EMPTY);
    }
}

#[derive(Clone, Copy)]
struct Noted<'a> {
    now: &'a Now,
    by: &'a SessionDeeds,
    slot: u16,
    sequence: u64,
    kind: u16,
}

/// One thing that is asked for, and where it is written down; or nowhere, when nobody can ask for it again.
#[derive(Clone, Copy)]
pub(crate) struct Deed<'a>(Option<Noted<'a>>);

impl<'a> Deed<'a> {
    /// Not written down.
    pub(crate) const UNNOTED: Deed<'static> = Deed(None);

    pub(super) fn of(now: &'a Now, by: &'a SessionDeeds, slot: u16, sequence: u64, kind: u16) -> Deed<'a> {
        Deed(Some(Noted { now, by, slot, sequence, kind }))
    }

    /// Somebody may ask for it again.
    pub(crate) fn is_noted(&self) -> bool {
        self.0.is_some()
    }

    /// It is going to be done in one step. The exclusive lock of the tree is held until what is returned is dropped.
    pub(crate) fn alone(&self, intent: Intent<'_>) -> Alone<'a> {
        if let Some(noted) = &self.0 {
            let intent = Intent { kind: noted.kind, ..intent };
            noted.now.write(&intent, noted.by.session, noted.slot, noted.sequence);
        }
        Alone { deed: *self }
    }

    /// It is begun, so. What was begun and is not done is begun again.
    pub(crate) fn begin(&self, values: Values) {
        if let Some(noted) = &self.0 {
            noted.by.set(noted.slot, UNDERWAY, (noted.kind, noted.sequence), values);
        }
    }

    /// What was begun came to nothing.
    pub(crate) fn failed(&self) {
        if let Some(noted) = &self.0 {
            noted.by.forget(noted.slot);
        }
    }

    /// It is done. Before anybody else can see it or change it again, where that is possible.
    pub(crate) fn done(&self, values: Values) {
        if let Some(noted) = &self.0 {
            noted.by.set(noted.slot, DONE, (noted.kind, noted.sequence), values);
        }
    }
}

/// Something is being done alone. Dropped without [`Alone::done`], it was not done.
pub(crate) struct Alone<'a> {
    deed: Deed<'a>,
}

impl Alone<'_> {
    /// It is done; what is to be known of it.
    pub(crate) fn done(self, values: Values) {
        self.deed.done(values);
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        if let Some(noted) = &self.deed.0 {
            noted.now.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: u16 = 0x0120;

    fn once(slot: u16, sequence: u64) -> Once {
        Once { slot, sequence }
    }

    #[test]
    fn the_next_life_knows_what_was_done_begun_and_never_begun() {
        let directory = tempfile::tempdir().unwrap();
        let open = || {
            let page = Page::open(&directory.path().join("session"), SESSION_BYTES, [1, 2]).unwrap();
            SessionDeeds::new(SessionId([1; 16]), page)
        };
        let first = open();
        assert_eq!(first.past(once(0, 1), KIND), Past::Unknown, "of a new file");
        first.set_done(0, 7, KIND, [1, 2, 3, 4]);
        first.set(SLOTS_MAX - 1, UNDERWAY, (KIND, 9), [5; 4]);
        let next = open();
        assert_eq!(next.past(once(0, 7), KIND), Past::Done([1, 2, 3, 4]));
        assert_eq!(next.past(once(0, 8), KIND), Past::Never);
        assert_eq!(next.past(once(0, 7), KIND + 1), Past::Never);
        assert_eq!(next.past(once(SLOTS_MAX - 1, 9), KIND), Past::Begun([5; 4]));
        assert_eq!(next.begun(), vec![(SLOTS_MAX - 1, KIND, [5; 4])]);
        next.forget(SLOTS_MAX - 1);
        assert_eq!(next.past(once(SLOTS_MAX - 1, 9), KIND), Past::Never);
    }
}
