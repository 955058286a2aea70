//! Operations on a name in an open directory.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use rustix::fs::{self, AtFlags, FileType, Gid, Mode, Stat, Timespec, Timestamps, Uid};

use super::cause::failed;
use crate::tree::{EntryKind, Metadata, SetMetadata, Stamp, TreeError};

/// Kind from the type bits.
pub fn kind(file_type: FileType) -> Option<EntryKind> {
    Some(match file_type {
        FileType::RegularFile => EntryKind::Regular,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        FileType::Fifo => EntryKind::Fifo,
        FileType::Socket => EntryKind::Socket,
        FileType::CharacterDevice => EntryKind::CharDevice,
        FileType::BlockDevice => EntryKind::BlockDevice,
        FileType::Unknown => return None,
    })
}

/// Permission bits with set-id and sticky bits, as opposed to the kind.
pub const PERMISSIONS: u32 = 0o7777;
/// Unit of `st_blocks`, in bytes, whatever the file system's block size.
const STAT_BLOCK: u64 = 512;

/// Translates a stat.
pub fn metadata(stat: &Stat) -> Metadata {
    let stamp = |secs, nanos| Stamp { secs, nanos: u32::try_from(nanos).unwrap_or(0) };
    Metadata {
        // The kernel knows no eighth type; a device is the kind that is never touched.
        kind: kind(FileType::from_raw_mode(stat.st_mode)).unwrap_or(EntryKind::CharDevice),
        device: stat.st_dev,
        inode: stat.st_ino,
        links: stat.st_nlink,
        mode: stat.st_mode & PERMISSIONS,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        allocated: u64::try_from(stat.st_blocks).unwrap_or(0) * STAT_BLOCK,
        atime: stamp(stat.st_atime, stat.st_atime_nsec),
        mtime: stamp(stat.st_mtime, stat.st_mtime_nsec),
        ctime: stamp(stat.st_ctime, stat.st_ctime_nsec),
    }
}

/// Text of a symbolic link.
pub fn read_link(parent: &OwnedFd, name: &OsStr) -> Result<PathBuf, TreeError> {
    let target = fs::readlinkat(parent, name, Vec::new()).map_err(failed("read link"))?;
    Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
}

/// Makes a directory; the umask is undone by a chmod.
pub fn mkdir(parent: &OwnedFd, name: &OsStr, mode: u32) -> Result<(), TreeError> {
    fs::mkdirat(parent, name, Mode::from_raw_mode(mode)).map_err(failed("make directory"))?;
    fs::chmodat(parent, name, Mode::from_raw_mode(mode), AtFlags::empty()).map_err(failed("make directory"))
}

/// Makes a fifo.
pub fn make_fifo(parent: &OwnedFd, name: &OsStr, mode: u32) -> Result<(), TreeError> {
    let mode = Mode::from_raw_mode(mode);
    fs::mknodat(parent, name, FileType::Fifo, mode, 0).map_err(failed("make fifo"))?;
    fs::chmodat(parent, name, mode, AtFlags::empty()).map_err(failed("make fifo"))
}

/// Two stamps in the kernel's form.
pub fn timestamps((atime, mtime): (Stamp, Stamp)) -> Timestamps {
    let spec = |stamp: Stamp| Timespec { tv_sec: stamp.secs, tv_nsec: i64::from(stamp.nanos) };
    Timestamps { last_access: spec(atime), last_modification: spec(mtime) }
}

/// Owner, mode, times, in this order.
pub fn set_metadata(parent: &OwnedFd, name: &OsStr, change: &SetMetadata) -> Result<(), TreeError> {
    if let Some((uid, gid)) = change.owner {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        fs::chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(failed("set owner"))?;
    }
    if let Some(mode) = change.mode {
        set_mode(parent, name, mode)?;
    }
    if let Some(times) = change.times {
        fs::utimensat(parent, name, &timestamps(times), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(failed("set times"))?;
    }
    Ok(())
}

/// chmod that does not follow a link put in place of the entry: through a descriptor of the entry itself.
fn set_mode(parent: &OwnedFd, name: &OsStr, mode: u32) -> Result<(), TreeError> {
    let flags = fs::OFlags::PATH | fs::OFlags::NOFOLLOW | fs::OFlags::CLOEXEC;
    let entry = fs::openat(parent, name, flags, Mode::empty()).map_err(failed("set mode"))?;
    let stat = fs::fstat(&entry).map_err(failed("set mode"))?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        return Ok(());
    }
    fs::chmod(descriptor_path(&entry), Mode::from_raw_mode(mode)).map_err(failed("set mode"))
}

/// The path by which the kernel reaches what a descriptor stands for.
pub fn descriptor_path(entry: &impl AsFd) -> String {
    format!("/proc/self/fd/{}", entry.as_fd().as_raw_fd())
}

/// `name` below an open directory as one path, the last component not yet resolved.
pub fn name_below(parent: &OwnedFd, name: &OsStr) -> Result<CString, TreeError> {
    let mut path = descriptor_path(parent).into_bytes();
    path.push(b'/');
    path.extend_from_slice(name.as_bytes());
    CString::new(path).map_err(|_| failed("resolve")(rustix::io::Errno::INVAL))
}
