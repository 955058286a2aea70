//! An open regular file: the stub's descriptor and what is only known while it is open.
//!
//! Times of a striped file's reads and writes are kept in memory and stored when the file is closed, synced or its
//! attributes are set; whoever asks for attributes meanwhile is shown them.
//!
//! Order of events of a write to a striped file, and what a crash after each leaves:
//! 1. data goes to the substripe files: it lies beyond the length if the file grows, and the walk after a crash cuts it;
//! 2. the stub grows to the new end, if the file grows: the data is there;
//! 3. the times are stored, later: the data has the times of the stub's last growth.
//!
//! So the stub's length is right at every moment, also after the process was killed. A write to an inline file is one
//! write of the local file system.
//!
//! When the last holder drops a stub whose file has no name, its content goes: first from the meter's view, then from the
//! disk. A crash before leaves substripe files without a stub, which the walk removes; an inline one goes with the
//! process.

use super::Tree;
use super::annotation::Annotation;
use crate::content::{Accounting, Content, counted};
use crate::host::host;
use forebay_wire::{Attr, FallocateMode, FsError, Ino, Placement, Result, SeekWhat, Stub, Timestamp};
use rustix::fs::{Stat, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::any::Any;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Seconds after which a read is noted even if no write came in between, as the kernel's `relatime` does.
const READ_NOTED_AGAIN_S: i64 = 24 * 60 * 60;
const NANOS: u64 = 1_000_000_000;

/// See the module.
pub(crate) struct LocalStub {
    tree: Arc<Tree>,
    ino: Ino,
    fd: Arc<OwnedFd>,
    annotation: RwLock<Annotation>,
    accounting: Accounting,
    /// Length of a striped file in bytes.
    size: AtomicU64,
    growing: Mutex<()>,
    /// Last write and last read that are not stored, in nanoseconds since the epoch; 0 is none.
    written_at: AtomicU64,
    read_at: AtomicU64,
    /// The set-user-id or set-group-id bit may be set.
    privileged_bits: AtomicBool,
    /// The file has no name any more.
    nameless: AtomicBool,
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
            growing: Mutex::new(()),
            written_at: AtomicU64::new(0),
            read_at: AtomicU64::new(0),
            privileged_bits: AtomicBool::new(has_privileged_bits(stat.st_mode, &annotation)),
            nameless: AtomicBool::new(stat.st_nlink == 0),
            annotation: RwLock::new(annotation),
        })
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
    }

    /// The last name went.
    pub(super) fn lost_its_name(&self) {
        self.nameless.store(true, SeqCst);
    }

    /// The content of an inline file.
    pub(super) fn content(&self) -> Content<'_> {
        let meter = &self.tree.fragment().meter;
        Content { fd: self.fd.as_fd(), accounting: &self.accounting, meter }
    }

    fn is_inline(&self) -> bool {
        self.annotation.read().unwrap_or_else(PoisonError::into_inner).striped.is_none()
    }

    fn inline(&self) -> Result<Content<'_>> {
        if self.is_inline() { Ok(self.content()) } else { Err(FsError::InvalidArgument) }
    }

    /// Sets the length in the stub of a striped file. Its substripe files are cut already.
    pub(super) fn set_striped_length(&self, length: u64) -> Result<()> {
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        rustix::fs::ftruncate(&self.fd, length).map_err(host("set the length of a stub"))?;
        self.size.store(length, SeqCst);
        self.written_at.store(0, Relaxed);
        Ok(())
    }

    /// Puts the times that are not stored into attributes.
    pub(super) fn show_times(&self, attr: &mut Attr) {
        let (written, read) = (self.written_at.load(Relaxed), self.read_at.load(Relaxed));
        if written != 0 {
            attr.mtime = timestamp(written);
            attr.ctime = attr.ctime.max(attr.mtime);
        }
        if read != 0 && is_read_noted(attr.atime, attr.mtime.max(attr.ctime), timestamp(read)) {
            attr.atime = timestamp(read);
        }
    }

    fn times_to_store(&self, stat: &Stat, written: u64, read: u64) -> Option<Timestamps> {
        let time = |secs: i64, nanos: u64| Timestamp { secs, nanos: nanos as u32 };
        let atime = time(stat.st_atime, stat.st_atime_nsec);
        let stored = time(stat.st_mtime, stat.st_mtime_nsec).max(time(stat.st_ctime, stat.st_ctime_nsec));
        let changed = if written != 0 { timestamp(written) } else { stored };
        let noted = read != 0 && is_read_noted(atime, changed, timestamp(read));
        let omit = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let spec = |nanos: u64| Timespec { tv_sec: (nanos / NANOS) as i64, tv_nsec: (nanos % NANOS) as _ };
        (written != 0 || noted).then(|| Timestamps {
            last_access: if noted { spec(read) } else { omit },
            last_modification: if written != 0 { spec(written) } else { omit },
        })
    }

    /// Removes the content of a file without a name. Nobody else holds the stub.
    fn purge(&self) {
        match self.annotation().striped {
            Some((file, layout)) => self.tree.purge(file, layout),
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

fn now() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    // Zero means "none", so a clock before the epoch counts as one nanosecond after it.
    (now.tv_sec.max(0) as u64 * NANOS + now.tv_nsec as u64).max(1)
}

fn timestamp(nanos: u64) -> Timestamp {
    Timestamp { secs: (nanos / NANOS) as i64, nanos: (nanos % NANOS) as u32 }
}

/// The rule of `relatime`: a read is noted if it is the first since a change, or a day after the last one noted.
fn is_read_noted(atime: Timestamp, changed: Timestamp, read: Timestamp) -> bool {
    atime <= changed || read.secs - atime.secs >= READ_NOTED_AGAIN_S
}

impl Stub for LocalStub {
    fn placement(&self) -> Placement {
        self.annotation().placement()
    }

    fn size(&self) -> Result<u64> {
        if !self.is_inline() {
            return Ok(self.size.load(SeqCst));
        }
        let stat = rustix::fs::fstat(&self.fd).map_err(host("stat"))?;
        Ok(stat.st_size as u64)
    }

    fn was_read(&self) {
        // The first read that is not stored yet is as good as the last one: `relatime` would not note the others.
        if self.read_at.load(Relaxed) == 0 {
            self.read_at.store(now(), Relaxed);
        }
    }

    fn was_written(&self, end: u64) -> Result<()> {
        if end > self.size.load(SeqCst) {
            let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
            if end > self.size.load(SeqCst) {
                rustix::fs::ftruncate(&self.fd, end).map_err(host("grow a stub"))?;
                self.size.store(end, SeqCst);
            }
        }
        self.was_changed();
        Ok(())
    }

    fn was_changed(&self) {
        self.written_at.store(now(), Relaxed);
    }

    fn drop_suid_sgid(&self) -> Result<()> {
        if !self.privileged_bits.load(Relaxed) {
            return Ok(());
        }
        self.tree.drop_suid_sgid(self.ino)
    }

    fn store_times(&self) -> Result<()> {
        let (written, read) = (self.written_at.load(Relaxed), self.read_at.load(Relaxed));
        if written == 0 && read == 0 {
            return Ok(());
        }
        let stat = rustix::fs::fstat(&self.fd).map_err(host("stat"))?;
        let stored = match self.times_to_store(&stat, written, read) {
            Some(times) => rustix::fs::futimens(&self.fd, &times).map_err(host("store times")),
            None => Ok(()),
        };
        // A write that came in between stays to be stored.
        let _ = self.written_at.compare_exchange(written, 0, Relaxed, Relaxed);
        let _ = self.read_at.compare_exchange(read, 0, Relaxed, Relaxed);
        stored
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        if !data_only {
            self.store_times()?;
        }
        let done = if data_only { rustix::fs::fdatasync(&self.fd) } else { rustix::fs::fsync(&self.fd) };
        self.tree.fragment().synced(done)
    }

    fn backing(&self) -> Option<Arc<OwnedFd>> {
        let unlimited = self.tree.max_file_size == i64::MAX as u64;
        let uncounted = !self.tree.fragment().meter.counts();
        (unlimited && uncounted && self.is_inline()).then(|| self.fd.clone())
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        self.inline()?.read(offset, buffer)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<usize> {
        self.tree.fragment().writable()?;
        self.inline()?.write(offset, data)
    }

    fn fallocate(&self, offset: u64, length: u64, mode: FallocateMode) -> Result<()> {
        self.tree.fragment().writable()?;
        self.inline()?.fallocate(offset, length, mode)
    }

    fn seek(&self, offset: u64, what: SeekWhat) -> Result<Option<u64>> {
        self.inline()?.seek(offset, what)
    }

    fn copy_to(&self, offset: u64, to: &dyn Stub, to_offset: u64, length: u64) -> Result<Option<u64>> {
        let Some(to) = to.as_any().downcast_ref::<LocalStub>() else { return Ok(None) };
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
        content.claimed(length, end, copy)
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
        if self.nameless.load(SeqCst) {
            self.purge();
        } else {
            // Nobody is left to be told; the times of the stub's last growth stand.
            let _ = self.store_times();
        }
    }
}
