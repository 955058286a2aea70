//! The narrow door through which staging sees a file tree, whichever file system is behind it.
//!
//! Two implementations exist in the product: [`PosixTree`](crate::PosixTree) (any mounted file system, reached through
//! descriptors) and the agent's tree over an instance's volume. A third wraps another tree and makes chosen
//! operations fail; it is for tests.
//!
//! Rules every implementation keeps:
//! - A path is relative to the tree's root and has no `..` component; the empty path is the root itself. Names may hold
//!   any byte but `/` and NUL.
//! - The last component of a path is never followed when it is a symbolic link, except where [`Tree::open`] says so
//!   by failing with [`Cause::SymbolicLink`].
//! - A confined tree never reaches anything outside its root, whatever symbolic links lie in the middle of a path; it
//!   answers [`Cause::LeadsOutside`].
//! - An operation that fails has changed nothing, except a failed write, which may have written a part.
//!
//! Callable from any thread at the same time. Nothing here is durable until [`WriteFile::sync`], [`Tree::sync_dir`] or
//! [`SyncPoint::sync`] has returned: a crash before may undo any operation.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Named pipe.
    Fifo,
    /// Unix socket: never staged.
    Socket,
    /// Character device: never staged.
    CharDevice,
    /// Block device: never staged.
    BlockDevice,
}

/// Seconds since the epoch and nanoseconds below a second (0 to 999 999 999).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// Whole seconds, negative before 1970.
    pub secs: i64,
    /// Nanoseconds.
    pub nanos: u32,
}

/// What lstat tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Device, to tell apart equal inode numbers. A tree that is no kernel file system gives a constant that no device of the
    /// kernel has, such as `u64::MAX`.
    pub device: u64,
    /// Inode number, stable while the entry exists.
    pub inode: u64,
    /// Number of hard links.
    pub links: u64,
    /// Permission bits with set-id and sticky bits (07777).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes (of a symbolic link: of its target text).
    pub size: u64,
    /// Bytes really allocated; less than `size` when the file has holes.
    pub allocated: u64,
    /// Last access.
    pub atime: Stamp,
    /// Last change of the content.
    pub mtime: Stamp,
    /// Last change of the content or the attributes.
    pub ctime: Stamp,
}

/// What a file being written is at the moment, without its times. Its own type, because a file system with fine time stamps
/// (Linux 6.13) makes every later change of a file costlier once somebody has looked at its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Permission bits with set-id and sticky bits (07777).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size in bytes.
    pub size: u64,
}

impl From<Metadata> for Shape {
    fn from(found: Metadata) -> Self {
        Self { mode: found.mode, uid: found.uid, gid: found.gid, size: found.size }
    }
}

/// Attributes to set; `None` leaves one as it is. They are applied in the order owner, mode, times, because a change of owner
/// clears the set-id bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetMetadata {
    /// uid and gid.
    pub owner: Option<(u32, u32)>,
    /// Permission bits (07777). Ignored for symbolic links.
    pub mode: Option<u32>,
    /// Access and modification time.
    pub times: Option<(Stamp, Stamp)>,
}

/// Space of the file system behind a tree, in bytes available to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Size.
    pub total: u64,
    /// What the caller may still write.
    pub available: u64,
}

/// One name of a directory; never `.` or `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name.
    pub name: OsString,
    /// Its kind when the directory tells without a look at the entry.
    pub kind: Option<EntryKind>,
}

/// Why an operation of a tree failed. The errno is translated at the edge that met it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// ENOENT.
    #[error("no such file or directory")]
    NotFound,
    /// EEXIST.
    #[error("it exists already")]
    Exists,
    /// ENOTDIR.
    #[error("a part of the path is not a directory")]
    NotDirectory,
    /// EISDIR.
    #[error("it is a directory")]
    IsDirectory,
    /// ENOTEMPTY.
    #[error("the directory is not empty")]
    NotEmpty,
    /// EACCES.
    #[error("permission denied")]
    AccessDenied,
    /// EPERM.
    #[error("operation not permitted")]
    NotPermitted,
    /// EROFS.
    #[error("the file system is read-only")]
    ReadOnly,
    /// ENOSPC.
    #[error("no space left")]
    NoSpace,
    /// EDQUOT.
    #[error("quota exceeded")]
    Quota,
    /// ENAMETOOLONG.
    #[error("a name is too long")]
    NameTooLong,
    /// EFBIG.
    #[error("the file is too large")]
    FileTooLarge,
    /// EMFILE from a volume with a file limit.
    #[error("the limit on the number of files is reached")]
    TooManyFiles,
    /// EMLINK.
    #[error("too many hard links")]
    TooManyLinks,
    /// EMFILE or ENFILE from the operating system.
    #[error("too many open files")]
    TooManyOpenFiles,
    /// EOPNOTSUPP, ENOSYS.
    #[error("not supported by the file system")]
    Unsupported,
    /// EXDEV between two trees or mounts.
    #[error("on another file system")]
    CrossDevice,
    /// ELOOP: the last component is a symbolic link, or there are too many of them.
    #[error("a symbolic link")]
    SymbolicLink,
    /// A symbolic link in the middle leads out of the confined root.
    #[error("a symbolic link leads outside")]
    LeadsOutside,
    /// ENODATA: no such extended attribute.
    #[error("no such attribute")]
    NoAttribute,
    /// ESTALE: the file system lost the file under our hands.
    #[error("stale file handle")]
    Stale,
    /// EIO.
    #[error("input/output error")]
    Io,
    /// Anything else, by number.
    #[error("error number {errno}")]
    Other {
        /// The operating system's number.
        errno: i32,
    },
}

/// A failed operation of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation}: {cause}")]
pub struct TreeError {
    /// What was tried, in a word (`open`, `write`, `rename`).
    pub operation: &'static str,
    /// Why it failed.
    pub cause: Cause,
}

/// A directory being read.
pub trait DirStream: Send {
    /// The next name, `None` at the end. Uses bounded memory however large the directory.
    fn next_entry(&mut self) -> Result<Option<DirEntry>, TreeError>;
}

/// A regular file open for reading.
pub trait ReadFile: Send + Sync {
    /// Attributes of the open file, as they are at this moment.
    fn metadata(&self) -> Result<Metadata, TreeError>;
    /// Attributes as they were when the file was opened, before the first byte could be read; for a tree that has looked at
    /// them then anyway.
    fn metadata_at_open(&self) -> Result<Metadata, TreeError> {
        self.metadata()
    }
    /// Reads at `offset`; fewer bytes than asked only at the end of the file, 0 at or past it.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, TreeError>;
    /// The next range holding data at or after `offset`, `None` when only a hole or the end follows. Where the file system
    /// knows no holes, everything up to the end of the file is data.
    fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, TreeError>;
    /// Names of the extended attributes that are the user's business (internal ones of the file system hidden).
    fn xattr_names(&self) -> Result<Vec<OsString>, TreeError>;
    /// Value of one extended attribute.
    fn xattr(&self, name: &OsStr) -> Result<Vec<u8>, TreeError>;
    /// A descriptor the kernel can copy from, where there is one that holds the whole content.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// A regular file open for writing (and for reading back what was written).
pub trait WriteFile: Send + Sync {
    /// Writes all of `data` at `offset`.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<(), TreeError>;
    /// Sets the size; a file made longer gets a hole.
    fn set_len(&self, size: u64) -> Result<(), TreeError>;
    /// Reads back, as [`ReadFile::read_at`].
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, TreeError>;
    /// Attributes of the open file.
    fn metadata(&self) -> Result<Metadata, TreeError>;
    /// The attributes that are not times.
    fn shape(&self) -> Result<Shape, TreeError> {
        self.metadata().map(Shape::from)
    }
    /// Sets attributes.
    fn set_metadata(&self, change: &SetMetadata) -> Result<(), TreeError>;
    /// Sets one extended attribute.
    fn set_xattr(&self, name: &OsStr, value: &[u8]) -> Result<(), TreeError>;
    /// Content and attributes reach the disk.
    fn sync(&self) -> Result<(), TreeError>;
    /// A descriptor the kernel can copy to, where there is one that holds the whole content.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// See [`Tree::sync_point`].
pub trait SyncPoint: Send + Sync {
    /// Everything written to the file system so far, names included, reaches the disk.
    fn sync(&self) -> Result<(), TreeError>;
}

/// A file tree below a root. See the module for the rules.
pub trait Tree: Send + Sync {
    /// The absolute path under which users see the root. Used in messages, and to follow an absolute symbolic link that
    /// stays inside.
    fn root(&self) -> &Path;
    /// From now on no symbolic link is followed below this directory, for as long as the tree lives: what is staged is what is in
    /// it, whatever others put there meanwhile.
    fn hold(&self, directory: &Path) -> Result<(), TreeError>;
    /// Attributes of an entry, not following it.
    fn lstat(&self, path: &Path) -> Result<Metadata, TreeError>;
    /// Opens a directory for reading its names.
    fn read_dir<'a>(&'a self, path: &Path) -> Result<Box<dyn DirStream + 'a>, TreeError>;
    /// Text of a symbolic link.
    fn read_link(&self, path: &Path) -> Result<PathBuf, TreeError>;
    /// Opens a regular file for reading; anything else is refused without side effects (a fifo must not block).
    fn open<'a>(&'a self, path: &Path) -> Result<Box<dyn ReadFile + 'a>, TreeError>;
    /// Makes a new regular file, [`Cause::Exists`] when there is any entry of that name. It gets at most these permission
    /// bits; a umask or the directory's rules may take some away.
    fn create<'a>(&'a self, path: &Path, mode: u32) -> Result<Box<dyn WriteFile + 'a>, TreeError>;
    /// Makes a directory with exactly this mode.
    fn mkdir(&self, path: &Path, mode: u32) -> Result<(), TreeError>;
    /// Makes a symbolic link.
    fn symlink(&self, path: &Path, target: &Path) -> Result<(), TreeError>;
    /// Makes `new` a hard link to `existing`, [`Cause::Exists`] when there is one of that name.
    fn link(&self, existing: &Path, new: &Path) -> Result<(), TreeError>;
    /// Makes a named pipe with exactly this mode.
    fn make_fifo(&self, path: &Path, mode: u32) -> Result<(), TreeError>;
    /// Renames within the tree, atomically replacing a non-directory of the new name.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), TreeError>;
    /// Removes a non-directory. Staging calls it only for temporary names of its own.
    fn unlink(&self, path: &Path) -> Result<(), TreeError>;
    /// Sets attributes of an entry, not following it.
    fn set_metadata(&self, path: &Path, change: &SetMetadata) -> Result<(), TreeError>;
    /// As [`ReadFile::xattr_names`], of an entry, not following it.
    fn xattr_names(&self, path: &Path) -> Result<Vec<OsString>, TreeError>;
    /// As [`ReadFile::xattr`], of an entry, not following it.
    fn xattr(&self, path: &Path, name: &OsStr) -> Result<Vec<u8>, TreeError>;
    /// Sets one extended attribute of an entry, not following it.
    fn set_xattr(&self, path: &Path, name: &OsStr, value: &[u8]) -> Result<(), TreeError>;
    /// The names in a directory reach the disk.
    fn sync_dir(&self, path: &Path) -> Result<(), TreeError>;
    /// A point from which the file system holding `path` (an existing directory) can be synced as a whole. Taken before the
    /// first write, so that an error of a write-back that happens before the sync is not missed.
    fn sync_point<'a>(&'a self, path: &Path) -> Result<Box<dyn SyncPoint + 'a>, TreeError>;
    /// Space of the file system holding `path`, an existing directory.
    fn space(&self, path: &Path) -> Result<Space, TreeError>;
}
