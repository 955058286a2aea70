//! The substripe files of one file on one fragment, open while somebody holds the share.
//!
//! Each substripe file is a slot: not looked at, absent, closed to save a descriptor, or open. The slot's lock is held
//! shared by those who read and write, who never wait for each other here, and exclusively to open and close it and by
//! those who cut, punch or allocate: with several clients nobody else keeps them apart.
//!
//! A slot is *dirty* from a write to the sync that covers it, and from the start when the file may hold data that an
//! earlier, closed share wrote: a sync has to cover that as well. One sync at a time: what is not dirty any more is on the disk when
//! the sync that has taken it ends, and who is told of a sync must not be told before. It is *new* from when its name was made to the sync of
//! its directory, which is a sync of its own only where the local file system does not sync the name with the file.

use super::{LocalData, bucket_name, substripe_path};
use crate::content::{Accounting, Content};
use crate::fragment::make_directory;
use crate::host::host;
use forebay_wire::{FallocateMode, FileId, FsError, Result, SeekWhat, Share, Span, Window};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

enum State {
    /// Nobody looked yet.
    Unknown,
    /// There is no such file.
    Absent,
    /// It was open and was closed for the budget.
    Closed,
    /// It is open.
    Open(OwnedFd),
}

struct Slot {
    state: RwLock<State>,
    accounting: Accounting,
    dirty: AtomicBool,
    new: AtomicBool,
    /// Somebody writes it himself: a sync always has to cover it.
    lent: AtomicBool,
    lately_used: AtomicBool,
}

/// See the module.
pub(crate) struct LocalShare {
    service: Arc<LocalData>,
    itself: Weak<LocalShare>,
    file: FileId,
    slots: Box<[Slot]>,
    /// Held by who syncs, before the lock of any slot.
    syncing: Mutex<()>,
}

impl LocalShare {
    pub(super) fn new(service: Arc<LocalData>, file: FileId, substripes: u32) -> Arc<LocalShare> {
        let slot = |_| Slot {
            state: RwLock::new(State::Unknown),
            accounting: Accounting::default(),
            dirty: AtomicBool::new(true),
            new: AtomicBool::new(false),
            lent: AtomicBool::new(false),
            lately_used: AtomicBool::new(false),
        };
        let slots = (0..substripes).map(slot).collect();
        Arc::new_cyclic(|itself| LocalShare {
            service,
            itself: itself.clone(),
            file,
            slots,
            syncing: Mutex::new(()),
        })
    }

    fn slot(&self, substripe: u32) -> Result<&Slot> {
        self.slots.get(substripe as usize).ok_or(FsError::InvalidArgument)
    }

    /// Uses a substripe file; `None` when there is none and it is not to be made.
    fn with<T>(
        &self,
        service: &LocalData,
        substripe: u32,
        make: bool,
        mut operation: impl FnMut(Content<'_>, &Slot) -> Result<T>,
    ) -> Result<Option<T>> {
        let slot = self.slot(substripe)?;
        loop {
            match &*slot.state.read().unwrap_or_else(PoisonError::into_inner) {
                State::Open(fd) => {
                    slot.lately_used.store(true, Relaxed);
                    let fragment = &service.fragment;
                    let content = Content { fd: fd.as_fd(), accounting: &slot.accounting, fragment };
                    return operation(content, slot).map(Some);
                }
                State::Absent if !make => return Ok(None),
                State::Absent | State::Unknown | State::Closed => {}
            }
            self.open(service, substripe, slot, make)?;
        }
    }

    /// Uses a substripe file while nobody else does; does nothing when there is none and it is not to be made.
    fn alone(
        &self,
        service: &LocalData,
        substripe: u32,
        make: bool,
        operation: impl Fn(Content<'_>) -> Result<()>,
    ) -> Result<()> {
        let slot = self.slot(substripe)?;
        loop {
            match &*slot.state.write().unwrap_or_else(PoisonError::into_inner) {
                State::Open(fd) => {
                    slot.lately_used.store(true, Relaxed);
                    let fragment = &service.fragment;
                    let done = operation(Content { fd: fd.as_fd(), accounting: &slot.accounting, fragment });
                    slot.dirty.store(true, Relaxed);
                    return done;
                }
                State::Absent if !make => return Ok(()),
                State::Absent | State::Unknown | State::Closed => {}
            }
            self.open(service, substripe, slot, make)?;
        }
    }

    /// Moves a slot on from whatever it is to open, or to absent.
    fn open(&self, service: &LocalData, substripe: u32, slot: &Slot, make: bool) -> Result<()> {
        {
            let mut state = slot.state.write().unwrap_or_else(PoisonError::into_inner);
            let opened = match *state {
                State::Open(_) => return Ok(()),
                State::Absent => None,
                State::Unknown | State::Closed => self.open_existing(service, substripe)?,
            };
            *state = match opened {
                Some(fd) => State::Open(fd),
                None if make => {
                    let fd = self.make(service, substripe)?;
                    slot.new.store(true, Relaxed);
                    State::Open(fd)
                }
                None => State::Absent,
            };
            if !matches!(*state, State::Open(_)) {
                return Ok(());
            }
            // What was just opened is not to be closed again before it was used.
            slot.lately_used.store(true, Relaxed);
        }
        service.descriptors.opened(self.itself.clone(), substripe);
        Ok(())
    }

    fn open_existing(&self, service: &LocalData, substripe: u32) -> Result<Option<OwnedFd>> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(
            &service.directory,
            substripe_path(self.file, substripe),
            flags,
            Mode::empty(),
        ) {
            Ok(fd) => Ok(Some(fd)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(host("open substripe")(errno)),
        }
    }

    fn make(&self, service: &LocalData, substripe: u32) -> Result<OwnedFd> {
        let path = substripe_path(self.file, substripe);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let create = || rustix::fs::openat(&service.directory, &path, flags, Mode::RUSR | Mode::WUSR);
        match create() {
            Err(Errno::NOENT) => {
                make_directory(&service.directory, &bucket_name(self.file), 0o700)?;
                create().map_err(host("make substripe"))
            }
            made => made.map_err(host("make substripe")),
        }
    }

    /// Closes a slot that is not in use and was not used lately. `Some(true)`: closed now. `Some(false)`: was not
    /// open. `None`: try again later.
    pub(crate) fn try_close(&self, substripe: u32) -> Option<bool> {
        let slot = self.slots.get(substripe as usize)?;
        if slot.lately_used.swap(false, Relaxed) {
            return None;
        }
        let mut state = slot.state.try_write().ok()?;
        if !matches!(*state, State::Open(_)) {
            return Some(false);
        }
        *state = State::Closed;
        Some(true)
    }

    fn change(
        &self,
        substripe: u32,
        make: bool,
        operation: impl Fn(Content<'_>) -> Result<()>,
    ) -> Result<()> {
        let service = &*self.service;
        service.fragment.writable()?;
        self.alone(service, substripe, make, operation)
    }

    fn sync_names(&self, service: &LocalData) -> Result<()> {
        // Not short-circuiting: every flag has to be taken.
        let new = self.slots.iter().filter(|slot| slot.new.swap(false, Relaxed)).count();
        if new == 0 { Ok(()) } else { service.sync_names_of(self.file) }
    }

    /// Starts writing all dirty slots back, so that the syncs that follow wait for all of them at once.
    fn start_writing(&self) {
        for slot in self.slots.iter().filter(|slot| slot.dirty.load(Relaxed) || slot.lent.load(Relaxed)) {
            if let State::Open(fd) = &*slot.state.read().unwrap_or_else(PoisonError::into_inner) {
                // SAFETY: the descriptor is open for as long as the slot's lock is held; no memory is passed.
                // A failure only means that the sync waits longer, and the sync reports what is wrong.
                unsafe { libc::sync_file_range(fd.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE) };
            }
        }
    }
}

impl Share for LocalShare {
    fn read(&self, spans: &[Span], buffer: &mut [u8]) -> Result<bool> {
        let service = &*self.service;
        let mut is_whole = true;
        for span in spans {
            let part = buffer.get_mut(span.at..span.at + span.len).ok_or(FsError::InvalidArgument)?;
            let read =
                self.with(service, span.substripe, false, |content, _| content.read(span.offset, part))?;
            let read = read.unwrap_or(0);
            is_whole &= read == span.len;
            part[read..].fill(0);
        }
        Ok(is_whole)
    }

    fn show(&self, span: &Span, window: &mut dyn Window) -> bool {
        let take = |content: Content<'_>, _: &Slot| Ok(window.take(content.fd, span.offset, span.len));
        let taken = self.with(&self.service, span.substripe, false, take);
        taken.is_ok_and(|taken| taken.unwrap_or(false))
    }

    fn write(&self, spans: &[Span], buffer: &[u8]) -> Result<usize> {
        let service = &*self.service;
        service.fragment.writable()?;
        let mut total = 0;
        for span in spans {
            let part = buffer.get(span.at..span.at + span.len).ok_or(FsError::InvalidArgument)?;
            let written = self.with(service, span.substripe, true, |content, slot| {
                let written = content.write(span.offset, part);
                // After the write: a sync that ran in between has not covered it.
                slot.dirty.store(true, Relaxed);
                written
            });
            match written {
                Ok(written) => total += written.unwrap_or(0),
                Err(error) if total == 0 => return Err(error),
                Err(_) => return Ok(total),
            }
            if written.is_ok_and(|written| written.unwrap_or(0) < span.len) {
                break;
            }
        }
        Ok(total)
    }

    fn fallocate(&self, substripe: u32, range: Range<u64>, mode: FallocateMode) -> Result<()> {
        let make = !mode.contains(FallocateMode::PUNCH_HOLE);
        self.change(substripe, make, |content| content.fallocate(range.start, range.end - range.start, mode))
    }

    fn cut(&self, substripe: u32, length: u64) -> Result<()> {
        self.change(substripe, false, |content| {
            let stat = rustix::fs::fstat(content.fd).map_err(host("stat of substripe"))?;
            if stat.st_size as u64 <= length { Ok(()) } else { content.set_length(length) }
        })
    }

    fn seek(&self, substripe: u32, offset: u64, what: SeekWhat) -> Result<Option<u64>> {
        let service = &*self.service;
        let found = self.with(service, substripe, false, |content, _| content.seek(offset, what))?;
        Ok(match (found.flatten(), what) {
            (None, SeekWhat::Hole) => Some(offset),
            (found, _) => found,
        })
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        let service = &*self.service;
        // What is not dirty any more may not be on the disk yet: who syncs at the same time waits until it is.
        let _turn = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        self.start_writing();
        for (substripe, slot) in (0..).zip(self.slots.iter()) {
            if !slot.dirty.swap(false, Relaxed) && !slot.lent.load(Relaxed) {
                continue;
            }
            let synced = self.with(service, substripe, false, |content, _| {
                let done =
                    if data_only { rustix::fs::fdatasync(content.fd) } else { rustix::fs::fsync(content.fd) };
                service.fragment.synced(done)
            });
            if let Err(error) = synced {
                slot.dirty.store(true, Relaxed);
                return Err(error);
            }
        }
        self.sync_names(service)
    }

    fn lend(&self) -> Result<Option<OwnedFd>> {
        let service = &*self.service;
        service.fragment.writable()?;
        if self.slots.len() != 1 || service.fragment.counts_writes() {
            return Ok(None);
        }
        self.with(service, 0, true, |content, slot| {
            slot.lent.store(true, Relaxed);
            rustix::io::fcntl_dupfd_cloexec(content.fd, 0).map_err(host("lend a substripe"))
        })
    }
}

impl Drop for LocalShare {
    fn drop(&mut self) {
        let is_open = |slot: &Slot| {
            matches!(*slot.state.read().unwrap_or_else(PoisonError::into_inner), State::Open(_))
        };
        self.service.descriptors.closed(self.slots.iter().filter(|slot| is_open(slot)).count());
        self.service.forget(self.file);
    }
}
