//! What a file system object is: its number, kind, times and attributes.
//!
//! Plain values that cross the border between client and servers. Nothing here touches a file.

/// Number of an object within one namespace. The root is [`Ino::ROOT`]; every other number is the stub's own inode
/// number in the file system of the metadata fragment. A number is used again after its object is gone; then
/// [`Attr::generation`] differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u64);

impl Ino {
    /// The root directory of a namespace.
    pub const ROOT: Ino = Ino(1);
}

/// A point in time: seconds since the epoch (negative before it) and nanoseconds within the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since the epoch.
    pub secs: i64,
    /// 0 ..= 999_999_999.
    pub nanos: u32,
}

/// What kind of object a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// Regular file.
    Regular,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Named pipe.
    Fifo,
    /// Unix domain socket.
    Socket,
    /// Character device.
    CharDevice,
    /// Block device.
    BlockDevice,
}

const S_IFMT: u32 = 0o170_000;
const KINDS: [(FileKind, u32); 7] = [
    (FileKind::Regular, 0o100_000),
    (FileKind::Directory, 0o040_000),
    (FileKind::Symlink, 0o120_000),
    (FileKind::Fifo, 0o010_000),
    (FileKind::Socket, 0o140_000),
    (FileKind::CharDevice, 0o020_000),
    (FileKind::BlockDevice, 0o060_000),
];

impl FileKind {
    /// The kind in the `S_IFMT` bits of a mode; `None` for bits that name no kind.
    pub fn from_mode(mode: u32) -> Option<FileKind> {
        KINDS.iter().find(|(_, bits)| *bits == mode & S_IFMT).map(|(kind, _)| *kind)
    }

    /// The `S_IFMT` bits of this kind.
    pub fn mode_bits(self) -> u32 {
        KINDS.iter().find(|(kind, _)| *kind == self).map_or(0, |(_, bits)| *bits)
    }
}

/// Attributes of one object, as `stat` shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Its number.
    pub ino: Ino,
    /// Length in bytes.
    pub size: u64,
    /// Allocated space in units of 512 bytes, over all fragments.
    pub blocks: u64,
    /// Last read.
    pub atime: Timestamp,
    /// Last change of the content.
    pub mtime: Timestamp,
    /// Last change of the content or the attributes.
    pub ctime: Timestamp,
    /// Kind.
    pub kind: FileKind,
    /// Permission bits, `07777`; the kind is not in them.
    pub mode: u32,
    /// Number of names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node, as `makedev` packs it for the kernel; 0 otherwise.
    pub rdev: u32,
    /// Size of request that suits it, in bytes.
    pub block_size: u32,
    /// Tells two objects apart that had the same number one after the other.
    pub generation: u64,
    /// For how long, in milliseconds, this answer and the name that it was asked by may be shown again without asking:
    /// nobody changes them meanwhile without saying so first. 0: ask each time.
    pub valid_ms: u32,
}

impl Attr {
    /// [`Attr::valid_ms`] of an object that nobody but who asks can change.
    pub const VALID_ALWAYS: u32 = u32::MAX;
}

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The server's clock.
    Now,
    /// This time.
    At(Timestamp),
}

/// Attributes to change; `None` leaves one as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits, `07777`.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes.
    pub size: Option<u64>,
    /// Last read.
    pub atime: Option<SetTime>,
    /// Last change of content.
    pub mtime: Option<SetTime>,
    /// Offered by kernels that keep the times themselves. A local file system cannot set it: it is accepted and the
    /// server's clock is used.
    pub ctime: Option<Timestamp>,
    /// Clear the set-user-id bit, and the set-group-id bit of an executable, as a write or chown by a user without
    /// privilege does.
    pub kill_suid_sgid: bool,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User.
    pub uid: u32,
    /// Group that new files get.
    pub gid: u32,
    /// Process, for messages only.
    pub pid: u32,
}

/// Space and inodes of the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statfs {
    /// Unit of the block counts, in bytes.
    pub block_size: u32,
    /// Capacity.
    pub blocks: u64,
    /// Free.
    pub blocks_free: u64,
    /// Free for users without privilege.
    pub blocks_available: u64,
    /// Inodes.
    pub files: u64,
    /// Free inodes.
    pub files_free: u64,
    /// Longest name in bytes.
    pub name_max: u32,
}
