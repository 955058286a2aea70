//! The file system as the kernel asks it: each operation decodes, calls the volume, and answers.
//!
//! The bodies are in [`crate::ops`], one file per group. Called from every serving thread at the same time; the volume
//! does its own locking. Permission checks are the kernel's (`default_permissions`), so is the umask, and so are locks unless
//! other mounts share the namespace.
//! A crash loses what the volume had not yet made durable; the adapter itself keeps nothing.

use crate::backing::Backing;
use crate::cache::KernelCache;
use crate::complaint::complain;
use crate::lock_owners::LockOwners;
use crate::negotiate::{DataPath, Plan};
use crate::opens::Opens;
use crate::ops::{attrs, data, dirs, lifetime, locks, names, xattrs};
use crate::options::CachePolicy;
use crate::seen::Seen;
use crate::set_id::SetId;
use crate::translate;
use forebay_client::{Handle, Volume};
use forebay_fusedev::reply::*;
use forebay_fusedev::request::*;
use forebay_fusedev::{
    Closings, Connection, Context, Entry, Errno, Handler, Interrupted, OpenMode, Registrar, Waiters,
};
use forebay_wire::{Attr, Ino};
use std::ffi::OsStr;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

/// One mounted namespace.
pub(crate) struct Adapter {
    pub(crate) volume: Arc<Volume>,
    pub(crate) cache: CachePolicy,
    pub(crate) opens: Opens,
    pub(crate) set_id: SetId,
    pub(crate) lock_owners: LockOwners,
    pub(crate) lock_waits: Arc<Waiters<()>>,
    pub(crate) closings: Arc<Closings>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) registrar: Registrar,
    seen: Seen,
    plan: Plan,
}

/// What the adapter shares with the mount's handle.
pub(crate) struct Shared {
    /// Files handed to the kernel.
    pub backing: Backing,
    /// For telling the kernel what changed.
    pub kernel_cache: KernelCache,
}

impl Adapter {
    pub(crate) fn new(
        volume: Arc<Volume>,
        cache: CachePolicy,
        plan: Plan,
        connection: &Connection,
        shared: Arc<Shared>,
    ) -> Adapter {
        let (opens, set_id) = (Opens::default(), SetId::default());
        let (lock_owners, lock_waits) = (LockOwners::default(), Arc::default());
        let (closings, registrar) = (connection.closings(), connection.registrar());
        let seen = Seen::default();
        Adapter {
            volume,
            cache,
            opens,
            set_id,
            lock_owners,
            lock_waits,
            closings,
            shared,
            registrar,
            seen,
            plan,
        }
    }

    /// Life of an answer in the kernel: what the mount's policy allows and the answer itself.
    pub(crate) fn time_to_live(&self, attr: &Attr) -> Duration {
        self.cache.time_to_live().min(Duration::from_millis(attr.valid_ms.into()))
    }

    /// Attributes as the kernel gets them.
    pub(crate) fn show(&self, attr: &Attr) -> forebay_fusedev::Attr {
        self.set_id.note(attr);
        translate::attr(attr)
    }

    /// A name's object as the kernel gets it.
    pub(crate) fn entry(&self, attr: &Attr) -> Entry {
        let valid = self.time_to_live(attr);
        Entry { attr: self.show(attr), generation: attr.generation, name_valid: valid, attr_valid: valid }
    }

    /// Whether the kernel asks for set-id bits to be cleared rather than doing it.
    pub(crate) fn kills_privileges(&self) -> bool {
        self.plan.kills_privileges
    }

    /// Closing a descriptor has to be told, since locks go with it.
    pub(crate) fn grants_locks(&self) -> bool {
        self.plan.grants_locks
    }

    /// How a file that is served by requests is opened.
    pub(crate) fn open_mode(&self, ino: Ino, flags: i32) -> OpenMode {
        if self.cache.caches_data() {
            return self.cached_mode(ino, flags);
        }
        let mut mode = match self.plan.data {
            DataPath::Direct => OpenMode::DIRECT_IO | OpenMode::PARALLEL_DIRECT_WRITES,
            DataPath::Cached => OpenMode::empty(),
        };
        if self.cache.keeps_pages() {
            mode |= OpenMode::KEEP_CACHE;
        }
        mode
    }

    /// Where others append too, only the servers know where the end is: pages would be put at the wrong place.
    fn cached_mode(&self, ino: Ino, flags: i32) -> OpenMode {
        let unchanged = self.volume.getattr(ino, None).is_ok_and(|attr| self.seen.is_unchanged(&attr));
        let keep = if unchanged { OpenMode::KEEP_CACHE } else { OpenMode::empty() };
        match flags & libc::O_APPEND {
            0 => keep,
            _ => keep | OpenMode::DIRECT_IO,
        }
    }
}

impl Handler for Adapter {
    fn complain(&self, what: &dyn Display) {
        complain("serving the mount", what);
    }

    fn interrupt(&self, unique: u64) -> Interrupted {
        locks::interrupt(self, unique)
    }

    fn end(&self) {
        locks::end(&self.volume, &self.lock_waits);
        let left = self.opens.drain();
        let files = left.files.into_iter().map(|handle| self.volume.release(handle));
        let directories = left.directories.into_iter().map(|handle| self.volume.releasedir(handle));
        for error in files.chain(directories).filter_map(Result::err) {
            complain("closing what was open at unmount", &error);
        }
    }

    fn lookup(&self, context: &Context, name: &OsStr, reply: EntryReply) {
        names::lookup(self, context, name, reply);
    }

    fn forget(&self, node: u64, count: u64) {
        self.volume.forget(Ino(node), count);
    }

    fn getattr(&self, context: &Context, what: &Getattr, reply: AttrReply) {
        attrs::getattr(self, context, what, reply);
    }

    fn setattr(&self, context: &Context, change: &Setattr, reply: AttrReply) {
        attrs::setattr(self, context, change, reply);
    }

    fn readlink(&self, context: &Context, reply: LinkReply) {
        names::readlink(self, context, reply);
    }

    fn symlink(&self, context: &Context, name: &OsStr, target: &OsStr, reply: EntryReply) {
        names::symlink(self, context, name, target, reply);
    }

    fn mknod(&self, context: &Context, new: &MakeNode<'_>, reply: EntryReply) {
        names::mknod(self, context, new, reply);
    }

    fn mkdir(&self, context: &Context, new: &MakeNode<'_>, reply: EntryReply) {
        names::mkdir(self, context, new, reply);
    }

    fn unlink(&self, context: &Context, name: &OsStr, reply: DoneReply) {
        names::unlink(self, context, name, reply);
    }

    fn rmdir(&self, context: &Context, name: &OsStr, reply: DoneReply) {
        names::rmdir(self, context, name, reply);
    }

    fn rename(&self, context: &Context, rename: &Rename<'_>, reply: DoneReply) {
        names::rename(self, context, rename, reply);
    }

    fn link(&self, context: &Context, from: u64, name: &OsStr, reply: EntryReply) {
        names::link(self, context, Ino(from), name, reply);
    }

    fn open(&self, context: &Context, open: &Open, reply: OpenReply) {
        lifetime::open(self, context, open, reply);
    }

    fn create(&self, context: &Context, create: &Create<'_>, reply: CreateReply) {
        lifetime::create(self, context, create, reply);
    }

    /// Programs fall back to a named file. ENOSYS would have the kernel say "not supported" as well, after one look.
    fn tmpfile(&self, _: &Context, _: &Create<'_>, reply: CreateReply) {
        reply.refuse(Errno::OPNOTSUPP);
    }

    fn read(&self, _: &Context, read: &Read, reply: DataReply<'_>) {
        data::read(self, read, reply);
    }

    fn write(&self, context: &Context, write: &Write<'_>, reply: WrittenReply) {
        data::write(self, context, write, reply);
    }

    fn flush(&self, context: &Context, handle: u64, lock_owner: u64, reply: DoneReply) {
        lifetime::flush(self, context, Handle(handle), lock_owner, reply);
    }

    fn release(&self, context: &Context, release: &Release, reply: DoneReply) {
        lifetime::release(self, context, release, reply);
    }

    fn fsync(&self, context: &Context, handle: u64, data_only: bool, reply: DoneReply) {
        lifetime::fsync(self, context, Handle(handle), data_only, reply);
    }

    fn opendir(&self, context: &Context, _: &Open, reply: OpenReply) {
        dirs::opendir(self, context, reply);
    }

    fn readdir(&self, _: &Context, read: &Readdir, reply: DirectoryReply<'_>) {
        dirs::readdir(self, read, reply);
    }

    fn readdirplus(&self, context: &Context, read: &Readdir, reply: DirectoryPlusReply<'_>) {
        dirs::readdirplus(self, context, read, reply);
    }

    fn releasedir(&self, _: &Context, release: &Release, reply: DoneReply) {
        dirs::releasedir(self, Handle(release.handle), reply);
    }

    fn fsyncdir(&self, _: &Context, handle: u64, data_only: bool, reply: DoneReply) {
        dirs::fsyncdir(self, Handle(handle), data_only, reply);
    }

    fn statfs(&self, _: &Context, reply: StatfsReply) {
        attrs::statfs(self, reply);
    }

    fn setxattr(&self, context: &Context, set: &Setxattr<'_>, reply: DoneReply) {
        xattrs::set(self, context, set, reply);
    }

    fn getxattr(&self, context: &Context, name: &OsStr, size: u32, reply: XattrReply) {
        xattrs::get(self, context, name, size, reply);
    }

    fn listxattr(&self, context: &Context, size: u32, reply: XattrReply) {
        xattrs::list(self, context, size, reply);
    }

    fn removexattr(&self, context: &Context, name: &OsStr, reply: DoneReply) {
        xattrs::remove(self, context, name, reply);
    }

    fn getlk(&self, context: &Context, lock: &Lock, reply: LockReply) {
        locks::getlk(self, context, lock, reply);
    }

    fn setlk(&self, context: &Context, lock: &Lock, reply: DoneReply) {
        locks::setlk(self, context, lock, reply);
    }

    /// No command of a device or local file system has a meaning here.
    fn ioctl(&self, _: &Context, _: &Ioctl<'_>, reply: IoctlReply) {
        reply.refuse(Errno::NOTTY);
    }

    fn fallocate(&self, context: &Context, range: &Fallocate, reply: DoneReply) {
        data::fallocate(self, context, range, reply);
    }

    fn lseek(&self, _: &Context, seek: &Seek, reply: SeekReply) {
        data::lseek(self, seek, reply);
    }

    fn copy_file_range(&self, context: &Context, copy: &Copy, reply: CopiedReply) {
        data::copy_file_range(self, context, copy, reply);
    }
}
