//! The file system's errors in the stager's words.

use forebay_stager::{Cause, TreeError};
use forebay_wire::FsError;

/// For `map_err`.
pub(crate) fn failed(operation: &'static str) -> impl FnOnce(FsError) -> TreeError {
    move |error| TreeError { operation, cause: cause(error) }
}

/// One for one, as far as both have a word for it.
pub(crate) fn cause(error: FsError) -> Cause {
    match error {
        FsError::NotFound => Cause::NotFound,
        FsError::Exists => Cause::Exists,
        FsError::NotDirectory => Cause::NotDirectory,
        FsError::IsDirectory => Cause::IsDirectory,
        FsError::NotEmpty => Cause::NotEmpty,
        FsError::NoSpace => Cause::NoSpace,
        FsError::FileTooLarge => Cause::FileTooLarge,
        FsError::TooManyFiles => Cause::TooManyFiles,
        FsError::ReadOnly => Cause::ReadOnly,
        FsError::NotPermitted => Cause::NotPermitted,
        FsError::AccessDenied => Cause::AccessDenied,
        FsError::Stale => Cause::Stale,
        FsError::NameTooLong => Cause::NameTooLong,
        FsError::TooManySymlinks => Cause::SymbolicLink,
        FsError::NoAttribute => Cause::NoAttribute,
        FsError::Unsupported => Cause::Unsupported,
        FsError::CrossDevice => Cause::CrossDevice,
        FsError::TooManyLinks => Cause::TooManyLinks,
        FsError::TooManyOpenFiles => Cause::TooManyOpenFiles,
        // A fragment that may not be written any more is a broken disk to whoever stages.
        FsError::Poisoned | FsError::Damaged { .. } => Cause::Io,
        FsError::Host { errno, .. } => host(errno),
        FsError::InvalidArgument => Cause::Other { errno: libc::EINVAL },
        FsError::AttributeTooSmallBuffer => Cause::Other { errno: libc::ERANGE },
        FsError::AttributeTooBig => Cause::Other { errno: libc::E2BIG },
        FsError::BadHandle => Cause::Other { errno: libc::EBADF },
        FsError::NoData => Cause::Other { errno: libc::ENXIO },
        FsError::Busy => Cause::Other { errno: libc::EBUSY },
        // The type may grow; what is not known here yet is at least an error.
        _ => Cause::Io,
    }
}

fn host(errno: i32) -> Cause {
    match errno {
        libc::EIO => Cause::Io,
        libc::EDQUOT => Cause::Quota,
        libc::ENOSPC => Cause::NoSpace,
        libc::EROFS => Cause::ReadOnly,
        libc::EACCES => Cause::AccessDenied,
        libc::EPERM => Cause::NotPermitted,
        libc::EMFILE | libc::ENFILE => Cause::TooManyOpenFiles,
        errno => Cause::Other { errno },
    }
}
