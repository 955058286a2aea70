//! The smallest io_uring that serves: one entry at a time goes in, one completion comes out.
//!
//! Belongs to one thread at a time. The layout of the memory shared with the kernel is that of `linux/io_uring.h`. The
//! kernel frees the ring when its descriptor is closed; what is under way is cancelled then.

use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes of an entry of the large kind, which commands to devices need.
pub(super) const ENTRY_BYTES: usize = 128;
/// Places for entries; one is used.
const ENTRIES: u32 = 2;
const COMPLETION_BYTES: usize = 16;

const SETUP_LARGE_ENTRIES: u32 = 1 << 10;
const ENTER_GET_EVENTS: u32 = 1 << 0;
const MAP_RINGS: i64 = 0;
const MAP_ENTRIES: i64 = 0x1000_0000;

/// Offsets of the submission ring's fields.
#[repr(C)]
#[derive(Default)]
struct SubmissionOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    flags: u32,
    dropped: u32,
    array: u32,
    reserved: u32,
    user_address: u64,
}

/// Offsets of the completion ring's fields.
#[repr(C)]
#[derive(Default)]
struct CompletionOffsets {
    head: u32,
    tail: u32,
    ring_mask: u32,
    ring_entries: u32,
    overflow: u32,
    completions: u32,
    flags: u32,
    reserved: u32,
    user_address: u64,
}

/// `struct io_uring_params`.
#[repr(C)]
#[derive(Default)]
struct Parameters {
    submission_entries: u32,
    completion_entries: u32,
    flags: u32,
    thread_processor: u32,
    thread_idle: u32,
    features: u32,
    worker_fd: u32,
    reserved: [u32; 3],
    submission: SubmissionOffsets,
    completion: CompletionOffsets,
}

/// Memory shared with the kernel.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone, apart from the kernel.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(ring: &OwnedFd, bytes: usize, offset: i64) -> io::Result<Mapping> {
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_POPULATE);
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing of ours.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, ring.as_raw_fd(), offset) };
        match NonNull::new(start.cast()) {
            Some(start) if start.as_ptr() != libc::MAP_FAILED.cast() => Ok(Mapping { start, bytes }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// A number that the kernel reads or writes too.
    fn shared(&self, offset: u32) -> &AtomicU32 {
        assert!(offset as usize + size_of::<u32>() <= self.bytes && offset.is_multiple_of(4));
        // SAFETY: within the mapping, aligned, and touched by both sides as one word only.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(offset as usize).cast()) }
    }

    fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.bytes);
        // SAFETY: within the mapping; the kernel does not look at it before the entry is handed over.
        unsafe { self.start.as_ptr().add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this size; nothing borrows it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// A ring.
#[derive(Debug)]
pub(super) struct Ring {
    descriptor: OwnedFd,
    rings: Mapping,
    entries: Mapping,
    submission_tail: u32,
    submission_mask: u32,
    completion_head: u32,
    completion_tail: u32,
    completion_mask: u32,
    completions: u32,
}

impl Ring {
    pub(super) fn new() -> io::Result<Ring> {
        let mut parameters = Parameters { flags: SETUP_LARGE_ENTRIES, ..Parameters::default() };
        // SAFETY: `parameters` is as the kernel expects it and outlives the call.
        let made = unsafe { libc::syscall(libc::SYS_io_uring_setup, ENTRIES, &raw mut parameters) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call gave a new descriptor, which nobody else owns; close-on-exec is set by the kernel.
        let descriptor = unsafe { OwnedFd::from_raw_fd(made as i32) };
        let (submission, completion) = (&parameters.submission, &parameters.completion);
        let submission_bytes = submission.array as usize + parameters.submission_entries as usize * 4;
        let completion_bytes =
            completion.completions as usize + parameters.completion_entries as usize * COMPLETION_BYTES;
        let rings = Mapping::new(&descriptor, submission_bytes.max(completion_bytes), MAP_RINGS)?;
        let entries_bytes = parameters.submission_entries as usize * ENTRY_BYTES;
        let entries = Mapping::new(&descriptor, entries_bytes, MAP_ENTRIES)?;
        for index in 0..parameters.submission_entries {
            rings.shared(submission.array + index * 4).store(index, Ordering::Relaxed); // entries go in order
        }
        Ok(Ring {
            submission_tail: submission.tail,
            submission_mask: rings.shared(submission.ring_mask).load(Ordering::Relaxed),
            completion_head: completion.head,
            completion_tail: completion.tail,
            completion_mask: rings.shared(completion.ring_mask).load(Ordering::Relaxed),
            completions: completion.completions,
            descriptor,
            rings,
            entries,
        })
    }

    /// Hands an entry over; its result, when that is there at once. No other entry may be under way.
    pub(super) fn submit(&mut self, entry: &[u8; ENTRY_BYTES]) -> Result<Option<i32>, Errno> {
        self.put(entry);
        loop {
            match self.enter(1, 0) {
                Ok(0) | Err(Errno::INTR | Errno::AGAIN | Errno::BUSY) => {}
                Ok(_) => return Ok(self.completion()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for the result of the entry under way.
    pub(super) fn wait(&mut self) -> Result<i32, Errno> {
        self.submit_and_wait_for(0)
    }

    /// Hands an entry over and waits for its result. No other entry may be under way.
    pub(super) fn submit_and_wait(&mut self, entry: &[u8; ENTRY_BYTES]) -> Result<i32, Errno> {
        self.put(entry);
        self.submit_and_wait_for(1)
    }

    fn put(&mut self, entry: &[u8; ENTRY_BYTES]) {
        let tail = self.rings.shared(self.submission_tail).load(Ordering::Relaxed);
        self.entries.write((tail & self.submission_mask) as usize * ENTRY_BYTES, entry);
        self.rings.shared(self.submission_tail).store(tail.wrapping_add(1), Ordering::Release);
    }

    fn submit_and_wait_for(&mut self, mut to_submit: u32) -> Result<i32, Errno> {
        loop {
            match self.enter(to_submit, 1) {
                Ok(submitted) => to_submit -= submitted.min(to_submit),
                Err(Errno::INTR | Errno::AGAIN | Errno::BUSY) => {}
                Err(error) => return Err(error),
            }
            if let Some(result) = self.completion() {
                return Ok(result);
            }
        }
    }

    fn enter(&self, to_submit: u32, to_wait_for: u32) -> Result<u32, Errno> {
        let (ring, flags) = (self.descriptor.as_raw_fd(), ENTER_GET_EVENTS);
        // SAFETY: the descriptor is open, and no signal mask is handed over.
        let entered = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                ring,
                to_submit,
                to_wait_for,
                flags,
                std::ptr::null::<libc::c_void>(),
                0,
            )
        };
        match u32::try_from(entered) {
            Ok(submitted) => Ok(submitted),
            Err(_) => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        }
    }

    fn completion(&mut self) -> Option<i32> {
        let head = self.rings.shared(self.completion_head).load(Ordering::Relaxed);
        if head == self.rings.shared(self.completion_tail).load(Ordering::Acquire) {
            return None;
        }
        let at = self.completions + (head & self.completion_mask) * COMPLETION_BYTES as u32;
        let result = self.rings.shared(at + 8).load(Ordering::Relaxed) as i32;
        self.rings.shared(self.completion_head).store(head.wrapping_add(1), Ordering::Release);
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_does_nothing_completes() {
        let mut ring = Ring::new().unwrap();
        for _ in 0..10 {
            assert_eq!(ring.submit_and_wait(&[0; ENTRY_BYTES]), Ok(0)); // operation 0 does nothing
            assert_eq!(ring.submit(&[0; ENTRY_BYTES]), Ok(Some(0)));
        }
        let mut unknown = [0; ENTRY_BYTES];
        unknown[0] = 0xff;
        assert_eq!(ring.submit_and_wait(&unknown), Ok(-libc::EINVAL));
    }
}
