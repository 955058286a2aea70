//! Open files: from open or create to release.

use crate::adapter::Adapter;
use crate::complaint::complain;
use crate::errno;
use crate::opens::Served;
use crate::ops::names::{NewNode, answer_done};
use crate::translate;
use forebay_client::{Handle, Opened};
use forebay_wire::{Caller, FsError, Ino, Result, SetAttr};
use fuser::{FileHandle, FopenFlags, INodeNo, OpenFlags, ReplyCreate, ReplyEmpty, ReplyOpen, Request};

pub(crate) fn open(adapter: &Adapter, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
    let ino = translate::ino(ino);
    match open_volume(adapter, translate::caller(request), ino, flags) {
        Ok(opened) => {
            let handle = FileHandle(opened.handle.0);
            match serve(adapter, ino, &opened, |file| reply.open_backing(file)) {
                Served::ByRequests => reply.opened(handle, adapter.open_flags()),
                Served::ByBacking(id) => reply.opened_passthrough(handle, FopenFlags::empty(), &id),
            }
        }
        Err(error) => reply.error(errno::of(error)),
    }
}

fn open_volume(adapter: &Adapter, caller: Caller, ino: Ino, flags: OpenFlags) -> Result<Opened> {
    let opened = adapter.volume.open(ino, wire_flags(flags))?;
    if flags.0 & libc::O_TRUNC != 0 && caller.uid != 0 && adapter.kills_privileges() {
        let change = SetAttr { kill_suid_sgid: true, ..SetAttr::default() };
        if let Err(error) = adapter.volume.setattr(caller, ino, Some(opened.handle), &change) {
            release_volume(adapter, opened.handle);
            return Err(error);
        }
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
    open_backing: impl FnOnce(&std::os::fd::OwnedFd) -> std::io::Result<fuser::BackingId>,
) -> Served {
    let register = || adapter.backing.offer(opened.backing.as_ref(), open_backing);
    adapter.opens.add(ino, opened.handle, register)
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
            let (ttl, file) = (adapter.time_to_live(), translate::attr(&attr));
            let (generation, handle) = (translate::generation(&attr), FileHandle(opened.handle.0));
            match serve(adapter, attr.ino, &opened, |file| reply.open_backing(file)) {
                Served::ByRequests => reply.created(&ttl, &file, generation, handle, adapter.open_flags()),
                Served::ByBacking(id) => {
                    reply.created_passthrough(&ttl, &file, generation, handle, FopenFlags::empty(), &id)
                }
            }
        }
        Err(error) => reply.error(errno::of(error)),
    }
}

pub(crate) fn flush(adapter: &Adapter, handle: Handle, reply: ReplyEmpty) {
    answer_done(adapter.volume.flush(handle), reply);
}

pub(crate) fn fsync(adapter: &Adapter, handle: Handle, data_only: bool, reply: ReplyEmpty) {
    answer_done(adapter.volume.fsync(handle, data_only), reply);
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
