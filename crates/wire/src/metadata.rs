//! The metadata service: names, attributes and lengths of one namespace.
//!
//! Every answer that carries an [`Attr`] of a named object counts one reference of the caller to its number, which
//! [`MetadataService::forget`] gives back; a number with references is not forgotten by the service, whatever
//! happens to its names. Every method may be called from any thread.

use crate::attr::{Attr, Caller, Ino, SetAttr};
use crate::data::{End, FileId};
use crate::entry::DirEntry;
use crate::error::Result;
use crate::flags::{FallocateMode, OpenFlags, RenameMode, SeekWhat, XattrMode};
use crate::message::Moved;
use forebay_model::layout::Layout;
use std::any::Any;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// Where the content of a regular file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In the stub itself: all of the local file system's semantics are native.
    Inline,
    /// In substripe files of the data services.
    Striped {
        /// Names the substripe files.
        file: FileId,
        /// Spreads them.
        layout: Layout,
    },
}

impl Placement {
    /// Content up to `end` may be on another server than the first stripe is.
    pub fn is_spread(&self, end: u64) -> bool {
        matches!(self, Placement::Striped { layout, .. } if layout.is_spread(end))
    }
}

/// Attributes that a new object gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewObject {
    /// Owner and group, unless the directory hands its group down.
    pub caller: Caller,
    /// Kind and permission bits.
    pub mode: u32,
    /// Device number of a device node.
    pub rdev: u32,
}

/// Whether others work in the namespace at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Nobody but the one who asks: what he knows stays true.
    Sole,
    /// Others do: only what an answer calls valid may be kept, and the end of a file is where the service says.
    Shared,
}

/// Limits of a namespace that the one who writes has to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteLimits {
    /// Longest file, in bytes.
    pub max_file_size: u64,
}

/// The names and attributes of one namespace.
///
/// `by` is who asks: a service that is reached over a network holds him to the permissions of the objects, one in the
/// same process leaves that to the kernel.
pub trait MetadataService: Send + Sync {
    /// Whether others work in this namespace at the same time.
    fn sharing(&self) -> Sharing;
    /// Limits of this namespace.
    fn limits(&self) -> WriteLimits;
    /// The object of a name.
    fn lookup(&self, by: Caller, parent: Ino, name: &OsStr) -> Result<Attr>;
    /// Gives references back.
    fn forget(&self, ino: Ino, count: u64);
    /// Attributes.
    fn getattr(&self, ino: Ino) -> Result<Attr>;
    /// Changes attributes. `through` is the open file that it is done through, if any: the right to change the length
    /// is then that of the open file. Whoever changes the length of a file that is his alone sees to it that he does
    /// not write it at the same time.
    fn setattr(&self, by: Caller, ino: Ino, through: Option<&dyn Stub>, change: &SetAttr) -> Result<Attr>;
    /// Target of a symbolic link.
    fn readlink(&self, ino: Ino) -> Result<Vec<u8>>;
    /// Creates a regular file, fifo, socket or device node.
    fn mknod(&self, parent: Ino, name: &OsStr, object: &NewObject) -> Result<Attr>;
    /// Creates a regular file that is not there, and opens it. Who creates it may do what `flags` say, whatever its
    /// mode.
    fn create(
        &self,
        parent: Ino,
        name: &OsStr,
        object: &NewObject,
        flags: OpenFlags,
    ) -> Result<(Attr, Arc<dyn Stub>)>;
    /// Creates a directory.
    fn mkdir(&self, parent: Ino, name: &OsStr, object: &NewObject) -> Result<Attr>;
    /// Creates a symbolic link.
    fn symlink(&self, by: Caller, parent: Ino, name: &OsStr, target: &Path) -> Result<Attr>;
    /// Gives an object another name.
    fn link(&self, by: Caller, ino: Ino, parent: Ino, name: &OsStr) -> Result<Attr>;
    /// Removes a name of anything but a directory. The content goes with the last name and the last open stub.
    fn unlink(&self, by: Caller, parent: Ino, name: &OsStr) -> Result<()>;
    /// Removes an empty directory.
    fn rmdir(&self, by: Caller, parent: Ino, name: &OsStr) -> Result<()>;
    /// Moves a name.
    fn rename(&self, by: Caller, from: (Ino, &OsStr), to: (Ino, &OsStr), mode: RenameMode) -> Result<()>;
    /// Opens a regular file, for what `flags` say; does not cut it. Asked for every open. A service in the same process
    /// gives all who ask the same stub while somebody holds it.
    fn open(&self, by: Caller, ino: Ino, flags: OpenFlags) -> Result<Arc<dyn Stub>>;
    /// Opens a directory for listing.
    fn opendir(&self, by: Caller, ino: Ino) -> Result<Box<dyn Directory>>;
    /// Value of an extended attribute.
    fn getxattr(&self, by: Caller, ino: Ino, name: &OsStr) -> Result<Vec<u8>>;
    /// Sets an extended attribute.
    fn setxattr(&self, by: Caller, ino: Ino, name: &OsStr, value: &[u8], mode: XattrMode) -> Result<()>;
    /// Names of the extended attributes, each ended by a NUL byte.
    fn listxattr(&self, by: Caller, ino: Ino) -> Result<Vec<u8>>;
    /// Removes an extended attribute.
    fn removexattr(&self, by: Caller, ino: Ino, name: &OsStr) -> Result<()>;
    /// Gives the content back of files that have no name and that nobody has open, though somebody holds their numbers.
    /// `true` when there were any: an operation that found no space is worth another try.
    fn give_back(&self) -> bool;
    /// Files created since the namespace was made.
    fn files_created(&self) -> u64;
    /// What was read and written since the namespace was made, as far as it was reported.
    fn reported(&self) -> Moved {
        Moved::default()
    }
    /// Layout of a new file, if it is known here.
    fn new_layout(&self) -> Option<Layout> {
        None
    }
    /// What was read and written since this service is used, by the one who uses it; another report takes the place of
    /// this.
    fn report(&self, moved: Moved) -> Result<()> {
        let _ = moved;
        Ok(())
    }
    /// All names and attributes are on disk afterwards.
    fn sync(&self) -> Result<()>;
}

/// On which servers there may be something of a striped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// On that of its first stripe, and on no other: nobody has said that he writes beyond that ([`Stub::will_change`]).
    First,
    /// On any of them.
    Any,
}

/// An open regular file at the metadata service. Dropping the last one closes it; a file without a name goes then.
pub trait Stub: Send + Sync {
    /// Where the content is. It changes only while the file is empty.
    fn placement(&self) -> Placement;
    /// Length of the file in bytes, if it is known here without asking anybody.
    fn known_size(&self) -> Option<u64>;
    /// Nothing can be read from here on, if that is known without asking anybody. There may be less.
    fn known_end(&self) -> Option<u64> {
        None
    }
    /// Length of the file in bytes.
    fn size(&self) -> Result<u64>;
    /// Reserves the next `length` bytes at the end of a striped file for a write that appends, and returns where they
    /// start: no other append is given them.
    fn reserve(&self, length: u64) -> Result<u64>;
    /// Of what was reserved this was not written, and will not be: the next append begins here, unless another one was given a
    /// place behind it meanwhile.
    fn give_up(&self, rest: Range<u64>) -> Result<()>;
    /// Appends inline content and returns where it was written and how much.
    fn append(&self, data: &[u8]) -> Result<(u64, usize)>;
    /// Runs `during` while nobody changes striped content but through openings of this client, who keeps these apart
    /// himself; does nothing when that is not certain.
    fn undisturbed(&self, during: &mut dyn FnMut()) {
        let _ = during;
    }
    /// Content of a striped file was read: for the access time.
    fn was_read(&self) -> Result<()>;
    /// Content of a striped file is about to be written, allocated or punched, up to `end` at most. Whoever does that beyond the
    /// first stripe has said so before, once for each opening; if he could not, the content is not to be changed.
    fn will_change(&self, end: u64) -> Result<()> {
        let _ = end;
        Ok(())
    }
    /// Content of a striped file up to `end` was written: the file is at least that long afterwards and its times
    /// are new.
    fn was_written(&self, end: u64) -> Result<()>;
    /// Content of a striped file was changed without making it longer.
    fn was_changed(&self) -> Result<()>;
    /// A write up to `end` was refused because the file would have been longer than the limit.
    fn was_too_long(&self, end: u64) {
        let _ = end;
    }
    /// Takes the set-user-id bit away, and the set-group-id bit of an executable.
    fn drop_suid_sgid(&self) -> Result<()>;
    /// Length, times and attributes, and the content if it is inline, are on disk afterwards. Says where striped content was when
    /// this was asked for, whoever wrote it.
    fn sync(&self, data_only: bool) -> Result<Spread>;
    /// Begins a sync, if that takes no wait; as [`Share::begin_sync`](crate::Share::begin_sync).
    fn begin_sync(&self, data_only: bool) -> Option<End<'_, Spread>> {
        let _ = data_only;
        None
    }
    /// The descriptor of an inline file, when reading and writing it directly counts and limits nothing wrongly.
    fn backing(&self) -> Option<Arc<OwnedFd>>;
    /// Lends the one local file that all of the content is in, to somebody who reads and writes it himself; made if it is
    /// not there. `None` where that would count or limit something wrongly, or the content is not one local file. What is
    /// done with a loan is seen here as if it had been asked for.
    fn lend(&self) -> Result<Option<Box<dyn Loan>>> {
        Ok(None)
    }
    /// Reads inline content; short only at the end of the file.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize>;
    /// Writes inline content; short only when space ran out.
    fn write(&self, offset: u64, data: &[u8]) -> Result<usize>;
    /// `fallocate` of inline content.
    fn fallocate(&self, offset: u64, length: u64, mode: FallocateMode) -> Result<()>;
    /// Seeks in inline content; `None` when nothing follows.
    fn seek(&self, offset: u64, what: SeekWhat) -> Result<Option<u64>>;
    /// Copies inline content to the inline content of another file, by the local file system's own means.
    /// `None` when it has none.
    fn copy_to(&self, offset: u64, to: &dyn Stub, to_offset: u64, length: u64) -> Result<Option<u64>>;
    /// For an implementation to know its own in [`Stub::copy_to`].
    fn as_any(&self) -> &dyn Any;
}

/// A local file that is lent; given back when dropped, and not read or written by whoever has the loan any more.
pub trait Loan: Send + Sync {
    /// Its descriptor.
    fn descriptor(&self) -> &OwnedFd;
}

/// An open directory.
pub trait Directory: Send + Sync {
    /// Entries after a cookie (0: from the start), until the sink says no.
    fn read(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()>;
    /// As [`Directory::read`], with the attributes of an entry where they come at no price. Attributes of an entry that
    /// the sink took count a reference, as a lookup does.
    fn read_with_attributes(
        &self,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry<'_>, Option<&Attr>) -> bool,
    ) -> Result<()> {
        self.read(cookie, &mut |entry| sink(entry, None))
    }
    /// Entries made and removed so far are on disk afterwards.
    fn sync(&self, data_only: bool) -> Result<()>;
}
