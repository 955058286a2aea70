//! Listings: entries one after another in the buffer of the connection, each padded to eight bytes.

use super::Owed;
use crate::attr::{Entry, FileType};
use crate::record::{ENTRY_BYTES, Record};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Bytes of an entry before its name.
const HEAD_BYTES: usize = 24;

/// Bytes written so far, and where more go.
struct List<'a> {
    buffer: &'a mut [u8],
    used: usize,
}

impl List<'_> {
    /// Adds an entry; `false` when it does not fit and nothing was added.
    fn add(&mut self, prefix: &[u8], node: u64, next: u64, kind: FileType, name: &OsStr) -> bool {
        let name = name.as_bytes();
        let end = self.used + (prefix.len() + HEAD_BYTES + name.len()).next_multiple_of(8);
        let Some(place) = self.buffer.get_mut(self.used..end) else { return false };
        let head = Record::new().u64(node).u64(next).u32(name.len() as u32).u32(kind.entry_number());
        let mut at = 0;
        for part in [prefix, head.as_bytes(), name] {
            place[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        place[at..].fill(0);
        self.used = end;
        true
    }

    fn filled(&self) -> &[u8] {
        &self.buffer[..self.used]
    }
}

/// Answered with entries.
#[must_use = "a reply that is dropped tells the kernel EIO"]
pub struct DirectoryReply<'a> {
    owed: Owed,
    list: List<'a>,
}

/// Answered with entries that have attributes.
#[must_use = "a reply that is dropped tells the kernel EIO"]
pub struct DirectoryPlusReply<'a> {
    owed: Owed,
    list: List<'a>,
}

impl<'a> DirectoryReply<'a> {
    /// `buffer` has as many bytes as were asked for.
    pub(crate) fn new(owed: Owed, buffer: &'a mut [u8]) -> DirectoryReply<'a> {
        DirectoryReply { owed, list: List { buffer, used: 0 } }
    }

    /// Adds an entry; `next` is the position after it. `false`: the reply is full and the entry is not in it.
    pub fn add(&mut self, node: u64, next: u64, kind: FileType, name: &OsStr) -> bool {
        self.list.add(&[], node, next, kind, name)
    }

    /// Sends what was added; nothing says that the directory has ended.
    pub fn done(self) {
        self.owed.send(&[], self.list.filled());
    }

    /// Answers with an error.
    pub fn refuse(self, errno: Errno) {
        self.owed.refuse(errno);
    }
}

impl<'a> DirectoryPlusReply<'a> {
    /// `buffer` has as many bytes as were asked for.
    pub(crate) fn new(owed: Owed, buffer: &'a mut [u8]) -> DirectoryPlusReply<'a> {
        DirectoryPlusReply { owed, list: List { buffer, used: 0 } }
    }

    /// Adds an entry, which counts one reference of the kernel (but for `.` and `..`, of which it takes number and kind
    /// only). `false`: the reply is full and the entry is not in it.
    pub fn add(&mut self, entry: &Entry, next: u64, kind: FileType, name: &OsStr) -> bool {
        let record = Record::new().entry(entry);
        debug_assert_eq!(record.as_bytes().len(), ENTRY_BYTES);
        self.list.add(record.as_bytes(), entry.attr.node, next, kind, name)
    }

    /// Adds an entry of which the kernel takes number, kind and name only; no reference is counted.
    pub fn add_name(&mut self, node: u64, next: u64, kind: FileType, name: &OsStr) -> bool {
        // The kernel takes an object without a number for one that it is told nothing of.
        self.list.add(&[0; ENTRY_BYTES], node, next, kind, name)
    }

    /// Sends what was added; nothing says that the directory has ended.
    pub fn done(self) {
        self.owed.send(&[], self.list.filled());
    }

    /// Answers with an error.
    pub fn refuse(self, errno: Errno) {
        self.owed.refuse(errno);
    }
}
