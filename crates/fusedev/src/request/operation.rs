//! What the kernel can ask. The object a request is about is in [`super::Context`]; here is the rest. Pure data.

use crate::attr::Time;
use crate::flags::{IoctlFlags, WriteFlags};
use std::ffi::OsStr;

/// A question of the kernel.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the names are those of the protocol; the types behind them are documented
pub enum Operation<'a> {
    Lookup { name: &'a OsStr },
    Forget { count: u64 },
    BatchForget(Forgets<'a>),
    Getattr(Getattr),
    Setattr(Setattr),
    Statx(Statx),
    Readlink,
    Symlink { name: &'a OsStr, target: &'a OsStr },
    Mknod(MakeNode<'a>),
    Mkdir(MakeNode<'a>),
    Unlink { name: &'a OsStr },
    Rmdir { name: &'a OsStr },
    Rename(Rename<'a>),
    Link { from: u64, name: &'a OsStr },
    Open(Open),
    Create(Create<'a>),
    Tmpfile(Create<'a>),
    Read(Read),
    Write(Write<'a>),
    Flush { handle: u64, lock_owner: u64 },
    Release(Release),
    Fsync { handle: u64, data_only: bool },
    Opendir(Open),
    Readdir(Readdir),
    Readdirplus(Readdir),
    Releasedir(Release),
    Fsyncdir { handle: u64, data_only: bool },
    Syncfs,
    Statfs,
    Setxattr(Setxattr<'a>),
    Getxattr { name: &'a OsStr, size: u32 },
    Listxattr { size: u32 },
    Removexattr { name: &'a OsStr },
    Access { mask: u32 },
    Getlk(Lock),
    Setlk(Lock),
    Bmap { block: u64, block_size: u32 },
    Ioctl(Ioctl<'a>),
    Poll(Poll),
    Fallocate(Fallocate),
    Lseek(Seek),
    CopyFileRange(Copy),
    Interrupt { unique: u64 },
    Destroy,
    Unknown { opcode: u32 },
}

/// Attributes are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Getattr {
    /// Of this open file.
    pub handle: Option<u64>,
}

/// Attributes as of statx(2) are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statx {
    /// Of this open file.
    pub handle: Option<u64>,
    /// `AT_STATX_*`.
    pub flags: u32,
    /// `STATX_*`.
    pub mask: u32,
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewTime {
    /// The time of now.
    Now,
    /// This one.
    At(Time),
}

/// Changes of attributes; `None` stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Setattr {
    /// Through this open file.
    pub handle: Option<u64>,
    /// New mode with the bits of the file's type.
    pub mode: Option<u32>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New length.
    pub size: Option<u64>,
    /// New time of access.
    pub atime: Option<NewTime>,
    /// New time of change of the content.
    pub mtime: Option<NewTime>,
    /// New time of change of the attributes; only with a cache that holds writes back.
    pub ctime: Option<Time>,
    /// The owner of locks that cuts the file.
    pub lock_owner: Option<u64>,
    /// The set-id bits go.
    pub kill_suid_sgid: bool,
}

/// A node, fifo, socket, file or directory to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MakeNode<'a> {
    /// In the context's directory.
    pub name: &'a OsStr,
    /// With the bits of its type (a directory has none).
    pub mode: u32,
    /// Of the caller, applied already unless agreed otherwise.
    pub umask: u32,
    /// Of a device node.
    pub rdev: u32,
}

/// A name moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rename<'a> {
    /// From the context's directory.
    pub name: &'a OsStr,
    /// To this directory.
    pub new_parent: u64,
    /// Under this name.
    pub new_name: &'a OsStr,
    /// `RENAME_*`.
    pub flags: u32,
}

/// A file or directory is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// `O_*` without the ones the kernel deals with.
    pub flags: i32,
    /// The set-id bits go (a cut by somebody without privilege).
    pub kill_suid_sgid: bool,
}

/// A file is made and opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Create<'a> {
    /// In the context's directory.
    pub name: &'a OsStr,
    /// With the bits of its type.
    pub mode: u32,
    /// Of the caller, applied already unless agreed otherwise.
    pub umask: u32,
    /// How it is opened.
    pub open: Open,
}

/// Content is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The open file.
    pub handle: u64,
    /// From here.
    pub offset: u64,
    /// So many bytes at most; fewer mean the end of the file.
    pub size: u32,
    /// `O_*` of the open file.
    pub flags: i32,
    /// The owner of locks that reads.
    pub lock_owner: Option<u64>,
}

/// Content is brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    /// The open file.
    pub handle: u64,
    /// From here on.
    pub offset: u64,
    /// The content.
    pub data: &'a [u8],
    /// How it comes.
    pub how: WriteFlags,
    /// `O_*` of the open file.
    pub flags: i32,
    /// The owner of locks that writes.
    pub lock_owner: Option<u64>,
}

/// The last descriptor of an open file is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    /// The open file.
    pub handle: u64,
    /// `O_*` of the open file.
    pub flags: i32,
    /// Whose `flock` locks on it go, if any may be held.
    pub unlock: Option<u64>,
}

/// Entries of a directory are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readdir {
    /// The open directory.
    pub handle: u64,
    /// After the entry with this position; 0 from the start.
    pub offset: u64,
    /// Bytes of the answer at most.
    pub size: u32,
}

/// An extended attribute is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setxattr<'a> {
    /// Its name.
    pub name: &'a OsStr,
    /// Its value.
    pub value: &'a [u8],
    /// `XATTR_*`.
    pub flags: i32,
}

/// What a lock is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Held by any number of readers.
    Shared,
    /// Held by one.
    Exclusive,
    /// Given back.
    Unlock,
    /// None of the kinds there are.
    Other(u32),
}

/// A range of a file with a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRange {
    /// First byte.
    pub start: u64,
    /// Last byte, inclusive; `i64::MAX` is the end of the file.
    pub end: u64,
    /// Which lock.
    pub kind: LockKind,
    /// The process that holds or wants it.
    pub pid: u32,
}

/// A lock is asked about, wanted or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The open file.
    pub handle: u64,
    /// Whose lock: a number that stands for the process (`fcntl`) or the open file description (`flock`, and `fcntl`'s
    /// OFD locks).
    pub owner: u64,
    /// What is wanted.
    pub range: LockRange,
    /// A lock of flock(2), on the whole file; otherwise one of fcntl(2).
    pub flock: bool,
    /// The caller waits until it gets it; INTERRUPT may end the wait.
    pub waits: bool,
}

/// A command to an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ioctl<'a> {
    /// The open file or directory.
    pub handle: u64,
    /// Of what kind.
    pub flags: IoctlFlags,
    /// Its number.
    pub command: u32,
    /// The caller's argument as it is.
    pub argument: u64,
    /// What the argument points to.
    pub input: &'a [u8],
    /// Bytes of the answer at most.
    pub output_size: u32,
}

/// Readiness is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// The open file.
    pub handle: u64,
    /// The kernel's number for a later notification.
    pub kernel_handle: u64,
    /// A notification is wanted.
    pub wants_notification: bool,
    /// `POLL*`.
    pub events: u32,
}

/// Space is allocated or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fallocate {
    /// The open file.
    pub handle: u64,
    /// From here.
    pub offset: u64,
    /// So many bytes.
    pub length: u64,
    /// `FALLOC_FL_*`.
    pub mode: u32,
}

/// A position is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seek {
    /// The open file.
    pub handle: u64,
    /// From here.
    pub offset: i64,
    /// `SEEK_DATA` or `SEEK_HOLE`.
    pub whence: i32,
}

/// A range is copied from the context's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The open file to copy from.
    pub handle: u64,
    /// From here.
    pub offset: u64,
    /// The file to copy to.
    pub to_node: u64,
    /// Open as this.
    pub to_handle: u64,
    /// To here.
    pub to_offset: u64,
    /// So many bytes.
    pub length: u64,
    /// None are defined yet.
    pub flags: u64,
    /// The answer has 64 bits.
    pub wide: bool,
}

/// Objects and how often the kernel forgets each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgets<'a>(&'a [[u8; Forgets::ONE]]);

impl<'a> Forgets<'a> {
    /// Bytes of one on the wire: node and count.
    pub(super) const ONE: usize = 16;

    pub(super) fn new(bytes: &'a [u8]) -> Forgets<'a> {
        Forgets(bytes.as_chunks().0)
    }

    /// Node and count, one after another.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.0.iter().map(|one| {
            let [n0, n1, n2, n3, n4, n5, n6, n7, c0, c1, c2, c3, c4, c5, c6, c7] = *one;
            let node = u64::from_ne_bytes([n0, n1, n2, n3, n4, n5, n6, n7]);
            (node, u64::from_ne_bytes([c0, c1, c2, c3, c4, c5, c6, c7]))
        })
    }
}

impl Open {
    /// `FUSE_OPEN_KILL_SUIDGID`.
    const KILL_SUID_SGID: u32 = 1 << 0;

    pub(super) fn new(flags: i32, open_flags: u32) -> Open {
        Open { flags, kill_suid_sgid: open_flags & Open::KILL_SUID_SGID != 0 }
    }
}
