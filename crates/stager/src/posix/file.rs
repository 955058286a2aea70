//! Regular files.
//!
//! Reading leaves no trace where that is allowed (to the owner and to root): a new access time is a transaction of the file
//! system, for the source as well as for a target that is read back.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{self, AtFlags, FileType, Gid, Mode, OFlags, SeekFrom, StatxFlags, Uid};
use rustix::io::{self, Errno};

use super::cause::failed;
use super::{entry, xattr};
use crate::tree::{Cause, Metadata, ReadFile, SetMetadata, Shape, TreeError, WriteFile};

/// A regular file open for reading. The descriptor's own offset is used by nobody but `next_data`, which does not depend on it.
pub struct PosixSource {
    file: PosixFile,
    at_open: Metadata,
}

/// A regular file open for writing.
pub struct PosixFile(OwnedFd);

/// Opens for reading. `O_NONBLOCK` because the entry may have become a fifo since it was looked at.
pub fn open(parent: &OwnedFd, name: &OsStr) -> Result<PosixSource, TreeError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match fs::openat(parent, name, flags | OFlags::NOATIME, Mode::empty()) {
        // Somebody else's file.
        Err(Errno::PERM) => fs::openat(parent, name, flags, Mode::empty()),
        answer => answer,
    };
    let file = file.map_err(failed("open"))?;
    let stat = fs::fstat(&file).map_err(failed("open"))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(PosixSource { file: PosixFile(file), at_open: entry::metadata(&stat) }),
        FileType::Directory => Err(TreeError { operation: "open", cause: Cause::IsDirectory }),
        _ => Err(TreeError { operation: "open", cause: Cause::Unsupported }),
    }
}

/// Makes a new file.
pub fn create(parent: &OwnedFd, name: &OsStr, mode: u32) -> Result<PosixFile, TreeError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = fs::openat(parent, name, flags, Mode::from_raw_mode(mode)).map_err(failed("create"))?;
    // Not in the flags above: where it is refused (a file system that gives our files to somebody else) the file would have been
    // made all the same.
    let _ = fs::fcntl_setfl(&file, OFlags::NOATIME);
    Ok(PosixFile(file))
}

impl PosixFile {
    fn stat(&self) -> Result<Metadata, TreeError> {
        Ok(entry::metadata(&fs::fstat(&self.0).map_err(failed("stat"))?))
    }

    fn read_full(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, TreeError> {
        let mut done = 0;
        while done < buffer.len() {
            match io::pread(&self.0, &mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed("read")(errno)),
            }
        }
        Ok(done)
    }
}

impl ReadFile for PosixSource {
    fn metadata(&self) -> Result<Metadata, TreeError> {
        self.file.stat()
    }

    fn metadata_at_open(&self) -> Result<Metadata, TreeError> {
        Ok(self.at_open)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, TreeError> {
        self.file.read_full(offset, buffer)
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, TreeError> {
        let start = match fs::seek(&self.file.0, SeekFrom::Data(offset)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            Err(Errno::INVAL) => return self.rest_as_data(offset),
            Err(errno) => return Err(failed("seek")(errno)),
        };
        match fs::seek(&self.file.0, SeekFrom::Hole(start)) {
            Ok(end) => Ok(Some(start..end)),
            // The file shrank in between.
            Err(Errno::NXIO) => Ok(None),
            Err(errno) => Err(failed("seek")(errno)),
        }
    }

    fn xattr_names(&self) -> Result<Vec<OsString>, TreeError> {
        xattr::listed(xattr::fill("list attributes", |buffer| fs::flistxattr(&self.file.0, buffer)))
    }

    fn xattr(&self, name: &OsStr) -> Result<Vec<u8>, TreeError> {
        xattr::fill("read attribute", |buffer| fs::fgetxattr(&self.file.0, name, buffer))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.0.as_fd())
    }
}

impl PosixSource {
    /// For a file system that knows no holes.
    fn rest_as_data(&self, offset: u64) -> Result<Option<Range<u64>>, TreeError> {
        let size = self.file.stat()?.size;
        Ok((offset < size).then_some(offset..size))
    }
}

impl WriteFile for PosixFile {
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), TreeError> {
        let mut done = 0;
        while done < data.len() {
            match io::pwrite(&self.0, &data[done..], offset + done as u64) {
                Ok(0) => return Err(TreeError { operation: "write", cause: Cause::Io }),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed("write")(errno)),
            }
        }
        Ok(())
    }

    fn set_len(&self, size: u64) -> Result<(), TreeError> {
        fs::ftruncate(&self.0, size).map_err(failed("set size"))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, TreeError> {
        self.read_full(offset, buffer)
    }

    fn metadata(&self) -> Result<Metadata, TreeError> {
        self.stat()
    }

    fn shape(&self) -> Result<Shape, TreeError> {
        let wanted = StatxFlags::MODE | StatxFlags::UID | StatxFlags::GID | StatxFlags::SIZE;
        match fs::statx(&self.0, c"", AtFlags::EMPTY_PATH, wanted) {
            Ok(found) => Ok(Shape {
                mode: u32::from(found.stx_mode) & entry::PERMISSIONS,
                uid: found.stx_uid,
                gid: found.stx_gid,
                size: found.stx_size,
            }),
            // Linux before 4.11, or a filter of system calls.
            Err(Errno::NOSYS | Errno::PERM) => self.stat().map(Shape::from),
            Err(errno) => Err(failed("stat")(errno)),
        }
    }

    fn set_metadata(&self, change: &SetMetadata) -> Result<(), TreeError> {
        if let Some((uid, gid)) = change.owner {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            fs::fchown(&self.0, Some(uid), Some(gid)).map_err(failed("set owner"))?;
        }
        if let Some(mode) = change.mode {
            fs::fchmod(&self.0, Mode::from_raw_mode(mode)).map_err(failed("set mode"))?;
        }
        if let Some(times) = change.times {
            fs::futimens(&self.0, &entry::timestamps(times)).map_err(failed("set times"))?;
        }
        Ok(())
    }

    fn set_xattr(&self, name: &OsStr, value: &[u8]) -> Result<(), TreeError> {
        fs::fsetxattr(&self.0, name, value, fs::XattrFlags::empty()).map_err(failed("set attribute"))
    }

    fn sync(&self) -> Result<(), TreeError> {
        fs::fsync(&self.0).map_err(failed("sync"))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}
