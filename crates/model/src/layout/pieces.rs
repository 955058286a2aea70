//! A range of a file as pieces, each of them contiguous in one substripe file.

use super::{Layout, Substripe};
use std::ops::Range;

/// One piece of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// The substripe file.
    pub substripe: Substripe,
    /// Offset in the substripe file.
    pub local: u64,
    /// Offset in the buffer that holds the range.
    pub at: u64,
    /// Length in bytes, never 0.
    pub len: u64,
}

/// Iterator over the pieces of a range, in the order of the file. Does not allocate.
#[derive(Clone, Debug)]
pub struct Pieces {
    layout: Layout,
    start: u64,
    next: u64,
    end: u64,
}

impl Pieces {
    pub(super) fn new(layout: Layout, range: Range<u64>) -> Pieces {
        Pieces { layout, start: range.start, next: range.start, end: range.end }
    }
}

impl Iterator for Pieces {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.next >= self.end {
            return None;
        }
        let within = self.next % self.layout.stripe_size;
        let mut len = (self.layout.stripe_size - within).min(self.end - self.next);
        if self.layout.is_whole() {
            len = self.end - self.next;
        }
        let (substripe, local) = self.layout.place(self.next);
        let piece = Piece { substripe, local, at: self.next - self.start, len };
        self.next += len;
        Some(piece)
    }
}
