//! The file system's side: one method for each question of the kernel.
//!
//! Methods are called on the serving threads, several at the same time. Each gets a reply to answer with, now or later;
//! the defaults answer ENOSYS, which the kernel takes as "never ask this again" for most operations. A panic answers EIO
//! to its request and does not end the serving.

use crate::reply::*;
use crate::request::*;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fmt::Display;

/// What INTERRUPT does to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupted {
    /// It was found and answered, or is one that ends by itself.
    Heard,
    /// It is not known (yet): the kernel is to say it again.
    SayAgain,
}

/// Answers the kernel's questions. The object that a question is about is `context.node`, for names the directory.
#[allow(unused_variables)]
pub trait Handler: Send + Sync {
    /// Something went wrong and there is nobody to tell: a panic, a damaged message, a failing device.
    fn complain(&self, what: &dyn Display);

    /// The object of a name.
    fn lookup(&self, context: &Context, name: &OsStr, reply: EntryReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// The kernel gives `count` references to an object back. Nobody waits.
    fn forget(&self, node: u64, count: u64) {}

    /// A waiting caller of the request with this number was hit by a signal. The kernel goes on waiting for the answer.
    fn interrupt(&self, unique: u64) -> Interrupted {
        Interrupted::Heard
    }

    /// Attributes.
    fn getattr(&self, context: &Context, what: &Getattr, reply: AttrReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// Changes of attributes.
    fn setattr(&self, context: &Context, change: &Setattr, reply: AttrReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// Target of a symbolic link.
    fn readlink(&self, context: &Context, reply: LinkReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// A symbolic link is made.
    fn symlink(&self, context: &Context, name: &OsStr, target: &OsStr, reply: EntryReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// A file, fifo, socket or device node is made.
    fn mknod(&self, context: &Context, new: &MakeNode<'_>, reply: EntryReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// A directory is made.
    fn mkdir(&self, context: &Context, new: &MakeNode<'_>, reply: EntryReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// A name of anything but a directory is removed.
    fn unlink(&self, context: &Context, name: &OsStr, reply: DoneReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// An empty directory is removed.
    fn rmdir(&self, context: &Context, name: &OsStr, reply: DoneReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// A name moves.
    fn rename(&self, context: &Context, rename: &Rename<'_>, reply: DoneReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// `from` gets another name, in the context's directory.
    fn link(&self, context: &Context, from: u64, name: &OsStr, reply: EntryReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// A file is opened.
    fn open(&self, context: &Context, open: &Open, reply: OpenReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// A file is made and opened.
    fn create(&self, context: &Context, create: &Create<'_>, reply: CreateReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// A file without a name is made in the context's directory and opened.
    fn tmpfile(&self, context: &Context, create: &Create<'_>, reply: CreateReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// Content is asked for.
    fn read(&self, context: &Context, read: &Read, reply: DataReply<'_>) {
        reply.refuse(Errno::NOSYS);
    }

    /// Content is brought.
    fn write(&self, context: &Context, write: &Write<'_>, reply: WrittenReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// A descriptor is closed; there may be more of the same open file.
    fn flush(&self, context: &Context, handle: u64, lock_owner: u64, reply: DoneReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// The last descriptor is closed. Nobody sees the answer.
    fn release(&self, context: &Context, release: &Release, reply: DoneReply) {
        reply.done();
    }

    /// A file is made durable.
    fn fsync(&self, context: &Context, handle: u64, data_only: bool, reply: DoneReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// A directory is opened.
    fn opendir(&self, context: &Context, open: &Open, reply: OpenReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// A part of a listing.
    fn readdir(&self, context: &Context, read: &Readdir, reply: DirectoryReply<'_>) {
        reply.refuse(Errno::NOSYS);
    }

    /// A part of a listing with attributes.
    fn readdirplus(&self, context: &Context, read: &Readdir, reply: DirectoryPlusReply<'_>) {
        reply.refuse(Errno::NOSYS);
    }

    /// A directory is closed. Nobody sees the answer.
    fn releasedir(&self, context: &Context, release: &Release, reply: DoneReply) {
        reply.done();
    }

    /// The names in a directory are made durable.
    fn fsyncdir(&self, context: &Context, handle: u64, data_only: bool, reply: DoneReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// Everything is made durable. Older kernels never ask.
    fn syncfs(&self, context: &Context, reply: DoneReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// Space and files.
    fn statfs(&self, context: &Context, reply: StatfsReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// An extended attribute is set.
    fn setxattr(&self, context: &Context, set: &Setxattr<'_>, reply: DoneReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// The value of an extended attribute, or its length when `size` is 0.
    fn getxattr(&self, context: &Context, name: &OsStr, size: u32, reply: XattrReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// The names of all extended attributes, each with a zero byte, or their length when `size` is 0.
    fn listxattr(&self, context: &Context, size: u32, reply: XattrReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// An extended attribute is removed.
    fn removexattr(&self, context: &Context, name: &OsStr, reply: DoneReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// Permission is checked; never asked when the kernel checks itself.
    fn access(&self, context: &Context, mask: u32, reply: DoneReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// Which lock is in the way of this one.
    fn getlk(&self, context: &Context, lock: &Lock, reply: LockReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// A lock is wanted or given back. One that [`Lock::waits`] may be answered later: see [`crate::Waiters`].
    fn setlk(&self, context: &Context, lock: &Lock, reply: DoneReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// A command to an open file.
    fn ioctl(&self, context: &Context, ioctl: &Ioctl<'_>, reply: IoctlReply) {
        reply.refuse(Errno::NOTTY);
    }

    /// Space is allocated or given back.
    fn fallocate(&self, context: &Context, range: &Fallocate, reply: DoneReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// Data or a hole is looked for.
    fn lseek(&self, context: &Context, seek: &Seek, reply: SeekReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// A range is copied between two open files.
    fn copy_file_range(&self, context: &Context, copy: &Copy, reply: CopiedReply) {
        reply.refuse(Errno::NOSYS);
    }

    /// The mount is gone and every request is answered; called once, when no other method will be.
    fn end(&self) {}
}
