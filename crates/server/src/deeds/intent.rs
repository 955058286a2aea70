//! What is being done under the exclusive lock of a tree: at most one thing at a time.

use super::page::{Page, WORD};
use super::reservations::RESERVATION_WORDS;
use forebay_wire::Ino;
use forebay_wire::message::SessionId;
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

/// Longest name of an object or an attribute, in bytes.
const NAME_MAX: usize = 255;
const NAME_WORDS: usize = (NAME_MAX + 1) / WORD;
/// Words before the names: those of [`Now::write`].
const FIXED_WORDS: usize = 13;
const NAMES_AT: [usize; 2] = [FIXED_WORDS, FIXED_WORDS + NAME_WORDS];
/// Words of what is being done; the reservations come after.
pub(super) const INTENT_WORDS: usize = FIXED_WORDS + 2 * NAME_WORDS;
/// Size of the file.
pub(super) const NOW_BYTES: usize = Page::bytes_for(INTENT_WORDS + RESERVATION_WORDS);

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A new object under a name that nothing had.
    Make,
    /// Another name, that nothing had, of an object.
    Link,
    /// A name is removed.
    Remove,
    /// A name is moved, and may replace another.
    Rename,
    /// A name is exchanged with another.
    Exchange,
    /// An extended attribute is set; `other` is the digest of its value.
    SetAttribute,
    /// One that is there is removed.
    RemoveAttribute,
}

const ALL: [What; 7] = [
    What::Make,
    What::Link,
    What::Remove,
    What::Rename,
    What::Exchange,
    What::SetAttribute,
    What::RemoveAttribute,
];

/// What is going to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Intent<'a> {
    pub(crate) what: What,
    /// Which request it is; set by who writes it down.
    pub(crate) kind: u16,
    /// The object that the name stands for before.
    pub(crate) ino: Ino,
    /// The directory and the name in it; of an attribute its name.
    pub(crate) from: (Ino, Cow<'a, OsStr>),
    /// Where a name is moved.
    pub(crate) to: (Ino, Cow<'a, OsStr>),
    /// What stands there before (0: nothing), or a digest.
    pub(crate) other: u64,
}

impl<'a> Intent<'a> {
    /// Something that is done to the object of a name.
    pub(crate) fn of(what: What, ino: Ino, parent: Ino, name: &'a OsStr) -> Intent<'a> {
        let to = (Ino(0), Cow::Borrowed(OsStr::new("")));
        Intent { what, kind: 0, ino, from: (parent, Cow::Borrowed(name)), to, other: 0 }
    }

    /// A name that is moved.
    pub(crate) fn moving(
        what: What,
        ino: Ino,
        from: (Ino, &'a OsStr),
        to: (Ino, &'a OsStr),
        other: Option<Ino>,
    ) -> Intent<'a> {
        let other = other.map_or(0, |ino| ino.0);
        Intent { to: (to.0, Cow::Borrowed(to.1)), other, ..Intent::of(what, ino, from.0, from.1) }
    }
}

/// The place where it is written.
pub(super) struct Now(Arc<Page>);

impl Now {
    pub(super) fn new(page: Arc<Page>) -> Now {
        Now(page)
    }

    /// Writes it down; the first word says that the others are all there.
    pub(super) fn write(&self, intent: &Intent<'_>, session: SessionId, slot: u16, sequence: u64) {
        self.clear();
        let id = u128::from_be_bytes(session.0);
        let (name, to_name) = (intent.from.1.as_bytes(), intent.to.1.as_bytes());
        let words = [
            (id >> 64) as u64,
            id as u64,
            u64::from(slot),
            sequence,
            u64::from(intent.kind),
            intent.ino.0,
            intent.from.0.0,
            intent.to.0.0,
            intent.other,
            name.len() as u64,
            to_name.len() as u64,
        ];
        words.into_iter().enumerate().for_each(|(at, word)| self.0.set(1 + at, word));
        for (at, name) in NAMES_AT.into_iter().zip([name, to_name]) {
            self.write_name(at, name);
        }
        self.0.set(0, 1 + intent.what as u64);
    }

    fn write_name(&self, at: usize, name: &[u8]) {
        for (index, part) in name.chunks(WORD).take(NAME_WORDS).enumerate() {
            let mut word = [0; WORD];
            word[..part.len()].copy_from_slice(part);
            self.0.set(at + index, u64::from_le_bytes(word));
        }
    }

    fn read_name(&self, at: usize, length: u64) -> Option<OsString> {
        let length = usize::try_from(length).ok().filter(|length| *length <= NAME_MAX)?;
        let mut name: Vec<u8> = (at..at + NAME_WORDS).flat_map(|at| self.0.word(at).to_le_bytes()).collect();
        name.truncate(length);
        Some(OsString::from_vec(name))
    }

    /// What is written down, and who asked for it.
    pub(super) fn read(&self) -> Option<(Intent<'static>, SessionId, u16, u64)> {
        let tag = usize::try_from(self.0.word(0)).ok()?.checked_sub(1)?;
        let what = *ALL.get(tag)?;
        let word = |at: usize| self.0.word(1 + at);
        let session = (u128::from(word(0)) << 64 | u128::from(word(1))).to_be_bytes();
        let (name, to_name) = (self.read_name(NAMES_AT[0], word(9))?, self.read_name(NAMES_AT[1], word(10))?);
        let intent = Intent {
            what,
            kind: word(4) as u16,
            ino: Ino(word(5)),
            from: (Ino(word(6)), Cow::Owned(name)),
            to: (Ino(word(7)), Cow::Owned(to_name)),
            other: word(8),
        };
        Some((intent, SessionId(session), word(2) as u16, word(3)))
    }

    /// Nothing is being done.
    pub(super) fn clear(&self) {
        self.0.set(0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_down_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let page = Page::open(&directory.path().join("now"), NOW_BYTES, [1, 2]).unwrap();
        let now = Now::new(Arc::new(page));
        assert_eq!(now.read(), None);
        let (session, long) = (SessionId([0xa7; 16]), "n".repeat(NAME_MAX));
        for what in ALL {
            for name in ["a", "exactly8", long.as_str()] {
                let from = (Ino(5), OsStr::new(name));
                let to = (Ino(u64::MAX), OsStr::new("to"));
                let intent = Intent { kind: 0x10d, ..Intent::moving(what, Ino(7), from, to, Some(Ino(9))) };
                now.write(&intent, session, 63, 1 << 40);
                assert_eq!(now.read(), Some((intent, session, 63, 1 << 40)));
            }
        }
        now.clear();
        assert_eq!(now.read(), None);
    }
}
