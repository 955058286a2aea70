//! A file of words, mapped shared: what is stored in it outlives the process.
//!
//! Order of events when one is made: a file of zeros, completely written, so that no store needs space later - its header,
//! through the mapping, the mark that it is valid last. Killed in between, it is made again. One of another boot, another
//! size or another version is emptied in the same way.
//!
//! The words of a page are not those of the machine after: it is read in the boot that it was written in, by the same kind of
//! processor. Any thread may call.

use rustix::fs::{CWD, Mode, OFlags};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::Release};

/// Bytes of a word.
pub(super) const WORD: usize = size_of::<u64>();
/// Words before those that are free for use.
const HEADER_WORDS: usize = 4;
/// "FBDEEDS" and the version.
const VALID: u64 = 0x4642_4445_4544_5301;

/// See the module.
pub(super) struct Page {
    words: NonNull<AtomicU64>,
    count: usize,
    /// It was there before, and says what happened before.
    pub(super) knows_past: bool,
}

// SAFETY: the mapping belongs to the page until it is dropped, and is used through atomic words only.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

fn write_all(file: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        done += rustix::io::pwrite(file, &bytes[done..], done as u64)?;
    }
    Ok(())
}

impl Page {
    /// Opens a page of so many bytes, or makes it.
    pub(super) fn open(path: &Path, bytes: usize, boot: [u64; 2]) -> io::Result<Page> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)?;
        if rustix::fs::fstat(&file)?.st_size == bytes as i64 {
            let page = Page::map(&file, bytes, true)?;
            if page.is_of(boot) {
                return Ok(page);
            }
        }
        rustix::fs::ftruncate(&file, 0)?;
        write_all(&file, &vec![0; bytes])?;
        let page = Page::map(&file, bytes, false)?;
        for (at, word) in boot.into_iter().enumerate() {
            page.raw(1 + at).store(word, Release);
        }
        page.raw(0).store(VALID, Release);
        Ok(page)
    }

    fn map(file: &OwnedFd, bytes: usize, knows_past: bool) -> io::Result<Page> {
        let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping, at a place that the kernel chooses, of a file that is this long.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, shared, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let words = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("a mapping at no address"))?;
        Ok(Page { words, count: bytes / WORD, knows_past })
    }

    fn is_of(&self, boot: [u64; 2]) -> bool {
        let header = [0, 1, 2].map(|at| self.raw(at).load(Relaxed));
        header == [VALID, boot[0], boot[1]]
    }

    fn raw(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.count, "word {at} of {}", self.count);
        // SAFETY: within the mapping, aligned, and the file is never made shorter while it is mapped: it is ours.
        unsafe { self.words.add(at).as_ref() }
    }

    /// A word after the header.
    pub(super) fn word(&self, at: usize) -> u64 {
        self.raw(HEADER_WORDS + at).load(Relaxed)
    }

    /// Stores a word, after all that was stored before.
    pub(super) fn set(&self, at: usize, word: u64) {
        self.raw(HEADER_WORDS + at).store(word, Release);
    }

    /// Words after the header.
    pub(super) const fn bytes_for(words: usize) -> usize {
        (HEADER_WORDS + words) * WORD
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: nothing borrows from the mapping any more. What fails here leaves it mapped.
        unsafe { libc::munmap(self.words.as_ptr().cast(), self.count * WORD) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = Page::bytes_for(8);

    #[test]
    fn what_was_stored_is_there_for_the_next_one_of_the_same_boot() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("page");
        let first = Page::open(&path, BYTES, [1, 2]).unwrap();
        assert!(!first.knows_past);
        first.set(7, 42);
        // It is not closed: as if its process had been killed.
        let second = Page::open(&path, BYTES, [1, 2]).unwrap();
        assert!(second.knows_past);
        assert_eq!(second.word(7), 42);
        let of_other_boot = Page::open(&path, BYTES, [1, 3]).unwrap();
        assert!(!of_other_boot.knows_past);
        assert_eq!(of_other_boot.word(7), 0);
    }

    #[test]
    fn what_was_half_made_or_is_something_else_is_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("page");
        for content in [vec![], vec![0; BYTES], vec![7; BYTES], vec![7; BYTES + 1]] {
            std::fs::write(&path, content).unwrap();
            let page = Page::open(&path, BYTES, [1, 2]).unwrap();
            assert!(!page.knows_past);
            assert_eq!((0..8).map(|at| page.word(at)).sum::<u64>(), 0);
        }
    }
}
