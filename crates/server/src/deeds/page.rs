//! A file of words, mapped shared: what is stored in it outlives the process.
//!
//! Order of events when one is made: a file of zeros, completely written, so that no store needs space later - its header,
//! through the mapping, the mark that it is valid last. Killed in between, it is made again. One of another boot, another
//! size or another version is emptied in the same way.
//!
//! Every word is known beside the mapping, which is only stored to: a disk that refuses a store ([`super::refused`]) takes
//! from the next process what is stored from then on, is told once in the log, and nothing else. That a page was refused a store is
//! not known to the next process; its disk was at its end then, and what it serves from is an older state of it.
//!
//! The words of a page are not those of the machine after: it is read in the boot that it was written in, by the same kind of
//! processor. Any thread may call.

use super::refused::Guarded;
use rustix::fs::{CWD, Mode, OFlags};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::Release};

/// Bytes of a word.
pub(super) const WORD: usize = size_of::<u64>();
/// Words before those that are free for use.
const HEADER_WORDS: usize = 4;
/// "FBDEEDS" and the version.
const VALID: u64 = 0x4642_4445_4544_5301;

/// See the module.
pub(super) struct Page {
    path: PathBuf,
    words: Vec<AtomicU64>,
    mapped: Mapping,
    is_told: AtomicBool,
    /// It was there before, and says what happened before.
    pub(super) knows_past: bool,
}

/// A file that is mapped to be stored to.
struct Mapping {
    at: NonNull<AtomicU64>,
    count: usize,
    /// `None`: nothing is guarded any more, since it is unmapped next.
    guarded: Option<Guarded>,
}

// SAFETY: the mapping belongs to its owner until it is dropped, and is used through atomic words only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

fn write_all(file: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        done += rustix::io::pwrite(file, &bytes[done..], done as u64)?;
    }
    Ok(())
}

/// The words of a file that has so many bytes, if it has.
fn read(file: &OwnedFd, bytes: usize) -> io::Result<Option<Vec<u64>>> {
    if rustix::fs::fstat(file)?.st_size != bytes as i64 {
        return Ok(None);
    }
    let mut read = vec![0; bytes];
    let mut done = 0;
    while done < bytes {
        match rustix::io::pread(file, &mut read[done..], done as u64)? {
            0 => return Ok(None),
            count => done += count,
        }
    }
    let word = |bytes: &[u8; WORD]| u64::from_ne_bytes(*bytes);
    Ok(Some(read.as_chunks().0.iter().map(word).collect()))
}

impl Page {
    /// Opens a page of so many bytes, or makes it.
    pub(super) fn open(path: &Path, bytes: usize, boot: [u64; 2]) -> io::Result<Page> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(CWD, path, flags, Mode::RUSR | Mode::WUSR)?;
        let known = read(&file, bytes)?.filter(|words| words.starts_with(&[VALID, boot[0], boot[1]]));
        if known.is_none() {
            rustix::fs::ftruncate(&file, 0)?;
            write_all(&file, &vec![0; bytes])?;
        }
        let knows_past = known.is_some();
        let words = known.unwrap_or_else(|| vec![0; bytes / WORD]).into_iter().map(AtomicU64::new).collect();
        let (path, mapped) = (path.to_owned(), Mapping::of(&file, bytes)?);
        let page = Page { path, words, mapped, is_told: AtomicBool::new(false), knows_past };
        if !knows_past {
            boot.into_iter().enumerate().for_each(|(at, word)| page.store(1 + at, word));
            page.store(0, VALID);
        }
        Ok(page)
    }

    fn store(&self, at: usize, word: u64) {
        self.words[at].store(word, Release);
        self.mapped.word(at).store(word, Release);
        if self.mapped.is_lost() && !self.is_told.swap(true, Relaxed) {
            self.tell();
        }
    }

    /// On standard error, which is the log of every process that serves.
    fn tell(&self) {
        let _ = writeln!(
            std::io::stderr().lock(),
            "forebay: {}: what is done for a client cannot be written down any more: the disk does not take it. If this process is \
             killed, the next one settles what was under way by looking at it",
            self.path.display()
        );
    }

    /// A word after the header.
    pub(super) fn word(&self, at: usize) -> u64 {
        self.words[HEADER_WORDS + at].load(Relaxed)
    }

    /// Stores a word, after all that was stored before.
    pub(super) fn set(&self, at: usize, word: u64) {
        self.store(HEADER_WORDS + at, word);
    }

    /// Words after the header.
    pub(super) const fn bytes_for(words: usize) -> usize {
        (HEADER_WORDS + words) * WORD
    }
}

impl Mapping {
    fn of(file: &OwnedFd, bytes: usize) -> io::Result<Mapping> {
        let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping, at a place that the kernel chooses, of a file that is this long.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, shared, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or_else(|| io::Error::other("a mapping at no address"))?;
        let mut mapping = Mapping { at, count: bytes / WORD, guarded: None };
        mapping.guarded = Some(Guarded::new(mapping.at.as_ptr() as usize, bytes)?);
        Ok(mapping)
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.count, "word {at} of {}", self.count);
        // SAFETY: within the mapping, and aligned. What the file does not take is taken by what comes in its place.
        unsafe { self.at.add(at).as_ref() }
    }

    fn is_lost(&self) -> bool {
        self.guarded.as_ref().is_some_and(Guarded::is_lost)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.guarded = None;
        // SAFETY: nothing borrows from the mapping any more. What fails here leaves it mapped.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.count * WORD) };
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

    #[test]
    fn a_store_that_the_disk_refuses_ends_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let open = |name: &str| Page::open(&directory.path().join(name), BYTES, [1, 2]).unwrap();
        let (refused, well) = (open("refused"), open("well"));
        refused.set(3, 5);
        // There is no page to store to: the same signal as of a disk that fails.
        std::fs::File::options().write(true).open(&refused.path).unwrap().set_len(0).unwrap();
        std::thread::scope(|scope| {
            for at in [0, 1, 7] {
                let refused = &refused;
                scope.spawn(move || refused.set(at, 9));
            }
        });
        assert_eq!([0, 1, 3, 7].map(|at| refused.word(at)), [9, 9, 5, 9]);
        assert!(refused.mapped.is_lost() && refused.is_told.load(Relaxed));
        well.set(1, 4);
        assert!(!well.mapped.is_lost());
        assert_eq!(open("well").word(1), 4);
        drop(refused);
        let again = open("refused");
        assert!(!again.knows_past && !again.mapped.is_lost());
    }
}
