//! errno to [`Cause`]: the only place of this crate that knows the numbers.

use rustix::io::Errno;

use crate::tree::{Cause, TreeError};

/// For `map_err`.
pub fn failed(operation: &'static str) -> impl FnOnce(Errno) -> TreeError {
    move |errno| TreeError { operation, cause: cause(errno) }
}

fn cause(errno: Errno) -> Cause {
    match errno {
        Errno::NOENT => Cause::NotFound,
        Errno::EXIST => Cause::Exists,
        Errno::NOTDIR => Cause::NotDirectory,
        Errno::ISDIR => Cause::IsDirectory,
        Errno::NOTEMPTY => Cause::NotEmpty,
        Errno::ACCESS => Cause::AccessDenied,
        Errno::PERM => Cause::NotPermitted,
        Errno::ROFS => Cause::ReadOnly,
        Errno::NOSPC => Cause::NoSpace,
        Errno::DQUOT => Cause::Quota,
        Errno::NAMETOOLONG => Cause::NameTooLong,
        Errno::FBIG => Cause::FileTooLarge,
        Errno::MLINK => Cause::TooManyLinks,
        Errno::MFILE | Errno::NFILE => Cause::TooManyOpenFiles,
        Errno::OPNOTSUPP | Errno::NOSYS => Cause::Unsupported,
        Errno::XDEV => Cause::CrossDevice,
        Errno::LOOP => Cause::SymbolicLink,
        Errno::NODATA => Cause::NoAttribute,
        Errno::STALE => Cause::Stale,
        Errno::IO => Cause::Io,
        other => Cause::Other { errno: other.raw_os_error() },
    }
}
