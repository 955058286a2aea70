//! Sets of flags of the protocol, as types. Pure. Bits that nobody here knows are kept, so nothing is lost between kernel
//! and handler.

use bitflags::bitflags;

bitflags! {
    /// What the kernel offers and the file system takes at the start.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct Features: u64 {
        /// Several reads of one file under way.
        const ASYNC_READ = 1 << 0;
        /// `fcntl` locks are requests.
        const POSIX_LOCKS = 1 << 1;
        /// Handles come with getattr and the like.
        const FILE_OPS = 1 << 2;
        /// Open does the cutting of `O_TRUNC`.
        const ATOMIC_O_TRUNC = 1 << 3;
        /// Lookups of `.` and `..` are answered.
        const EXPORT_SUPPORT = 1 << 4;
        /// Writes of more than a page.
        const BIG_WRITES = 1 << 5;
        /// The file system applies the umask.
        const DONT_MASK = 1 << 6;
        /// Requests may be spliced from the device.
        const SPLICE_WRITE = 1 << 7;
        /// Pages may be moved.
        const SPLICE_MOVE = 1 << 8;
        /// Answers may be spliced to the device.
        const SPLICE_READ = 1 << 9;
        /// `flock` locks are requests.
        const FLOCK_LOCKS = 1 << 10;
        /// ioctl on directories.
        const HAS_IOCTL_DIR = 1 << 11;
        /// A changed time or size drops pages.
        const AUTO_INVAL_DATA = 1 << 12;
        /// Listings with attributes.
        const DO_READDIRPLUS = 1 << 13;
        /// The kernel chooses which kind of listing it asks for.
        const READDIRPLUS_AUTO = 1 << 14;
        /// Direct I/O of a program in several requests at once.
        const ASYNC_DIO = 1 << 15;
        /// The kernel holds written data back.
        const WRITEBACK_CACHE = 1 << 16;
        /// Open may be unknown.
        const NO_OPEN_SUPPORT = 1 << 17;
        /// Parallel lookups and listings in one directory.
        const PARALLEL_DIROPS = 1 << 18;
        /// Set-id bits are the file system's (first form).
        const HANDLE_KILLPRIV = 1 << 19;
        /// POSIX ACLs.
        const POSIX_ACL = 1 << 20;
        /// A read after an abort says ECONNABORTED.
        const ABORT_ERROR = 1 << 21;
        /// The answer names the pages of the largest request.
        const MAX_PAGES = 1 << 22;
        /// Targets of symbolic links are kept.
        const CACHE_SYMLINKS = 1 << 23;
        /// Opendir may be unknown.
        const NO_OPENDIR_SUPPORT = 1 << 24;
        /// Pages are dropped only when told.
        const EXPLICIT_INVAL_DATA = 1 << 25;
        /// DAX mappings have an alignment.
        const MAP_ALIGNMENT = 1 << 26;
        /// Mounts within the mount.
        const SUBMOUNTS = 1 << 27;
        /// Set-id bits are the file system's; the kernel marks the requests that clear them.
        const HANDLE_KILLPRIV_V2 = 1 << 28;
        /// The longer form of setxattr.
        const SETXATTR_EXT = 1 << 29;
        /// Flags have 64 bits.
        const INIT_EXT = 1 << 30;
        /// A security label comes with new objects.
        const SECURITY_CTX = 1 << 32;
        /// DAX file by file.
        const HAS_INODE_DAX = 1 << 33;
        /// One supplementary group comes with new objects.
        const CREATE_SUPP_GROUP = 1 << 34;
        /// Names can be expired without being dropped.
        const HAS_EXPIRE_ONLY = 1 << 35;
        /// Shared mappings of directly accessed files.
        const DIRECT_IO_ALLOW_MMAP = 1 << 36;
        /// Files handed to the kernel.
        const PASSTHROUGH = 1 << 37;
        /// File handles for export are not supported.
        const NO_EXPORT_SUPPORT = 1 << 38;
        /// Requests can be sent again after a restart.
        const HAS_RESEND = 1 << 39;
        /// Mounts with mapped ids.
        const ALLOW_IDMAP = 1 << 40;
        /// Requests over io_uring.
        const OVER_IO_URING = 1 << 41;
        /// Requests that take too long end the connection.
        const REQUEST_TIMEOUT = 1 << 42;
        const _ = !0;
    }

    /// How an opened file is to be treated.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct OpenMode: u32 {
        /// Each call is a request.
        const DIRECT_IO = 1 << 0;
        /// Pages stay from one open to the next.
        const KEEP_CACHE = 1 << 1;
        /// No seeking.
        const NONSEEKABLE = 1 << 2;
        /// The listing of the directory may be kept.
        const CACHE_DIR = 1 << 3;
        /// No position at all.
        const STREAM = 1 << 4;
        /// Close without a request.
        const NOFLUSH = 1 << 5;
        /// Writes of several programs at the same time.
        const PARALLEL_DIRECT_WRITES = 1 << 6;
        /// The kernel reads and writes a backing file; set by [`crate::Opened::passthrough`].
        const PASSTHROUGH = 1 << 7;
        const _ = !0;
    }

    /// Of a write.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct WriteFlags: u32 {
        /// Of a page of the cache; the handle is one of those of the file.
        const CACHE = 1 << 0;
        /// The lock owner is valid.
        const LOCK_OWNER = 1 << 1;
        /// Set-id bits go.
        const KILL_SUID_SGID = 1 << 2;
        const _ = !0;
    }

    /// Of an ioctl.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct IoctlFlags: u32 {
        /// Of a 32-bit program.
        const COMPAT = 1 << 0;
        /// Not limited to well-formed commands.
        const UNRESTRICTED = 1 << 1;
        /// Sent again with memory ranges.
        const RETRY = 1 << 2;
        /// 32 bits.
        const BITS_32 = 1 << 3;
        /// On a directory.
        const DIRECTORY = 1 << 4;
        const _ = !0;
    }
}
