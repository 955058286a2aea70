//! Attributes, entries and figures of a file system, in the words of the protocol. Pure data.

use std::time::Duration;

/// A time; nanoseconds count forward, also before the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Time {
    /// Seconds since 1970.
    pub secs: i64,
    /// Less than 10^9.
    pub nanos: u32,
}

/// Type of an object, as listings name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// A pipe with a name.
    Fifo,
    /// A character device.
    CharDevice,
    /// A directory.
    Directory,
    /// A block device.
    BlockDevice,
    /// A regular file.
    Regular,
    /// A symbolic link.
    Symlink,
    /// A socket.
    Socket,
}

impl FileType {
    /// The bits of the type in a mode.
    pub fn mode(self) -> u32 {
        match self {
            FileType::Fifo => libc::S_IFIFO,
            FileType::CharDevice => libc::S_IFCHR,
            FileType::Directory => libc::S_IFDIR,
            FileType::BlockDevice => libc::S_IFBLK,
            FileType::Regular => libc::S_IFREG,
            FileType::Symlink => libc::S_IFLNK,
            FileType::Socket => libc::S_IFSOCK,
        }
    }

    /// The number in an entry of a listing.
    pub(crate) fn entry_number(self) -> u32 {
        self.mode() >> 12
    }
}

/// Attributes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Attr {
    /// Its number.
    pub node: u64,
    /// Bytes.
    pub size: u64,
    /// Units of 512 bytes that it takes.
    pub blocks: u64,
    /// Last read.
    pub atime: Time,
    /// Last change of the content.
    pub mtime: Time,
    /// Last change of the attributes.
    pub ctime: Time,
    /// Permissions and type.
    pub mode: u32,
    /// Names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Of a device node.
    pub rdev: u32,
    /// Best size of I/O in bytes.
    pub block_size: u32,
}

/// An object that a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Entry {
    /// The object.
    pub attr: Attr,
    /// Tells objects apart that have the same number one after another.
    pub generation: u64,
    /// How long the kernel may keep the name.
    pub name_valid: Duration,
    /// How long it may keep the attributes.
    pub attr_valid: Duration,
}

/// Space and files of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Statfs {
    /// Blocks in all.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Free blocks for ordinary users.
    pub blocks_available: u64,
    /// Files in all.
    pub files: u64,
    /// Files that can still be made.
    pub files_free: u64,
    /// Bytes of a block.
    pub block_size: u32,
    /// Bytes of the longest name.
    pub name_max: u32,
}
