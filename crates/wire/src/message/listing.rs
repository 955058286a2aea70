//! Entries of a directory in what a frame carries: one after the other, without a count.

use super::codec::{DecodeError, Field, Name, Reader};
use crate::attr::{Attr, FileKind, Ino};

/// One entry, with its attributes where they were asked for and the name still stood for the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the object.
    pub ino: Ino,
    /// Its kind.
    pub kind: FileKind,
    /// Position after it.
    pub next_cookie: u64,
    /// The name.
    pub name: Name,
    /// Attributes, with a reference.
    pub attr: Option<Attr>,
}

impl Entry {
    /// Adds it to a listing, unless that became longer than `most`. The first one always fits.
    pub fn add_to(&self, listing: &mut Vec<u8>, most: usize) -> bool {
        let before = listing.len();
        self.ino.put(listing);
        self.kind.put(listing);
        self.next_cookie.put(listing);
        self.name.put(listing);
        self.attr.put(listing);
        let fits = before == 0 || listing.len() <= most;
        if !fits {
            listing.truncate(before);
        }
        fits
    }

    /// All entries of a listing.
    pub fn all(listing: &[u8]) -> Result<Vec<Entry>, DecodeError> {
        let mut from = Reader::new(listing);
        let mut entries = Vec::new();
        while !from.is_empty() {
            entries.push(Entry {
                ino: Ino::take(&mut from)?,
                kind: FileKind::take(&mut from)?,
                next_cookie: u64::take(&mut from)?,
                name: Name::take(&mut from)?,
                attr: Field::take(&mut from)?,
            });
        }
        Ok(entries)
    }
}
