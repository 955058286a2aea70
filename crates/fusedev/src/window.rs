//! Answers of parts of files, which the kernel takes from the page cache itself: they are spliced into a pipe, behind the
//! header of the answer, and from there to the device. Nothing is copied into our memory and out again.
//!
//! Order of events: header into the pipe; each part into the pipe; the pipe into the device, in one call, which copies to
//! the caller's pages and answers the request. When a part cannot be had the pipe is dropped with what is in it, and a new
//! one is made for the next answer. A pipe belongs to one serving thread.

use crate::abi::OUT_HEADER_BYTES;
use crate::transport::out_header;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use std::os::fd::{BorrowedFd, OwnedFd};

/// Places of a pipe for pages beyond those of data: the header, and pages that are only in part in an answer.
const FURTHER_PAGES: usize = 64;
/// What Linux lets everybody have.
const UNPRIVILEGED_BYTES: usize = 1 << 20;

/// A pipe that is empty.
pub(crate) struct Pipe {
    out: OwnedFd,
    into: OwnedFd,
    /// Bytes that it takes when each page of it is full.
    room: usize,
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
        Ok(Pipe { out, into, room })
    }

    /// So many bytes and their header fit in, when they begin on a page.
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        bytes < self.room
    }
}

/// Where the parts of an answer go, in order.
pub struct Window<'a> {
    pipe: Pipe,
    device: BorrowedFd<'a>,
    unique: u64,
    /// What was announced and did not come yet.
    missing: usize,
    bytes: usize,
    is_answered: bool,
    /// Something may be in the pipe.
    is_used: bool,
}

impl<'a> Window<'a> {
    pub(crate) fn new(pipe: Pipe, device: BorrowedFd<'a>, unique: u64) -> Window<'a> {
        Window { pipe, device, unique, missing: 0, bytes: 0, is_answered: false, is_used: false }
    }

    /// So many bytes will follow. `false`: they are too many, or the window is of no use.
    pub fn begin(&mut self, bytes: usize) -> bool {
        if !self.pipe.takes(bytes) {
            return false;
        }
        let header = out_header(self.unique, 0, bytes);
        (self.missing, self.bytes) = (bytes, OUT_HEADER_BYTES + bytes);
        self.is_used = true;
        rustix::io::write(&self.pipe.into, &header) == Ok(OUT_HEADER_BYTES)
    }

    /// Takes `length` bytes of a file from `offset` on. `false`: there are fewer, or they cannot be had so; the window is
    /// of no use then.
    pub fn take(&mut self, file: BorrowedFd<'_>, offset: u64, length: usize) -> bool {
        let (mut at, end) = (offset, offset + length as u64);
        while at < end {
            let left = (end - at) as usize;
            // Nobody empties the pipe: not to wait for room means to hear that there is none.
            match splice(file, Some(&mut at), &self.pipe.into, None, left, SpliceFlags::NONBLOCK) {
                Ok(0) => return false,
                Ok(taken) if taken <= self.missing => self.missing -= taken,
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return false,
            }
        }
        true
    }

    /// Answers with what was taken. `false`: the request is not answered.
    pub fn hand_over(&mut self) -> bool {
        if self.missing > 0 {
            return false;
        }
        let answered = loop {
            match splice(&self.pipe.out, None, self.device, None, self.bytes, SpliceFlags::empty()) {
                Err(Errno::INTR) => {}
                answered => break answered,
            }
        };
        // The last two: nobody waits for it any more.
        self.is_answered = matches!(answered, Ok(_) | Err(Errno::NOENT | Errno::NODEV));
        self.is_answered
    }

    /// Whether the request is answered, and the pipe for another answer, if it is empty.
    pub(crate) fn end(self) -> (bool, Option<Pipe>) {
        (self.is_answered, (self.is_answered || !self.is_used).then_some(self.pipe))
    }
}
