//! The data service: substripe files of one fragment.
//!
//! Requests are lists of ranges over one contiguous buffer: one message per server carries any number of pieces, and
//! the buffer can be registered for remote access. Who calls: the client for reads and writes, the metadata service
//! for cutting and removing. Every method may be called from any thread.

use crate::attr::Timestamp;
use crate::error::Result;
use crate::flags::{FallocateMode, SeekWhat};
use crate::message::FragmentAccount;
use crate::window::Window;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Names the content of one striped file, for ever: an id is never given to another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u64);

/// One piece of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Which of the server's substripe files.
    pub substripe: u32,
    /// Offset in the substripe file.
    pub offset: u64,
    /// Offset in the buffer.
    pub at: usize,
    /// Length in bytes.
    pub len: usize,
}

/// How far a substripe file reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes.
    pub length: u64,
    /// Allocated space in units of 512 bytes.
    pub blocks: u64,
    /// Last change of the content, by the clock of the fragment's machine; the epoch where there is no file.
    pub mtime: Timestamp,
}

/// One substripe file of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Whose content it holds.
    pub file: FileId,
    /// Which of the server's substripe files of that file.
    pub substripe: u32,
    /// How far it reaches.
    pub extent: Extent,
}

/// Some of the substripe files of a namespace on one fragment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// In no order that means anything; all substripe files of one file are in the same listing.
    pub entries: Vec<Listed>,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
}

/// Space of one fragment, in bytes and inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FragmentSpace {
    /// Capacity in bytes.
    pub capacity: u64,
    /// Free bytes.
    pub free: u64,
    /// Inodes.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
}

/// One fragment's data.
pub trait DataService: Send + Sync {
    /// The share of a file on this fragment. Touches no disk: substripe files come into being at the first write.
    /// While somebody holds a share, all who ask get the same one.
    fn share(&self, file: FileId, substripes: u32) -> Arc<dyn Share>;

    /// Removes all substripe files of a file and gives their space back. Nobody may hold its share.
    fn remove(&self, file: FileId, substripes: u32) -> Result<()>;

    /// Allocated space of a substripe file, in units of 512 bytes.
    fn blocks(&self, file: FileId, substripe: u32) -> Result<u64>;

    /// How far each substripe file reaches and when it was last changed; one that is not there has length 0.
    fn extents(&self, file: FileId, substripes: u32) -> Result<Vec<Extent>>;

    /// Begins to ask for the same, if that takes no wait; as [`Share::begin_sync`].
    fn begin_extents(&self, file: FileId, substripes: u32) -> Option<End<'_, Vec<Extent>>> {
        let _ = (file, substripes);
        None
    }

    /// The substripe files from a cookie on (0: from the start): some thousands at a time. What is made or removed
    /// meanwhile may be in the listing or not; everything else is in it once.
    fn list(&self, cookie: u64) -> Result<Listing>;

    /// Space of the fragment.
    fn space(&self) -> Result<FragmentSpace>;

    /// What is counted of the fragment.
    fn account(&self) -> Result<FragmentAccount>;

    /// Everything written so far is on disk afterwards.
    fn sync(&self) -> Result<()>;
}

/// Waits for the end of what was begun ([`Share::begin_sync`]).
pub type End<'a, T> = Box<dyn FnOnce() -> Option<Result<T>> + 'a>;
/// The end of a sync.
pub type EndOfSync<'a> = End<'a, ()>;

/// The substripe files of one file on one fragment.
///
/// Writers of disjoint ranges run in parallel. Whoever cuts or punches sees to it that nobody writes the same file at
/// the same time.
pub trait Share: Send + Sync {
    /// Fills the spans of the buffer. What was never written reads as zeros, whatever the length of the file. `true` when
    /// all of it lies within the substripe files: the file is then at least that long.
    fn read(&self, spans: &[Span], buffer: &mut [u8]) -> Result<bool>;

    /// Has a window take a span, whatever its place in a buffer. `false`: it did not, or not all, and the span is to be read
    /// instead. The caller keeps those who change the content away until the window has handed over.
    fn show(&self, span: &Span, window: &mut dyn Window) -> bool {
        let _ = (span, window);
        false
    }

    /// Writes the spans in the order of the list and returns how many bytes of that order were written: less than all
    /// only when space ran out. An error means that nothing was written.
    fn write(&self, spans: &[Span], buffer: &[u8]) -> Result<usize>;

    /// Allocates, zeroes or punches a range of a substripe file, as the local file system does. Punching one that is
    /// not there does nothing.
    fn fallocate(&self, substripe: u32, range: Range<u64>, mode: FallocateMode) -> Result<()>;

    /// Cuts a substripe file to at most this length. Never makes it longer.
    fn cut(&self, substripe: u32, length: u64) -> Result<()>;

    /// The first stored or not stored byte at or after an offset of a substripe file. The end of the substripe file
    /// counts as not stored; `None` when no data follows.
    fn seek(&self, substripe: u32, offset: u64, what: SeekWhat) -> Result<Option<u64>>;

    /// What was written, and the names of the substripe files, is on disk afterwards.
    fn sync(&self, data_only: bool) -> Result<()>;

    /// Begins a sync, if that takes no wait; `None`: it was not begun. What comes back waits for its end, and says `None` if it
    /// came to nothing and is to be asked for by [`Share::sync`]. Until then who has it asks nothing else of any service.
    fn begin_sync(&self, data_only: bool) -> Option<EndOfSync<'_>> {
        let _ = data_only;
        None
    }

    /// The number of the memory that has what was changed through this share and is not synced; when all is synced, of the one that the
    /// last sync was answered out of. `None`: this machine's own, or not known.
    fn memory(&self) -> Option<u64> {
        None
    }

    /// A descriptor of the only substripe file, made if it is not there, for somebody who reads and writes it himself as
    /// long as the share is held. `None` where that would count something wrongly, or there are several.
    fn lend(&self) -> Result<Option<OwnedFd>> {
        Ok(None)
    }
}
