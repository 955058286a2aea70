//! Open files: from open or create to release.

use crate::adapter::Adapter;
use crate::complaint::complain;
use crate::errno;
use crate::opens::Served;
use crate::ops::names::{NewNode, answer_done};
use crate::privilege::registering_for;
use crate::translate;
use forebay_client::{Handle, Opened};
use forebay_wire::{Caller, FsError, Ino, Result};
use fuser::{FileHandle, FopenFlags, INodeNo, OpenFlags, ReplyCreate, ReplyEmpty, ReplyOpen, Request};

pub(crate) fn open(adapter: &Adapter, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
    let ino = translate::ino(ino);
    match open_volume(adapter, translate::caller(request), ino, flags) {
        Ok(opened) => {
            let handle = FileHandle(opened.handle.0);
            let register = |file: &_| registering_for(request.uid(), || reply.open_backing(file));
            match serve(adapter, ino, &opened, flags, register) {
                Served::ByRequests => reply.opened(handle, adapter.open_flags()),
                Served::ByBacking(id) => reply.opened_passthrough(handle, FopenFlags::empty(), &id),
            }
        }
        Err(error) => reply.error(errno::of(error)),
    }
}

fn open_volume(adapter: &Adapter, caller: Caller, ino: Ino, flags: OpenFlags) -> Result<Opened> {
    let opened = adapter.volume.open(caller, ino, wire_flags(flags))?;
    if flags.0 & libc::O_TRUNC != 0
        && let Err(error) = adapter.kill_set_id(caller, ino, opened.handle)
    {
        release_volume(adapter, opened.handle);
        return Err(error);
    }
    Ok(opened)
}

fn wire_flags(flags: OpenFlags) -> forebay_wire::OpenFlags {
    forebay_wire::OpenFlags(flags.0 as u32)
}

fn serve(
    adapter: &Adapter,
    ino: Ino,
    opened: &Opened,
    flags: OpenFlags,
    open_backing: impl FnOnce(&std::os::fd::OwnedFd) -> std::io::Result<fuser::BackingId>,
) -> Served {
    // A write by requests clears set-id bits and nothing else; one by the kernel clears what the registration says.
    let passable = matches!(adapter.is_set_id(ino, Some(opened.handle)), Ok(false));
    let file = opened.backing.as_ref().filter(|_| passable);
    let register = || adapter.shared.backing.offer(file, open_backing);
    adapter.opens.add(ino, opened.handle, wire_flags(flags).writable(), register)
}

pub(crate) fn create(
    adapter: &Adapter,
    request: &Request,
    new: NewNode,
    flags: OpenFlags,
    reply: ReplyCreate,
) {
    let (caller, parent) = (translate::caller(request), translate::ino(new.parent));
    match adapter.volume.create(caller, parent, new.name, new.mode, wire_flags(flags)) {
        Ok((attr, opened)) => {
            let (ttl, file) = (adapter.time_to_live(&attr), adapter.show(&attr));
            let (generation, handle) = (translate::generation(&attr), FileHandle(opened.handle.0));
            let register = |file: &_| registering_for(caller.uid, || reply.open_backing(file));
            match serve(adapter, attr.ino, &opened, flags, register) {
                Served::ByRequests => reply.created(&ttl, &file, generation, handle, adapter.open_flags()),
                Served::ByBacking(id) => {
                    reply.created_passthrough(&ttl, &file, generation, handle, FopenFlags::empty(), &id)
                }
            }
        }
        Err(error) => reply.error(errno::of(error)),
    }
}

/// Every write has reached the volume when its call returns, and the kernel writes back mapped pages before it asks for
/// this, so close needs no request. Only where the kernel writes to local files itself is something left to do; elsewhere
/// "not implemented" makes the kernel never ask again, which saves one request of each open, write, close.
pub(crate) fn flush(adapter: &Adapter, ino: INodeNo, handle: Handle, reply: ReplyEmpty) {
    if let Err(error) = adapter.volume.flush(handle) {
        return reply.error(errno::of(error));
    }
    if !adapter.shared.backing.is_on() {
        return reply.error(fuser::Errno::ENOSYS);
    }
    tell_of_mapped_stores(adapter, ino);
    reply.ok();
}

pub(crate) fn fsync(adapter: &Adapter, ino: INodeNo, handle: Handle, data_only: bool, reply: ReplyEmpty) {
    tell_of_mapped_stores(adapter, ino);
    answer_done(adapter.volume.fsync(handle, data_only), reply);
}

/// A store through a mapping of a passed file changes the times of the local file only. The kernel does not notice, so
/// it is told at the points where POSIX wants the new time seen: msync and close.
fn tell_of_mapped_stores(adapter: &Adapter, ino: INodeNo) {
    let ino = translate::ino(ino);
    if adapter.opens.may_be_written_by_kernel(ino) {
        adapter.tell_attributes_changed(ino);
    }
}

/// Nobody waits for this answer: errors go to the log. The registration of a backing file is given back before the
/// volume closes it.
pub(crate) fn release(adapter: &Adapter, ino: INodeNo, handle: Handle, reply: ReplyEmpty) {
    if adapter.opens.remove(translate::ino(ino), handle) {
        release_volume(adapter, handle);
    } else {
        complain("closing a file", &FsError::BadHandle);
    }
    reply.ok();
}

fn release_volume(adapter: &Adapter, handle: Handle) {
    if let Err(error) = adapter.volume.release(handle) {
        complain("closing a file", &error);
    }
}
