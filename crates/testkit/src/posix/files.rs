//! Short forms of the system calls the cases make, relative to the case's own directory (the working directory).
//!
//! They add no policy: no retry, no error mapping. Modes are plain octal numbers, as in the standard.

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, StatxFlags, Timespec, Timestamps, Uid};
use rustix::io::{Errno, Result};
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// A time long past, to tell times that were set from times that were taken from the clock.
pub const LONG_AGO: Timespec = Timespec { tv_sec: 1_000_000_000, tv_nsec: 123_456_789 };

pub(crate) fn open(path: &str, flags: OFlags) -> Result<OwnedFd> {
    open_mode(path, flags, 0o644)
}

pub(crate) fn open_mode(path: &str, flags: OFlags, mode: u32) -> Result<OwnedFd> {
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::from_raw_mode(mode))
}

/// A new or emptied file, open for reading and writing.
pub(crate) fn create(path: &str) -> Result<OwnedFd> {
    open(path, OFlags::CREATE | OFlags::TRUNC | OFlags::RDWR)
}

/// A new file of this mode, empty and closed.
pub(crate) fn touch(path: &str, mode: u32) -> Result<()> {
    open_mode(path, OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY, mode).map(drop)
}

pub(crate) fn write_file(path: &str, content: &[u8]) -> Result<()> {
    write_all_at(create(path)?, content, 0)
}

pub(crate) fn read_file(path: &str) -> Result<Vec<u8>> {
    read_all(open(path, OFlags::RDONLY)?)
}

pub(crate) fn write_all_at(file: impl AsFd, mut content: &[u8], mut offset: u64) -> Result<()> {
    while !content.is_empty() {
        let written = rustix::io::pwrite(&file, content, offset)?;
        content = &content[written..];
        offset += written as u64;
    }
    Ok(())
}

/// Everything from offset 0 to where a read says the file ends.
pub(crate) fn read_all(file: impl AsFd) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut buffer = vec![0; 1 << 18];
    loop {
        let count = rustix::io::pread(&file, &mut buffer[..], out.len() as u64)?;
        if count == 0 {
            return Ok(out);
        }
        out.extend_from_slice(&buffer[..count]);
    }
}

/// Up to `length` bytes from `offset`, in one call.
pub(crate) fn read_at(file: impl AsFd, length: usize, offset: u64) -> Result<Vec<u8>> {
    let mut buffer = vec![0; length];
    let count = rustix::io::pread(file, &mut buffer[..], offset)?;
    buffer.truncate(count);
    Ok(buffer)
}

pub(crate) fn stat(path: &str) -> Result<Stat> {
    rustix::fs::stat(path)
}

pub(crate) fn lstat(path: &str) -> Result<Stat> {
    rustix::fs::lstat(path)
}

/// Permission bits with suid, sgid and sticky.
pub(crate) fn mode_of(path: &str) -> Result<u32> {
    Ok(lstat(path)?.st_mode & 0o7777)
}

pub(crate) fn kind_of(path: &str) -> Result<FileType> {
    Ok(FileType::from_raw_mode(lstat(path)?.st_mode))
}

pub(crate) fn size_of(path: &str) -> Result<i64> {
    Ok(lstat(path)?.st_size)
}

pub(crate) fn links_of(path: &str) -> Result<u64> {
    Ok(lstat(path)?.st_nlink)
}

/// Uid and gid.
pub(crate) fn owner_of(path: &str) -> Result<(u32, u32)> {
    let stat = lstat(path)?;
    Ok((stat.st_uid, stat.st_gid))
}

pub(crate) fn mkdir(path: &str, mode: u32) -> Result<()> {
    rustix::fs::mkdir(path, Mode::from_raw_mode(mode))
}

pub(crate) fn mkfifo(path: &str, mode: u32) -> Result<()> {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(mode), 0)
}

pub(crate) fn chmod(path: &str, mode: u32) -> Result<()> {
    rustix::fs::chmod(path, Mode::from_raw_mode(mode))
}

/// Changes owner and group; `None` leaves as it is. Follows a symbolic link.
pub(crate) fn chown(path: &str, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
    rustix::fs::chown(path, uid.map(Uid::from_raw), gid.map(Gid::from_raw))
}

pub(crate) fn lchown(path: &str, uid: Option<u32>, gid: Option<u32>) -> Result<()> {
    let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
    rustix::fs::chownat(CWD, path, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
}

/// Truncate by path. Takes a signed length, because refusing a negative one is part of the contract.
pub(crate) fn truncate(path: &str, length: i64) -> Result<()> {
    let path = CString::new(path).map_err(|_| Errno::INVAL)?;
    // SAFETY: the pointer is a live C string for the length of the call.
    done(unsafe { libc::truncate(path.as_ptr(), length) })
}

/// Truncate by descriptor, signed as [`truncate`].
pub(crate) fn ftruncate(file: impl AsFd, length: i64) -> Result<()> {
    use std::os::fd::AsRawFd;
    // SAFETY: plain system call on a descriptor that is borrowed for the length of the call.
    done(unsafe { libc::ftruncate(file.as_fd().as_raw_fd(), length) })
}

/// Sets access and modification time.
pub(crate) fn set_times(path: &str, access: Timespec, modification: Timespec) -> Result<()> {
    let times = Timestamps { last_access: access, last_modification: modification };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::empty())
}

/// The result of a call that answers -1 on failure.
pub(crate) fn done(answer: i32) -> Result<()> {
    if answer == -1 { Err(last_error()) } else { Ok(()) }
}

/// What the last failed libc call of this thread left in errno.
pub(crate) fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

pub(crate) type Instants = [(i64, u64); 3];

/// Access, modification and change time of a file.
pub(crate) fn times_of(path: &str) -> Result<Instants> {
    let stat = lstat(path)?;
    Ok([
        (stat.st_atime, stat.st_atime_nsec),
        (stat.st_mtime, stat.st_mtime_nsec),
        (stat.st_ctime, stat.st_ctime_nsec),
    ])
}

/// The same, asked of who knows: nothing that was remembered.
pub(crate) fn latest_times_of(path: &str) -> Result<Instants> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC;
    let stat = rustix::fs::statx(CWD, path, flags, StatxFlags::BASIC_STATS)?;
    Ok([stat.stx_atime, stat.stx_mtime, stat.stx_ctime].map(|time| (time.tv_sec, u64::from(time.tv_nsec))))
}

/// Awaits the clock that file systems stamp with to pass `moment`, so that the next stamp is a later one.
pub(crate) fn await_clock_after(moment: (i64, u64)) {
    const LONGEST: Duration = Duration::from_secs(5);
    let start = Instant::now();
    loop {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
        if (now.tv_sec, now.tv_nsec.unsigned_abs()) > moment {
            return;
        }
        assert!(start.elapsed() < LONGEST, "the change time {moment:?} is in the future");
        std::thread::sleep(Duration::from_millis(1));
    }
}
