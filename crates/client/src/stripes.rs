//! Reading, writing and allocating the content of a striped file.
//!
//! Each function is called inside the file's gate. Nothing is allocated on the way of a read or write.
//!
//! Pieces are written in the order of the file, one after the other: when space runs out, what was written is a prefix
//! and nothing lies behind it.

use crate::file::Striped;
use forebay_model::layout::{Piece, Substripe};
use forebay_wire::{EndOfSync, FallocateMode, FsError, Result, SeekWhat, Share, Span, Spread, Stub, Window};
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

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

    /// Fills the buffer from `offset`. `true` when all of it lies within the substripe files, so within the file.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<bool> {
        let mut is_whole = true;
        for piece in self.layout.pieces(offset..offset + buffer.len() as u64) {
            is_whole &= self.share(piece.substripe)?.read(&[span(&piece)], buffer)?;
        }
        Ok(is_whole)
    }

    /// Has a window take a range and hand it over. `false`: nothing was handed over, and the range is to be read.
    pub(crate) fn show(&self, range: Range<u64>, window: &mut dyn Window) -> bool {
        let Some(_showing) = self.turns.show() else { return false };
        let mut pieces = self.layout.pieces(range.clone());
        window.begin((range.end - range.start) as usize)
            && pieces
                .all(|piece| self.share(piece.substripe).is_ok_and(|share| share.show(&span(&piece), window)))
            && window.hand_over()
    }

    /// Writes all, or a prefix when space runs out; an error means that nothing was written.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<usize> {
        let _writing = self.turns.write();
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
        let range = range.start..range.end.max(range.start);
        layout
            .all_substripes()
            .map(move |substripe| (substripe, layout.share_range(substripe, range.clone())))
            .filter(|(_, part)| part.start < part.end)
    }

    /// `fallocate` of a file of `size` bytes, but for its length. On failure nothing reaches beyond `size`.
    ///
    /// A substripe file may always be as long as the file's length allows, so what lies within that is allocated with
    /// the substripe files' own lengths; only what lies beyond keeps them.
    ///
    /// Where others write the file too (`is_shared`) nothing can be cut off again: it may be theirs. Space is then had before
    /// the file gets longer, if the fragments give any beyond the end; those that count space do not, and a file that
    /// they have no space for may be longer afterwards, by zeros.
    pub(crate) fn fallocate(
        &self,
        range: Range<u64>,
        mode: FallocateMode,
        size: u64,
        is_shared: bool,
    ) -> Result<()> {
        let keep = FallocateMode::KEEP_SIZE;
        let what = FallocateMode(mode.0 & !keep.0);
        if !mode.contains(keep) && is_shared {
            match self.fallocate_parts(range.clone(), what.with(keep)) {
                Ok(()) | Err(FsError::Unsupported) => {}
                Err(error) => return Err(error),
            }
            return self.fallocate_parts(range, what);
        }
        if !mode.contains(keep) {
            let done = self.fallocate_parts(range, what);
            if done.is_err() {
                self.cut(size)?;
            }
            return done;
        }
        if what == FallocateMode::PUNCH_HOLE {
            return self.fallocate_parts(range, mode);
        }
        // Beyond the end first: a metered fragment refuses it.
        self.fallocate_parts(range.start.max(size)..range.end, mode)?;
        self.fallocate_parts(range.start..range.end.min(size), what)
    }

    fn fallocate_parts(&self, range: Range<u64>, mode: FallocateMode) -> Result<()> {
        for (substripe, part) in self.parts(range) {
            self.share(substripe)?.fallocate(substripe.index, part, mode)?;
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

    /// What was written, and what the stub says, is on disk afterwards. Other servers than that of the first stripe are asked
    /// when the stub says that they may have something, or did so before: then at once.
    pub(crate) fn sync(&self, stub: &dyn Stub, data_only: bool) -> Result<()> {
        let first = if self.is_spread.load(Relaxed) { self.shares.len() } else { 1 };
        let (first, others) = self.shares.split_at(first.min(self.shares.len()));
        let shares = first.iter().map(|share| Part::Share(&**share));
        let spread = Cell::new(Spread::Any);
        let parts: Vec<_> = shares.chain([Part::Stub(stub, &spread)]).collect();
        let done = sync(&parts, data_only);
        if spread.get() == Spread::First || others.is_empty() {
            return done;
        }
        self.is_spread.store(true, Relaxed);
        let others: Vec<_> = others.iter().map(|share| Part::Share(&**share)).collect();
        done.and(sync(&others, data_only))
    }
}

/// What a sync of a file has to reach.
#[derive(Clone, Copy)]
enum Part<'a> {
    Share(&'a dyn Share),
    /// And what it says.
    Stub(&'a dyn Stub, &'a Cell<Spread>),
}

impl<'a> Part<'a> {
    fn begin_sync(self, data_only: bool) -> Option<EndOfSync<'a>> {
        match self {
            Part::Share(share) => share.begin_sync(data_only),
            Part::Stub(stub, says) => {
                let end = stub.begin_sync(data_only)?;
                Some(Box::new(move || Some(end()?.map(|spread| says.set(spread)))))
            }
        }
    }

    fn sync(self, data_only: bool) -> Result<()> {
        match self {
            Part::Share(share) => share.sync(data_only),
            Part::Stub(stub, says) => stub.sync(data_only).map(|spread| says.set(spread)),
        }
    }
}

/// Syncs all parts. Those that can do it without this thread do so at the same time: none of them promises anything before all
/// are on disk, so their order is no matter. An error says that they may not be; it is that of the first part with one.
fn sync(parts: &[Part<'_>], data_only: bool) -> Result<()> {
    let begun: Vec<_> = parts.iter().map(|part| part.begin_sync(data_only)).collect();
    // What was begun is ended before anything else is asked: nobody holds a connection while he waits for another.
    let ended: Vec<_> = begun.into_iter().map(|begun| begun.and_then(|end| end())).collect();
    let mut done = Ok(());
    for (part, ended) in parts.iter().zip(ended) {
        done = done.and(ended.unwrap_or_else(|| part.sync(data_only)));
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// What a sync that is begun comes to; `None`: none is begun.
    type Outcome = Option<Option<Result<()>>>;

    struct Noted {
        name: usize,
        outcome: Outcome,
        notes: Arc<Mutex<Vec<(&'static str, usize)>>>,
    }

    impl Noted {
        fn note(&self, what: &'static str) {
            self.notes.lock().unwrap().push((what, self.name));
        }
    }

    impl Share for Noted {
        fn read(&self, _spans: &[Span], _buffer: &mut [u8]) -> Result<bool> {
            unreachable!("only synced")
        }

        fn write(&self, _spans: &[Span], _buffer: &[u8]) -> Result<usize> {
            unreachable!("only synced")
        }

        fn fallocate(&self, _substripe: u32, _range: Range<u64>, _mode: FallocateMode) -> Result<()> {
            unreachable!("only synced")
        }

        fn cut(&self, _substripe: u32, _length: u64) -> Result<()> {
            unreachable!("only synced")
        }

        fn seek(&self, _substripe: u32, _offset: u64, _what: SeekWhat) -> Result<Option<u64>> {
            unreachable!("only synced")
        }

        fn sync(&self, _data_only: bool) -> Result<()> {
            self.note("sync");
            Ok(())
        }

        fn begin_sync(&self, _data_only: bool) -> Option<EndOfSync<'_>> {
            let outcome = self.outcome?;
            self.note("begin");
            Some(Box::new(move || {
                self.note("end");
                outcome
            }))
        }
    }

    /// Syncs parts with these outcomes; returns what it said, and what was done in which order.
    fn synced(outcomes: &[Outcome]) -> (Result<()>, Vec<(&'static str, usize)>) {
        let notes = Arc::<Mutex<Vec<_>>>::default();
        let share = |(name, outcome): (usize, &Outcome)| {
            Arc::new(Noted { name, outcome: *outcome, notes: notes.clone() }) as Arc<dyn Share>
        };
        let shares: Vec<_> = outcomes.iter().enumerate().map(share).collect();
        let parts: Vec<_> = shares.iter().map(|share| Part::Share(&**share)).collect();
        let done = sync(&parts, true);
        let notes = notes.lock().unwrap().clone();
        (done, notes)
    }

    #[test]
    fn parts_are_synced_at_the_same_time_and_none_is_left_out() {
        let good = Some(Some(Ok(())));
        let (done, notes) = synced(&[good, None, Some(None), good]);
        assert_eq!(done, Ok(()));
        let begun = [("begin", 0), ("begin", 2), ("begin", 3)];
        let ended = [("end", 0), ("end", 2), ("end", 3)];
        let others = [("sync", 1), ("sync", 2)];
        assert_eq!(notes, [&begun[..], &ended, &others].concat());
    }

    #[test]
    fn what_fails_is_said_whatever_else_succeeds() {
        let good = Some(Some(Ok(())));
        let bad = |error| Some(Some(Err(error)));
        for outcomes in [[bad(FsError::NoSpace), good, None], [good, None, bad(FsError::NoSpace)]] {
            let (done, notes) = synced(&outcomes);
            assert_eq!(done, Err(FsError::NoSpace));
            assert_eq!(notes.iter().filter(|(what, _)| *what != "begin").count(), 3, "{notes:?}");
        }
        assert_eq!(synced(&[bad(FsError::Stale), bad(FsError::NoSpace)]).0, Err(FsError::Stale));
    }
}
