//! A file as memory, with bounds checks. Single bytes are read and written volatile.
//!
//! Volatile because other processes and the file system change the memory too. Touching a page beyond the end of the
//! file is a signal and not undefined behaviour; some cases want to see it.

use rustix::io::{Errno, Result};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// A mapping of the first bytes of a file.
#[derive(Debug)]
pub(crate) struct Map {
    start: *mut u8,
    length: usize,
}

impl Map {
    pub(crate) fn new(file: impl AsFd, length: usize, protection: i32, kind: i32) -> Result<Map> {
        let descriptor = file.as_fd().as_raw_fd();
        // SAFETY: the kernel chooses the address, so no memory of ours is replaced.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, kind, descriptor, 0) };
        if start == libc::MAP_FAILED { Err(last_error()) } else { Ok(Map { start: start.cast(), length }) }
    }

    pub(crate) fn shared(file: impl AsFd, length: usize) -> Result<Map> {
        Map::new(file, length, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED)
    }

    /// Volatile, because another process or the file system changes the memory too.
    pub(crate) fn get(&self, at: usize) -> u8 {
        assert!(at < self.length);
        // SAFETY: inside the mapping; a fault is a signal, which is what some cases want to see.
        unsafe { self.start.add(at).read_volatile() }
    }

    pub(crate) fn put(&self, at: usize, value: u8) {
        assert!(at < self.length);
        // SAFETY: as for get; the mapping was asked for with write permission.
        unsafe { self.start.add(at).write_volatile(value) }
    }

    /// Copies `length` bytes from offset `from`.
    pub(crate) fn read(&self, from: usize, length: usize) -> Vec<u8> {
        assert!(from + length <= self.length);
        let mut out = vec![0; length];
        // SAFETY: the range is inside the mapping, and the vector is new, so they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(self.start.add(from), out.as_mut_ptr(), length) };
        out
    }

    /// Copies `data` to offset `to`.
    pub(crate) fn write(&self, to: usize, data: &[u8]) {
        assert!(to + data.len() <= self.length);
        // SAFETY: the range is inside the mapping; Rust never lends out its memory, so they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.start.add(to), data.len()) };
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.read(0, self.length)
    }

    pub(crate) fn sync(&self) -> Result<()> {
        // SAFETY: exactly the mapping.
        let answer = unsafe { libc::msync(self.start.cast(), self.length, libc::MS_SYNC) };
        if answer == -1 { Err(last_error()) } else { Ok(()) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping, which nobody uses afterwards.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
