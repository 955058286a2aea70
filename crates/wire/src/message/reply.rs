//! The answers of metadata and data services.

use super::account::{FragmentAccount, Moved};
use super::codec::{DecodeError, Field, Reader};
use super::record::{messages, record};
use crate::attr::{Attr, Ino, Statfs};
use crate::data::{Extent, FragmentSpace, Listed};
use crate::error::FsError;
use crate::lock::HeldLock;
use crate::metadata::Placement;
use crate::ticket::Ticket;
use forebay_model::layout::Layout;
use forebay_model::limits::Policy;

record! {
    /// An open file.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Opened {
        /// Its number in the session.
        pub handle: u64,
        /// Where its content is.
        pub placement: Placement,
        /// The right to its content; none for inline files.
        pub ticket: Option<Ticket>,
        /// Its attributes.
        pub attr: Attr,
    }
}

record! {
    /// Limits and accounting of a namespace.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Status {
        /// Capacity over all servers, in bytes.
        pub capacity: u64,
        /// Free of it.
        pub free: u64,
        /// Longest file in bytes; none: no limit.
        pub max_file_size: Option<u64>,
        /// What happens to longer ones.
        pub file_size_policy: Policy,
        /// Most files that may be created; none: no limit.
        pub max_files: Option<u64>,
        /// What happens to more.
        pub file_count_policy: Policy,
        /// Files created so far.
        pub files_created: u64,
        /// What clients read and wrote, as far as they have told.
        pub moved: Moved,
        /// Layout of a new file.
        pub layout: Option<Layout>,
        /// The fragments, in the order of the servers.
        pub fragments: Vec<FragmentAccount>,
        /// Clients.
        pub sessions: u32,
        /// Open files of all of them.
        pub open_files: u64,
        /// Files of which a client has one open for writing.
        pub written_files: u64,
    }
}

/// A reference that could not be claimed is a number whose object is gone.
pub type Gone = Vec<Ino>;

messages! {
    /// What a service answers. Which one belongs to which request is told there; `Failed` to any.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Reply {
        /// It was not done.
        Failed = 0x8000 { error: FsError, },
        /// It was done.
        Done = 0x8001,
        /// Attributes.
        Attr = 0x8002 { attr: Attr, },
        /// An open file.
        Opened = 0x8003 { opened: Opened, },
        /// An open directory.
        Directory = 0x8004 { handle: u64, },
        /// Entries of a directory, in what the frame carries ([`super::Entry`]); `is_end`: there are no more.
        Listing = 0x8005 { is_end: bool, },
        /// What the frame carries.
        Bytes = 0x8006,
        /// A length, a place, or how many bytes.
        Size = 0x8007 { bytes: u64, },
        /// Where something was appended, and how much.
        Appended = 0x8008 { offset: u64, bytes: u64, },
        /// A place, or how much; none: there is none.
        Offset = 0x8009 { offset: Option<u64>, },
        /// A lock in the way.
        Lock = 0x800a { held: Option<HeldLock>, },
        /// The lock is waited for.
        LockWaits = 0x800b,
        /// Yes or no.
        Flag = 0x800c { value: bool, },
        /// Space.
        Space = 0x800d { space: Statfs, },
        /// Limits and accounting.
        Status = 0x800e { status: Status, },
        /// Which of the claimed objects are gone.
        Claimed = 0x800f { gone: Gone, },
        /// What was read, in what the frame carries; `is_whole`: all of it is within the substripe files.
        Read = 0x8010 { is_whole: bool, },
        /// Space of a fragment.
        FragmentSpace = 0x8011 { space: FragmentSpace, },
        /// Of which substripes descriptors come along.
        Descriptors = 0x8012 { substripes: Vec<u32>, },
        /// How far substripe files reach.
        Extents = 0x8013 { extents: Vec<Extent>, },
        /// Substripe files; `next`: the cookie to go on from, none at the end.
        Substripes = 0x8014 { files: Vec<Listed>, next: Option<u64>, },
        /// What is counted of a fragment.
        Account = 0x8017 { account: FragmentAccount, },
        /// The request is none of this version, or not for this connection; the connection stays usable.
        Unsupported = 0x8015 { kind: u16, },
        /// What was sent makes no sense; the connection ends.
        Malformed = 0x8016 { text: String, },
        /// An open file is on disk, but for its striped content. `is_spread`: there may be some of that beyond the first stripe, on
        /// any server.
        Synced = 0x8018 { is_spread: bool, },
        /// The lock was taken, and for so long from the asking the client decides by itself about locks of the file, until it gives
        /// that back under this number.
        Entrusted = 0x8019 { number: u64, valid_ms: u32, },
    }
}

impl Field for FsError {
    fn put(&self, to: &mut Vec<u8>) {
        let (code, errno) = super::failure::code_of(*self);
        code.put(to);
        errno.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        super::failure::error_of(u16::take(from)?, i32::take(from)?)
            .ok_or(DecodeError::Impossible { what: "the code of an error" })
    }
}
