//! An open directory: entries as the local file system streams them, with its own cookies.
//!
//! A batch of entries is kept between calls, so that a caller with a small buffer does not make the local file system
//! list the same entries again. Memory is bounded by the batch, whatever the size of the directory. A cookie that is
//! not the next one of the batch (telldir, seekdir, rewinddir) starts a new batch there.
//!
//! Entries that were removed after the batch was read may still be listed, as POSIX allows.

use super::Tree;
use crate::host::host;
use forebay_wire::{DirEntry, Directory, FileKind, FsError, Ino, Result};
use rustix::fs::{FileType, RawDir, SeekFrom};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of entries read at a time.
const BATCH: usize = 32 << 10;

/// See the module.
pub(super) struct LocalDirectory {
    tree: Arc<Tree>,
    ino: Ino,
    fd: OwnedFd,
    batch: Mutex<Batch>,
}

/// Entries that were read and not yet taken.
#[derive(Default)]
struct Batch {
    entries: Vec<Entry>,
    names: Vec<u8>,
    /// The next entry to give.
    next: usize,
    /// The cookie that stands for `next`, if the batch is of use.
    cookie: Option<u64>,
}

struct Entry {
    ino: Ino,
    kind: Option<FileKind>,
    name: std::ops::Range<usize>,
    next_cookie: u64,
}

impl LocalDirectory {
    pub(super) fn new(tree: Arc<Tree>, ino: Ino, fd: OwnedFd) -> LocalDirectory {
        LocalDirectory { tree, ino, fd, batch: Mutex::default() }
    }

    /// Reads the next batch from where the descriptor stands.
    fn fill(&self, batch: &mut Batch, buffer: &mut [MaybeUninit<u8>]) -> Result<()> {
        batch.entries.clear();
        batch.names.clear();
        batch.next = 0;
        let mut entries = RawDir::new(&self.fd, buffer);
        while let Some(entry) = entries.next() {
            let entry = entry.map_err(host("list directory"))?;
            let name = entry.file_name().to_bytes();
            let start = batch.names.len();
            batch.names.extend_from_slice(name);
            batch.entries.push(Entry {
                ino: self.number(entry.ino(), name),
                kind: kind_of(entry.file_type()),
                name: start..batch.names.len(),
                next_cookie: entry.next_entry_cookie(),
            });
            if entries.is_buffer_empty() {
                break;
            }
        }
        Ok(())
    }

    fn number(&self, ino: u64, name: &[u8]) -> Ino {
        // What is above the root is not of this file system.
        if self.ino == Ino::ROOT && name == b".." { Ino::ROOT } else { self.tree.number(ino) }
    }

    /// The kind, also where the local file system does not tell it in listings.
    fn kind(&self, entry: &Entry, name: &OsStr) -> Option<FileKind> {
        entry.kind.or_else(|| {
            let stat = rustix::fs::statat(&self.fd, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW).ok()?;
            FileKind::from_mode(stat.st_mode)
        })
    }

    /// Gives entries of the batch to the sink. `false` when the sink had enough.
    fn give(&self, batch: &mut Batch, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> bool {
        while let Some(entry) = batch.entries.get(batch.next) {
            let name = OsStr::from_bytes(&batch.names[entry.name.clone()]);
            // An entry without a kind was removed since it was listed.
            if let Some(kind) = self.kind(entry, name) {
                let next_cookie = entry.next_cookie;
                if !sink(DirEntry { ino: entry.ino, kind, name, next_cookie }) {
                    return false;
                }
            }
            batch.cookie = Some(entry.next_cookie);
            batch.next += 1;
        }
        true
    }
}

impl Directory for LocalDirectory {
    fn read(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let mut batch = self.batch.lock().unwrap_or_else(PoisonError::into_inner);
        if cookie == 0 || batch.cookie != Some(cookie) {
            *batch = Batch::default();
            if cookie > i64::MAX as u64 {
                return Err(FsError::InvalidArgument);
            }
            rustix::fs::seek(&self.fd, SeekFrom::Start(cookie)).map_err(host("seek in directory"))?;
            batch.cookie = Some(cookie);
        }
        let mut buffer = Vec::new();
        while self.give(&mut batch, sink) {
            buffer.resize(BATCH, MaybeUninit::uninit());
            if let Err(error) = self.fill(&mut batch, &mut buffer) {
                *batch = Batch::default();
                return Err(error);
            }
            if batch.entries.is_empty() {
                break;
            }
        }
        Ok(())
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        let done = if data_only { rustix::fs::fdatasync(&self.fd) } else { rustix::fs::fsync(&self.fd) };
        self.tree.fragment().synced(done)
    }
}

fn kind_of(file_type: FileType) -> Option<FileKind> {
    match file_type {
        FileType::RegularFile => Some(FileKind::Regular),
        FileType::Directory => Some(FileKind::Directory),
        FileType::Symlink => Some(FileKind::Symlink),
        FileType::Fifo => Some(FileKind::Fifo),
        FileType::Socket => Some(FileKind::Socket),
        FileType::CharacterDevice => Some(FileKind::CharDevice),
        FileType::BlockDevice => Some(FileKind::BlockDevice),
        FileType::Unknown => None,
    }
}
