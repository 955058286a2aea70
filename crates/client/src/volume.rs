//! The contract of the file system: one method for each operation.

use forebay_wire::*;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// An open file or directory of a [`Volume`]. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(pub u64);

/// What opening gives.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The open file.
    pub handle: Handle,
    /// The whole content is this one local file, and reading and writing it directly is right in every respect: a
    /// kernel may be given it.
    pub backing: Option<Arc<OwnedFd>>,
}

/// What was done so far, in bytes and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes read through this volume.
    pub bytes_read: u64,
    /// Bytes written through this volume.
    pub bytes_written: u64,
    /// Regular files created since the namespace was made.
    pub files_created: u64,
    /// End of the furthest read.
    pub max_offset_read: u64,
    /// End of the furthest write.
    pub max_offset_written: u64,
}

/// One namespace of an instance. All operations may be called from any thread, block, and start no thread.
pub struct Volume {}

#[allow(unused_variables, missing_docs, clippy::unimplemented)]
impl Volume {
    pub fn new(metadata: Arc<dyn MetadataService>, data: Vec<Arc<dyn DataService>>) -> Volume {
        unimplemented!()
    }
    pub fn lookup(&self, parent: Ino, name: &OsStr) -> Result<Attr> {
        unimplemented!()
    }
    pub fn forget(&self, ino: Ino, count: u64) {
        unimplemented!()
    }
    pub fn getattr(&self, ino: Ino, handle: Option<Handle>) -> Result<Attr> {
        unimplemented!()
    }
    pub fn setattr(
        &self,
        caller: Caller,
        ino: Ino,
        handle: Option<Handle>,
        change: &SetAttr,
    ) -> Result<Attr> {
        unimplemented!()
    }
    pub fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        unimplemented!()
    }
    pub fn mknod(&self, caller: Caller, parent: Ino, name: &OsStr, mode: u32, rdev: u32) -> Result<Attr> {
        unimplemented!()
    }
    pub fn mkdir(&self, caller: Caller, parent: Ino, name: &OsStr, mode: u32) -> Result<Attr> {
        unimplemented!()
    }
    pub fn symlink(&self, caller: Caller, parent: Ino, name: &OsStr, target: &Path) -> Result<Attr> {
        unimplemented!()
    }
    pub fn link(&self, ino: Ino, new_parent: Ino, new_name: &OsStr) -> Result<Attr> {
        unimplemented!()
    }
    pub fn unlink(&self, parent: Ino, name: &OsStr) -> Result<()> {
        unimplemented!()
    }
    pub fn rmdir(&self, parent: Ino, name: &OsStr) -> Result<()> {
        unimplemented!()
    }
    pub fn rename(
        &self,
        parent: Ino,
        name: &OsStr,
        new_parent: Ino,
        new_name: &OsStr,
        mode: RenameMode,
    ) -> Result<()> {
        unimplemented!()
    }
    pub fn create(
        &self,
        caller: Caller,
        parent: Ino,
        name: &OsStr,
        mode: u32,
        flags: OpenFlags,
    ) -> Result<(Attr, Opened)> {
        unimplemented!()
    }
    pub fn open(&self, ino: Ino, flags: OpenFlags) -> Result<Opened> {
        unimplemented!()
    }
    pub fn read(&self, handle: Handle, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        unimplemented!()
    }
    pub fn write(&self, handle: Handle, offset: u64, data: &[u8], kill_suid_sgid: bool) -> Result<usize> {
        unimplemented!()
    }
    pub fn flush(&self, handle: Handle) -> Result<()> {
        unimplemented!()
    }
    pub fn fsync(&self, handle: Handle, data_only: bool) -> Result<()> {
        unimplemented!()
    }
    pub fn release(&self, handle: Handle) -> Result<()> {
        unimplemented!()
    }
    pub fn fallocate(&self, handle: Handle, offset: u64, length: u64, mode: FallocateMode) -> Result<()> {
        unimplemented!()
    }
    pub fn seek(&self, handle: Handle, offset: u64, what: SeekWhat) -> Result<u64> {
        unimplemented!()
    }
    pub fn copy_range(
        &self,
        from: Handle,
        from_offset: u64,
        to: Handle,
        to_offset: u64,
        length: u64,
    ) -> Result<u64> {
        unimplemented!()
    }
    pub fn opendir(&self, ino: Ino) -> Result<Handle> {
        unimplemented!()
    }
    pub fn readdir(
        &self,
        handle: Handle,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        unimplemented!()
    }
    pub fn releasedir(&self, handle: Handle) -> Result<()> {
        unimplemented!()
    }
    pub fn fsyncdir(&self, handle: Handle, data_only: bool) -> Result<()> {
        unimplemented!()
    }
    pub fn statfs(&self) -> Result<Statfs> {
        unimplemented!()
    }
    pub fn getxattr(&self, ino: Ino, name: &OsStr) -> Result<Vec<u8>> {
        unimplemented!()
    }
    pub fn setxattr(&self, ino: Ino, name: &OsStr, value: &[u8], mode: XattrMode) -> Result<()> {
        unimplemented!()
    }
    pub fn listxattr(&self, ino: Ino) -> Result<Vec<u8>> {
        unimplemented!()
    }
    pub fn removexattr(&self, ino: Ino, name: &OsStr) -> Result<()> {
        unimplemented!()
    }
    pub fn counters(&self) -> Counters {
        unimplemented!()
    }
    pub fn sync(&self) -> Result<()> {
        unimplemented!()
    }
}
