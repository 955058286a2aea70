//! Lines cut into words that know where they stand.

use crate::diagnostic::Place;

/// A word of a physical line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    line: usize,
    physical: &'a [u8],
    start: usize,
    /// The word itself, never empty.
    pub bytes: &'a [u8],
}

impl<'a> Word<'a> {
    /// A part of a physical line; `line` counts from 1.
    pub fn new(line: usize, physical: &'a [u8], start: usize, end: usize) -> Word<'a> {
        Word { line, physical, start, bytes: &physical[start..end] }
    }

    /// Where the byte at `offset` of the word stands. Counts the characters before it, so call it for findings only.
    pub fn place(&self, offset: usize) -> Place {
        let before = &self.physical[..self.start + offset.min(self.bytes.len())];
        Place { line: self.line, column: String::from_utf8_lossy(before).chars().count() + 1 }
    }

    /// Where it begins.
    pub fn start(&self) -> Place {
        self.place(0)
    }
}

/// Blanks between words. The line end has been taken off.
pub(crate) fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// The words of a physical line from byte `from` on.
pub(crate) fn words(line: usize, physical: &[u8], from: usize) -> impl Iterator<Item = Word<'_>> {
    let mut at = from;
    std::iter::from_fn(move || {
        let start = at + physical[at..].iter().position(|byte| !is_blank(*byte))?;
        let length = physical[start..].iter().position(|byte| is_blank(*byte));
        at = length.map_or(physical.len(), |length| start + length);
        Some(Word::new(line, physical, start, at))
    })
}
