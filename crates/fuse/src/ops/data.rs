//! Contents of files: read, write, allocate, seek, copy.
//!
//! A read goes through a buffer that belongs to the serving thread and is used again; a write hands the request's own
//! bytes to the volume. Nothing on this path allocates.

use crate::adapter::Adapter;
use crate::errno;
use crate::ops::names::answer_done;
use crate::translate;
use forebay_client::Handle;
use forebay_wire::{FallocateMode, FsError, Ino, Result, SeekWhat, Sharing};
use fuser::{INodeNo, OpenFlags, ReplyData, ReplyEmpty, ReplyLseek, ReplyWrite, Request, WriteFlags};
use std::cell::RefCell;

/// Start of the data on a page makes the kernel's copy of a reply one run per page instead of two.
const PAGE: usize = 4096;
/// Longest copy done for one request, so that a thread is not away for long; callers go on where it stopped.
const COPY_BYTES_MAX: u64 = 64 << 20;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Calls `with` on `size` bytes of this thread's buffer; what is in them is left from before.
fn with_buffer<R>(size: usize, with: impl FnOnce(&mut [u8]) -> R) -> R {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < size + PAGE {
            buffer.resize(size + PAGE, 0);
        }
        let start = buffer.as_ptr().align_offset(PAGE);
        with(&mut buffer[start..start + size])
    })
}

pub(crate) fn read(adapter: &Adapter, handle: Handle, offset: u64, size: u32, reply: ReplyData) {
    with_buffer(size as usize, |buffer| match adapter.volume.read(handle, offset, buffer) {
        Ok(count) => reply.data(&buffer[..count]),
        Err(error) => reply.error(errno::of(error)),
    });
}

pub(crate) fn write(
    adapter: &Adapter,
    (ino, handle): (Ino, Handle),
    offset: u64,
    bytes: &[u8],
    how: WriteFlags,
    flags: OpenFlags,
    reply: ReplyWrite,
) {
    let unprivileged = how.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
    // Only the kernel of a sole mount knows where the end is.
    let appends = flags.0 & libc::O_APPEND != 0 && adapter.volume.sharing() == Sharing::Shared;
    let at = if appends { At::End } else { At::Offset(offset) };
    let written = write_and_kill(adapter, (ino, handle), at, bytes, unprivileged)
        .and_then(|count| sync_if_asked(adapter, handle, flags).map(|()| count));
    answer_count(written.map(|count| count as u64), reply);
}

/// Where a write goes.
enum At {
    Offset(u64),
    End,
}

fn write_and_kill(
    adapter: &Adapter,
    (ino, handle): (Ino, Handle),
    at: At,
    bytes: &[u8],
    unprivileged: bool,
) -> Result<usize> {
    let kill = unprivileged && adapter.is_set_id(ino, Some(handle))?;
    let count = match at {
        At::Offset(offset) => adapter.volume.write(handle, offset, bytes, kill)?,
        At::End => adapter.volume.append(handle, bytes, kill)?.1,
    };
    if kill {
        adapter.tell_attributes_changed(ino);
    }
    Ok(count)
}

/// The kernel leaves O_SYNC and O_DSYNC of directly served files to the file system.
fn sync_if_asked(adapter: &Adapter, handle: Handle, flags: OpenFlags) -> Result<()> {
    match flags.0 & libc::O_SYNC {
        0 => Ok(()),
        both => adapter.volume.fsync(handle, both != libc::O_SYNC), // O_SYNC is O_DSYNC and one bit more
    }
}

fn answer_count(count: Result<u64>, reply: ReplyWrite) {
    match count {
        Ok(count) => reply.written(u32::try_from(count).unwrap_or(u32::MAX)), // both callers ask for less
        Err(error) => reply.error(errno::of(error)),
    }
}

pub(crate) fn fallocate(
    adapter: &Adapter,
    request: &Request,
    (ino, handle): (INodeNo, Handle),
    (offset, length): (u64, u64),
    mode: i32,
    reply: ReplyEmpty,
) {
    let allocated = adapter.volume.fallocate(handle, offset, length, FallocateMode(mode as u32));
    answer_done(
        allocated.and_then(|()| adapter.kill_set_id(translate::caller(request), translate::ino(ino), handle)),
        reply,
    );
}

pub(crate) fn lseek(adapter: &Adapter, handle: Handle, offset: i64, whence: i32, reply: ReplyLseek) {
    match seek(adapter, handle, offset, whence) {
        Ok(position) => reply.offset(position),
        Err(error) => reply.error(errno::of(error)),
    }
}

/// The kernel itself answers all other kinds of seek.
fn seek(adapter: &Adapter, handle: Handle, offset: i64, whence: i32) -> Result<i64> {
    let what = match whence {
        libc::SEEK_DATA => SeekWhat::Data,
        libc::SEEK_HOLE => SeekWhat::Hole,
        _ => return Err(FsError::InvalidArgument),
    };
    let offset = u64::try_from(offset).map_err(|_| FsError::NoData)?;
    let position = adapter.volume.seek(handle, offset, what)?;
    i64::try_from(position).map_err(|_| FsError::FileTooLarge)
}

/// A range to copy between two open files.
pub(crate) struct RangeCopy {
    pub from: Handle,
    pub from_offset: u64,
    pub to: Handle,
    pub to_offset: u64,
    pub length: u64,
}

pub(crate) fn copy_file_range(
    adapter: &Adapter,
    request: &Request,
    to_ino: INodeNo,
    copy: RangeCopy,
    reply: ReplyWrite,
) {
    let length = copy.length.min(COPY_BYTES_MAX);
    let copied = adapter
        .volume
        .copy_range(copy.from, copy.from_offset, copy.to, copy.to_offset, length)
        .and_then(|count| {
            adapter.kill_set_id(translate::caller(request), translate::ino(to_ino), copy.to).map(|()| count)
        });
    answer_count(copied, reply);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_start_on_a_page_and_grow() {
        for size in [0, 1, 4096, 1 << 20, 100] {
            with_buffer(size, |buffer| {
                assert_eq!(buffer.len(), size);
                assert_eq!(buffer.as_ptr() as usize % PAGE, 0);
            });
        }
    }
}
