//! Copying regular files.
//!
//! A file up to [`LARGE_BYTES`] is copied by one worker. A larger one is opened once and its ranges are dealt to whoever is
//! free; the worker that finishes the last range finishes the file.
//!
//! Each piece is written, read back from the target right away and compared byte by byte with what was read from the source. What
//! is read back comes from the page cache most of the time: equality proves that the target file holds the right bytes at the
//! right offset as far as every reader of this machine can tell. It does not prove what the disk will return later; that is the
//! disk's own checksum's business.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use super::commit::Finished;
use super::entry::Entry;
use super::journal::Record;
use super::links::{Key, Turn};
use super::run::{Run, shown};
use super::{Buffer, PIECE_BYTES, attributes, changed, clone, special, taken, worker};
use crate::failure::{ItemFailure, Reason, Side};
use crate::request::Verify;
use crate::tree::{Cause, Metadata, ReadFile, TreeError, WriteFile};

/// Files above this are copied by several workers.
pub const LARGE_BYTES: u64 = 64 << 20;
/// Bytes of a large file one worker takes at once.
const RANGE_BYTES: u64 = 16 << 20;
/// Pause before a file that changed is started again, times the number of attempts.
const CHANGED_PAUSE: Duration = Duration::from_millis(50);

/// A file being copied.
pub struct Copying<'r> {
    entry: Entry,
    /// Set when other names of the same file wait for this one.
    key: Option<Key>,
    attempt: u32,
    before: Metadata,
    target_path: PathBuf,
    /// Where it is written: the temporary or, directly, the final name.
    temporary: PathBuf,
    source: Box<dyn ReadFile + 'r>,
    target: Box<dyn WriteFile + 'r>,
    /// The target shares the source's blocks: nothing to copy.
    cloned: bool,
    /// What this attempt has added to the progress.
    counted: AtomicU64,
}

/// A large file whose ranges are dealt out.
pub struct Large<'r> {
    copying: Copying<'r>,
    next: AtomicU64,
    /// Ranges not yet done, successfully or not.
    left: AtomicU64,
    spoiled: AtomicBool,
    trouble: Mutex<Option<Trouble>>,
    /// Held while it is synced early; whether that is over.
    is_written: Mutex<bool>,
}

/// Why an attempt ended.
enum Trouble {
    /// The source changed.
    Changed,
    /// The stage stops.
    Stopped,
    Failed(ItemFailure),
}

/// A regular file whose turn it is to be copied.
pub struct Due {
    pub entry: Entry,
    key: Option<Key>,
    /// Nobody has looked at it yet: whether it is its turn is known when it is open.
    is_unlooked: bool,
}

impl Due {
    /// A regular file that nobody has looked at, in a stage that has no finished files to find.
    pub fn unlooked(entry: Entry) -> Self {
        Self { entry, key: None, is_unlooked: true }
    }
}

/// Makes a regular file a hard link to its first name, or finds it complete; else it is due to be copied.
pub fn due(run: &Run<'_>, entry: Entry, found: &Metadata, buffer: &mut Buffer) -> Option<Due> {
    let mut key = None;
    if found.links > 1 && !entry.named {
        match run.links.arrive(found, &entry) {
            Turn::First(first) => key = Some(first),
            Turn::Wait => return None,
            Turn::Link(existing) => {
                special::hard_link(run, entry, &existing, buffer);
                return None;
            }
            Turn::Unknown => special::warn_link_copied(run, &entry),
        }
    }
    if is_complete(run, &entry, found) {
        run.account.files_skipped.add(1);
        run.account.bytes_skipped.add(found.size);
        run.account.bytes_done.add(found.size);
        in_place(run, &entry, key, buffer);
        return None;
    }
    Some(Due { entry, key, is_unlooked: false })
}

/// Copies files of one directory: all are opened, then all are made while the directory's gate is held, then each is copied.
/// Two workers that make files in one directory in turns, file by file, put each other to sleep for every file; this way
/// one makes while the other copies. Whatever becomes of one file, the next is tried.
pub fn batch<'r>(run: &Run<'r>, files: Vec<Due>, buffer: &mut Buffer) {
    let Some(dir) = files.first().map(|due| Arc::clone(&due.entry.dir)) else { return };
    if run.stopping() {
        return;
    }
    let mut sources = Vec::with_capacity(files.len());
    for due in files {
        sources.extend(open(run, due, buffer));
    }
    let made: Vec<_> = {
        let _gate = dir.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let make = |(source, due): (Result<Source<'r>, Trouble>, Due)| {
            (source.and_then(|source| Copying::make(run, &due.entry, due.key, 1, source)), due)
        };
        sources.into_iter().map(make).collect()
    };
    for (opened, due) in made {
        attempts(run, due.entry, due.key, 1, Some(opened), Share::Large, buffer);
    }
}

/// Opens a source. `None` when it turns out that there is nothing to copy.
fn open<'r>(run: &Run<'r>, file: Due, buffer: &mut Buffer) -> Option<(Result<Source<'r>, Trouble>, Due)> {
    let source = Source::open(run, &file.entry);
    if !file.is_unlooked {
        return Some((source, file));
    }
    run.account.entries_looked.add(1);
    let Ok(found) = source.as_ref().map(|source| source.before) else { return Some((source, file)) };
    run.account.bytes_found.add(found.size);
    due(run, file.entry, &found, buffer).map(|file| (source, file))
}

/// Copies a file as one of its own although it has other names.
pub fn separately(run: &Run<'_>, entry: Entry, buffer: &mut Buffer) {
    attempts(run, entry, None, 1, None, Share::Nothing, buffer);
}

/// Whether the journal knows the file as complete, and source and target still look as noted.
fn is_complete(run: &Run<'_>, entry: &Entry, found: &Metadata) -> bool {
    let Some(journal) = run.journal.as_ref().filter(|journal| !journal.is_empty()) else { return false };
    let target = entry.target();
    run.target().lstat(&target).is_ok_and(|there| journal.has(&Record::new(&target, found, &there)))
}

/// After the target is there: hard links that waited for it, the count of the directory.
pub fn in_place(run: &Run<'_>, entry: &Entry, key: Option<Key>, buffer: &mut Buffer) {
    if let Some(key) = key {
        let existing = entry.target();
        for waiting in run.links.complete(key, &existing) {
            special::hard_link(run, waiting, &existing, buffer);
        }
    }
    worker::leave(run, entry, None);
}

/// Copies a file once more whose temporary file was taken away ([`super::taken`]).
pub fn again(run: &Run<'_>, taken: Finished, buffer: &mut Buffer) {
    attempts(run, taken.entry, taken.key, taken.attempt + 1, None, Share::Nothing, buffer);
}

#[derive(Clone, Copy, PartialEq)]
enum Share {
    /// Ranges of a large file go to the queue.
    Large,
    /// Everything is done here: the workers may be gone.
    Nothing,
}

/// Tries until the file stays the same while it is copied. `opened` is what the first attempt has come to so far.
fn attempts<'r>(
    run: &Run<'r>,
    entry: Entry,
    key: Option<Key>,
    first: u32,
    mut opened: Option<Result<Copying<'r>, Trouble>>,
    share: Share,
    buffer: &mut Buffer,
) {
    let mut attempt = first;
    loop {
        let opened = opened.take().unwrap_or_else(|| Copying::open(run, &entry, key, attempt));
        let outcome = match opened.and_then(|copying| copying.sized(run)) {
            Ok(copying) if share == Share::Large && copying.is_shared() => {
                return run.queue.push_large(Arc::new(Large::new(copying)));
            }
            Ok(copying) => copying.whole(run, buffer),
            Err(trouble) => Err(trouble),
        };
        match outcome {
            Ok(finished) => return run.commit.add(run, finished, buffer),
            Err(Trouble::Stopped) => return,
            Err(Trouble::Failed(failure)) => return give_up(run, &entry, key, failure),
            Err(Trouble::Changed) if attempt > run.options.changed_retries_max => {
                return give_up(run, &entry, key, kept_changing(run, &entry, attempt));
            }
            Err(Trouble::Changed) => {
                run.account.changed_retries.add(1);
                run.pause(CHANGED_PAUSE * attempt);
                attempt += 1;
            }
        }
    }
}

fn kept_changing(run: &Run<'_>, entry: &Entry, attempts: u32) -> ItemFailure {
    ItemFailure { path: shown(run.source(), &entry.source()), reason: Reason::SourceChanged { attempts } }
}

/// The file failed, and so did the names that waited for it.
pub fn give_up(run: &Run<'_>, entry: &Entry, key: Option<Key>, failure: ItemFailure) {
    for waiting in key.map(|key| run.links.fail(key)).unwrap_or_default() {
        let path = shown(run.source(), &waiting.source());
        worker::leave(run, &waiting, Some(ItemFailure { path, reason: failure.reason.clone() }));
    }
    worker::leave(run, entry, Some(failure));
}

/// One range of a large file; the last one finishes the file.
pub fn range<'r>(run: &Run<'r>, file: &Arc<Large<'r>>, range: Range<u64>, buffer: &mut Buffer) {
    if !file.spoiled.load(Ordering::Acquire) {
        match file.copying.copy(run, range.clone(), buffer) {
            Ok(()) if run.commit.is_durable() => run.early.wrote(file, range.end - range.start),
            Ok(()) => {}
            Err(trouble) => file.spoil(trouble),
        }
    }
    if file.left.fetch_sub(1, Ordering::AcqRel) > 1 {
        return;
    }
    let copying = &file.copying;
    let outcome = match file.end() {
        None => copying.finish(run),
        Some(trouble) => Err(trouble),
    };
    match outcome.inspect_err(|_| copying.abandon(run)) {
        Ok(finished) => run.commit.add(run, finished, buffer),
        Err(Trouble::Stopped) => {}
        Err(Trouble::Failed(failure)) => give_up(run, &copying.entry, copying.key, failure),
        Err(Trouble::Changed) if copying.attempt > run.options.changed_retries_max => {
            give_up(run, &copying.entry, copying.key, kept_changing(run, &copying.entry, copying.attempt));
        }
        Err(Trouble::Changed) => {
            run.account.changed_retries.add(1);
            run.pause(CHANGED_PAUSE * copying.attempt);
            let (entry, attempt) = (copying.entry.clone(), copying.attempt + 1);
            attempts(run, entry, copying.key, attempt, None, Share::Large, buffer);
        }
    }
}

impl<'r> Large<'r> {
    fn new(copying: Copying<'r>) -> Self {
        let ranges = copying.before.size.div_ceil(RANGE_BYTES);
        Self {
            copying,
            next: AtomicU64::new(0),
            left: AtomicU64::new(ranges),
            spoiled: AtomicBool::new(false),
            trouble: Mutex::new(None),
            is_written: Mutex::new(false),
        }
    }

    /// The next range nobody has taken.
    pub fn next_range(&self) -> Option<Range<u64>> {
        let start = self.next.fetch_add(RANGE_BYTES, Ordering::Relaxed);
        let size = self.copying.before.size;
        (start < size).then(|| start..size.min(start + RANGE_BYTES))
    }

    fn spoil(&self, trouble: Trouble) {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(trouble);
        self.spoiled.store(true, Ordering::Release);
    }

    /// All ranges are done; what went wrong. From here on nobody syncs early: an error must not be met by one sync and missed by the
    /// one that counts.
    fn end(&self) -> Option<Trouble> {
        *self.is_written.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Syncs what is written so far.
    pub fn sync_early(&self, run: &Run<'r>) {
        let is_written = self.is_written.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_written && let Err(error) = self.copying.target.sync() {
            self.spoil(self.copying.target_trouble(run, error));
        }
    }

    /// For a stage that stops before all ranges were taken.
    pub fn abandon(&self, run: &Run<'r>) {
        self.copying.abandon(run);
    }
}

/// Makes the file to write, under its final name where nobody can mind, else under the temporary one.
fn create<'r>(
    run: &Run<'r>,
    entry: &Entry,
    target: &Path,
    mode: u32,
) -> Result<(PathBuf, Box<dyn WriteFile + 'r>), TreeError> {
    let tree = run.target();
    if run.writes_directly(&entry.dir) {
        match tree.create(target, mode) {
            // Two names of the source are one here (a file system that takes both cases for the same).
            Err(TreeError { cause: Cause::Exists, .. }) => {}
            other => return other.map(|file| (target.to_path_buf(), file)),
        }
    }
    let temporary = run.temporary(target);
    let file = taken::made_anew(run, &temporary, || tree.create(&temporary, mode))?;
    Ok((temporary, file))
}

/// A source file that is open, and what it was then.
struct Source<'r> {
    file: Box<dyn ReadFile + 'r>,
    before: Metadata,
}

impl<'r> Source<'r> {
    fn open(run: &Run<'r>, entry: &Entry) -> Result<Self, Trouble> {
        let path = entry.source();
        let trouble = |error| Trouble::Failed(run.source_failure(&path, error));
        let file = run.source().open(&path).map_err(|error| match error.cause {
            // It was a regular file when it was looked at.
            Cause::SymbolicLink | Cause::IsDirectory | Cause::Unsupported => Trouble::Changed,
            _ => trouble(error),
        })?;
        let before = file.metadata_at_open().map_err(trouble)?;
        Ok(Self { file, before })
    }
}

impl<'r> Copying<'r> {
    fn open(run: &Run<'r>, entry: &Entry, key: Option<Key>, attempt: u32) -> Result<Self, Trouble> {
        Self::make(run, entry, key, attempt, Source::open(run, entry)?)
    }

    /// Makes the target of an open source.
    fn make(
        run: &Run<'r>,
        entry: &Entry,
        key: Option<Key>,
        attempt: u32,
        Source { file: source, before }: Source<'r>,
    ) -> Result<Self, Trouble> {
        let target_path = entry.target();
        let (temporary, target) = create(run, entry, &target_path, attributes::first_mode(run, &before))
            .map_err(|error| Trouble::Failed(run.target_failure(&target_path, error, before.size)))?;
        Ok(Self {
            entry: entry.clone(),
            key,
            attempt,
            before,
            target_path,
            temporary,
            source,
            target,
            cloned: false,
            counted: AtomicU64::new(0),
        })
    }

    /// Clones where that is possible. Gives a file with holes, or one written by several, its size beforehand.
    fn sized(mut self, run: &Run<'r>) -> Result<Self, Trouble> {
        self.cloned =
            self.before.size > 0 && clone::whole(run, self.source.descriptor(), self.target.descriptor());
        if !self.cloned
            && (self.is_sparse() || self.before.size > LARGE_BYTES)
            && let Err(error) = self.target.set_len(self.before.size)
        {
            self.abandon(run);
            return Err(self.target_trouble(run, error));
        }
        Ok(self)
    }

    /// Whether several workers copy it.
    fn is_shared(&self) -> bool {
        !self.cloned && self.before.size > LARGE_BYTES
    }

    fn is_sparse(&self) -> bool {
        self.before.allocated < self.before.size
    }

    fn source_trouble(&self, run: &Run<'r>, error: TreeError) -> Trouble {
        Trouble::Failed(run.source_failure(&self.entry.source(), error))
    }

    fn target_trouble(&self, run: &Run<'r>, error: TreeError) -> Trouble {
        Trouble::Failed(run.target_failure(&self.target_path, error, self.before.size))
    }

    /// The whole file by this thread.
    fn whole(self, run: &Run<'r>, buffer: &mut Buffer) -> Result<Finished, Trouble> {
        let done = self.copy(run, 0..self.before.size, buffer).and_then(|()| self.finish(run));
        done.inspect_err(|_| self.abandon(run))
    }

    /// Removes our own temporary file. Errors do not matter: the next run replaces it.
    fn abandon(&self, run: &Run<'r>) {
        run.account.bytes_done.take_back(self.counted.swap(0, Ordering::Relaxed));
        let _ = run.target().unlink(&self.temporary);
    }

    fn copy(&self, run: &Run<'r>, range: Range<u64>, buffer: &mut Buffer) -> Result<(), Trouble> {
        if self.cloned {
            return Ok(());
        }
        let mut at = range.start;
        while at < range.end {
            let data = if self.is_sparse() {
                match self.source.next_data(at).map_err(|error| self.source_trouble(run, error))? {
                    Some(data) if data.start < range.end => data.start.max(at)..data.end.min(range.end),
                    _ => break,
                }
            } else {
                at..range.end
            };
            at = data.end;
            self.copy_data(run, data, buffer)?;
        }
        Ok(())
    }

    fn copy_data(&self, run: &Run<'r>, data: Range<u64>, buffer: &mut Buffer) -> Result<(), Trouble> {
        let mut offset = data.start;
        while offset < data.end {
            if run.stopping() {
                return Err(Trouble::Stopped);
            }
            let length = PIECE_BYTES.min(usize::try_from(data.end - offset).unwrap_or(PIECE_BYTES));
            self.copy_piece(run, offset, &mut buffer.piece[..length], &mut buffer.back)?;
            offset += length as u64;
        }
        Ok(())
    }

    fn copy_piece(
        &self,
        run: &Run<'r>,
        offset: u64,
        piece: &mut [u8],
        back: &mut [u8],
    ) -> Result<(), Trouble> {
        let length = piece.len() as u64;
        run.throttle.pay(run, length);
        let read = self.source.read_at(offset, piece).map_err(|error| self.source_trouble(run, error))?;
        if read < piece.len() {
            return Err(Trouble::Changed);
        }
        self.target.write_at(offset, piece).map_err(|error| self.target_trouble(run, error))?;
        if run.options.verify == Verify::Checksum {
            self.check_piece(run, offset, piece, back)?;
        }
        run.account.bytes_moved.add(length);
        run.account.bytes_done.add(length);
        self.counted.fetch_add(length, Ordering::Relaxed);
        Ok(())
    }

    /// Reads the piece back and compares it with what was read from the source.
    fn check_piece(&self, run: &Run<'r>, offset: u64, piece: &[u8], back: &mut [u8]) -> Result<(), Trouble> {
        let mut at = offset;
        for expected in piece.chunks(back.len()) {
            let found = &mut back[..expected.len()];
            let read = self.target.read_at(at, found).map_err(|error| self.target_trouble(run, error))?;
            if &found[..read] != expected {
                let path = shown(run.target(), &self.target_path);
                let [expected, found] = [expected, &found[..read]].map(xxh3_64);
                return Err(Trouble::Failed(ItemFailure {
                    path,
                    reason: Reason::ChecksumMismatch { expected, found },
                }));
            }
            at += expected.len() as u64;
        }
        Ok(())
    }

    /// All content is written: attributes, a last look at the source, the disk.
    fn finish(&self, run: &Run<'r>) -> Result<Finished, Trouble> {
        let target = |error| self.target_trouble(run, error);
        attributes::copy_xattrs(run, &self.entry, &*self.source, &*self.target).map_err(
            |(side, error)| {
                if side == Side::Source { self.source_trouble(run, error) } else { target(error) }
            },
        )?;
        let after = self.source.metadata().map_err(|error| self.source_trouble(run, error))?;
        if !changed::is_same(&self.before, &after) {
            return Err(Trouble::Changed);
        }
        let current = self.target.shape().map_err(target)?;
        if current.size != self.before.size {
            return Err(target(TreeError { operation: "check size", cause: Cause::Io }));
        }
        attributes::give(run, &self.entry, &self.before, &current, &|change| {
            self.target.set_metadata(change)
        })
        .map_err(target)?;
        if run.commit.syncs_each() {
            self.target.sync().map_err(target)?;
        }
        self.finished(run).map_err(target)
    }

    fn finished(&self, run: &Run<'r>) -> Result<Finished, TreeError> {
        let record = match run.remembers() {
            None => None,
            Some(_) => Some(Record::new(&self.target_path, &self.before, &self.target.metadata()?)),
        };
        let counted = self.counted.swap(0, Ordering::Relaxed);
        run.account.bytes_done.add(self.before.size.saturating_sub(counted));
        Ok(Finished {
            entry: self.entry.clone(),
            key: self.key,
            target: self.target_path.clone(),
            temporary: self.temporary.clone(),
            size: self.before.size,
            record,
            attempt: self.attempt,
        })
    }
}
