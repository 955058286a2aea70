//! The contract of the file system: one method for each operation. `docs/SEMANTICS.md` says what each promises.
//!
//! All operations may be called from any thread, block, and start no thread. Names are passed on to the metadata
//! service; content goes to the data services piece by piece ([`crate::stripes`]) inside the gate of its file
//! ([`crate::file`]). Crashes: see the services.

mod content;

use crate::counters::{Counters, Staged, Transfer};
use crate::file::{File, Files};
use crate::handles::{Handle, Handles};
use forebay_model::layout::Layout;
use forebay_wire::{
    Attr, Caller, DataService, DirEntry, FsError, Ino, Loan, LockService, MetadataService, Moved, NewObject,
    OpenFlags, RenameMode, Result, SetAttr, Sharing, Statfs, Stub, XattrMode,
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
    /// The whole content is in the stub, and reading and writing that directly is right in every respect.
    pub backing: Option<Arc<OwnedFd>>,
}

/// One namespace of an instance.
pub struct Volume {
    metadata: Arc<dyn MetadataService>,
    data: Vec<Arc<dyn DataService>>,
    locks: Option<Arc<dyn LockService>>,
    max_file_size: u64,
    files: Files,
    handles: Handles,
    read: Transfer,
    written: Transfer,
    staged: Staged,
}

impl Volume {
    /// A volume over the services of one namespace; `data` in the order of the fragments.
    pub fn new(metadata: Arc<dyn MetadataService>, data: Vec<Arc<dyn DataService>>) -> Volume {
        let max_file_size = metadata.limits().max_file_size;
        Volume {
            metadata,
            data,
            locks: None,
            max_file_size,
            files: Files::default(),
            handles: Handles::default(),
            read: Transfer::default(),
            written: Transfer::default(),
            staged: Staged::default(),
        }
    }

    /// With the locks of those who share the namespace.
    pub fn with_locks(self, locks: Arc<dyn LockService>) -> Volume {
        Volume { locks: Some(locks), ..self }
    }

    /// Locks of files; `None` where the kernel's own are enough, since nobody else works here.
    pub fn locks(&self) -> Option<Arc<dyn LockService>> {
        self.locks.clone()
    }

    /// The object of a name. Counts a reference, as do all operations that make a name; see [`Volume::forget`].
    pub fn lookup(&self, by: Caller, parent: Ino, name: &OsStr) -> Result<Attr> {
        self.metadata.lookup(by, parent, name)
    }

    /// Gives `count` references to a number back.
    pub fn forget(&self, ino: Ino, count: u64) {
        self.metadata.forget(ino, count);
    }

    /// Attributes. A handle is not needed, also for a file without a name.
    pub fn getattr(&self, ino: Ino, _handle: Option<Handle>) -> Result<Attr> {
        self.metadata.getattr(ino)
    }

    /// Whether others work in the namespace at the same time.
    pub fn sharing(&self) -> Sharing {
        self.metadata.sharing()
    }

    /// Changes attributes, in the order length, owner, mode, times. Permission is the business of the kernel, and of the
    /// service where it is reached over a network; a handle carries the right to change the length.
    pub fn setattr(&self, by: Caller, ino: Ino, handle: Option<Handle>, change: &SetAttr) -> Result<Attr> {
        let open = handle.and_then(|handle| self.handles.file(handle).ok());
        let through = open.as_ref().map(|open| &*open.stub);
        if change.size.is_none() {
            return self.metadata.setattr(by, ino, through, change);
        }
        let gate = self.gate(by, ino)?;
        let body = gate.as_ref().map(|file| file.alone());
        let attr = self.metadata.setattr(by, ino, through, change);
        drop(body);
        drop(gate);
        self.files.dropped(ino);
        attr
    }

    /// The file whose gate has to be passed alone to change its length. In a namespace that others use the service
    /// keeps order; then only those who have it open here are kept out.
    fn gate(&self, by: Caller, ino: Ino) -> Result<Option<Arc<File>>> {
        match self.sharing() {
            Sharing::Sole => Ok(Some(self.file(by, ino, OpenFlags::READ_ONLY)?.0)),
            Sharing::Shared => Ok(self.files.opened(ino)),
        }
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
        self.metadata.symlink(caller, parent, name, target)
    }

    /// Gives an object another name.
    pub fn link(&self, by: Caller, ino: Ino, new_parent: Ino, new_name: &OsStr) -> Result<Attr> {
        self.metadata.link(by, ino, new_parent, new_name)
    }

    /// Removes a name of anything but a directory.
    pub fn unlink(&self, by: Caller, parent: Ino, name: &OsStr) -> Result<()> {
        self.metadata.unlink(by, parent, name)
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, by: Caller, parent: Ino, name: &OsStr) -> Result<()> {
        self.metadata.rmdir(by, parent, name)
    }

    /// Moves a name.
    pub fn rename(
        &self,
        by: Caller,
        parent: Ino,
        name: &OsStr,
        new_parent: Ino,
        new_name: &OsStr,
        mode: RenameMode,
    ) -> Result<()> {
        self.metadata.rename(by, (parent, name), (new_parent, new_name), mode)
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
        match self.metadata.create(parent, name, &NewObject { caller, mode, rdev: 0 }, flags) {
            Ok((attr, stub)) => {
                let file = self.files.get(attr.ino, &self.data, stub.clone())?;
                Ok((attr, self.opened(attr.ino, file, stub, flags)))
            }
            Err(FsError::Exists) if !flags.contains(OpenFlags::EXCLUSIVE) => {
                self.open_existing(caller, parent, name, flags)
            }
            Err(error) => Err(error),
        }
    }

    fn open_existing(
        &self,
        by: Caller,
        parent: Ino,
        name: &OsStr,
        flags: OpenFlags,
    ) -> Result<(Attr, Opened)> {
        let attr = self.metadata.lookup(by, parent, name)?;
        let opened = self.open(by, attr.ino, flags).and_then(|opened| {
            // Opening may have cut it.
            Ok((self.metadata.getattr(attr.ino)?, opened))
        });
        if opened.is_err() {
            self.metadata.forget(attr.ino, 1);
        }
        opened
    }

    /// Opens a regular file, and cuts it if `flags` say `O_TRUNC`.
    pub fn open(&self, by: Caller, ino: Ino, flags: OpenFlags) -> Result<Opened> {
        let (file, stub) = self.file(by, ino, flags)?;
        if flags.contains(OpenFlags::TRUNCATE) {
            let _alone = file.alone();
            let cut = SetAttr { size: Some(0), ..SetAttr::default() };
            self.metadata.setattr(by, ino, Some(&*stub), &cut)?;
        }
        Ok(self.opened(ino, file, stub, flags))
    }

    fn file(&self, by: Caller, ino: Ino, flags: OpenFlags) -> Result<(Arc<File>, Arc<dyn Stub>)> {
        let stub = self.metadata.open(by, ino, flags)?;
        Ok((self.files.get(ino, &self.data, stub.clone())?, stub))
    }

    fn opened(&self, ino: Ino, file: Arc<File>, stub: Arc<dyn Stub>, flags: OpenFlags) -> Opened {
        let backing = stub.backing();
        Opened { handle: self.handles.add_file(ino, file, stub, flags), backing }
    }

    /// Lends the one local file that all content of an open file is in, for as long as the file is open: see
    /// [`forebay_wire::Stub::lend`].
    pub fn lend(&self, handle: Handle) -> Result<Option<Box<dyn Loan>>> {
        let open = self.handles.file(handle)?;
        // It is neither moved nor written meanwhile: its length may have to be set.
        let _alone = open.file.alone();
        open.stub.lend()
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
    pub fn opendir(&self, by: Caller, ino: Ino) -> Result<Handle> {
        Ok(self.handles.add_directory(Arc::from(self.metadata.opendir(by, ino)?)))
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

    /// As [`Volume::readdir`], with the attributes of an entry where they come at no price: from a server that is asked
    /// for many at once. They count a reference, as [`Volume::lookup`] does, if the entry is taken.
    pub fn readdir_with_attributes(
        &self,
        handle: Handle,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry<'_>, Option<&Attr>) -> bool,
    ) -> Result<()> {
        self.handles.directory(handle)?.read_with_attributes(cookie, sink)
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
    pub fn getxattr(&self, by: Caller, ino: Ino, name: &OsStr) -> Result<Vec<u8>> {
        self.metadata.getxattr(by, ino, name)
    }

    /// Sets an extended attribute.
    pub fn setxattr(&self, by: Caller, ino: Ino, name: &OsStr, value: &[u8], mode: XattrMode) -> Result<()> {
        self.with_layout_alone(by, ino, name, || self.metadata.setxattr(by, ino, name, value, mode))
    }

    /// Names of the extended attributes, each ended by a NUL byte.
    pub fn listxattr(&self, by: Caller, ino: Ino) -> Result<Vec<u8>> {
        self.metadata.listxattr(by, ino)
    }

    /// Removes an extended attribute.
    pub fn removexattr(&self, by: Caller, ino: Ino, name: &OsStr) -> Result<()> {
        self.with_layout_alone(by, ino, name, || self.metadata.removexattr(by, ino, name))
    }

    /// Runs a change of an extended attribute; alone on the file if it may change its layout.
    fn with_layout_alone(
        &self,
        by: Caller,
        ino: Ino,
        name: &OsStr,
        change: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if !name.as_bytes().starts_with(LAYOUT_ATTRIBUTES) {
            return change();
        }
        match self.gate(by, ino) {
            Ok(Some(file)) => {
                let done = file.moving(&self.data, change);
                drop(file);
                self.files.dropped(ino);
                done
            }
            Ok(None) | Err(FsError::IsDirectory | FsError::InvalidArgument) => change(),
            Err(error) => Err(error),
        }
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        let Moved { bytes_read, bytes_written, max_offset_read, max_offset_written, .. } = self.moved();
        let files_created = self.metadata.files_created();
        Counters { bytes_read, bytes_written, files_created, max_offset_read, max_offset_written }
    }

    /// What was read and written so far.
    pub fn moved(&self) -> Moved {
        let (stage_bytes_read, stage_bytes_written) = self.staged.bytes();
        Moved {
            bytes_read: self.read.bytes(),
            bytes_written: self.written.bytes(),
            max_offset_read: self.read.furthest(),
            max_offset_written: self.written.furthest(),
            stage_bytes_read,
            stage_bytes_written,
        }
    }

    /// A staging took so many bytes out, and brought so many in.
    pub fn count_staged(&self, out: u64, brought_in: u64) {
        self.staged.count(out, brought_in);
    }

    /// What was read and written since the namespace was made, through this volume and those before it that are known.
    pub fn moved_ever(&self) -> Moved {
        // A report that fails leaves the last one.
        let _ = self.report();
        self.metadata.reported()
    }

    /// Layout of a new file, if it is known here.
    pub fn new_layout(&self) -> Option<Layout> {
        self.metadata.new_layout()
    }

    /// Tells the metadata service what was read and written so far.
    pub fn report(&self) -> Result<()> {
        self.metadata.report(self.moved())
    }

    /// Everything written so far, names and content, is on disk afterwards.
    pub fn sync(&self) -> Result<()> {
        self.data.iter().try_for_each(|data| data.sync())?;
        self.metadata.sync()
    }
}
