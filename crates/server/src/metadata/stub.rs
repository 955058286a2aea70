//! An open regular file: the stub's descriptor and what is only known while it is open.
//!
//! Times of a striped file's reads and writes are the stub's: a write sets them, a read reads the stub so that the local
//! file system marks it by its own rules. Both at most once in a tick of the system's clock, which is all that local
//! file systems resolve, unless somebody looked at the times since.
//!
//! Order of events of a write to a striped file, and what a crash after each leaves:
//! 1. data goes to the substripe files: the walk after a crash makes the file as long as it reaches;
//! 2. the stub grows to the new end, if the file grows;
//! 3. the times are set, unless they were in this tick: a write in place can have the times of the one before.
//!
//! A write to an inline file is one write of the local file system.
//!
//! Order of events of a sync of a striped file: the substripe files and the stub, in any order, since neither is promised before
//! both are on disk (a stub alone is a file without content, or with the old one); and the stub only when it has something
//! to say that they do not: where the content is, if it is new, a length that was set, owner, mode, times and attributes
//! that were changed. A length that grew by a write, and its times, need no sync of the stub: after a crash
//! the data says the length ([`crate::recover`]). A cut is marked in both, so a sync after a cut brings both parts
//! to the disk; after a crash before that the file is as it was before the cut, or reads as zeros where parts of it were
//! cut. Whether servers of the content still have it is asked by [`super::cuts`].
//!
//! When the last holder drops a stub whose file has no name, its content goes: first from the meter's view, then from the
//! disk. A crash before leaves substripe files without a stub, which the walk removes; an inline one goes with the
//! process.

use super::Tree;
use super::annotation::Annotation;
use super::cuts::Cuts;
use super::live::Live;
use super::loan::Lent;
use crate::content::{Accounting, Content, counted};
use crate::deeds::{Deed, Reservation};
use crate::host::host;
use forebay_wire::{FallocateMode, FsError, Ino, Loan, Placement, Result, SeekWhat, Sharing, Spread, Stub};
use rustix::fs::{Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::any::Any;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

const NANOS: u64 = 1_000_000_000;
/// First value of a deed that is an append to the file of a number; where it begins and how long it is follow.
pub(crate) const APPEND: u64 = 2;
/// No tick: nothing was marked yet.
const NEVER: u64 = 0;

/// See the module.
pub(crate) struct LocalStub {
    tree: Arc<Tree>,
    ino: Ino,
    fd: Arc<OwnedFd>,
    annotation: RwLock<Annotation>,
    accounting: Accounting,
    /// Length of a striped file in bytes.
    pub(super) size: AtomicU64,
    pub(super) growing: Mutex<Lent>,
    /// End of what was reserved for writes that append, in bytes; of no meaning when the length is larger.
    reserved: AtomicU64,
    /// Where the same is written down for the next process, once somebody asked for it.
    pub(super) reservation: OnceLock<Option<Reservation>>,
    /// Ticks of the system's clock in which a write and a read were last marked, in nanoseconds since the epoch.
    marked_write: AtomicU64,
    marked_read: AtomicU64,
    /// The set-user-id or set-group-id bit may be set.
    privileged_bits: AtomicBool,
    /// The stub may hold something that is not on disk and that its substripe files do not say.
    unsynced: AtomicBool,
    /// What was cut since the last sync.
    pub(super) cuts: Cuts,
    /// Held by who syncs: what he has taken from the two above may not be on the disk before he is done, and who syncs at the same time
    /// must not be told before. No other lock is held when it is asked for.
    syncing: Mutex<()>,
    /// The file has no name any more.
    nameless: AtomicBool,
    /// What is only known of a file of a shared tree.
    pub(super) live: Mutex<Live>,
    /// Its content is within the first stripe, as far as anybody said or found who may write it.
    pub(super) is_narrow: AtomicBool,
    /// Keeps those who write inline content and those who cut it apart, where nobody above does.
    gate: RwLock<()>,
}

impl LocalStub {
    pub(super) fn new(
        tree: Arc<Tree>,
        fd: OwnedFd,
        stat: &Stat,
        annotation: Annotation,
        accounting: Accounting,
    ) -> Arc<LocalStub> {
        Arc::new(LocalStub {
            ino: tree.number(stat.st_ino),
            tree,
            fd: Arc::new(fd),
            size: AtomicU64::new(stat.st_size as u64),
            accounting,
            growing: Mutex::default(),
            reserved: AtomicU64::new(0),
            reservation: OnceLock::new(),
            marked_write: AtomicU64::new(NEVER),
            marked_read: AtomicU64::new(NEVER),
            privileged_bits: AtomicBool::new(has_privileged_bits(stat.st_mode, &annotation)),
            // What was done before it was opened is not known.
            unsynced: AtomicBool::new(true),
            cuts: Cuts::default(),
            syncing: Mutex::default(),
            nameless: AtomicBool::new(stat.st_nlink == 0),
            annotation: RwLock::new(annotation),
            live: Mutex::default(),
            is_narrow: AtomicBool::new(false),
            gate: RwLock::new(()),
        })
    }

    /// The same of a file that was just made.
    pub(super) fn of_new(
        tree: Arc<Tree>,
        fd: OwnedFd,
        stat: &Stat,
        annotation: Annotation,
    ) -> Arc<LocalStub> {
        let mut stub = LocalStub::new(tree, fd, stat, annotation, Accounting::of_empty());
        if let Some(stub) = Arc::get_mut(&mut stub) {
            stub.live = Mutex::new(Live::of_empty());
        }
        stub
    }

    pub(super) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(super) fn number(&self) -> Ino {
        self.ino
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(super) fn annotation(&self) -> Annotation {
        *self.annotation.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stub says something else from now on, or its mode is another.
    pub(super) fn changed(&self, mode: u32, annotation: Annotation) {
        self.privileged_bits.store(has_privileged_bits(mode, &annotation), Relaxed);
        *self.annotation.write().unwrap_or_else(PoisonError::into_inner) = annotation;
        self.touched();
    }

    /// The stub itself was changed in a way that its substripe files do not say: the next sync has to cover it.
    pub(super) fn touched(&self) {
        self.unsynced.store(true, SeqCst);
    }

    /// The last name went.
    pub(super) fn lost_its_name(&self) {
        self.nameless.store(true, SeqCst);
    }

    /// The file has no name any more.
    pub(super) fn is_nameless(&self) -> bool {
        self.nameless.load(SeqCst)
    }

    /// Passes the gate of inline content together with others, where there is a need.
    fn together(&self) -> Option<RwLockReadGuard<'_, ()>> {
        (self.tree.sharing == Sharing::Shared)
            .then(|| self.gate.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Passes it alone.
    fn alone(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        (self.tree.sharing == Sharing::Shared)
            .then(|| self.gate.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// The turn of one who syncs.
    pub(super) fn syncing(&self) -> MutexGuard<'_, ()> {
        self.syncing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stub alone.
    fn sync_itself(&self, data_only: bool) -> Result<()> {
        // Before the sync: what is changed during it may not be covered.
        if !self.unsynced.swap(false, SeqCst) && !self.is_inline() {
            return self.tree.fragment().writable();
        }
        // Attributes that are changed must not be lost by a later sync for having been left out by this one.
        let data_only = data_only && self.is_inline();
        let done = if data_only { rustix::fs::fdatasync(&self.fd) } else { rustix::fs::fsync(&self.fd) };
        let synced = self.tree.fragment().synced(done);
        if synced.is_err() {
            self.touched();
        }
        synced
    }

    /// Sets the length of an inline file.
    pub(super) fn set_inline_length(&self, length: u64) -> Result<()> {
        let _alone = self.alone();
        self.content().set_length(length)
    }

    /// The content of an inline file.
    fn content(&self) -> Content<'_> {
        let fragment = self.tree.fragment();
        Content { fd: self.fd.as_fd(), accounting: &self.accounting, fragment }
    }

    fn is_inline(&self) -> bool {
        self.annotation.read().unwrap_or_else(PoisonError::into_inner).striped.is_none()
    }

    fn inline(&self) -> Result<Content<'_>> {
        if self.is_inline() { Ok(self.content()) } else { Err(FsError::InvalidArgument) }
    }

    /// Sets the length in the stub of a striped file. Its substripe files are cut already.
    pub(super) fn set_striped_length(&self, length: u64) -> Result<()> {
        let lent = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        LocalStub::set_lent_length(&lent, length)?;
        rustix::fs::ftruncate(&self.fd, length).map_err(host("set the length of a stub"))?;
        self.size.store(length, SeqCst);
        self.set_reserved(0);
        self.touched();
        self.was_cut();
        self.was_looked_at();
        Ok(())
    }

    /// Somebody looked at the times, or set them: the next read or write marks them, however soon it comes.
    pub(super) fn was_looked_at(&self) {
        self.marked_write.store(NEVER, Relaxed);
        self.marked_read.store(NEVER, Relaxed);
    }

    /// Length of the file, of which the stub has caught up with what is lent.
    fn size_now(&self) -> Result<u64> {
        match (self.is_inline(), self.tree.sharing) {
            (false, Sharing::Sole) => Ok(self.size.load(SeqCst)),
            (false, Sharing::Shared) => self.shared_size(),
            (true, _) => Ok(self.stat()?.st_size as u64),
        }
    }

    /// What is written down of the file, if anything is, here or by an earlier process.
    pub(super) fn kept(&self) -> Option<&Reservation> {
        let known = || self.tree.reservations.get().and_then(|all| all.known(self.ino));
        if self.reservation.get().is_none()
            && let Some(known) = known()
        {
            // Of an earlier life. If somebody else was faster, his is the same, and holds it.
            if let Err(Some(other)) = self.reservation.set(Some(known)) {
                other.closed();
            }
        }
        self.reservation.get().and_then(Option::as_ref)
    }

    /// The next append begins here, or at the end of the file if that is beyond.
    fn set_reserved(&self, end: u64) {
        self.reserved.store(end, SeqCst);
        if let Some(kept) = self.kept() {
            kept.set_end(end);
        }
    }

    /// Reserves the next bytes at the end, and notes which those are: who asks again is given the same.
    pub(super) fn reserve_noted(&self, length: u64, deed: &Deed<'_>) -> Result<u64> {
        let mut lent = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        self.catch_up_with(&mut lent)?;
        let reservations = self.tree.reservations.get();
        let kept = self.reservation.get_or_init(|| reservations.and_then(|all| all.of(self.ino)));
        let reserved = kept.as_ref().map_or_else(|| self.reserved.load(SeqCst), Reservation::end);
        let start = self.size_now()?.max(reserved);
        self.set_reserved(start.checked_add(length).ok_or(FsError::FileTooLarge)?);
        deed.done([start, 0, 0, 0]);
        Ok(start)
    }

    /// Gives up the rest of what was reserved. It is noted before it is done: who asks again because the process was killed in between
    /// must not give up what another one has reserved since; so this leaves a hole.
    pub(super) fn give_up_noted(&self, rest: Range<u64>, deed: &Deed<'_>) {
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        deed.done([0; 4]);
        let reserved = self.kept().map_or_else(|| self.reserved.load(SeqCst), Reservation::end);
        if reserved == rest.end && rest.start < rest.end {
            self.set_reserved(rest.start);
        }
    }

    /// Appends; `begun`: at a place that it had in an earlier life. What is written is noted under the lock that gives
    /// appends their places: the next process knows which place this one has.
    pub(super) fn append_noted(
        &self,
        data: &[u8],
        begun: Option<u64>,
        deed: &Deed<'_>,
    ) -> Result<(u64, usize)> {
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let _together = self.together();
        self.tree.fragment().writable()?;
        let at = begun.map_or_else(|| self.size_now(), Ok)?;
        self.tree.note_length(at.saturating_add(data.len() as u64));
        deed.begin([APPEND, self.ino.0, at, data.len() as u64]);
        let written = self.inline().and_then(|content| content.write(at, data));
        match written {
            Ok(written) => deed.done([at, written as u64, 0, 0]),
            Err(_) => deed.failed(),
        }
        Ok((at, written?))
    }

    /// The current tick, if `marked` is of an earlier one.
    fn tick_to_mark(&self, marked: &AtomicU64) -> Option<u64> {
        let tick = clock_gettime(ClockId::RealtimeCoarse);
        let tick = tick.tv_sec as u64 * NANOS + tick.tv_nsec as u64;
        (marked.load(Relaxed) != tick).then_some(tick)
    }

    /// Removes the content of a file without a name. Nobody else holds the stub.
    fn purge(&self) {
        if self.tree.leaves_unlinked() {
            return self.tree.left_unlinked(self.ino);
        }
        self.tree.forget_unlinked(self.ino);
        match self.annotation().striped {
            Some((file, layout)) => self.tree.purge(file, layout, self.size.load(SeqCst)),
            None if self.tree.fragment().meter.counts() => {
                let held = self.accounting.held();
                let held = held.or_else(|| rustix::fs::fstat(&self.fd).ok().map(|stat| counted(&stat)));
                self.tree.fragment().meter.settle(held.unwrap_or(0), 0, 0);
            }
            None => {}
        }
    }
}

fn has_privileged_bits(mode: u32, annotation: &Annotation) -> bool {
    annotation.mode.unwrap_or(mode) & 0o6000 != 0
}

impl Stub for LocalStub {
    fn placement(&self) -> Placement {
        self.annotation().placement()
    }

    fn known_size(&self) -> Option<u64> {
        let is_known = self.tree.sharing == Sharing::Sole && !self.is_inline();
        (is_known && self.catch_up().is_ok()).then(|| self.size.load(SeqCst))
    }

    fn size(&self) -> Result<u64> {
        self.catch_up()?;
        self.size_now()
    }

    fn reserve(&self, length: u64) -> Result<u64> {
        self.reserve_noted(length, &Deed::UNNOTED)
    }

    fn give_up(&self, rest: Range<u64>) -> Result<()> {
        self.give_up_noted(rest, &Deed::UNNOTED);
        Ok(())
    }

    fn append(&self, data: &[u8]) -> Result<(u64, usize)> {
        self.append_noted(data, None, &Deed::UNNOTED)
    }

    fn undisturbed(&self, during: &mut dyn FnMut()) {
        if self.tree.sharing == Sharing::Sole {
            during();
        }
    }

    fn was_read(&self) -> Result<()> {
        let Some(tick) = self.tick_to_mark(&self.marked_read) else { return Ok(()) };
        // Reading the stub lets the local file system mark the access time by its own rules, and nothing else.
        rustix::io::pread(&self.fd, &mut [0; 1], 0).map_err(host("mark a read"))?;
        self.marked_read.store(tick, Relaxed);
        Ok(())
    }

    fn was_written(&self, end: u64) -> Result<()> {
        if self.tree.sharing == Sharing::Shared {
            // The substripe files say it.
            return Ok(());
        }
        if end > self.size.load(SeqCst) {
            let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
            if end > self.size.load(SeqCst) {
                self.tree.note_length(end);
                rustix::fs::ftruncate(&self.fd, end).map_err(host("grow a stub"))?;
                self.size.store(end, SeqCst);
            }
        }
        self.was_changed()
    }

    fn was_changed(&self) -> Result<()> {
        let Some(tick) = self.tick_to_mark(&self.marked_write) else { return Ok(()) };
        self.marked_write.store(tick, Relaxed);
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        };
        rustix::fs::futimens(&self.fd, &times).map_err(host("mark a write"))?;
        // The next read comes after this.
        self.marked_read.store(NEVER, Relaxed);
        Ok(())
    }

    fn was_too_long(&self, end: u64) {
        self.tree.note_length(end);
    }

    fn drop_suid_sgid(&self) -> Result<()> {
        if !self.privileged_bits.load(Relaxed) {
            return Ok(());
        }
        self.tree.drop_suid_sgid(self.ino)
    }

    fn will_change(&self, end: u64) -> Result<()> {
        if self.placement().is_spread(end) {
            self.is_narrow.store(false, SeqCst);
        }
        Ok(())
    }

    fn sync(&self, data_only: bool) -> Result<Spread> {
        let _turn = self.syncing();
        let cuts = self.sync_cuts();
        self.sync_itself(data_only).and(cuts)?;
        Ok(self.spread())
    }

    fn backing(&self) -> Option<Arc<OwnedFd>> {
        let unlimited = !self.tree.limits_length();
        let uncounted = !self.tree.fragment().counts_writes();
        (unlimited && uncounted && self.is_inline()).then(|| self.fd.clone())
    }

    fn lend(&self) -> Result<Option<Box<dyn Loan>>> {
        self.lend_content()
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.inline()?.read(offset, buffer)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<usize> {
        let _together = self.together();
        self.tree.fragment().writable()?;
        self.tree.note_length(offset.saturating_add(data.len() as u64));
        self.inline()?.write(offset, data)
    }

    fn fallocate(&self, offset: u64, length: u64, mode: FallocateMode) -> Result<()> {
        let _alone = self.alone();
        self.tree.fragment().writable()?;
        self.inline()?.fallocate(offset, length, mode)
    }

    fn seek(&self, offset: u64, what: SeekWhat) -> Result<Option<u64>> {
        self.inline()?.seek(offset, what)
    }

    fn copy_to(&self, offset: u64, to: &dyn Stub, to_offset: u64, length: u64) -> Result<Option<u64>> {
        let Some(to) = to.as_any().downcast_ref::<LocalStub>() else { return Ok(None) };
        let _together = to.together();
        to.tree.fragment().writable()?;
        let (from, content) = (self.inline()?, to.inline()?);
        let end = to_offset.checked_add(length).ok_or(FsError::FileTooLarge)?;
        let copy = || {
            let (mut read_at, mut write_at) = (offset, to_offset);
            let most = usize::try_from(length).unwrap_or(usize::MAX);
            match rustix::fs::copy_file_range(
                from.fd,
                Some(&mut read_at),
                content.fd,
                Some(&mut write_at),
                most,
            ) {
                Ok(copied) => Ok(Some(copied as u64)),
                Err(Errno::XDEV | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(None),
                Err(errno) => Err(host("copy a range")(errno)),
            }
        };
        to.tree.note_length(end);
        to.tree.fragment().writing(length, || {
            let copied = content.claimed(length, end, copy);
            (copied, copied.ok().flatten().unwrap_or(0))
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for LocalStub {
    fn drop(&mut self) {
        let mut open = self.tree.open_stubs();
        if open.get(&self.ino).is_some_and(|stub| stub.strong_count() == 0) {
            open.remove(&self.ino);
        }
        drop(open);
        // Also one of an earlier life that nobody asked for in this.
        let known = || self.tree.reservations.get().and_then(|all| all.known(self.ino));
        let reservation = self.reservation.take().flatten().or_else(known);
        // When the process ends it stays held, so that nobody here frees it: the next one will need it.
        if let Some(reservation) = reservation.filter(|_| !self.tree.leaves_unlinked()) {
            reservation.closed();
        }
        if self.nameless.load(SeqCst) {
            self.purge();
        }
    }
}

#[cfg(test)]
mod tests;
