//! From a message to the handler's method, with the reply that fits.

use crate::abi::opcode;
use crate::flags::Features;
use crate::handler::{Handler, Interrupted};
use crate::reply::*;
use crate::request::{DecodeError, Operation, Request, glance};
use crate::transport::Transport;
use forebay_awake::Awake;
use rustix::io::Errno;
use std::sync::Arc;

/// One thread's way from the kernel to the handler and back.
pub(crate) struct Dispatch<'a> {
    pub(crate) handler: &'a dyn Handler,
    pub(crate) features: Features,
    pub(crate) answers: Arc<dyn Transport>,
    pub(crate) awake: &'a Awake,
}

impl Dispatch<'_> {
    /// Serves one message; `room` is for the data of the answer.
    pub(crate) fn serve(&self, decoded: Result<Request<'_>, DecodeError>, room: &mut [u8]) {
        self.awake.called();
        match decoded {
            Ok(request) => self.call(&request, room),
            Err(error) => self.damaged(&error),
        }
    }

    fn damaged(&self, error: &DecodeError) {
        if let Some(unique) = error.unique() {
            let _ = self.answers.refuse(unique, Errno::IO); // its failure means that nobody waits
        }
        self.handler.complain(error);
    }

    /// The handler panicked over the message with this header. The reply was dropped on the way, so it was answered.
    pub(crate) fn panicked(&self, header: &[u8]) {
        let operation = glance::operation(header);
        self.handler
            .complain(&format_args!("a panic while serving operation {operation:?}; it was answered EIO"));
    }

    fn owed(&self, request: &Request<'_>) -> Owed {
        Owed::new(request.context.unique, Arc::clone(&self.answers))
    }

    fn call(&self, request: &Request<'_>, room: &mut [u8]) {
        use Operation as Op;
        let (to, context) = (self.handler, &request.context);
        match &request.operation {
            // Nobody waits for these.
            Op::Forget { count } => return to.forget(context.node, *count),
            Op::BatchForget(forgets) => {
                return forgets.iter().for_each(|(node, count)| to.forget(node, count));
            }
            Op::Interrupt { unique } => return self.interrupt(context.unique, *unique),
            _ => {}
        }
        let owed = self.owed(request);
        match &request.operation {
            Op::Forget { .. } | Op::BatchForget(_) | Op::Interrupt { .. } => {}
            Op::Lookup { name } => to.lookup(context, name, EntryReply::new(owed)),
            Op::Getattr(what) => to.getattr(context, what, AttrReply::new(owed)),
            Op::Setattr(change) => to.setattr(context, change, AttrReply::new(owed)),
            Op::Readlink => to.readlink(context, LinkReply::new(owed)),
            Op::Symlink { name, target } => to.symlink(context, name, target, EntryReply::new(owed)),
            Op::Mknod(new) => to.mknod(context, new, EntryReply::new(owed)),
            Op::Mkdir(new) => to.mkdir(context, new, EntryReply::new(owed)),
            Op::Unlink { name } => to.unlink(context, name, DoneReply::new(owed)),
            Op::Rmdir { name } => to.rmdir(context, name, DoneReply::new(owed)),
            Op::Rename(rename) => to.rename(context, rename, DoneReply::new(owed)),
            Op::Link { from, name } => to.link(context, *from, name, EntryReply::new(owed)),
            Op::Open(open) => to.open(context, open, OpenReply::new(owed)),
            Op::Create(create) => to.create(context, create, CreateReply::new(owed)),
            Op::Tmpfile(create) => to.tmpfile(context, create, CreateReply::new(owed)),
            Op::Read(read) => match room.get_mut(..read.size as usize) {
                Some(room) => to.read(context, read, DataReply::new(owed, room)),
                None => self.too_large(owed, opcode::READ, read.size),
            },
            Op::Write(write) => to.write(context, write, WrittenReply::new(owed)),
            Op::Flush { handle, lock_owner } => to.flush(context, *handle, *lock_owner, DoneReply::new(owed)),
            Op::Release(release) => to.release(context, release, DoneReply::new(owed)),
            Op::Fsync { handle, data_only } => to.fsync(context, *handle, *data_only, DoneReply::new(owed)),
            Op::Opendir(open) => to.opendir(context, open, OpenReply::new(owed)),
            Op::Readdir(read) => match room.get_mut(..read.size as usize) {
                Some(room) => to.readdir(context, read, DirectoryReply::new(owed, room)),
                None => self.too_large(owed, opcode::READDIR, read.size),
            },
            Op::Readdirplus(read) => match room.get_mut(..read.size as usize) {
                Some(room) => to.readdirplus(context, read, DirectoryPlusReply::new(owed, room)),
                None => self.too_large(owed, opcode::READDIRPLUS, read.size),
            },
            Op::Releasedir(release) => to.releasedir(context, release, DoneReply::new(owed)),
            Op::Fsyncdir { handle, data_only } => {
                to.fsyncdir(context, *handle, *data_only, DoneReply::new(owed))
            }
            Op::Syncfs => to.syncfs(context, DoneReply::new(owed)),
            Op::Statfs => to.statfs(context, StatfsReply::new(owed)),
            Op::Setxattr(set) => to.setxattr(context, set, DoneReply::new(owed)),
            Op::Getxattr { name, size } => to.getxattr(context, name, *size, XattrReply::new(owed)),
            Op::Listxattr { size } => to.listxattr(context, *size, XattrReply::new(owed)),
            Op::Removexattr { name } => to.removexattr(context, name, DoneReply::new(owed)),
            Op::Access { mask } => to.access(context, *mask, DoneReply::new(owed)),
            Op::Getlk(lock) => to.getlk(context, lock, LockReply::new(owed)),
            Op::Setlk(lock) => to.setlk(context, lock, DoneReply::new(owed)),
            Op::Ioctl(ioctl) => to.ioctl(context, ioctl, IoctlReply::new(owed)),
            Op::Fallocate(range) => to.fallocate(context, range, DoneReply::new(owed)),
            Op::Lseek(seek) => to.lseek(context, seek, SeekReply::new(owed)),
            Op::CopyFileRange(copy) => to.copy_file_range(context, copy, CopiedReply::new(owed)),
            Op::Destroy => DoneReply::new(owed).done(), // the end follows, and is acted on then
            // The kernel falls back to getattr, to "always ready", to no block map; a newer question is not for us.
            Op::Statx(_) | Op::Poll(_) | Op::Bmap { .. } | Op::Unknown { .. } => owed.refuse(Errno::NOSYS),
        }
    }

    /// An interrupt is answered only when it is to be said again.
    fn interrupt(&self, own: u64, unique: u64) {
        if self.handler.interrupt(unique) == Interrupted::SayAgain {
            let _ = self.answers.refuse(own, Errno::AGAIN); // its failure means that nobody waits
        }
    }

    /// More than was agreed on; the kernel does not do that.
    fn too_large(&self, owed: Owed, opcode: u32, size: u32) {
        owed.refuse(Errno::IO);
        self.handler
            .complain(&format_args!("operation {opcode} asks for {size} bytes, more than was agreed"));
    }
}
