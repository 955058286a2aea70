//! What the local file system says, in the file system's own words.
//!
//! The one place of this crate that interprets error numbers. Pure.

use forebay_wire::FsError;
use rustix::io::Errno;

/// Turns an error of the local file system into a typed one; `operation` says what was tried, for errors that have no
/// meaning of their own.
pub(crate) fn host(operation: &'static str) -> impl Fn(Errno) -> FsError {
    move |errno| match errno {
        Errno::NOENT => FsError::NotFound,
        Errno::EXIST => FsError::Exists,
        Errno::NOTDIR => FsError::NotDirectory,
        Errno::ISDIR => FsError::IsDirectory,
        Errno::NOTEMPTY => FsError::NotEmpty,
        Errno::NOSPC | Errno::DQUOT => FsError::NoSpace,
        Errno::FBIG => FsError::FileTooLarge,
        Errno::ROFS => FsError::ReadOnly,
        Errno::PERM => FsError::NotPermitted,
        Errno::ACCESS => FsError::AccessDenied,
        Errno::INVAL => FsError::InvalidArgument,
        Errno::NAMETOOLONG => FsError::NameTooLong,
        Errno::LOOP => FsError::TooManySymlinks,
        Errno::NODATA => FsError::NoAttribute,
        Errno::NXIO => FsError::NoData,
        Errno::RANGE => FsError::AttributeTooSmallBuffer,
        Errno::TOOBIG => FsError::AttributeTooBig,
        Errno::OPNOTSUPP | Errno::NOSYS => FsError::Unsupported,
        Errno::XDEV => FsError::CrossDevice,
        Errno::MLINK => FsError::TooManyLinks,
        Errno::BUSY | Errno::AGAIN => FsError::Busy,
        Errno::MFILE | Errno::NFILE => FsError::TooManyOpenFiles,
        Errno::STALE => FsError::Stale,
        other => FsError::Host { operation, errno: other.raw_os_error() },
    }
}
