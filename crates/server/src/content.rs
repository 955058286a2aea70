//! Reading, writing and allocating one local file that holds content: an inline stub or a substripe file.
//!
//! On a fragment of hard size these are the system calls and nothing else. On a metered fragment every operation that
//! can allocate is claimed before and settled after (see [`crate::meter`]).
//!
//! Invariants: `Accounting::counted` is what the meter holds for this file. A write below `Accounting::dense` cannot
//! allocate, so it costs no more than on a fragment of hard size: `dense` is only ever set to a length up to which
//! everything is allocated, and goes to 0 before anything is given back.
//!
//! Writers may run in parallel. Whoever punches, cuts or zeroes has the file for himself (the client's gate).

use crate::fragment::Fragment;
use crate::host::host;
use forebay_wire::{FallocateMode, FsError, Result, SeekWhat};
use rustix::fs::{FallocateFlags, SeekFrom, Stat};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

/// Unit in which use is counted, in bytes.
pub(crate) const BLOCK: u64 = 4096;
/// Blocks that a local file system may need for its own index of a file when it grows.
const INDEX_SLACK: u64 = 2 * BLOCK;

/// What the meter knows of one file.
#[derive(Debug, Default)]
pub(crate) struct Accounting {
    /// Bytes that the meter holds for this file; `None` until somebody looks.
    counted: Mutex<Option<u64>>,
    /// Up to here everything is allocated, in bytes.
    dense: AtomicU64,
}

/// A content file with its accounting.
#[derive(Clone, Copy)]
pub(crate) struct Content<'a> {
    pub(crate) fd: BorrowedFd<'a>,
    pub(crate) accounting: &'a Accounting,
    pub(crate) fragment: &'a Fragment,
}

/// What a file counts for: its allocated space, but no more than its length, both in whole blocks. Space that a local
/// file system allocated ahead of the end, in the hope of more writes, does not count.
pub(crate) fn counted(stat: &Stat) -> u64 {
    (stat.st_blocks as u64 * 512).min(round_up(stat.st_size as u64))
}

fn round_up(bytes: u64) -> u64 {
    bytes.saturating_add(BLOCK - 1) / BLOCK * BLOCK
}

fn round_down(bytes: u64) -> u64 {
    bytes / BLOCK * BLOCK
}

impl Accounting {
    fn lock(&self) -> MutexGuard<'_, Option<u64>> {
        self.counted.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Of a file that was just made.
    pub(crate) fn of_empty() -> Accounting {
        Accounting { counted: Mutex::new(Some(0)), dense: AtomicU64::new(0) }
    }

    /// What the meter holds for this file, if anybody looked.
    pub(crate) fn held(&self) -> Option<u64> {
        *self.lock()
    }
}

impl Content<'_> {
    /// Reads until the buffer is full or the file ends.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match rustix::io::pread(self.fd, &mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(host("read")(errno)),
            }
        }
        self.fragment.was_read(done as u64);
        Ok(done)
    }

    /// Writes all, or as much as there is space for; an error means that nothing was written. Nothing of a write is done
    /// that does not fit into the write window.
    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<usize> {
        self.fragment.writing(data.len() as u64, || {
            let written = self.write_metered(offset, data);
            (written, written.unwrap_or(0) as u64)
        })
    }

    fn write_metered(&self, offset: u64, data: &[u8]) -> Result<usize> {
        let end = offset + data.len() as u64;
        if !self.fragment.meter.counts() || end <= self.accounting.dense.load(Relaxed) {
            return self.write_uncounted(offset, data);
        }
        self.look()?;
        let most = round_up(end) - round_down(offset) + INDEX_SLACK;
        match self.fragment.meter.claim(most) {
            Some(claim) => {
                let written = self.write_uncounted(offset, data);
                self.settle(claim.bytes)?;
                written
            }
            None => self.write_near_the_limit(offset, data),
        }
    }

    fn write_uncounted(&self, offset: u64, data: &[u8]) -> Result<usize> {
        let mut done = 0;
        while done < data.len() {
            match rustix::io::pwrite(self.fd, &data[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(errno) if done == 0 => return Err(host("write")(errno)),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    fn write_near_the_limit(&self, offset: u64, data: &[u8]) -> Result<usize> {
        let _nobody_else = self.fragment.meter.exactly();
        let fits = self.fitting_prefix(offset, data.len() as u64, self.fragment.meter.room())? as usize;
        if fits == 0 {
            return Err(FsError::NoSpace);
        }
        let written = self.write_uncounted(offset, &data[..fits]);
        self.settle(0)?;
        written
    }

    /// How many of `length` bytes at `offset` can be written if at most `room` bytes may be allocated for them.
    fn fitting_prefix(&self, offset: u64, length: u64, room: u64) -> Result<u64> {
        let end = offset + length;
        let stat = rustix::fs::fstat(self.fd).map_err(host("stat of content"))?;
        let growth = round_up((stat.st_size as u64).max(end)) - counted(&stat);
        if growth <= room {
            return Ok(length);
        }
        let mut room = room;
        let mut at = round_down(offset);
        while at < end {
            let hole = self.next_hole(at, end)?;
            let needed = hole.end - hole.start;
            if needed > room {
                return Ok((hole.start + round_down(room)).saturating_sub(offset).min(length));
            }
            room -= needed;
            at = hole.end.max(at + BLOCK);
        }
        Ok(length)
    }

    /// The first run of whole blocks in `at..end` that are not stored; empty at the end when there is none.
    fn next_hole(&self, at: u64, end: u64) -> Result<std::ops::Range<u64>> {
        let end = round_up(end);
        let start = self.seek(at, SeekWhat::Hole)?.map_or(at, round_up).min(end);
        let data = self.seek(start, SeekWhat::Data)?.map_or(end, round_down);
        Ok(start..data.clamp(start, end))
    }

    /// Learns what the meter holds for this file.
    fn look(&self) -> Result<()> {
        let mut known = self.accounting.lock();
        if known.is_none() {
            let stat = rustix::fs::fstat(self.fd).map_err(host("stat of content"))?;
            *known = Some(counted(&stat));
        }
        Ok(())
    }

    /// Replaces a claim by what the file really uses.
    fn settle(&self, claimed: u64) -> Result<()> {
        let mut known = self.accounting.lock();
        let stat = match rustix::fs::fstat(self.fd) {
            Ok(stat) => stat,
            Err(errno) => {
                let held = known.unwrap_or(0);
                self.fragment.meter.settle(held, held, claimed);
                return Err(host("stat of content")(errno));
            }
        };
        let now = counted(&stat);
        self.fragment.meter.settle(known.unwrap_or(now), now, claimed);
        *known = Some(now);
        let length = round_up(stat.st_size as u64);
        self.accounting.dense.store(if now == length { length } else { 0 }, Relaxed);
        Ok(())
    }

    /// Runs an operation that gives space back or moves it, and settles.
    fn settled(&self, operation: impl FnOnce() -> Result<()>) -> Result<()> {
        if !self.fragment.meter.counts() {
            return operation();
        }
        self.look()?;
        self.accounting.dense.store(0, Relaxed);
        let done = operation();
        self.settle(0)?;
        done
    }

    /// Claims up to `most` bytes, or what the file can still grow by when its length becomes `end`, runs the
    /// operation and settles. All or nothing.
    pub(crate) fn claimed<T>(&self, most: u64, end: u64, operation: impl FnOnce() -> Result<T>) -> Result<T> {
        if !self.fragment.meter.counts() {
            return operation();
        }
        self.look()?;
        if let Some(claim) = self.fragment.meter.claim(most + INDEX_SLACK) {
            let done = operation();
            self.settle(claim.bytes)?;
            return done;
        }
        let _nobody_else = self.fragment.meter.exactly();
        let stat = rustix::fs::fstat(self.fd).map_err(host("stat of content"))?;
        let growth = round_up((stat.st_size as u64).max(end)) - counted(&stat);
        if growth.min(most) > self.fragment.meter.room() {
            return Err(FsError::NoSpace);
        }
        let done = operation();
        self.settle(0)?;
        done
    }

    /// `fallocate`, metered.
    pub(crate) fn fallocate(&self, offset: u64, length: u64, mode: FallocateMode) -> Result<()> {
        let flags = FallocateFlags::from_bits_retain(mode.0);
        let call = || loop {
            match rustix::fs::fallocate(self.fd, flags, offset, length) {
                Err(Errno::INTR) => {}
                done => return done.map_err(host("fallocate")),
            }
        };
        let gives_back = FallocateMode::PUNCH_HOLE.0 | FallocateMode::COLLAPSE_RANGE.0;
        if mode.0 & gives_back != 0 || mode.contains(FallocateMode::INSERT_RANGE) {
            return self.settled(call);
        }
        let end = offset.checked_add(length).ok_or(FsError::FileTooLarge)?;
        if self.fragment.meter.counts() && mode.contains(FallocateMode::KEEP_SIZE) {
            // Space beyond the end would not be counted, so it is not given.
            let stat = rustix::fs::fstat(self.fd).map_err(host("stat of content"))?;
            if end > round_up(stat.st_size as u64) {
                return Err(FsError::Unsupported);
            }
        }
        self.claimed(round_up(end) - round_down(offset), end, call)
    }

    /// Sets the length; nothing is allocated by it.
    pub(crate) fn set_length(&self, length: u64) -> Result<()> {
        self.settled(|| rustix::fs::ftruncate(self.fd, length).map_err(host("truncate")))
    }

    /// The first stored or not stored byte at or after an offset; `None` when nothing follows.
    pub(crate) fn seek(&self, offset: u64, what: SeekWhat) -> Result<Option<u64>> {
        let from = match what {
            SeekWhat::Data => SeekFrom::Data(offset),
            SeekWhat::Hole => SeekFrom::Hole(offset),
        };
        match rustix::fs::seek(self.fd, from) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO) => Ok(None),
            Err(errno) => Err(host("seek")(errno)),
        }
    }
}
