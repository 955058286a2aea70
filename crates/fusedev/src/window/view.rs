//! Answers from mapped files: the kernel takes the pages from where they are mapped, as it takes any answer.
//!
//! For answers that no pipe takes which this process may have. Mapping and unmapping costs as much as copying, since other
//! processors have to be told; so mappings are kept with the open file that was read ([`Views`]) and go with it.
//!
//! Order of events: the parts are found or mapped; header and parts go to the device in one call, which copies to the caller's
//! pages and answers the request. Nobody reads the mapped memory but the kernel: pages that cannot be had, since the disk fails
//! or the file is shorter, become an error of the caller's read and not a signal.
//!
//! A mapping is of a file and not of a descriptor: it holds the file's number, so it is never taken for another's.

use crate::abi::OUT_HEADER_BYTES;
use rustix::io::Errno;
use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Parts of one answer.
pub(super) const PARTS_MAX: usize = 32;
/// What is mapped at once: all of this that lies around a part.
pub(super) const VIEW_BYTES: u64 = 64 << 20;
/// Of one open file. Of those that are not used the longest goes first.
pub(super) const VIEWS_OF_A_FILE_MAX: usize = 16;
/// Of the process: Linux lets one have 65,530 mappings. Beyond that answers are copied.
const VIEWS_MAX: usize = 8192;
static VIEWS: AtomicUsize = AtomicUsize::new(0);

/// Which part of which file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Where {
    device: u64,
    file: u64,
    /// A multiple of [`VIEW_BYTES`].
    from: u64,
}

/// A part of a file, mapped. It may be longer than the file.
struct View {
    at: Where,
    start: *mut c_void,
}

// SAFETY: the memory is only ever read, and only by the kernel.
unsafe impl Send for View {}
// SAFETY: as above.
unsafe impl Sync for View {}

impl View {
    /// `None`: there are too many, or it cannot be mapped.
    fn new(file: BorrowedFd<'_>, at: Where) -> Option<View> {
        let from = libc::off_t::try_from(at.from).ok()?;
        let is_room = |views: usize| (views < VIEWS_MAX).then_some(views + 1);
        VIEWS.fetch_update(Relaxed, Relaxed, is_room).ok()?;
        let (protection, flags, bytes) = (libc::PROT_READ, libc::MAP_SHARED, VIEW_BYTES as usize);
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing of ours.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file.as_raw_fd(), from) };
        if start == libc::MAP_FAILED {
            VIEWS.fetch_sub(1, Relaxed);
            return None;
        }
        Some(View { at, start })
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: what `new` has mapped, to which nobody has a reference.
        unsafe { libc::munmap(self.start, VIEW_BYTES as usize) };
        VIEWS.fetch_sub(1, Relaxed);
    }
}

/// What is mapped of the content of one open file, for as long as it is open. Any thread.
#[derive(Default)]
pub struct Views {
    /// The one that was used last is the last.
    views: Mutex<Vec<Arc<View>>>,
}

impl Views {
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.views.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The view of a part, as it is or newly made; `None`: it cannot be had.
    fn find(&self, file: BorrowedFd<'_>, at: Where) -> Option<Arc<View>> {
        // What is unmapped is unmapped after the lock was given back.
        let _gone;
        let mut views = self.views.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match views.iter().position(|view| view.at == at) {
            Some(place) => views.remove(place),
            None => {
                _gone = (views.len() == VIEWS_OF_A_FILE_MAX).then(|| views.remove(0));
                Arc::new(View::new(file, at)?)
            }
        };
        views.push(found.clone());
        Some(found)
    }
}

/// The parts of one answer, in order.
pub(super) struct Shown<'a> {
    views: &'a Views,
    header: [u8; OUT_HEADER_BYTES],
    /// Where the parts are, and what holds them there.
    parts: Vec<(libc::iovec, Arc<View>)>,
}

impl<'a> Shown<'a> {
    pub(super) fn new(views: &'a Views) -> Shown<'a> {
        Shown { views, header: [0; OUT_HEADER_BYTES], parts: Vec::new() }
    }

    pub(super) fn begin(&mut self, header: &[u8; OUT_HEADER_BYTES]) {
        self.header = *header;
    }

    /// Takes a part of a file. `false`: there is less, or it cannot be had so.
    pub(super) fn take(&mut self, file: BorrowedFd<'_>, offset: u64, length: usize) -> bool {
        let Ok(stat) = rustix::fs::fstat(file) else { return false };
        let end =
            offset.checked_add(length as u64).filter(|end| i128::from(*end) <= i128::from(stat.st_size));
        let Some(end) = end else { return false };
        let mut at = offset;
        while at < end {
            let from = at - at % VIEW_BYTES;
            let place = Where { device: stat.st_dev, file: stat.st_ino, from };
            let taken = end.min(from + VIEW_BYTES) - at;
            if self.parts.len() == PARTS_MAX || !self.take_of_view(file, place, at - from, taken) {
                return false;
            }
            at += taken;
        }
        true
    }

    fn take_of_view(&mut self, file: BorrowedFd<'_>, at: Where, offset: u64, length: u64) -> bool {
        let Some(view) = self.views.find(file, at) else { return false };
        let start = view.start.wrapping_byte_add(offset as usize);
        self.parts.push((libc::iovec { iov_base: start, iov_len: length as usize }, view));
        true
    }

    /// Everything that was taken, header and all, becomes an answer, which may be the error that a page could not be had.
    pub(super) fn hand_over(&mut self, device: BorrowedFd<'_>) -> rustix::io::Result<()> {
        let header = libc::iovec { iov_base: self.header.as_mut_ptr().cast(), iov_len: OUT_HEADER_BYTES };
        let mut parts = [header; 1 + PARTS_MAX];
        for (part, (taken, _)) in parts[1..].iter_mut().zip(&self.parts) {
            *part = *taken;
        }
        let count = 1 + self.parts.len();
        // SAFETY: the kernel reads the header, which is ours, and mapped pages, where it meets what is amiss by itself.
        let written = unsafe { libc::writev(device.as_raw_fd(), parts.as_ptr(), count as i32) };
        if written >= 0 {
            return Ok(());
        }
        match Errno::from_io_error(&std::io::Error::last_os_error()) {
            // The kernel has answered EIO.
            Some(Errno::FAULT) => Ok(()),
            errno => Err(errno.unwrap_or(Errno::IO)),
        }
    }
}
