//! One of the two directories of a lockstep run: does an operation and tells everything that can be seen of it.

use super::operation::{Operation, SLOTS};
use super::tree::Attributes;
use crate::random::Random;
use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::{Errno, Result};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// What an operation showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// That it was done.
    Done,
    /// How many bytes it moved.
    Count(usize),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Attributes.
    Attributes(Attributes),
    /// Names of a directory with their kinds, sorted.
    Names(Vec<(Vec<u8>, FileType)>),
}

/// A directory, and what is open in it. It can be reached through several mounts, which take turns.
#[derive(Debug)]
pub struct Side {
    /// The directory through the mount whose turn it is.
    root: OwnedFd,
    /// The same through the others.
    others: Vec<OwnedFd>,
    turns: Random,
    open: [Option<OwnedFd>; SLOTS],
}

impl Side {
    /// The side of this directory.
    pub fn new(root: &Path) -> Result<Side> {
        Side::over(root, &[], 0)
    }

    /// The side of a directory that is seen at `others` as well; `seed` decides the turns. What was opened through one
    /// mount stays there.
    pub fn over(root: &Path, others: &[PathBuf], seed: u64) -> Result<Side> {
        let open = |path: &Path| rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        let others = others.iter().map(|path| open(path)).collect::<Result<_>>()?;
        Ok(Side { root: open(root)?, others, turns: Random::new(seed), open: Default::default() })
    }

    fn take_turns(&mut self) {
        let turn = self.turns.below(self.others.len() as u64 + 1) as usize;
        if let Some(other) = self.others.get_mut(turn) {
            std::mem::swap(&mut self.root, other);
        }
    }

    /// Does it. Everything is relative to the side's directory; nothing leaves it, because no path holds `..`.
    pub fn apply(&mut self, operation: &Operation) -> Result<Seen> {
        self.take_turns();
        match operation {
            Operation::Create { .. }
            | Operation::Open { .. }
            | Operation::Close { .. }
            | Operation::Read { .. }
            | Operation::Write { .. }
            | Operation::SetLength { .. }
            | Operation::Allocate { .. }
            | Operation::Copy { .. }
            | Operation::Sync { .. }
            | Operation::StatOpen { .. } => self.with_open_file(operation),
            Operation::Stat { path } => self.stat(path),
            Operation::ReadLink { path } => {
                let target = rustix::fs::readlinkat(&self.root, path.as_str(), Vec::new())?;
                Ok(Seen::Bytes(target.into_bytes()))
            }
            Operation::List { path } => self.list(path),
            _ => self.change(operation).map(|()| Seen::Done),
        }
    }

    /// Forgets everything that is open.
    pub fn close_all(&mut self) {
        self.open = Default::default();
    }

    fn file(&self, slot: usize) -> Result<&OwnedFd> {
        self.open[slot].as_ref().ok_or(Errno::BADF)
    }

    fn keep(&mut self, slot: usize, path: &str, flags: OFlags, mode: u32) -> Result<Seen> {
        // Without NONBLOCK an open of a fifo would wait for somebody at its other end.
        let flags = flags | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.root, path, flags, Mode::from_raw_mode(mode))?;
        self.open[slot] = Some(file);
        Ok(Seen::Done)
    }

    fn with_open_file(&mut self, operation: &Operation) -> Result<Seen> {
        match *operation {
            Operation::Create { ref path, mode, slot } => {
                self.keep(slot, path, OFlags::CREATE | OFlags::EXCL | OFlags::RDWR, mode)
            }
            Operation::Open { ref path, flags, slot } => self.keep(slot, path, flags, 0o644),
            Operation::Close { slot } => {
                self.open[slot] = None;
                Ok(Seen::Done)
            }
            Operation::Read { slot, offset, length } => read(self.file(slot)?, offset, length),
            Operation::Write { slot, offset, length, pattern } => {
                let data = Random::new(pattern).bytes(length);
                rustix::io::pwrite(self.file(slot)?, &data, offset).map(Seen::Count)
            }
            Operation::SetLength { slot, length } => {
                rustix::fs::ftruncate(self.file(slot)?, length).map(|()| Seen::Done)
            }
            Operation::Allocate { slot, mode, offset, length } => {
                rustix::fs::fallocate(self.file(slot)?, mode, offset, length).map(|()| Seen::Done)
            }
            Operation::Copy { from, from_offset, to, to_offset, length } => {
                // The kernel copies up to the end that it knows. It asks where that is when it is asked, not when it copies.
                rustix::fs::fstat(self.file(from)?)?;
                copy(self.file(from)?, from_offset, self.file(to)?, to_offset, length)
            }
            Operation::Sync { slot } => sync(self.file(slot)?),
            Operation::StatOpen { slot } => {
                Ok(Seen::Attributes(Attributes::of(&rustix::fs::fstat(self.file(slot)?)?)))
            }
            _ => unreachable!("apply sends only these here"),
        }
    }

    fn change(&self, operation: &Operation) -> Result<()> {
        let root = &self.root;
        match operation {
            Operation::MakeDirectory { path, mode } => {
                rustix::fs::mkdirat(root, path.as_str(), Mode::from_raw_mode(*mode))
            }
            Operation::RemoveDirectory { path } => {
                rustix::fs::unlinkat(root, path.as_str(), AtFlags::REMOVEDIR)
            }
            Operation::Unlink { path } => rustix::fs::unlinkat(root, path.as_str(), AtFlags::empty()),
            Operation::Rename { from, to, flags } => {
                rustix::fs::renameat_with(root, from.as_str(), root, to.as_str(), *flags)
            }
            Operation::Link { from, to } => {
                rustix::fs::linkat(root, from.as_str(), root, to.as_str(), AtFlags::empty())
            }
            Operation::Symlink { target, path } => {
                rustix::fs::symlinkat(target.as_str(), root, path.as_str())
            }
            Operation::Fifo { path, mode } => {
                let mode = Mode::from_raw_mode(*mode);
                rustix::fs::mknodat(root, path.as_str(), FileType::Fifo, mode, 0)
            }
            Operation::ChangeMode { path, mode } => {
                rustix::fs::chmodat(root, path.as_str(), Mode::from_raw_mode(*mode), AtFlags::empty())
            }
            Operation::ChangeOwner { path, uid, gid } => {
                let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
                rustix::fs::chownat(root, path.as_str(), uid, gid, AtFlags::SYMLINK_NOFOLLOW)
            }
            Operation::SetTimes { path, seconds, nanoseconds } => {
                let time = Timespec { tv_sec: *seconds, tv_nsec: *nanoseconds };
                let times = Timestamps { last_access: time, last_modification: time };
                rustix::fs::utimensat(root, path.as_str(), &times, AtFlags::SYMLINK_NOFOLLOW)
            }
            Operation::Truncate { path, length } => {
                rustix::fs::ftruncate(self.through(path, OFlags::WRONLY)?, *length)
            }
            Operation::SetAttribute { path, name, length, pattern } => {
                let value = Random::new(*pattern).bytes(*length);
                let file = self.through(path, OFlags::RDONLY)?;
                rustix::fs::fsetxattr(file, *name, &value, XattrFlags::empty())
            }
            Operation::RemoveAttribute { path, name } => {
                rustix::fs::fremovexattr(self.through(path, OFlags::RDONLY)?, *name)
            }
            _ => unreachable!("apply sends only these here"),
        }
    }

    /// The file at a path for the length of one call.
    fn through(&self, path: &str, flags: OFlags) -> Result<OwnedFd> {
        rustix::fs::openat(&self.root, path, flags | OFlags::NONBLOCK, Mode::empty())
    }

    fn stat(&self, path: &str) -> Result<Seen> {
        let stat = rustix::fs::statat(&self.root, path, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Seen::Attributes(Attributes::of(&stat)))
    }

    fn list(&self, path: &str) -> Result<Seen> {
        let directory = self.through(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::new(directory)? {
            let entry = entry?;
            names.push((entry.file_name().to_bytes().to_vec(), entry.file_type()));
        }
        names.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Seen::Names(names))
    }
}

fn read(file: &OwnedFd, offset: u64, length: usize) -> Result<Seen> {
    let mut buffer = vec![0; length];
    let count = rustix::io::pread(file, &mut buffer[..], offset)?;
    buffer.truncate(count);
    Ok(Seen::Bytes(buffer))
}

/// The kernel may copy less than asked, so it is asked until nothing more comes.
fn copy(from: &OwnedFd, mut at: u64, to: &OwnedFd, mut into: u64, length: usize) -> Result<Seen> {
    let mut copied = 0;
    while copied < length {
        match rustix::fs::copy_file_range(from, Some(&mut at), to, Some(&mut into), length - copied)? {
            0 => break,
            count => copied += count,
        }
    }
    Ok(Seen::Count(copied))
}

/// A fifo cannot be synced, on either side.
fn sync(file: &OwnedFd) -> Result<Seen> {
    rustix::fs::fsync(file).map(|()| Seen::Done)
}
