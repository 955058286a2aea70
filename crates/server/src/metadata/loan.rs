//! Files whose whole content is one local file, lent to the kernel, which then reads and writes it without a word.
//!
//! An inline file is its stub: nothing is left to do but to know that it is lent. The substripe file of a striped file is
//! lent together with the truth about length and times: while the loan lasts it is exactly as long as the file, its times
//! are the file's, and the stub *catches up* with it whenever somebody looks at the stub, and when the last loan ends.
//! Whoever sets length or times through the tree sets both.
//!
//! Order of events when a substripe file is lent, and what a crash after each leaves: it is made, it gets the length of
//! the stub, then its times. None of it changes what the file is. While it is lent: the stub's length and times may be
//! older than the substripe file's. A crash leaves that to the walk at the next open ([`crate::recover`]), which gives
//! the stub both.
//!
//! Only in a tree that nobody else uses. Any thread may call. Lock order: the tree's, then [`LocalStub::growing`], which
//! guards what is here.

use super::Tree;
use super::stub::LocalStub;
use crate::host::host;
use forebay_model::layout::Layout;
use forebay_wire::{FileId, Ino, Loan, Result, Sharing};
use rustix::fs::{Stat, Timespec, Timestamps, UTIME_OMIT};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the end of a loan is waited for: a kernel tells of a close a moment after it.
const LOAN_WAIT: Duration = Duration::from_millis(200);
/// Pause between two looks.
const LOAN_PAUSE: Duration = Duration::from_millis(1);

/// What is lent of one file.
#[derive(Default)]
pub(super) struct Lent {
    loans: u32,
    content: Option<Content>,
}

/// A substripe file that is lent.
struct Content {
    descriptor: Arc<OwnedFd>,
    /// Its times when the stub last caught up.
    seen: Times,
}

/// Last access and last modification.
type Times = [(i64, i64); 2];

fn times_of(stat: &Stat) -> Times {
    [(stat.st_atime, stat.st_atime_nsec as i64), (stat.st_mtime, stat.st_mtime_nsec as i64)]
}

fn exactly(times: Times) -> Timestamps {
    let spec = |(tv_sec, tv_nsec)| Timespec { tv_sec, tv_nsec: tv_nsec as _ };
    Timestamps { last_access: spec(times[0]), last_modification: spec(times[1]) }
}

/// The times that are others than before.
fn changed(before: Times, now: Times) -> Timestamps {
    const KEPT: Timespec = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let Timestamps { last_access, last_modification } = exactly(now);
    Timestamps {
        last_access: if before[0] == now[0] { KEPT } else { last_access },
        last_modification: if before[1] == now[1] { KEPT } else { last_modification },
    }
}

fn stat_of(descriptor: &OwnedFd) -> Result<Stat> {
    rustix::fs::fstat(descriptor).map_err(host("stat of a lent file"))
}

/// One loan.
struct StubLoan {
    stub: Arc<LocalStub>,
    descriptor: Arc<OwnedFd>,
}

impl Loan for StubLoan {
    fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }
}

impl Drop for StubLoan {
    fn drop(&mut self) {
        let mut lent = self.stub.lent();
        if self.stub.catch_up_with(&mut lent).is_err() {
            // The walk at the next open gives the stub what it missed.
            self.stub.tree().home.walk_next_time();
        }
        lent.loans -= 1;
        if lent.loans == 0 {
            lent.content = None;
        }
        self.stub.tree().lent.fetch_sub(1, SeqCst);
    }
}

impl LocalStub {
    fn lent(&self) -> MutexGuard<'_, Lent> {
        self.growing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`forebay_wire::Stub::lend`].
    pub(super) fn lend_content(&self) -> Result<Option<Box<dyn Loan>>> {
        let tree = self.tree();
        let Some(stub) = tree.opened(self.number()) else { return Ok(None) };
        if tree.sharing == Sharing::Shared || tree.limits_length() {
            return Ok(None);
        }
        let mut lent = self.lent();
        let descriptor = match self.annotation().striped {
            None => forebay_wire::Stub::backing(self),
            Some((file, layout)) => self.lend_substripe(&mut lent, file, &layout)?,
        };
        let Some(descriptor) = descriptor else { return Ok(None) };
        lent.loans += 1;
        tree.lent.fetch_add(1, SeqCst);
        drop(lent);
        Ok(Some(Box::new(StubLoan { stub, descriptor })))
    }

    fn lend_substripe(&self, lent: &mut Lent, file: FileId, layout: &Layout) -> Result<Option<Arc<OwnedFd>>> {
        if !layout.is_whole() {
            return Ok(None);
        }
        if let Some(content) = &lent.content {
            return Ok(Some(content.descriptor.clone()));
        }
        let server = self.tree().data_of(layout, 0)?;
        let Some(descriptor) = server.share(file, layout.substripes()).lend()? else { return Ok(None) };
        let (stat, stub) = (stat_of(&descriptor)?, self.stat()?);
        if stat.st_size > stub.st_size {
            // Nothing that the file is to show lies there.
            return Ok(None);
        }
        if stat.st_size < stub.st_size {
            let length = stub.st_size as u64;
            rustix::fs::ftruncate(&descriptor, length).map_err(host("set the length of a lent file"))?;
        }
        let times = times_of(&stub);
        rustix::fs::futimens(&descriptor, &exactly(times)).map_err(host("set the times of a lent file"))?;
        let content = Content { descriptor: Arc::new(descriptor), seen: times };
        Ok(Some(lent.content.insert(content).descriptor.clone()))
    }

    /// Somebody reads and writes the file himself.
    pub(super) fn is_lent(&self) -> bool {
        self.tree().lent.load(SeqCst) > 0 && self.lent().loans > 0
    }

    /// Gives the stub what the substripe file says, if that is lent.
    pub(super) fn catch_up(&self) -> Result<()> {
        if self.tree().lent.load(SeqCst) == 0 {
            return Ok(());
        }
        self.catch_up_with(&mut self.lent())
    }

    /// The same for whoever holds the lock.
    pub(super) fn catch_up_with(&self, lent: &mut Lent) -> Result<()> {
        let Some(content) = &mut lent.content else { return Ok(()) };
        let stat = stat_of(&content.descriptor)?;
        if stat.st_size as u64 > self.size.load(SeqCst) {
            let length = stat.st_size as u64;
            rustix::fs::ftruncate(self.descriptor(), length).map_err(host("grow a stub"))?;
            self.size.store(length, SeqCst);
        }
        let now = times_of(&stat);
        if now != content.seen {
            rustix::fs::futimens(self.descriptor(), &changed(content.seen, now))
                .map_err(host("set times"))?;
            content.seen = now;
            self.was_looked_at();
        }
        Ok(())
    }

    /// The substripe file, if it is lent, gets a length.
    pub(super) fn set_lent_length(lent: &Lent, length: u64) -> Result<()> {
        let Some(content) = &lent.content else { return Ok(()) };
        rustix::fs::ftruncate(&content.descriptor, length).map_err(host("set the length of a lent file"))
    }

    /// Sets the times of the stub, and of the substripe file if that is lent.
    pub(super) fn set_times(&self, times: &Timestamps) -> rustix::io::Result<()> {
        self.was_looked_at();
        let mut lent = self.lent();
        rustix::fs::futimens(self.descriptor(), times)?;
        if let Some(content) = &mut lent.content {
            rustix::fs::futimens(&content.descriptor, times)?;
            content.seen = times_of(&rustix::fs::fstat(&content.descriptor)?);
        }
        drop(lent);
        self.touched();
        Ok(())
    }
}

impl Tree {
    /// Gives a loan that is about to end the time for it. Nothing of the tree may be held.
    pub(super) fn await_loans(&self, ino: Ino) {
        let until = Instant::now() + LOAN_WAIT;
        while self.opened(ino).is_some_and(|stub| stub.is_lent()) && Instant::now() < until {
            std::thread::sleep(LOAN_PAUSE);
        }
    }
}
