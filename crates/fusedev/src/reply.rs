//! Answers, one type for each kind, so that a handler cannot give the wrong one.
//!
//! A reply is moved into the call that answers, so it is given at most once; one that is dropped unanswered, by a panic
//! or by mistake, tells the kernel EIO, so it is given at least once. Replies may be kept and answered later from any
//! thread, but for those with a buffer ([`DataReply`], [`DirectoryReply`]), which live as long as their request.
//!
//! That an answer does not arrive (ENOENT, ENODEV) means that nobody waits any more: the connection was cut. An answer
//! that the kernel finds malformed becomes EIO, since the caller would wait for ever otherwise.

mod directory;

pub use directory::{DirectoryPlusReply, DirectoryReply};

use crate::attr::{Attr, Entry, Statfs};
use crate::backing::BackingId;
use crate::flags::OpenMode;
use crate::record::Record;
use crate::request::LockRange;
use crate::transport::Transport;
use crate::window::Window;
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Duration;

/// An answer that is owed.
pub(crate) struct Owed {
    unique: u64,
    /// `None` once it is given.
    to: Option<Arc<dyn Transport>>,
}

impl Owed {
    pub(crate) fn new(unique: u64, to: Arc<dyn Transport>) -> Owed {
        Owed { unique, to: Some(to) }
    }

    pub(crate) fn send(mut self, fixed: &[u8], data: &[u8]) {
        let Some(to) = self.to.take() else { return };
        if to.answer(self.unique, fixed, data) == Err(Errno::INVAL) {
            let _ = to.refuse(self.unique, Errno::IO); // its failure means that nobody waits
        }
    }

    /// Answers by what is put into a window, up to so many bytes; gives itself back when that came to nothing.
    fn show(mut self, bytes: usize, show: &mut dyn FnMut(&mut Window<'_>)) -> Option<Owed> {
        let to = self.to.take()?;
        if to.show(self.unique, bytes, show) {
            return None;
        }
        self.to = Some(to);
        Some(self)
    }

    pub(crate) fn refuse(mut self, errno: Errno) {
        if let Some(to) = self.to.take() {
            let _ = to.refuse(self.unique, errno); // its failure means that nobody waits
        }
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            let _ = to.refuse(self.unique, Errno::IO); // its failure means that nobody waits
        }
    }
}

/// How a file or directory was opened.
#[derive(Clone, Copy, Debug)]
pub struct Opened<'a> {
    handle: u64,
    mode: OpenMode,
    backing: Option<&'a BackingId>,
}

impl<'a> Opened<'a> {
    /// Served by requests with this handle.
    pub fn new(handle: u64, mode: OpenMode) -> Opened<'a> {
        Opened { handle, mode, backing: None }
    }

    /// Read and written by the kernel itself in a backing file, which must stay registered until the release.
    pub fn passthrough(handle: u64, mode: OpenMode, backing: &'a BackingId) -> Opened<'a> {
        Opened { handle, mode: mode | OpenMode::PASSTHROUGH, backing: Some(backing) }
    }

    fn record(&self, record: Record) -> Record {
        let backing = self.backing.map_or(0, BackingId::number);
        record.u64(self.handle).u32(self.mode.bits()).i32(backing)
    }
}

macro_rules! reply {
    ($(#[$about:meta])* $name:ident) => {
        $(#[$about])*
        #[must_use = "a reply that is dropped tells the kernel EIO"]
        pub struct $name(Owed);

        impl $name {
            pub(crate) fn new(owed: Owed) -> $name {
                $name(owed)
            }

            /// Answers with an error.
            pub fn refuse(self, errno: Errno) {
                self.0.refuse(errno);
            }
        }
    };
}

reply!(
    /// Answered with success and nothing else.
    DoneReply
);
reply!(
    /// Answered with an entry.
    EntryReply
);
reply!(
    /// Answered with attributes.
    AttrReply
);
reply!(
    /// Answered with an open file or directory.
    OpenReply
);
reply!(
    /// Answered with an entry and an open file.
    CreateReply
);
reply!(
    /// Answered with the target of a symbolic link.
    LinkReply
);
reply!(
    /// Answered with a count of bytes.
    WrittenReply
);
reply!(
    /// Answered with a count of bytes; the width is the request's.
    CopiedReply
);
reply!(
    /// Answered with an extended attribute, or with the names of all, or with the length of either.
    XattrReply
);
reply!(
    /// Answered with figures of the file system.
    StatfsReply
);
reply!(
    /// Answered with a lock that is in the way, or none.
    LockReply
);
reply!(
    /// Answered with a position.
    SeekReply
);
reply!(
    /// Answered with a result and bytes.
    IoctlReply
);

impl DoneReply {
    /// It is done.
    pub fn done(self) {
        self.0.send(&[], &[]);
    }
}

impl EntryReply {
    /// This is what the name stands for. Counts one reference of the kernel.
    pub fn entry(self, entry: &Entry) {
        self.0.send(Record::new().entry(entry).as_bytes(), &[]);
    }

    /// The name stands for nothing, which the kernel may keep for so long.
    pub fn absent(self, valid: Duration) {
        let nothing = Entry { name_valid: valid, ..Entry::default() };
        self.0.send(Record::new().entry(&nothing).as_bytes(), &[]);
    }
}

impl AttrReply {
    /// The attributes, and how long the kernel may keep them.
    pub fn attr(self, valid: Duration, attr: &Attr) {
        self.0.send(Record::new().attr_answer(valid, attr).as_bytes(), &[]);
    }
}

impl OpenReply {
    /// It is open.
    pub fn opened(self, opened: &Opened<'_>) {
        self.0.send(opened.record(Record::new()).as_bytes(), &[]);
    }
}

impl CreateReply {
    /// It is made and open. Counts one reference of the kernel.
    pub fn created(self, entry: &Entry, opened: &Opened<'_>) {
        self.0.send(opened.record(Record::new().entry(entry)).as_bytes(), &[]);
    }
}

impl LinkReply {
    /// The target.
    pub fn target(self, target: &[u8]) {
        self.0.send(&[], target);
    }
}

impl WrittenReply {
    /// So many bytes were taken.
    pub fn written(self, count: u32) {
        self.0.send(Record::new().u32(count).u32(0).as_bytes(), &[]);
    }
}

impl CopiedReply {
    /// So many bytes were copied. The narrow form of the request names no length its answer could not hold.
    pub fn copied(self, count: u64, wide: bool) {
        let record = match wide {
            true => Record::new().u64(count),
            false => Record::new().u32(u32::try_from(count).unwrap_or(u32::MAX)).u32(0),
        };
        self.0.send(record.as_bytes(), &[]);
    }
}

impl XattrReply {
    /// The length, when it was asked for (a size of 0).
    pub fn length(self, bytes: u32) {
        self.0.send(Record::new().u32(bytes).u32(0).as_bytes(), &[]);
    }

    /// The value, at most as long as was asked for.
    pub fn value(self, value: &[u8]) {
        self.0.send(&[], value);
    }
}

impl StatfsReply {
    /// The figures.
    pub fn statfs(self, fs: &Statfs) {
        self.0.send(Record::new().statfs(fs).as_bytes(), &[]);
    }
}

impl LockReply {
    /// The first lock in the way; of kind `Unlock` when there is none.
    pub fn lock(self, range: &LockRange) {
        let record = Record::new().u64(range.start).u64(range.end).u32(range.kind.to_wire()).u32(range.pid);
        self.0.send(record.as_bytes(), &[]);
    }
}

impl SeekReply {
    /// The position.
    pub fn position(self, offset: u64) {
        self.0.send(Record::new().u64(offset).as_bytes(), &[]);
    }
}

impl IoctlReply {
    /// The caller's return value and what is stored where its argument points to.
    pub fn result(self, result: i32, output: &[u8]) {
        self.0.send(Record::new().i32(result).u32(0).u32(0).u32(0).as_bytes(), output);
    }
}

/// Answered with the content of a file.
#[must_use = "a reply that is dropped tells the kernel EIO"]
pub struct DataReply<'a> {
    owed: Owed,
    buffer: &'a mut [u8],
}

impl<'a> DataReply<'a> {
    /// `buffer` has as many bytes as were asked for.
    pub(crate) fn new(owed: Owed, buffer: &'a mut [u8]) -> DataReply<'a> {
        DataReply { owed, buffer }
    }

    /// Has the buffer of the connection filled, which begins on a page and from which the kernel takes the answer without
    /// a further copy. What is in it before is left from earlier requests. `fill` gives the count of bytes.
    pub fn fill(self, fill: impl FnOnce(&mut [u8]) -> Result<usize, Errno>) {
        match fill(self.buffer) {
            Ok(count) => self.owed.send(&[], &self.buffer[..count.min(self.buffer.len())]),
            Err(errno) => self.owed.refuse(errno),
        }
    }

    /// Answers with parts of files, which the kernel takes from the page cache itself, if `show` puts them into the window
    /// and hands them over. Gives itself back when that came to nothing: then it is to be filled.
    pub fn show(self, mut show: impl FnMut(&mut Window<'_>)) -> Option<DataReply<'a>> {
        let DataReply { owed, buffer } = self;
        owed.show(buffer.len(), &mut show).map(|owed| DataReply { owed, buffer })
    }

    /// Answers with an error.
    pub fn refuse(self, errno: Errno) {
        self.owed.refuse(errno);
    }
}

#[cfg(test)]
pub(crate) mod tests;
