//! From a typed error of the file system to the number a program sees: the only place where that is decided.

use forebay_fusedev::Errno;
use forebay_wire::FsError;

/// The error number for `error`.
pub(crate) fn of(error: FsError) -> Errno {
    Errno::from_raw_os_error(number(error))
}

fn number(error: FsError) -> i32 {
    match error {
        FsError::NotFound => libc::ENOENT,
        FsError::Exists => libc::EEXIST,
        FsError::NotDirectory => libc::ENOTDIR,
        FsError::IsDirectory => libc::EISDIR,
        FsError::NotEmpty => libc::ENOTEMPTY,
        FsError::NoSpace => libc::ENOSPC,
        FsError::FileTooLarge => libc::EFBIG,
        FsError::TooManyFiles => libc::EMFILE,
        FsError::ReadOnly | FsError::WriteWindow => libc::EROFS,
        FsError::NotPermitted => libc::EPERM,
        FsError::AccessDenied => libc::EACCES,
        FsError::Stale => libc::ESTALE,
        FsError::InvalidArgument => libc::EINVAL,
        FsError::NameTooLong => libc::ENAMETOOLONG,
        FsError::TooManySymlinks => libc::ELOOP,
        FsError::NoAttribute => libc::ENODATA,
        FsError::AttributeTooSmallBuffer => libc::ERANGE,
        FsError::AttributeTooBig => libc::E2BIG,
        FsError::Unsupported => libc::EOPNOTSUPP,
        FsError::CrossDevice => libc::EXDEV,
        FsError::TooManyLinks => libc::EMLINK,
        FsError::BadHandle => libc::EBADF,
        FsError::NoData => libc::ENXIO,
        FsError::Busy => libc::EBUSY,
        FsError::TooManyOpenFiles => libc::ENFILE,
        FsError::WouldBlock => libc::EAGAIN,
        FsError::Deadlock => libc::EDEADLK,
        FsError::Interrupted => libc::EINTR,
        FsError::NoLocks => libc::ENOLCK,
        FsError::Poisoned | FsError::Damaged { .. } | FsError::Unreachable => libc::EIO,
        FsError::Host { errno, .. } => from_host(errno),
        // The type may grow; an error nobody translated yet is still an error.
        _ => libc::EIO,
    }
}

/// What the local file system said. ENOSYS is never passed on: the kernel would take it for "this mount does not know
/// the operation" and never ask again. Numbers outside the kernel's range would break the reply.
fn from_host(errno: i32) -> i32 {
    match errno {
        libc::ENOSYS => libc::EOPNOTSUPP,
        1..=511 => errno,
        _ => libc::EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_errors_pass_except_those_the_kernel_would_misread() {
        let host = |errno| number(FsError::Host { operation: "pwrite", errno });
        assert_eq!(host(libc::EDQUOT), libc::EDQUOT);
        assert_eq!(host(libc::ENOSYS), libc::EOPNOTSUPP);
        assert_eq!(host(0), libc::EIO);
        assert_eq!(host(-5), libc::EIO);
        assert_eq!(host(512), libc::EIO);
    }

    #[test]
    fn reasons_have_the_numbers_of_the_manual_pages() {
        for (error, expected) in [
            (FsError::NoSpace, libc::ENOSPC),
            (FsError::FileTooLarge, libc::EFBIG),
            (FsError::TooManyFiles, libc::EMFILE),
            (FsError::Poisoned, libc::EIO),
            (FsError::WriteWindow, libc::EROFS),
            (FsError::NoAttribute, libc::ENODATA),
            (FsError::AttributeTooSmallBuffer, libc::ERANGE),
            (FsError::NotEmpty, libc::ENOTEMPTY),
            (FsError::NoData, libc::ENXIO),
            (FsError::Damaged { what: "format" }, libc::EIO),
        ] {
            assert_eq!(number(error), expected, "{error:?}");
        }
    }
}
