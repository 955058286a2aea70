//! [`FsError`] as numbers. The codes are the protocol's own and never change their meaning; an errno goes along only where
//! the local file system of a fragment said it.

use crate::error::FsError;

/// What failed at a server, to somebody who is not there.
const AT_SERVER: &str = "server";
/// Which record is damaged at a server.
const RECORD_AT_SERVER: &str = "a record of the server";
const DAMAGED: u16 = 1000;
const HOST: u16 = 1001;

macro_rules! codes {
    ($($code:literal = $variant:ident,)*) => {
        /// Code and errno of an error.
        pub(super) fn code_of(error: FsError) -> (u16, i32) {
            match error {
                $(FsError::$variant => ($code, 0),)*
                FsError::Damaged { .. } => (DAMAGED, 0),
                FsError::Host { errno, .. } => (HOST, errno),
            }
        }

        /// The error of a code; `None` for one that has no meaning, and for an errno where none belongs.
        pub(super) fn error_of(code: u16, errno: i32) -> Option<FsError> {
            match (code, errno) {
                $(($code, 0) => Some(FsError::$variant),)*
                (DAMAGED, 0) => Some(FsError::Damaged { what: RECORD_AT_SERVER }),
                (HOST, errno) => Some(FsError::Host { operation: AT_SERVER, errno }),
                _ => None,
            }
        }

        /// All errors that are nothing but their code.
        #[cfg(test)]
        pub(super) const PLAIN: &[FsError] = &[$(FsError::$variant,)*];
    };
}

codes! {
    1 = NotFound,
    2 = Exists,
    3 = NotDirectory,
    4 = IsDirectory,
    5 = NotEmpty,
    6 = NoSpace,
    7 = FileTooLarge,
    8 = TooManyFiles,
    9 = ReadOnly,
    10 = NotPermitted,
    11 = AccessDenied,
    12 = Stale,
    13 = InvalidArgument,
    14 = NameTooLong,
    15 = TooManySymlinks,
    16 = NoAttribute,
    17 = AttributeTooSmallBuffer,
    18 = AttributeTooBig,
    19 = Unsupported,
    20 = CrossDevice,
    21 = TooManyLinks,
    22 = BadHandle,
    23 = NoData,
    24 = Busy,
    25 = TooManyOpenFiles,
    26 = Poisoned,
    27 = Unreachable,
    28 = WouldBlock,
    29 = Deadlock,
    30 = Interrupted,
    31 = NoLocks,
    32 = WriteWindow,
}
