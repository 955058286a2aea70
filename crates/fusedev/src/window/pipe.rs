//! Answers that are spliced: the pages go through a pipe, behind the header of the answer, from the page cache to the device.
//!
//! Order of events: header into the pipe; each part into the pipe; the pipe into the device, in one call, which copies to
//! the caller's pages and answers the request. When a part cannot be had the pipe is dropped with what is in it, and a new
//! one is made for the next answer. A pipe belongs to one serving thread.

use crate::abi::OUT_HEADER_BYTES;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Places of a pipe for pages beyond those of data: the header, and pages that are only in part in an answer.
const FURTHER_PAGES: usize = 64;
/// What Linux lets everybody have.
const UNPRIVILEGED_BYTES: usize = 1 << 20;

/// A pipe that is empty between two answers.
pub(crate) struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
    /// Bytes that it takes when each page of it is full.
    room: usize,
    /// Something may be in it.
    is_used: bool,
}

impl Pipe {
    /// For answers of up to so many bytes, if possible: more than `fs.pipe-max-size` (1 MiB unless an administrator sets it)
    /// takes CAP_SYS_RESOURCE. Otherwise as large as an ordinary user may have it, for what fits.
    pub(crate) fn new(data_bytes: usize) -> rustix::io::Result<Pipe> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC)?;
        let page = rustix::param::page_size();
        let wanted = data_bytes.next_multiple_of(page) + FURTHER_PAGES * page;
        let room =
            fcntl_setpipe_size(&into, wanted).or_else(|_| fcntl_setpipe_size(&into, UNPRIVILEGED_BYTES))?;
        Ok(Pipe { out, into, room, is_used: false })
    }

    /// So many bytes and their header fit in, when they begin on a page.
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        bytes < self.room
    }

    /// `false`: it is of no use.
    pub(super) fn begin(&mut self, header: &[u8; OUT_HEADER_BYTES]) -> bool {
        self.is_used = true;
        rustix::io::write(&self.into, header) == Ok(OUT_HEADER_BYTES)
    }

    /// Takes a part of a file. `false`: there is less, or it cannot be had so.
    pub(super) fn take(&mut self, file: BorrowedFd<'_>, offset: u64, length: usize) -> bool {
        let (mut at, end) = (offset, offset + length as u64);
        while at < end {
            let left = (end - at) as usize;
            // Nobody empties the pipe: not to wait for room means to hear that there is none.
            match splice(file, Some(&mut at), &self.into, None, left, SpliceFlags::NONBLOCK) {
                Ok(1..) | Err(Errno::INTR) => {}
                Ok(0) | Err(_) => return false,
            }
        }
        true
    }

    /// Everything that was taken, header and all, becomes an answer.
    pub(super) fn hand_over(&mut self, device: BorrowedFd<'_>, bytes: usize) -> rustix::io::Result<()> {
        splice(&self.out, None, device, None, bytes, SpliceFlags::empty())?;
        self.is_used = false;
        Ok(())
    }

    /// Nothing is in it, or something may be.
    pub(super) fn is_used(&self) -> bool {
        self.is_used
    }
}
