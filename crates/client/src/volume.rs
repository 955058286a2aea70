//! The contract of the file system: one method for each operation. `docs/SEMANTICS.md` says what each promises.
//!
//! All operations may be called from any thread, block, and start no thread. Names are passed on to the metadata
//! service; content goes to the data services piece by piece ([`crate::stripes`]) inside the gate of its file
//! ([`crate::file`]). Crashes: see the services.

mod content;

use crate::counters::{Counters, Transfer};
use crate::file::{File, Files};
use crate::handles::{Handle, Handles};
use forebay_wire::{
    Attr, Caller, DataService, DirEntry, FsError, Ino, MetadataService, NewObject, OpenFlags, RenameMode,
    Result, SetAttr, Statfs, XattrMode,
};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Unit of the block counts of [`Volume::statfs`], in bytes.
const STATFS_BLOCK: u64 = 4096;
/// Longest name in bytes.
const NAME_MAX: u32 = 255;
/// Extended attributes that may move the content of an empty file start like this.
const LAYOUT_ATTRIBUTES: &[u8] = b"user.dwfs.";

/// What opening gives.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The open file.
    pub handle: Handle,
    /// The whole content is this one local file, and reading and writing it directly is right in every respect: a
    /// kernel may be given it.
    pub backing: Option<Arc<OwnedFd>>,
}

/// One namespace of an instance.
pub struct Volume {
    metadata: Arc<dyn MetadataService>,
    data: Vec<Arc<dyn DataService>>,
    max_file_size: u64,
    files: Files,
    handles: Handles,
    read: Transfer,
    written: Transfer,
}

impl Volume {
    /// A volume over the services of one namespace; `data` in the order of the fragments.
    pub fn new(metadata: Arc<dyn MetadataService>, data: Vec<Arc<dyn DataService>>) -> Volume {
        let max_file_size = metadata.limits().max_file_size;
        Volume {
            metadata,
            data,
            max_file_size,
            files: Files::default(),
            handles: Handles::default(),
            read: Transfer::default(),
            written: Transfer::default(),
        }
    }

    /// The object of a name. Counts a reference, as do all operations that make a name; see [`Volume::forget`].
    pub fn lookup(&self, parent: Ino, name: &OsStr) -> Result<Attr> {
        self.metadata.lookup(parent, name)
    }

    /// Gives `count` references to a number back.
    pub fn forget(&self, ino: Ino, count: u64) {
        self.metadata.forget(ino, count);
    }

    /// Attributes. A handle is not needed, also for a file without a name.
    pub fn getattr(&self, ino: Ino, _handle: Option<Handle>) -> Result<Attr> {
        self.metadata.getattr(ino)
    }

    /// Changes attributes, in the order length, owner, mode, times. Permission is the caller's business.
    pub fn setattr(
        &self,
        _caller: Caller,
        ino: Ino,
        _handle: Option<Handle>,
        change: &SetAttr,
    ) -> Result<Attr> {
        if change.size.is_none() {
            return self.metadata.setattr(ino, change);
        }
        let file = self.file(ino)?;
        let body = file.alone();
        let attr = self.metadata.setattr(ino, change);
        drop(body);
        drop(file);
        self.files.dropped(ino);
        attr
    }

    /// Target of a symbolic link.
    pub fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        self.metadata.readlink(ino)
    }

    /// Makes a regular file, fifo, socket or device node; `mode` with the `S_IFMT` bits.
    pub fn mknod(&self, caller: Caller, parent: Ino, name: &OsStr, mode: u32, rdev: u32) -> Result<Attr> {
        self.metadata.mknod(parent, name, &NewObject { caller, mode, rdev })
    }

    /// Makes a directory.
    pub fn mkdir(&self, caller: Caller, parent: Ino, name: &OsStr, mode: u32) -> Result<Attr> {
        self.metadata.mkdir(parent, name, &NewObject { caller, mode, rdev: 0 })
    }

    /// Makes a symbolic link.
    pub fn symlink(&self, caller: Caller, parent: Ino, name: &OsStr, target: &Path) -> Result<Attr> {
        self.metadata.symlink(parent, name, target, caller)
    }

    /// Gives an object another name.
    pub fn link(&self, ino: Ino, new_parent: Ino, new_name: &OsStr) -> Result<Attr> {
        self.metadata.link(ino, new_parent, new_name)
    }

    /// Removes a name of anything but a directory.
    pub fn unlink(&self, parent: Ino, name: &OsStr) -> Result<()> {
        self.metadata.unlink(parent, name)
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, parent: Ino, name: &OsStr) -> Result<()> {
        self.metadata.rmdir(parent, name)
    }

    /// Moves a name.
    pub fn rename(
        &self,
        parent: Ino,
        name: &OsStr,
        new_parent: Ino,
        new_name: &OsStr,
        mode: RenameMode,
    ) -> Result<()> {
        self.metadata.rename((parent, name), (new_parent, new_name), mode)
    }

    /// Makes and opens a regular file. A name that exists is opened, unless `flags` say `O_EXCL`.
    pub fn create(
        &self,
        caller: Caller,
        parent: Ino,
        name: &OsStr,
        mode: u32,
        flags: OpenFlags,
    ) -> Result<(Attr, Opened)> {
        match self.metadata.create(parent, name, &NewObject { caller, mode, rdev: 0 }) {
            Ok((attr, stub)) => {
                let file = self.files.get(attr.ino, &self.data, || Ok(stub))?;
                Ok((attr, self.opened(attr.ino, file, flags)))
            }
            Err(FsError::Exists) if !flags.contains(OpenFlags::EXCLUSIVE) => {
                self.open_existing(parent, name, flags)
            }
            Err(error) => Err(error),
        }
    }

    fn open_existing(&self, parent: Ino, name: &OsStr, flags: OpenFlags) -> Result<(Attr, Opened)> {
        let attr = self.metadata.lookup(parent, name)?;
        let opened = self.open(attr.ino, flags).and_then(|opened| {
            // Opening may have cut it.
            Ok((self.metadata.getattr(attr.ino)?, opened))
        });
        if opened.is_err() {
            self.metadata.forget(attr.ino, 1);
        }
        opened
    }

    /// Opens a regular file, and cuts it if `flags` say `O_TRUNC`.
    pub fn open(&self, ino: Ino, flags: OpenFlags) -> Result<Opened> {
        let file = self.file(ino)?;
        if flags.contains(OpenFlags::TRUNCATE) {
            let _alone = file.alone();
            self.metadata.setattr(ino, &SetAttr { size: Some(0), ..SetAttr::default() })?;
        }
        Ok(self.opened(ino, file, flags))
    }

    fn file(&self, ino: Ino) -> Result<Arc<File>> {
        self.files.get(ino, &self.data, || self.metadata.open(ino))
    }

    fn opened(&self, ino: Ino, file: Arc<File>, flags: OpenFlags) -> Opened {
        let backing = file.stub.backing();
        Opened { handle: self.handles.add_file(ino, file, flags), backing }
    }

    /// Closes a handle. The content of a file without a name goes with its last handle.
    pub fn release(&self, handle: Handle) -> Result<()> {
        let open = self.handles.remove_file(handle)?;
        let ino = open.ino;
        drop(open);
        self.files.dropped(ino);
        Ok(())
    }

    /// Opens a directory for listing.
    pub fn opendir(&self, ino: Ino) -> Result<Handle> {
        Ok(self.handles.add_directory(Arc::from(self.metadata.opendir(ino)?)))
    }

    /// Gives the entries after a cookie to `sink`, `.` and `..` among them, until it returns `false` (the entry is then
    /// not taken) or the directory ends. A cookie of 0 starts from the beginning and sees entries made since.
    pub fn readdir(
        &self,
        handle: Handle,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry<'_>) -> bool,
    ) -> Result<()> {
        self.handles.directory(handle)?.read(cookie, sink)
    }

    /// Closes a directory.
    pub fn releasedir(&self, handle: Handle) -> Result<()> {
        self.handles.remove_directory(handle)
    }

    /// The names in a directory are on disk afterwards.
    pub fn fsyncdir(&self, handle: Handle, data_only: bool) -> Result<()> {
        self.handles.directory(handle)?.sync(data_only)
    }

    /// Capacity and free space of all fragments, inodes of the first.
    pub fn statfs(&self) -> Result<Statfs> {
        self.metadata.give_back();
        let mut sum = Statfs { block_size: STATFS_BLOCK as u32, name_max: NAME_MAX, ..Statfs::default() };
        for (index, data) in self.data.iter().enumerate() {
            let space = data.space()?;
            sum.blocks += space.capacity / STATFS_BLOCK;
            sum.blocks_free += space.free / STATFS_BLOCK;
            if index == 0 {
                (sum.files, sum.files_free) = (space.files, space.files_free);
            }
        }
        sum.blocks_available = sum.blocks_free;
        Ok(sum)
    }

    /// Value of an extended attribute.
    pub fn getxattr(&self, ino: Ino, name: &OsStr) -> Result<Vec<u8>> {
        self.metadata.getxattr(ino, name)
    }

    /// Sets an extended attribute.
    pub fn setxattr(&self, ino: Ino, name: &OsStr, value: &[u8], mode: XattrMode) -> Result<()> {
        self.with_layout_alone(ino, name, || self.metadata.setxattr(ino, name, value, mode))
    }

    /// Names of the extended attributes, each ended by a NUL byte.
    pub fn listxattr(&self, ino: Ino) -> Result<Vec<u8>> {
        self.metadata.listxattr(ino)
    }

    /// Removes an extended attribute.
    pub fn removexattr(&self, ino: Ino, name: &OsStr) -> Result<()> {
        self.with_layout_alone(ino, name, || self.metadata.removexattr(ino, name))
    }

    /// Runs a change of an extended attribute; alone on the file if it may change its layout.
    fn with_layout_alone(&self, ino: Ino, name: &OsStr, change: impl FnOnce() -> Result<()>) -> Result<()> {
        if !name.as_bytes().starts_with(LAYOUT_ATTRIBUTES) {
            return change();
        }
        match self.file(ino) {
            Ok(file) => {
                let done = file.moving(&self.data, change);
                drop(file);
                self.files.dropped(ino);
                done
            }
            Err(FsError::IsDirectory | FsError::InvalidArgument) => change(),
            Err(error) => Err(error),
        }
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        Counters {
            bytes_read: self.read.bytes(),
            bytes_written: self.written.bytes(),
            files_created: self.metadata.files_created(),
            max_offset_read: self.read.furthest(),
            max_offset_written: self.written.furthest(),
        }
    }

    /// Everything written so far, names and content, is on disk afterwards.
    pub fn sync(&self) -> Result<()> {
        self.data.iter().try_for_each(|data| data.sync())?;
        self.metadata.sync()
    }
}
