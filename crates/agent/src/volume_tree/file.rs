//! Open files and directories of a volume.

use super::cause::failed;
use super::resolve::Held;
use super::{SharedCache, announce, entry};
use forebay_client::{Handle, Opened, Volume};
use forebay_stager::TreeError;
use forebay_stager::tree::{DirEntry, DirStream, Metadata, ReadFile, SetMetadata, WriteFile};
use forebay_wire::{FsError, OpenFlags, Result as FsResult, SeekWhat, SetAttr, XattrMode};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// An open file. Released on drop.
struct OpenFile {
    volume: Arc<Volume>,
    file: Held,
    opened: Opened,
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // What could fail in closing has been reported by the sync that staging ends with.
        let _ = self.volume.release(self.opened.handle);
    }
}

impl OpenFile {
    fn handle(&self) -> Handle {
        self.opened.handle
    }

    fn metadata(&self) -> Result<Metadata, TreeError> {
        let attr = self.volume.getattr(self.file.ino(), Some(self.handle()));
        attr.map(|attr| entry::metadata(&attr)).map_err(failed("look at"))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, TreeError> {
        let mut done = 0;
        while done < buffer.len() {
            let read = self.volume.read(self.handle(), offset + done as u64, &mut buffer[done..]);
            match read.map_err(failed("read"))? {
                0 => break,
                count => done += count,
            }
        }
        Ok(done)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.opened.backing.as_ref().map(|backing| backing.as_fd())
    }
}

/// A file open for reading.
pub(crate) struct VolumeReader(OpenFile);

impl VolumeReader {
    pub fn open(volume: Arc<Volume>, file: Held) -> Result<VolumeReader, TreeError> {
        let opened =
            volume.open(super::caller(), file.ino(), OpenFlags::READ_ONLY).map_err(failed("open"))?;
        Ok(VolumeReader(OpenFile { volume, file, opened }))
    }
}

impl ReadFile for VolumeReader {
    fn metadata(&self) -> Result<Metadata, TreeError> {
        self.0.metadata()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, TreeError> {
        self.0.read_at(offset, buffer)
    }

    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, TreeError> {
        let seek = |from, what| self.0.volume.seek(self.0.handle(), from, what);
        let begin = match seek(offset, SeekWhat::Data) {
            Ok(begin) => begin,
            Err(FsError::NoData) => return Ok(None),
            Err(error) => return Err(failed("look for data in")(error)),
        };
        match seek(begin, SeekWhat::Hole) {
            Ok(end) => Ok(Some(begin..end)),
            // Cut off by another process in between.
            Err(FsError::NoData) => Ok(None),
            Err(error) => Err(failed("look for data in")(error)),
        }
    }

    fn xattr_names(&self) -> Result<Vec<OsString>, TreeError> {
        entry::xattr_names(&self.0.volume, self.0.file.ino()).map_err(failed("list attributes"))
    }

    fn xattr(&self, name: &OsStr) -> Result<Vec<u8>, TreeError> {
        self.0.volume.getxattr(super::caller(), self.0.file.ino(), name).map_err(failed("read attribute"))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.0.descriptor()
    }
}

/// A new file open for writing.
pub(crate) struct VolumeWriter {
    open: OpenFile,
    cache: SharedCache,
}

impl VolumeWriter {
    pub fn new(volume: Arc<Volume>, file: Held, opened: Opened, cache: SharedCache) -> VolumeWriter {
        VolumeWriter { open: OpenFile { volume, file, opened }, cache }
    }

    fn write_all(&self, mut offset: u64, mut data: &[u8]) -> FsResult<()> {
        while !data.is_empty() {
            let written = self.open.volume.write(self.open.handle(), offset, data, false)?;
            if written == 0 {
                // Full in the middle of the request; the next one says so, but must not be waited for forever.
                return Err(FsError::NoSpace);
            }
            offset += written as u64;
            data = &data[written..];
        }
        Ok(())
    }
}

impl Drop for VolumeWriter {
    fn drop(&mut self) {
        // The kernel may have seen the file while it was short.
        announce(&self.cache, |cache| cache.changed(self.open.file.ino()));
    }
}

impl WriteFile for VolumeWriter {
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), TreeError> {
        self.write_all(offset, data).map_err(failed("write"))
    }

    fn set_len(&self, size: u64) -> Result<(), TreeError> {
        let change = SetAttr { size: Some(size), ..SetAttr::default() };
        let (volume, file) = (&self.open.volume, &self.open.file);
        let set = volume.setattr(super::caller(), file.ino(), Some(self.open.handle()), &change);
        set.map(drop).map_err(failed("set the length of"))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, TreeError> {
        self.open.read_at(offset, buffer)
    }

    fn metadata(&self) -> Result<Metadata, TreeError> {
        self.open.metadata()
    }

    fn set_metadata(&self, change: &SetMetadata) -> Result<(), TreeError> {
        let (volume, handle) = (&self.open.volume, Some(self.open.handle()));
        entry::set_metadata(volume, &self.open.file, handle, change).map_err(failed("set attributes"))
    }

    fn set_xattr(&self, name: &OsStr, value: &[u8]) -> Result<(), TreeError> {
        let set =
            self.open.volume.setxattr(super::caller(), self.open.file.ino(), name, value, XattrMode::Any);
        set.map_err(failed("set attribute"))
    }

    fn sync(&self) -> Result<(), TreeError> {
        self.open.volume.fsync(self.open.handle(), false).map_err(failed("sync"))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.open.descriptor()
    }
}

/// Names read ahead.
const BATCH: usize = 256;

/// A directory being read.
pub(crate) struct VolumeDirectory {
    volume: Arc<Volume>,
    handle: Handle,
    _directory: Held,
    cookie: u64,
    batch: VecDeque<DirEntry>,
    ended: bool,
}

impl VolumeDirectory {
    pub fn open(volume: Arc<Volume>, directory: Held) -> Result<VolumeDirectory, TreeError> {
        let handle = volume.opendir(super::caller(), directory.ino()).map_err(failed("read directory"))?;
        let batch = VecDeque::new();
        Ok(VolumeDirectory { volume, handle, _directory: directory, cookie: 0, batch, ended: false })
    }

    fn refill(&mut self) -> Result<(), TreeError> {
        let from = self.cookie;
        let (batch, cookie) = (&mut self.batch, &mut self.cookie);
        let mut seen = 0;
        let mut sink = |entry: forebay_wire::DirEntry<'_>| {
            if batch.len() == BATCH {
                return false;
            }
            seen += 1;
            *cookie = entry.next_cookie;
            if entry.name != "." && entry.name != ".." {
                batch
                    .push_back(DirEntry { name: entry.name.to_owned(), kind: Some(entry::kind(entry.kind)) });
            }
            true
        };
        self.volume.readdir(self.handle, from, &mut sink).map_err(failed("read directory"))?;
        self.ended = seen == 0;
        Ok(())
    }
}

impl DirStream for VolumeDirectory {
    fn next_entry(&mut self) -> Result<Option<DirEntry>, TreeError> {
        while self.batch.is_empty() && !self.ended {
            self.refill()?;
        }
        Ok(self.batch.pop_front())
    }
}

impl Drop for VolumeDirectory {
    fn drop(&mut self) {
        let _ = self.volume.releasedir(self.handle);
    }
}
