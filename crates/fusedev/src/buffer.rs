//! The memory of one serving thread: a request in, or the data of an answer out.
//!
//! A request is read so that the data of a write begins on a page: the kernel then finds one page of ours for each page
//! of the caller's instead of two. The requests that are answered with data are as short as a write without data, so the
//! same pages serve for the answer: nothing on the data path allocates or copies.
//!
//! The kernel looks every page of ours up, which is a third of the time that a request of 1 MiB takes; in a huge page that
//! goes faster. So a large buffer asks for them. The memory is the kernel's until it is first touched: a thread that is never needed, of the
//! many that there are where locks are waited for, costs nothing here.

use crate::abi::{IN_HEADER_BYTES, READ_BUFFER_BYTES_MIN, WRITE_IN_BYTES};
use std::alloc::Layout;
use std::ptr::NonNull;

/// Bytes of a request before its data begins.
const HEAD_BYTES: usize = IN_HEADER_BYTES + WRITE_IN_BYTES;

/// Bytes of a huge page.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Smaller buffers would leave most of a huge page unused.
const HUGE_FROM_BYTES: usize = HUGE_PAGE_BYTES / 4;

/// A page for the head, then whole pages for data.
pub(crate) struct Buffer {
    memory: NonNull<u8>,
    /// Bytes of a page, behind which the data is.
    page: usize,
    data_bytes: usize,
    mapped_bytes: usize,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for Buffer {}

impl Buffer {
    /// For requests with up to `data_bytes` of data.
    pub(crate) fn new(data_bytes: usize) -> Buffer {
        let page = rustix::param::page_size();
        let data_bytes = data_bytes.max(READ_BUFFER_BYTES_MIN).next_multiple_of(page);
        let bytes = page + data_bytes;
        let unit = if bytes < HUGE_FROM_BYTES { page } else { HUGE_PAGE_BYTES };
        let mapped_bytes = bytes.next_multiple_of(unit);
        let memory = map(mapped_bytes, unit);
        // SAFETY: the memory is ours and that large. The advice is only a wish; it comes before the first touch.
        unsafe { libc::madvise(memory.as_ptr().cast(), mapped_bytes, libc::MADV_HUGEPAGE) };
        Buffer { memory, page, data_bytes, mapped_bytes }
    }

    /// Where a request begins.
    fn start(&self) -> usize {
        self.page - HEAD_BYTES
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the memory is at least that large, initialised, ours, and borrowed as `self` is.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.page + self.data_bytes) }
    }

    /// Where the kernel puts a request.
    pub(crate) fn for_request(&mut self) -> &mut [u8] {
        let start = self.start();
        &mut self.bytes()[start..]
    }

    /// The pages for data alone, for who has the head elsewhere.
    pub(crate) fn data(&mut self) -> &mut [u8] {
        let page = self.page;
        &mut self.bytes()[page..]
    }

    /// A request of `length` bytes, and the room for data of an answer: all pages after the head, or nothing when the
    /// request itself goes on there.
    pub(crate) fn split(&mut self, length: usize) -> (&[u8], &mut [u8]) {
        if length > HEAD_BYTES {
            return (&self.for_request()[..length], &mut []);
        }
        let (page, start) = (self.page, self.start());
        let (head, data) = self.bytes().split_at_mut(page);
        (&head[start..][..length], data)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        unmap(self.memory.as_ptr(), self.mapped_bytes);
    }
}

/// Zeros of our own, as many bytes as said, at a multiple of `unit`, which they fill.
fn map(bytes: usize, unit: usize) -> NonNull<u8> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let room = bytes + unit;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing of ours.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), room, protection, flags, -1, 0) };
    let start = start.cast::<u8>();
    let (Some(found), Ok(layout)) = (NonNull::new(start), Layout::from_size_align(bytes, unit)) else {
        unreachable!("the kernel maps nothing at 0, and a unit is a power of two")
    };
    if start.cast() == libc::MAP_FAILED {
        std::alloc::handle_alloc_error(layout);
    }
    let before = start.align_offset(unit);
    // SAFETY: `before` is less than `unit`, which the mapping has more than `bytes`.
    let memory = unsafe { found.add(before) };
    unmap(start, before);
    // SAFETY: the end of what is kept is within the mapping.
    unmap(unsafe { memory.as_ptr().add(bytes) }, unit - before);
    memory
}

/// Gives mapped pages back.
fn unmap(start: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: whole pages that `map` made, which nobody borrows any more.
        unsafe { libc::munmap(start.cast(), bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_begins_at_a_huge_page_and_has_the_zeros_of_the_kernel() {
        for bytes in [1, 4096, 1 << 20, 3 << 20] {
            let mut buffer = Buffer::new(bytes);
            let is_huge = buffer.mapped_bytes >= HUGE_FROM_BYTES;
            let unit = if is_huge { HUGE_PAGE_BYTES } else { buffer.page };
            assert_eq!(buffer.memory.as_ptr() as usize % unit, 0);
            assert!(buffer.bytes().iter().all(|byte| *byte == 0));
            buffer.bytes().fill(7);
        }
    }

    #[test]
    fn data_of_requests_and_answers_begins_on_a_page() {
        let page = rustix::param::page_size();
        let mut buffer = Buffer::new(1 << 20);
        assert_eq!(buffer.for_request().len(), HEAD_BYTES + (1 << 20));
        assert_eq!(buffer.for_request()[HEAD_BYTES..].as_ptr() as usize % page, 0);
        let (request, room) = buffer.split(HEAD_BYTES);
        assert_eq!((request.len(), room.len()), (HEAD_BYTES, 1 << 20));
        assert_eq!(room.as_ptr() as usize % page, 0);
        let (request, room) = buffer.split(HEAD_BYTES + 1);
        assert_eq!((request.len(), room.len()), (HEAD_BYTES + 1, 0), "never both in the same bytes");
    }
}
