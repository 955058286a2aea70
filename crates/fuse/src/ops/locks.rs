//! Locks that the volume grants, because other mounts share the namespace.
//!
//! A lock that has to be waited for is waited for on a thread of its own: the serving threads are needed for the unlock that
//! ends the wait. Order of events of such a request: it is entered among those that wait - the service is asked - it is
//! taken out - it is answered. An interrupt in between calls it back, and is said again by the kernel until it is taken out,
//! since the service may not have heard of the request yet.
//!
//! A lock that is not waited for and cannot be had is asked for again when closes were under way: the kernel tells them in
//! the order of the programs' calls, and they end in another (see [`forebay_fusedev::Closings`]).

use crate::adapter::Adapter;
use crate::complaint::complain;
use crate::errno;
use crate::translate;
use forebay_client::Handle;
use forebay_fusedev::reply::{DoneReply, LockReply};
use forebay_fusedev::request::{Lock, LockKind as Wanted, LockRange as Range, Release};
use forebay_fusedev::{Context, Errno, Interrupted, NotKept, Waiters};
use forebay_wire::{
    FsError, HeldLock, Ino, LockFamily, LockKind, LockOwner, LockRange, LockRequest, LockScope, LockService,
    Result, WaitId,
};
use std::sync::Arc;

/// Requests of a mount that may wait at the same time: each has a thread.
const WAITING_MAX: usize = 1024;

/// What the kernel asks for.
enum Change {
    Take(LockRequest),
    GiveUp(Ino, LockOwner, LockScope),
}

fn change(context: &Context, lock: &Lock) -> Result<Change> {
    // One handle, one open file description; the kernel's own number of it is used again while the close is on its way.
    let owner = LockOwner(if lock.flock { lock.handle } else { lock.owner });
    let file = translate::ino(context);
    let last = lock.range.end.min(LockRange::LAST_MAX);
    let bytes = LockRange::new(lock.range.start, last).ok_or(FsError::InvalidArgument)?;
    let scope = if lock.flock { LockScope::File } else { LockScope::Bytes(bytes) };
    let take = |kind| Change::Take(LockRequest { file, owner, scope, kind, pid: lock.range.pid });
    match lock.range.kind {
        Wanted::Shared => Ok(take(LockKind::Shared)),
        Wanted::Exclusive => Ok(take(LockKind::Exclusive)),
        Wanted::Unlock => Ok(Change::GiveUp(file, owner, scope)),
        Wanted::Other(_) => Err(FsError::InvalidArgument),
    }
}

pub(crate) fn getlk(adapter: &Adapter, context: &Context, lock: &Lock, reply: LockReply) {
    let Some(locks) = adapter.volume.locks() else { return reply.refuse(Errno::NOSYS) };
    let held = change(context, lock).and_then(|change| match change {
        Change::Take(request) => tested(adapter, &*locks, &request),
        Change::GiveUp(..) => Err(FsError::InvalidArgument),
    });
    match held {
        Ok(Some(held)) => reply.lock(&shown(&held)),
        Ok(None) => reply.lock(&Range { kind: Wanted::Unlock, ..lock.range }),
        Err(error) => reply.refuse(errno::of(error)),
    }
}

/// What is held by a file that is being closed is no answer.
fn tested(adapter: &Adapter, locks: &dyn LockService, request: &LockRequest) -> Result<Option<HeldLock>> {
    let before = adapter.closings.served();
    match locks.test(request)? {
        Some(held) if held.same_client && adapter.closings.settle(before) => locks.test(request),
        held => Ok(held),
    }
}

/// A process of another node has no number here.
fn shown(held: &HeldLock) -> Range {
    let kind = match held.kind {
        LockKind::Shared => Wanted::Shared,
        LockKind::Exclusive => Wanted::Exclusive,
    };
    let pid = if held.same_client { held.pid } else { 0 };
    Range { start: held.range.start(), end: held.range.last(), kind, pid }
}

pub(crate) fn setlk(adapter: &Adapter, context: &Context, lock: &Lock, reply: DoneReply) {
    let Some(locks) = adapter.volume.locks() else { return reply.refuse(Errno::NOSYS) };
    match change(context, lock) {
        Ok(Change::GiveUp(file, owner, scope)) => answer(locks.unlock(file, owner, scope), reply),
        Ok(Change::Take(request)) => {
            if request.scope.family() == LockFamily::Bytes {
                adapter.lock_owners.took(Handle(lock.handle), request.file, request.owner);
            }
            let before = adapter.closings.served();
            match locks.lock(&request, None) {
                Err(FsError::WouldBlock) if lock.waits => {
                    wait(adapter, locks, context.unique, request, reply)
                }
                Err(FsError::WouldBlock) if adapter.closings.settle(before) => {
                    answer(locks.lock(&request, None), reply)
                }
                taken => answer(taken, reply),
            }
        }
        Err(error) => reply.refuse(errno::of(error)),
    }
}

fn answer(done: Result<()>, reply: DoneReply) {
    match done {
        Ok(()) => reply.done(),
        Err(error) => reply.refuse(errno::of(error)),
    }
}

fn wait(adapter: &Adapter, locks: Arc<dyn LockService>, unique: u64, request: LockRequest, reply: DoneReply) {
    match adapter.lock_waits.keep_of(WAITING_MAX, unique, ()) {
        Ok(()) => {}
        Err((NotKept::Interrupted, ())) => return reply.refuse(Errno::INTR),
        Err((NotKept::TooMany, ())) => return reply.refuse(Errno::NOLCK),
    }
    let waits = Arc::clone(&adapter.lock_waits);
    let waiting = move || {
        let done = locks.lock(&request, Some(WaitId(unique)));
        waits.take(unique);
        answer(done, reply);
    };
    // The reply goes with the closure when there is no thread: the kernel hears EIO.
    if let Err(error) = std::thread::Builder::new().name("dwfs-lock".into()).spawn(waiting) {
        adapter.lock_waits.take(unique);
        complain("waiting for a lock", &error);
    }
}

pub(crate) fn interrupt(adapter: &Adapter, unique: u64) -> Interrupted {
    match adapter.volume.locks() {
        Some(locks) if adapter.lock_waits.hear(unique) => {
            locks.cancel(WaitId(unique));
            Interrupted::SayAgain
        }
        _ => Interrupted::Heard,
    }
}

/// The mount is gone: nobody waits any more.
pub(crate) fn end(volume: &forebay_client::Volume, waits: &Waiters<()>) {
    if let Some(locks) = volume.locks() {
        waits.numbers().into_iter().for_each(|unique| locks.cancel(WaitId(unique)));
    }
}

/// A process closed a file: its ranges on it go.
pub(crate) fn flushed(adapter: &Adapter, ino: Ino, owner: u64) -> Result<()> {
    let Some(locks) = adapter.volume.locks() else { return Ok(()) };
    adapter.lock_owners.closed(ino, LockOwner(owner));
    locks.owner_closed(ino, LockOwner(owner), LockFamily::Bytes)
}

/// The last close of an open file description: its lock goes, and ranges whose owner it is. Nobody hears of an error.
pub(crate) fn released(adapter: &Adapter, ino: Ino, release: &Release) {
    let Some(locks) = adapter.volume.locks() else { return };
    if release.unlock.is_some() {
        give_up(&*locks, ino, LockOwner(release.handle), LockFamily::File);
    }
    let handle = Handle(release.handle);
    if adapter.lock_owners.has(handle) {
        let _leaving = adapter.lock_owners.leaving();
        let left = adapter.lock_owners.left(handle);
        left.into_iter().for_each(|owner| give_up(&*locks, ino, owner, LockFamily::Bytes));
    }
}

fn give_up(locks: &dyn LockService, ino: Ino, owner: LockOwner, family: LockFamily) {
    if let Err(error) = locks.owner_closed(ino, owner, family) {
        complain("giving up locks at a close", &error);
    }
}
