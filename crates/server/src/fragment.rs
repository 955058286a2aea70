//! One fragment: its directory, its lock, its meter and whether its disk still takes what is written.
//!
//! On disk, below the fragment's root:
//!
//! ```text
//! fragment.json                 which fragment of which instance this is; written once, synced
//! state.json                    counters of the last detach; see `state`
//! traffic.json                  what was counted of what it took in and gave out; see `limits`
//! lock                          held while a process has the instance open
//! sessions-<namespace>          clients of a served namespace; see `net`
//! sessions-<namespace>.deeds/   what was done for them; see `deeds`
//! ns/<namespace>/tree/          the names (home fragment only): stubs, directories, links
//! ns/<namespace>/open/          stubs without a name that are open (where other machines hold them)
//! ns/<namespace>/data/<2 hex>/<file id, 16 hex>.<substripe>
//! ```
//!
//! A crash while `fragment.json` is made leaves a temporary file beside it that the next attempt replaces.
//!
//! Any thread may call.

pub(crate) mod identity;
pub(crate) mod state;

use crate::host::host;
use crate::limits::Traffic;
use crate::meter::Meter;
use forebay_model::limits::WriteWindow;
use forebay_wire::{FragmentAccount, FragmentSpace, FsError, Result};
use rustix::fs::{FlockOperation, Mode, OFlags, Timespec, Timestamps, UTIME_NOW};
use rustix::io::Errno;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Version of the layout on disk.
pub(crate) const FORMAT: u32 = 1;
/// The directory of the namespaces.
pub(crate) const NAMESPACES: &str = "ns";

/// An open fragment.
pub(crate) struct Fragment {
    pub(crate) root: OwnedFd,
    pub(crate) meter: Meter,
    pub(crate) traffic: Traffic,
    poisoned: AtomicBool,
    /// Where it was opened, for messages.
    place: PathBuf,
    /// A sync of a new file brings its name to the disk as well.
    names_go_with_files: bool,
    _lock: OwnedFd,
}

pub(crate) const DIRECTORY: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);

impl Fragment {
    /// Opens a fragment's directory and locks it.
    pub(crate) fn open(root: &Path, capacity: Option<u64>) -> Result<Fragment> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let place = root.to_owned();
        let root = rustix::fs::open(root, flags, Mode::empty()).map_err(host("open fragment"))?;
        let lock = lock(&root)?;
        let names_go_with_files = names_go_with_files(&root)?;
        let (meter, poisoned) = (Meter::new(capacity), AtomicBool::new(false));
        let traffic = Traffic::open(&root, !meter.counts())?;
        Ok(Fragment { root, meter, traffic, poisoned, place, names_go_with_files, _lock: lock })
    }

    /// A sync of a new file brings its name, and those of the directories it is in, to the disk as well.
    pub(crate) fn names_go_with_files(&self) -> bool {
        self.names_go_with_files
    }

    /// Refuses when the fragment is poisoned.
    pub(crate) fn writable(&self) -> Result<()> {
        if self.poisoned.load(Relaxed) { Err(FsError::Poisoned) } else { Ok(()) }
    }

    /// What is written from now on is held against a window. Without a size the file system's is the fragment's.
    pub(crate) fn limit_writes(&self, rule: WriteWindow, capacity: Option<u64>) -> Result<()> {
        let capacity = capacity.map_or_else(|| self.space().map(|space| space.capacity), Ok)?;
        self.traffic.limit_writes(rule, capacity);
        Ok(())
    }

    /// Everything that is written has to be counted here: nothing can be handed to somebody who writes it himself.
    pub(crate) fn counts_writes(&self) -> bool {
        self.meter.counts() || self.traffic.is_limited()
    }

    /// So much was read.
    pub(crate) fn was_read(&self, bytes: u64) {
        self.traffic.was_read(&self.root, bytes);
    }

    /// Writes so much, if the write window lets it; the write says how much it was in the end.
    pub(crate) fn writing<T>(&self, bytes: u64, write: impl FnOnce() -> (Result<T>, u64)) -> Result<T> {
        let admitted = self.traffic.admit(bytes)?;
        let (done, written) = write();
        admitted.was_made(written);
        self.traffic.was_written(&self.root, written);
        done
    }

    /// What is counted of it.
    pub(crate) fn account(&self) -> Result<FragmentAccount> {
        let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Ok(FragmentAccount { node, space: self.space()?, traffic: self.traffic.account() })
    }

    /// Passes the result of a sync on. A failed one poisons the fragment until it is opened anew: the system may have dropped
    /// what it could not write, and a second sync would wrongly succeed. The first one is told in the log.
    pub(crate) fn synced(&self, result: rustix::io::Result<()>) -> Result<()> {
        match result {
            Ok(()) => self.writable(),
            Err(Errno::INTR) => Err(FsError::Busy),
            Err(errno) => {
                if !self.poisoned.swap(true, Relaxed) {
                    self.tell_that_it_is_poisoned(errno);
                }
                Err(host("sync")(errno))
            }
        }
    }

    /// On standard error, which is the log of every process that serves. On a full disk the line is lost, and nothing else.
    fn tell_that_it_is_poisoned(&self, errno: Errno) {
        let (place, why) = (self.place.display(), std::io::Error::from(errno));
        let _ = writeln!(
            std::io::stderr().lock(),
            "forebay: fragment {place} is poisoned: a sync failed ({why}); what was written since the last one may be lost. \
             It can be read and is not written any more; when its disk is in order, start the process that serves it anew"
        );
    }

    /// Everything in the fragment's file system is on disk afterwards.
    pub(crate) fn sync(&self) -> Result<()> {
        self.synced(rustix::fs::syncfs(&self.root))
    }

    /// Every change of names that was made is on disk afterwards. Where the file system has one log, a sync of something changed
    /// later is enough.
    pub(crate) fn sync_names(&self) -> Result<()> {
        if !self.names_go_with_files {
            return self.sync();
        }
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let times = Timestamps { last_access: now, last_modification: now };
        rustix::fs::futimens(&self.root, &times).map_err(host("mark a change of names"))?;
        self.synced(rustix::fs::fsync(&self.root))
    }

    /// Capacity and free space: the local file system's, or the metered ones where use is counted. Free space is
    /// never more than the local file system has.
    pub(crate) fn space(&self) -> Result<FragmentSpace> {
        let local = rustix::fs::fstatvfs(&self.root).map_err(host("statfs of fragment"))?;
        let (files, files_free) = (local.f_files, local.f_favail);
        let free = local.f_bavail * local.f_frsize;
        Ok(match self.meter.capacity() {
            Some(capacity) => {
                FragmentSpace { capacity, free: self.meter.room().min(free), files, files_free }
            }
            None => FragmentSpace { capacity: local.f_blocks * local.f_frsize, free, files, files_free },
        })
    }
}

/// File systems with one log for all changes, in order: what a sync of a new file waits for includes the making of its name
/// and, earlier, that of its directory. (ext4 without its journal syncs the directories of a new file by itself.)
const ONE_LOG: [i64; 3] = [
    0x5846_5342, // XFS
    0xef53,      // ext4
    0x9123_683e, // Btrfs, which puts the new directories above the file into its log
];

fn names_go_with_files(root: &OwnedFd) -> Result<bool> {
    let stat = rustix::fs::fstatfs(root).map_err(host("statfs of fragment"))?;
    Ok(ONE_LOG.contains(&(stat.f_type as i64)))
}

/// How long the lock of a holder that is going away is waited for: a child that another thread forked has a copy of every
/// descriptor until its exec, and a killed process holds its locks until it is gone.
const LOCK_WAIT: Duration = Duration::from_millis(500);
/// Pause between two looks at it.
const LOCK_PAUSE: Duration = Duration::from_millis(2);

/// Held until the descriptor is closed, by whatever end of the process.
fn lock(root: &OwnedFd) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let lock = rustix::fs::openat(root, "lock", flags, Mode::RUSR | Mode::WUSR)
        .map_err(host("open the lock of a fragment"))?;
    let end = Instant::now() + LOCK_WAIT;
    loop {
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(lock),
            Err(Errno::WOULDBLOCK) if Instant::now() < end => std::thread::sleep(LOCK_PAUSE),
            Err(Errno::WOULDBLOCK) => return Err(FsError::Busy),
            Err(errno) => return Err(host("lock a fragment")(errno)),
        }
    }
}

/// Makes a directory if it is absent, and opens it.
pub(crate) fn make_directory(parent: &OwnedFd, name: &str, mode: u32) -> Result<OwnedFd> {
    let made = rustix::fs::mkdirat(parent, name, Mode::RWXU);
    match made {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(host("make a directory of a fragment")(errno)),
    }
    let directory = rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())
        .map_err(host("open a directory of a fragment"))?;
    if made.is_ok() && mode != 0o700 {
        rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode))
            .map_err(host("set the mode of a directory of a fragment"))?;
    }
    Ok(directory)
}

/// Replaces a small file: temporary name, then rename. `durable`: it is on disk afterwards.
pub(crate) fn replace_file(directory: &OwnedFd, name: &str, content: &[u8], durable: bool) -> Result<()> {
    let temporary = format!("{name}.new");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, &temporary, flags, Mode::RUSR | Mode::WUSR)
        .map_err(host("write a record of a fragment"))?;
    let mut rest = content;
    while !rest.is_empty() {
        let written = rustix::io::write(&file, rest).map_err(host("write a record of a fragment"))?;
        rest = &rest[written..];
    }
    if durable {
        rustix::fs::fsync(&file).map_err(host("sync a record of a fragment"))?;
    }
    rustix::fs::renameat(directory, &temporary, directory, name)
        .map_err(host("write a record of a fragment"))?;
    if durable {
        rustix::fs::fsync(directory).map_err(host("sync a record of a fragment"))?;
    }
    Ok(())
}

/// Longest record that is read back, in bytes.
const RECORD_MAX: usize = 1 << 20;

/// Reads a small file; `None` when it is absent.
pub(crate) fn read_file(directory: &OwnedFd, name: &str) -> Result<Option<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(directory, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(host("read a record of a fragment")(errno)),
    };
    let mut content = Vec::new();
    let mut buffer = [0; 4096];
    while content.len() <= RECORD_MAX {
        match rustix::io::read(&file, &mut buffer).map_err(host("read a record of a fragment"))? {
            0 => return Ok(Some(content)),
            n => content.extend_from_slice(&buffer[..n]),
        }
    }
    Err(FsError::Damaged { what: "a record of a fragment is too long" })
}
