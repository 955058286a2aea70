//! What can go wrong with an operation on the file system.
//!
//! Every variant is a reason that a caller may act on; the number a kernel or a C program wants is made at the edge
//! (`forebay-fuse`). What the local file system of a fragment said and has no meaning of its own here is carried as
//! [`FsError::Host`].

/// Why an operation was refused or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FsError {
    /// The name or object does not exist.
    #[error("no such file or directory")]
    NotFound,
    /// The name exists already.
    #[error("the name exists already")]
    Exists,
    /// A directory was needed.
    #[error("not a directory")]
    NotDirectory,
    /// Anything but a directory was needed.
    #[error("is a directory")]
    IsDirectory,
    /// The directory has entries.
    #[error("the directory is not empty")]
    NotEmpty,
    /// The capacity of the instance is used up.
    #[error("the instance is full")]
    NoSpace,
    /// The file would be longer than the limit of the configuration or of the local file system.
    #[error("the file would be larger than the limit")]
    FileTooLarge,
    /// More files would be created than the configuration allows.
    #[error("the limit on created files is reached")]
    TooManyFiles,
    /// As much was written to a fragment as its write window allows.
    #[error("as much was written as the write window allows")]
    WriteWindow,
    /// Writing is switched off.
    #[error("the file system is read-only")]
    ReadOnly,
    /// The operation is not allowed for this caller or object.
    #[error("operation not permitted")]
    NotPermitted,
    /// The permission bits refuse it.
    #[error("permission denied")]
    AccessDenied,
    /// The object of this number is gone.
    #[error("the object is gone")]
    Stale,
    /// An argument makes no sense.
    #[error("invalid argument")]
    InvalidArgument,
    /// A name over 255 bytes or a path over 4095.
    #[error("the name is too long")]
    NameTooLong,
    /// A symbolic link stands where none may be followed.
    #[error("too many levels of symbolic links")]
    TooManySymlinks,
    /// No such extended attribute.
    #[error("no such extended attribute")]
    NoAttribute,
    /// The buffer is smaller than the extended attribute.
    #[error("the buffer is too small for the attribute")]
    AttributeTooSmallBuffer,
    /// The extended attribute is larger than the file system stores.
    #[error("the attribute is too big")]
    AttributeTooBig,
    /// Not offered for this object.
    #[error("operation not supported")]
    Unsupported,
    /// The two names are in different file systems.
    #[error("the names are in different file systems")]
    CrossDevice,
    /// The object has as many names as the local file system allows.
    #[error("too many links")]
    TooManyLinks,
    /// No open file has this handle.
    #[error("bad handle")]
    BadHandle,
    /// No data or hole at or after this offset.
    #[error("no data at or after this offset")]
    NoData,
    /// In use by somebody else.
    #[error("busy")]
    Busy,
    /// The process may not open more descriptors.
    #[error("too many open files")]
    TooManyOpenFiles,
    /// An earlier sync of a fragment failed: what it holds can be read, nothing more is written to it.
    #[error("a fragment failed to reach its disk earlier: it can only be read")]
    Poisoned,
    /// The server cannot be reached and has not been for longer than one waits for it; it may come back.
    #[error("the server cannot be reached")]
    Unreachable,
    /// It would have to wait, and was asked not to.
    #[error("would have to wait")]
    WouldBlock,
    /// Those who are waited for wait, directly or not, for the one who asks.
    #[error("waiting would never end")]
    Deadlock,
    /// The request was called back before it was carried out.
    #[error("called back")]
    Interrupted,
    /// A limit on locks is reached.
    #[error("no more locks")]
    NoLocks,
    /// A record of the file system's own is damaged or of an unknown version.
    #[error("damaged on disk: {what}")]
    Damaged {
        /// Which record.
        what: &'static str,
    },
    /// The local file system of a fragment failed.
    #[error("{operation}: {}", std::io::Error::from_raw_os_error(*errno))]
    Host {
        /// What was tried.
        operation: &'static str,
        /// What the system said.
        errno: i32,
    },
}

/// Result of an operation on the file system.
pub type Result<T> = std::result::Result<T, FsError>;
