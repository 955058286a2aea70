//! The server's word that others leave an object alone for a time.
//!
//! It is counted from the asking, since nobody here knows when the server answered, and ends early when a change is announced
//! ([`super::validity`]). Any thread.

use super::validity::{Moment, Validity};
use forebay_wire::Ino;
use std::time::{Duration, Instant};

/// See the module.
#[derive(Clone, Copy)]
pub(crate) struct Word {
    /// The moment before it was asked for.
    asked: Moment,
    until: Instant,
}

impl Word {
    /// Given for so long from the asking; `None`: not given.
    pub(crate) fn given(valid_ms: u32, asked: Moment) -> Option<Word> {
        let until = asked.at() + Duration::from_millis(valid_ms.into());
        (valid_ms > 0).then_some(Word { asked, until })
    }

    /// Its time is not over.
    pub(crate) fn lasts(&self) -> bool {
        Instant::now() < self.until
    }

    /// It lasts, and no change was announced since it was asked for.
    pub(crate) fn holds(&self, ino: Ino, validity: &Validity) -> bool {
        self.lasts() && !validity.was_announced(ino, self.asked)
    }

    /// Another one came while it did: it lasts as long as the one that lasts longer.
    pub(crate) fn extend(&mut self, other: Word) {
        self.until = self.until.max(other.until);
    }
}
