//! Answers of parts of files, which the kernel takes from the page cache itself: nothing is copied into our memory and out
//! again. They are spliced ([`pipe`]) where a pipe takes them, and mapped ([`view`]) where not.
//!
//! Who has taken parts of files and is refused answers in another way; the request is answered once.

mod pipe;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use pipe::Pipe;
pub use view::Views;

use crate::abi::OUT_HEADER_BYTES;
use crate::transport::out_header;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use view::Shown;

/// How the pages get to the kernel.
enum Means<'a> {
    Spliced(Pipe),
    Mapped(Shown<'a>),
}

/// Where the parts of an answer go, in order.
pub struct Window<'a> {
    means: Means<'a>,
    device: BorrowedFd<'a>,
    unique: u64,
    /// What was announced and did not come yet.
    missing: usize,
    bytes: usize,
    is_answered: bool,
}

impl<'a> Window<'a> {
    pub(crate) fn spliced(pipe: Pipe, device: BorrowedFd<'a>, unique: u64) -> Window<'a> {
        Window::new(Means::Spliced(pipe), device, unique)
    }

    pub(crate) fn mapped(views: &'a Views, device: BorrowedFd<'a>, unique: u64) -> Window<'a> {
        Window::new(Means::Mapped(Shown::new(views)), device, unique)
    }

    fn new(means: Means<'a>, device: BorrowedFd<'a>, unique: u64) -> Window<'a> {
        Window { means, device, unique, missing: 0, bytes: 0, is_answered: false }
    }

    /// So many bytes will follow. `false`: they are too many, or the window is of no use.
    pub fn begin(&mut self, bytes: usize) -> bool {
        let header = out_header(self.unique, 0, bytes);
        (self.missing, self.bytes) = (bytes, OUT_HEADER_BYTES + bytes);
        match &mut self.means {
            Means::Spliced(pipe) => pipe.takes(bytes) && pipe.begin(&header),
            Means::Mapped(shown) => {
                shown.begin(&header);
                true
            }
        }
    }

    /// Takes `length` bytes of a file from `offset` on. `false`: there are fewer, or they cannot be had so; the window is
    /// of no use then.
    pub fn take(&mut self, file: BorrowedFd<'_>, offset: u64, length: usize) -> bool {
        let Some(missing) = self.missing.checked_sub(length) else { return false };
        let is_taken = match &mut self.means {
            Means::Spliced(pipe) => pipe.take(file, offset, length),
            Means::Mapped(shown) => shown.take(file, offset, length),
        };
        if is_taken {
            self.missing = missing;
        }
        is_taken
    }

    /// Answers with what was taken. `false`: the request is not answered.
    pub fn hand_over(&mut self) -> bool {
        if self.missing > 0 {
            return false;
        }
        let answered = loop {
            let handed_over = match &mut self.means {
                Means::Spliced(pipe) => pipe.hand_over(self.device, self.bytes),
                Means::Mapped(shown) => shown.hand_over(self.device),
            };
            match handed_over {
                Err(Errno::INTR) => {}
                answered => break answered,
            }
        };
        // The last two: nobody waits for it any more.
        self.is_answered = matches!(answered, Ok(()) | Err(Errno::NOENT | Errno::NODEV));
        self.is_answered
    }

    /// Whether the request is answered, and the pipe for another answer, if it is empty.
    pub(crate) fn end(self) -> (bool, Option<Pipe>) {
        let pipe = match self.means {
            Means::Spliced(pipe) => Some(pipe).filter(|pipe| !pipe.is_used()),
            Means::Mapped(_) => None,
        };
        (self.is_answered, pipe)
    }
}
