//! Open files: from open or create to release.

use crate::adapter::Adapter;
use crate::complaint::complain;
use crate::errno;
use crate::opens::Served;
use crate::ops::locks;
use crate::ops::names::answer_done;
use crate::privilege::registering_for;
use crate::translate;
use forebay_client::{Handle, Opened};
use forebay_fusedev::reply::{CreateReply, DoneReply, OpenReply};
use forebay_fusedev::request::{Create, Open, Release};
use forebay_fusedev::{Context, Errno, OpenMode};
use forebay_wire::{Caller, FsError, Ino, Loan, OpenFlags, Result};
use std::os::fd::OwnedFd;

pub(crate) fn open(adapter: &Adapter, context: &Context, asked: &Open, reply: OpenReply) {
    let (caller, ino) = (translate::caller(context), translate::ino(context));
    match open_volume(adapter, caller, ino, asked) {
        Ok(opened) => {
            let served = serve(adapter, caller, ino, &opened, asked);
            reply.opened(&answer(adapter, (ino, asked.flags), &opened, &served));
        }
        Err(error) => reply.refuse(errno::of(error)),
    }
}

fn open_volume(adapter: &Adapter, caller: Caller, ino: Ino, asked: &Open) -> Result<Opened> {
    let opened = adapter.volume.open(caller, ino, wire_flags(asked))?;
    if asked.flags & libc::O_TRUNC != 0
        && let Err(error) = adapter.kill_set_id(caller, ino, opened.handle)
    {
        release_volume(adapter, opened.handle);
        return Err(error);
    }
    Ok(opened)
}

fn wire_flags(asked: &Open) -> OpenFlags {
    OpenFlags(asked.flags as u32)
}

fn serve(adapter: &Adapter, caller: Caller, ino: Ino, opened: &Opened, asked: &Open) -> Served {
    let loan = borrow(adapter, ino, opened);
    let open_backing = |file: &OwnedFd| registering_for(caller.uid, || adapter.registrar.register(file));
    let register = || adapter.shared.backing.offer(loan, open_backing);
    adapter.opens.add(ino, opened.handle, wire_flags(asked).writable(), register)
}

/// The local file to hand to the kernel, if this open is to decide about that.
fn borrow(adapter: &Adapter, ino: Ino, opened: &Opened) -> Option<Box<dyn Loan>> {
    if !adapter.shared.backing.is_on() || adapter.opens.is_open(ino) {
        return None;
    }
    // A write by requests clears set-id bits and nothing else; one by the kernel clears what the registration says.
    if !matches!(adapter.is_set_id(ino, Some(opened.handle)), Ok(false)) {
        return None;
    }
    adapter.volume.lend(opened.handle).unwrap_or_else(|error| {
        complain("handing a file to the kernel, serving it by requests", &error);
        None
    })
}

fn answer<'a>(
    adapter: &Adapter,
    (ino, flags): (Ino, i32),
    opened: &Opened,
    served: &'a Served,
) -> forebay_fusedev::Opened<'a> {
    let handle = opened.handle.0;
    match served {
        Served::ByRequests => forebay_fusedev::Opened::new(handle, adapter.open_mode(ino, flags)),
        Served::ByBacking(file) => forebay_fusedev::Opened::passthrough(handle, OpenMode::empty(), file.id()),
    }
}

pub(crate) fn create(adapter: &Adapter, context: &Context, asked: &Create<'_>, reply: CreateReply) {
    let (caller, parent) = (translate::caller(context), translate::ino(context));
    match adapter.volume.create(caller, parent, asked.name, asked.mode, wire_flags(&asked.open)) {
        Ok((attr, opened)) => {
            let entry = adapter.entry(&attr);
            let served = serve(adapter, caller, attr.ino, &opened, &asked.open);
            reply.created(&entry, &answer(adapter, (attr.ino, asked.open.flags), &opened, &served));
        }
        Err(error) => reply.refuse(errno::of(error)),
    }
}

/// Every write has reached the volume when its call returns, and the kernel writes back mapped pages before it asks for
/// this, so close needs no request. Only where the kernel writes to local files itself, or locks go with a close, is
/// something left to do; elsewhere
/// "not implemented" makes the kernel never ask again, which saves one request of each open, write, close.
pub(crate) fn flush(adapter: &Adapter, context: &Context, handle: Handle, lock_owner: u64, reply: DoneReply) {
    if let Err(error) = adapter.volume.flush(handle) {
        return reply.refuse(errno::of(error));
    }
    if !adapter.shared.backing.is_on() && !adapter.grants_locks() {
        return reply.refuse(Errno::NOSYS);
    }
    tell_of_mapped_stores(adapter, translate::ino(context));
    answer_done(locks::flushed(adapter, translate::ino(context), lock_owner), reply);
}

pub(crate) fn fsync(adapter: &Adapter, context: &Context, handle: Handle, data_only: bool, reply: DoneReply) {
    tell_of_mapped_stores(adapter, translate::ino(context));
    answer_done(adapter.volume.fsync(handle, data_only), reply);
}

/// A store through a mapping of a passed file changes the times of the local file only. The kernel does not notice, so
/// it is told at the points where POSIX wants the new time seen: msync and close.
fn tell_of_mapped_stores(adapter: &Adapter, ino: Ino) {
    if adapter.opens.may_be_written_by_kernel(ino) {
        adapter.tell_attributes_changed(ino);
    }
}

/// Nobody waits for this answer: errors go to the log. The registration of a backing file is given back before the
/// volume closes it.
pub(crate) fn release(adapter: &Adapter, context: &Context, release: &Release, reply: DoneReply) {
    let handle = Handle(release.handle);
    locks::released(adapter, translate::ino(context), release);
    if adapter.opens.remove(translate::ino(context), handle) {
        release_volume(adapter, handle);
    } else {
        complain("closing a file", &FsError::BadHandle);
    }
    reply.done();
}

fn release_volume(adapter: &Adapter, handle: Handle) {
    if let Err(error) = adapter.volume.release(handle) {
        complain("closing a file", &error);
    }
}
