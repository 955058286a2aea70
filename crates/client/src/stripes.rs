//! Reading, writing and allocating the content of a striped file.
//!
//! Each function is called inside the file's gate. Nothing is allocated on the way of a read or write.
//!
//! Pieces are written in the order of the file, one after the other: when space runs out, what was written is a prefix
//! and nothing lies behind it.

use crate::file::Striped;
use forebay_model::layout::{Piece, Substripe};
use forebay_wire::{FsError, Result, SeekWhat, Share, Span};
use std::ops::Range;

fn span(piece: &Piece) -> Span {
    Span {
        substripe: piece.substripe.index,
        offset: piece.local,
        at: piece.at as usize,
        len: piece.len as usize,
    }
}

impl Striped {
    fn share(&self, substripe: Substripe) -> Result<&dyn Share> {
        let share = self.shares.get(substripe.slot as usize);
        share.map(|share| &**share).ok_or(FsError::Damaged { what: "a layout names a missing fragment" })
    }

    /// Fills the buffer from `offset`; the range is within the file.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        for piece in self.layout.pieces(offset..offset + buffer.len() as u64) {
            self.share(piece.substripe)?.read(&[span(&piece)], buffer)?;
        }
        Ok(())
    }

    /// Writes all, or a prefix when space runs out; an error means that nothing was written.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<usize> {
        let mut total = 0;
        for piece in self.layout.pieces(offset..offset + data.len() as u64) {
            let written = self.share(piece.substripe).and_then(|share| share.write(&[span(&piece)], data));
            match written {
                Ok(written) => total += written,
                Err(error) if total == 0 => return Err(error),
                Err(_) => break,
            }
            if written.is_ok_and(|written| written < piece.len as usize) {
                break;
            }
        }
        Ok(total)
    }

    /// The parts of a range of the file, one for each substripe file that has some of it.
    fn parts(&self, range: Range<u64>) -> impl Iterator<Item = (Substripe, Range<u64>)> {
        let layout = self.layout;
        layout
            .all_substripes()
            .map(move |substripe| (substripe, layout.share_range(substripe, range.clone())))
            .filter(|(_, part)| part.start < part.end)
    }

    /// Allocates a range. On failure the substripe files are as long as a file of `size` needs them.
    pub(crate) fn allocate(&self, range: Range<u64>, keep_size: bool, size: u64) -> Result<()> {
        for (substripe, part) in self.parts(range) {
            let done =
                self.share(substripe).and_then(|share| share.allocate(substripe.index, part, keep_size));
            if let Err(error) = done {
                self.cut(size)?;
                return Err(error);
            }
        }
        Ok(())
    }

    fn cut(&self, size: u64) -> Result<()> {
        for substripe in self.layout.all_substripes() {
            let length = self.layout.share_len(substripe, size);
            self.share(substripe)?.cut(substripe.index, length)?;
        }
        Ok(())
    }

    /// Gives a range back; it reads as zeros.
    pub(crate) fn punch(&self, range: Range<u64>) -> Result<()> {
        for (substripe, part) in self.parts(range) {
            self.share(substripe)?.punch(substripe.index, part)?;
        }
        Ok(())
    }

    /// The first stored or not stored byte at or after `offset` of a file of `size` bytes; `None` if no data follows.
    ///
    /// Within a substripe file order is kept, so the first one of the file is the first of the substripe files' first
    /// ones.
    pub(crate) fn seek(&self, offset: u64, size: u64, what: SeekWhat) -> Result<Option<u64>> {
        let mut first = None;
        for (substripe, part) in self.parts(offset..size) {
            let found = self.share(substripe)?.seek(substripe.index, part.start, what)?;
            let within = found.filter(|local| *local < part.end);
            let found = within.and_then(|local| self.layout.offset_of(substripe, local));
            first = first.into_iter().chain(found).min();
        }
        Ok(match what {
            SeekWhat::Data => first,
            SeekWhat::Hole => Some(first.unwrap_or(size)),
        })
    }

    /// What was written is on disk afterwards.
    pub(crate) fn sync(&self, data_only: bool) -> Result<()> {
        self.shares.iter().try_for_each(|share| share.sync(data_only))
    }
}
