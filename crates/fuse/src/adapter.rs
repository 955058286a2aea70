//! The file system as `fuser` calls it: each operation decodes, calls the volume, and answers.
//!
//! The bodies are in [`crate::ops`], one file per group. Called from every serving thread at the same time; the volume
//! does its own locking. Permission checks are the kernel's (`default_permissions`), so are locks and the umask.
//! A crash loses what the volume had not yet made durable; the adapter itself keeps nothing.

use crate::backing::Backing;
use crate::cache::KernelCache;
use crate::complaint::complain;
use crate::negotiate::{self, DataPath, Plan};
use crate::opens::Opens;
use crate::ops::data::RangeCopy;
use crate::ops::names::NewNode;
use crate::ops::{attrs, data, dirs, lifetime, names, xattrs};
use crate::options::{CachePolicy, MountOptions};
use crate::set_id::SetId;
use crate::translate;
use forebay_client::{Handle, Volume};
use forebay_wire::{Attr, Ino};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileAttr, FileHandle, Filesystem, FopenFlags, INodeNo, InitFlags,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

/// Largest request, the most the kernel sends with its default of 256 pages.
const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// Requests the kernel may have under way for read-ahead and asynchronous direct I/O.
const BACKGROUND_MAX: u16 = 64;
/// File systems that may be stacked: this one over the backing file's.
const STACK_DEPTH: u32 = 1;

/// One mounted namespace.
pub(crate) struct Adapter {
    pub(crate) volume: Arc<Volume>,
    pub(crate) cache: CachePolicy,
    pub(crate) opens: Opens,
    pub(crate) set_id: SetId,
    pub(crate) shared: Arc<Shared>,
    wants_passthrough: bool,
}

/// What the adapter shares with the mount's handle.
#[derive(Default)]
pub(crate) struct Shared {
    /// Files handed to the kernel.
    pub backing: Backing,
    /// Set when the kernel has introduced itself.
    pub agreed: OnceLock<Plan>,
    /// Set before the first request is served.
    pub kernel_cache: OnceLock<KernelCache>,
}

impl Adapter {
    pub(crate) fn new(volume: Arc<Volume>, options: &MountOptions, shared: Arc<Shared>) -> Adapter {
        let (cache, wants_passthrough) = (options.cache, options.passthrough);
        Adapter {
            volume,
            cache,
            opens: Opens::default(),
            set_id: SetId::default(),
            shared,
            wants_passthrough,
        }
    }

    /// Life of an answer in the kernel: what the mount's policy allows and the answer itself.
    pub(crate) fn time_to_live(&self, attr: &Attr) -> Duration {
        self.cache.time_to_live().min(Duration::from_millis(attr.valid_ms.into()))
    }

    /// Attributes as the kernel gets them.
    pub(crate) fn show(&self, attr: &Attr) -> FileAttr {
        self.set_id.note(attr);
        translate::attr(attr)
    }

    /// Whether the kernel asks for set-id bits to be cleared rather than doing it.
    pub(crate) fn kills_privileges(&self) -> bool {
        self.shared.agreed.get().is_some_and(|plan| plan.kills_privileges)
    }

    /// How files that are served by requests are opened.
    pub(crate) fn open_flags(&self) -> FopenFlags {
        let mut flags = match self.shared.agreed.get().map(|plan| plan.data) {
            Some(DataPath::Direct) => FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
            Some(DataPath::Cached) | None => FopenFlags::empty(),
        };
        if self.cache.keeps_pages() {
            flags |= FopenFlags::FOPEN_KEEP_CACHE;
        }
        flags
    }
}

/// The refusals of `KernelConfig` name the nearest value it takes, which is then set.
fn configure(config: &mut KernelConfig, plan: &Plan) {
    let set = |result: Result<u32, u32>| result.err();
    if let Some(nearest) = set(config.set_max_write(REQUEST_BYTES_MAX)) {
        let _ = config.set_max_write(nearest);
    }
    if let Some(nearest) = set(config.set_max_readahead(REQUEST_BYTES_MAX)) {
        let _ = config.set_max_readahead(nearest);
    }
    let _ = config.set_max_background(BACKGROUND_MAX); // only zero is refused
    let _ = config.set_congestion_threshold(BACKGROUND_MAX); // likewise
    if plan.passthrough {
        let _ = config.set_max_stack_depth(STACK_DEPTH); // only more than 2 is refused
    }
}

impl Filesystem for Adapter {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let capabilities = config.capabilities();
        let plan = negotiate::plan(capabilities, self.wants_passthrough, self.cache);
        configure(config, &plan);
        config.add_capabilities(plan.flags).map_err(|lacking: InitFlags| {
            io::Error::new(io::ErrorKind::Unsupported, format!("capabilities {lacking:?}"))
        })?;
        let _ = self.shared.agreed.set(plan); // one connection is initialised once
        Ok(())
    }

    fn destroy(&mut self) {
        let left = self.opens.drain();
        let files = left.files.into_iter().map(|handle| self.volume.release(handle));
        let directories = left.directories.into_iter().map(|handle| self.volume.releasedir(handle));
        for error in files.chain(directories).filter_map(Result::err) {
            complain("closing what was open at unmount", &error);
        }
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        names::lookup(self, request, parent, name, reply);
    }

    fn forget(&self, _: &Request, ino: INodeNo, count: u64) {
        self.volume.forget(Ino(ino.0), count);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        attrs::getattr(self, ino, handle, reply);
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _created: Option<SystemTime>,
        _changed: Option<SystemTime>,
        _backed_up: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = attrs::Change { mode, uid, gid, size, atime, mtime, ctime };
        attrs::setattr(self, request, ino, handle, change, reply);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        names::readlink(self, ino, reply);
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        names::mknod(self, request, NewNode { parent, name, mode }, rdev, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        names::mkdir(self, request, NewNode { parent, name, mode }, reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        names::unlink(self, request, parent, name, reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        names::rmdir(self, request, parent, name, reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        names::symlink(self, request, parent, name, target, reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        names::rename(self, request, (parent, name), (new_parent, new_name), flags, reply);
    }

    fn link(
        &self,
        request: &Request,
        ino: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        names::link(self, request, ino, new_parent, new_name, reply);
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        lifetime::open(self, request, ino, flags, reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        lifetime::create(self, request, NewNode { parent, name, mode }, OpenFlags(flags), reply);
    }

    fn read(
        &self,
        _: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        data::read(self, Handle(handle.0), offset, size, reply);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let file = (translate::ino(ino), Handle(handle.0));
        data::write(self, file, offset, bytes, how, flags, reply);
    }

    fn flush(&self, _: &Request, ino: INodeNo, handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        lifetime::flush(self, ino, Handle(handle.0), reply);
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        lifetime::release(self, ino, Handle(handle.0), reply);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        lifetime::fsync(self, ino, Handle(handle.0), data_only, reply);
    }

    fn opendir(&self, request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        dirs::opendir(self, request, ino, reply);
    }

    fn readdir(&self, _: &Request, _ino: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectory) {
        dirs::readdir(self, Handle(handle.0), offset, reply);
    }

    fn readdirplus(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        dirs::readdirplus(self, request, ino, Handle(handle.0), offset, reply);
    }

    fn releasedir(
        &self,
        _: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        dirs::releasedir(self, Handle(handle.0), reply);
    }

    fn fsyncdir(&self, _: &Request, _ino: INodeNo, handle: FileHandle, data_only: bool, reply: ReplyEmpty) {
        dirs::fsyncdir(self, Handle(handle.0), data_only, reply);
    }

    fn statfs(&self, _: &Request, _ino: INodeNo, reply: ReplyStatfs) {
        attrs::statfs(self, reply);
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        xattrs::set(self, request, ino, name, value, flags, reply);
    }

    fn getxattr(&self, request: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        xattrs::get(self, request, ino, name, size, reply);
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        xattrs::list(self, request, ino, size, reply);
    }

    fn removexattr(&self, request: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        xattrs::remove(self, request, ino, name, reply);
    }

    fn ioctl(
        &self,
        _: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        _command: u32,
        _input: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(fuser::Errno::ENOTTY); // no request of a device or local file system has a meaning here
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        data::fallocate(self, request, (ino, Handle(handle.0)), (offset, length), mode, reply);
    }

    fn lseek(
        &self,
        _: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        data::lseek(self, Handle(handle.0), offset, whence, reply);
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _ino_in: INodeNo,
        from: FileHandle,
        from_offset: u64,
        to_ino: INodeNo,
        to: FileHandle,
        to_offset: u64,
        length: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let copy = RangeCopy { from: Handle(from.0), from_offset, to: Handle(to.0), to_offset, length };
        data::copy_file_range(self, request, to_ino, copy, reply);
    }
}
