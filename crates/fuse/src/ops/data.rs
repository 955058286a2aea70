//! Contents of files: read, write, allocate, seek, copy.
//!
//! A large read is answered with the pages of the local files where the volume can show them. Any other fills the buffer of
//! the connection, and a write hands the request's own bytes to the volume: nothing on this path allocates or copies.

use crate::adapter::Adapter;
use crate::errno;
use crate::ops::names::answer_done;
use crate::translate;
use forebay_client::Handle;
use forebay_fusedev as fusedev;
use forebay_fusedev::reply::{CopiedReply, DataReply, DoneReply, SeekReply, WrittenReply};
use forebay_fusedev::request::{Copy, Fallocate, Read, Seek, Write};
use forebay_fusedev::{Context, WriteFlags};
use forebay_wire::{FallocateMode, FsError, Ino, Result, SeekWhat, Sharing, Window};
use std::os::fd::BorrowedFd;

/// Longest copy done for one request, so that a thread is not away for long; callers go on where it stopped.
const COPY_BYTES_MAX: u64 = 64 << 20;
/// Shorter reads are copied: it is quicker than splicing them.
const SHOWN_FROM_BYTES: u32 = 32 << 10;

/// A window as the volume knows it.
struct Through<'a, 'b>(&'a mut fusedev::Window<'b>);

impl Window for Through<'_, '_> {
    fn begin(&mut self, length: usize) -> bool {
        self.0.begin(length)
    }

    fn take(&mut self, file: BorrowedFd<'_>, offset: u64, length: usize) -> bool {
        self.0.take(file, offset, length)
    }

    fn hand_over(&mut self) -> bool {
        self.0.hand_over()
    }
}

pub(crate) fn read(adapter: &Adapter, read: &Read, reply: DataReply<'_>) {
    if read.size < SHOWN_FROM_BYTES {
        return fill(adapter, read, reply);
    }
    let show = |window: &mut fusedev::Window<'_>| {
        // What is wrong is said when it is read.
        let (handle, length) = (Handle(read.handle), read.size as usize);
        let _ = adapter.volume.show(handle, read.offset, length, &mut Through(window));
    };
    if let Some(reply) = reply.show(show) {
        fill(adapter, read, reply);
    }
}

fn fill(adapter: &Adapter, read: &Read, reply: DataReply<'_>) {
    reply.fill(|buffer| adapter.volume.read(Handle(read.handle), read.offset, buffer).map_err(errno::of));
}

pub(crate) fn write(adapter: &Adapter, context: &Context, write: &Write<'_>, reply: WrittenReply) {
    let written = write_and_kill(adapter, translate::ino(context), write)
        .and_then(|count| sync_if_asked(adapter, write).map(|()| count));
    match written {
        Ok(count) => reply.written(count as u32), // at most what the request brought
        Err(error) => reply.refuse(errno::of(error)),
    }
}

fn write_and_kill(adapter: &Adapter, ino: Ino, write: &Write<'_>) -> Result<usize> {
    let handle = Handle(write.handle);
    let unprivileged = write.how.contains(WriteFlags::KILL_SUID_SGID);
    let kill = unprivileged && adapter.is_set_id(ino, Some(handle))?;
    let count = match goes_to_the_end(adapter, write) {
        true => adapter.volume.append(handle, write.data, kill)?.1,
        false => adapter.volume.write(handle, write.offset, write.data, kill)?,
    };
    if kill {
        adapter.tell_attributes_changed(ino);
    }
    Ok(count)
}

/// Only the kernel of a sole mount knows where the end is.
fn goes_to_the_end(adapter: &Adapter, write: &Write<'_>) -> bool {
    write.flags & libc::O_APPEND != 0 && adapter.volume.sharing() == Sharing::Shared
}

/// The kernel leaves O_SYNC and O_DSYNC of directly served files to the file system.
fn sync_if_asked(adapter: &Adapter, write: &Write<'_>) -> Result<()> {
    match write.flags & libc::O_SYNC {
        0 => Ok(()),
        both => adapter.volume.fsync(Handle(write.handle), both != libc::O_SYNC), // O_SYNC is O_DSYNC and one bit more
    }
}

pub(crate) fn fallocate(adapter: &Adapter, context: &Context, range: &Fallocate, reply: DoneReply) {
    let (caller, ino, handle) = (translate::caller(context), translate::ino(context), Handle(range.handle));
    let mode = FallocateMode(range.mode);
    let allocated = adapter.volume.fallocate(handle, range.offset, range.length, mode);
    answer_done(allocated.and_then(|()| adapter.kill_set_id(caller, ino, handle)), reply);
}

pub(crate) fn lseek(adapter: &Adapter, asked: &Seek, reply: SeekReply) {
    match seek(adapter, asked) {
        Ok(position) => reply.position(position),
        Err(error) => reply.refuse(errno::of(error)),
    }
}

/// The kernel itself answers all other kinds of seek.
fn seek(adapter: &Adapter, asked: &Seek) -> Result<u64> {
    let what = match asked.whence {
        libc::SEEK_DATA => SeekWhat::Data,
        libc::SEEK_HOLE => SeekWhat::Hole,
        _ => return Err(FsError::InvalidArgument),
    };
    let offset = u64::try_from(asked.offset).map_err(|_| FsError::NoData)?;
    let position = adapter.volume.seek(Handle(asked.handle), offset, what)?;
    match i64::try_from(position) {
        Ok(_) => Ok(position),
        Err(_) => Err(FsError::FileTooLarge),
    }
}

pub(crate) fn copy_file_range(adapter: &Adapter, context: &Context, copy: &Copy, reply: CopiedReply) {
    let (from, to) = (Handle(copy.handle), Handle(copy.to_handle));
    let length = copy.length.min(COPY_BYTES_MAX);
    let copied = adapter.volume.copy_range(from, copy.offset, to, copy.to_offset, length).and_then(|count| {
        let caller = translate::caller(context);
        adapter.kill_set_id(caller, Ino(copy.to_node), to).map(|()| count)
    });
    match copied {
        Ok(count) => reply.copied(count, copy.wide),
        Err(error) => reply.refuse(errno::of(error)),
    }
}
