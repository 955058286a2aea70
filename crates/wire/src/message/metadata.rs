//! Requests to the metadata service of a namespace, one for each of its operations.
//!
//! A request that changes something, or that counts a reference, is carried out once, however often it is sent: it
//! begins with its [`Once`]. A connection of the client's pool has a slot; the server keeps for each slot the last number
//! and its reply.
//!
//! Data goes beside the fields, in what the frame carries: the bytes to write in [`MetadataRequest::WriteInline`] and
//! [`MetadataRequest::AppendInline`]; the replies to reads, listings, links and attributes the same way.

use super::account::Moved;
use super::codec::{AttributeName, AttributeValue, DecodeError, Field, Item, Name, Reader, Target};
use super::record::{messages, record};
use super::values::Credentials;
use crate::attr::{Ino, SetAttr};
use crate::flags::{FallocateMode, OpenFlags, RenameMode, SeekWhat, XattrMode};
use crate::lock::{LockFamily, LockOwner, LockRequest, LockScope, WaitId};

/// Slots of a session, which are its requests under way at most.
pub const SLOTS_MAX: u16 = 64;

record! {
    /// Names one request of a session, so that it is carried out once.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Once {
        /// Below [`SLOTS_MAX`]. One request at a time is under way in a slot.
        pub slot: u16,
        /// Rises with each new request of the slot.
        pub sequence: u64,
    }
}

record! {
    /// References given back.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Forgotten {
        /// To this object.
        pub ino: Ino,
        /// How many.
        pub count: u64,
    }
}

record! {
    /// An open file that is closed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Closed {
        /// Its number.
        pub handle: u64,
        /// Striped content may have been changed through it.
        pub wrote: bool,
    }
}

record! {
    /// References that a session had before its server was started again.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Claim {
        /// To this object.
        pub ino: Ino,
        /// Its generation.
        pub generation: u64,
        /// How many.
        pub count: u64,
        /// A directory that has it, and the name there; none for the root and for what has no name any more.
        pub place: Option<(Ino, Name)>,
    }
}

impl Field for (Ino, Name) {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
        self.1.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok((Ino::take(from)?, Name::take(from)?))
    }
}

impl Item for Forgotten {
    const LIST: &'static str = "references given back";
    const MOST: usize = 1024;
}

impl Item for Closed {
    const LIST: &'static str = "closed files";
    const MOST: usize = 1024;
}

impl Item for LockRequest {
    const LIST: &'static str = "locks";
    const MOST: usize = 1024;
}

impl Item for Claim {
    const LIST: &'static str = "claimed references";
    const MOST: usize = 1024;
}

messages! {
    /// What a client asks of the metadata service. `handle` is the number of an open file or directory.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum MetadataRequest {
        /// The object of a name, and a reference to it. Reply: `Attr`.
        Lookup = 0x0101 { who: Credentials, parent: Ino, name: Name, },
        /// References are given back. Reply: `Done`.
        Forget = 0x0102 { items: Vec<Forgotten>, },
        /// Attributes. Reply: `Attr`.
        GetAttr = 0x0103 { ino: Ino, },
        /// Changes attributes; `handle` names the open file that it is done through. Reply: `Attr`.
        SetAttr = 0x0104 { who: Credentials, ino: Ino, handle: Option<u64>, change: SetAttr, },
        /// Target of a symbolic link. Reply: `Bytes`.
        ReadLink = 0x0105 { ino: Ino, },
        /// A regular file, fifo, socket or device node; `mode` with the bits of the kind. Reply: `Attr`.
        Mknod = 0x0106 { who: Credentials, parent: Ino, name: Name, mode: u32, rdev: u32, },
        /// A regular file that was not there, open. Reply: `Opened`, with a reference.
        Create = 0x0107 { who: Credentials, parent: Ino, name: Name, mode: u32, flags: OpenFlags, },
        /// A directory. Reply: `Attr`.
        Mkdir = 0x0108 { who: Credentials, parent: Ino, name: Name, mode: u32, },
        /// A symbolic link. Reply: `Attr`.
        Symlink = 0x0109 { who: Credentials, parent: Ino, name: Name, target: Target, },
        /// Another name. Reply: `Attr`, with a reference.
        Link = 0x010a { who: Credentials, ino: Ino, parent: Ino, name: Name, },
        /// Removes a name of anything but a directory. Reply: `Done`.
        Unlink = 0x010b { who: Credentials, parent: Ino, name: Name, },
        /// Removes an empty directory. Reply: `Done`.
        Rmdir = 0x010c { who: Credentials, parent: Ino, name: Name, },
        /// Moves a name. `expected` is the object of the source as far as the client knows; it is looked at only when the
        /// request is repeated. Reply: `Done`.
        Rename = 0x010d {
            who: Credentials,
            from: (Ino, Name),
            to: (Ino, Name),
            mode: RenameMode,
            expected: Option<Ino>,
        },
        /// Opens a regular file; `reclaim` is the number it had before the server was started again, and gets again.
        /// Reply: `Opened`, without a reference.
        Open = 0x010e { who: Credentials, ino: Ino, flags: OpenFlags, reclaim: Option<u64>, },
        /// Closes files. A handle that is not open is not an error here: closing may be repeated. Reply: `Done`.
        Close = 0x010f { items: Vec<Closed>, },
        /// Opens a directory. Reply: `Directory`.
        OpenDir = 0x0110 { who: Credentials, ino: Ino, },
        /// Entries after a cookie, as many as fit into `most` bytes, one at least. With attributes each entry but `.`
        /// and `..` is looked up, if it is still there, and counts a reference. Reply: `Listing`.
        ReadDir = 0x0111 { handle: u64, cookie: u64, with_attributes: bool, most: u32, },
        /// Closes a directory, as `Close`. Reply: `Done`.
        CloseDir = 0x0112 { handle: u64, },
        /// Names made and removed so far are on disk. Reply: `Done`.
        SyncDir = 0x0113 { handle: u64, data_only: bool, },
        /// Value of an extended attribute. Reply: `Bytes`.
        GetXattr = 0x0114 { who: Credentials, ino: Ino, name: AttributeName, },
        /// Sets one. Reply: `Done`.
        SetXattr = 0x0115 {
            who: Credentials,
            ino: Ino,
            name: AttributeName,
            value: AttributeValue,
            mode: XattrMode,
        },
        /// Their names, each ended by NUL. Reply: `Bytes`.
        ListXattr = 0x0116 { who: Credentials, ino: Ino, },
        /// Removes one. Reply: `Done`.
        RemoveXattr = 0x0117 { who: Credentials, ino: Ino, name: AttributeName, },
        /// Length of an open file. Reply: `Size`.
        Size = 0x0118 { handle: u64, },
        /// The next bytes at the end of a striped file. Reply: `Size`, where they start.
        Reserve = 0x0119 { handle: u64, length: u64, },
        /// Striped content was read, since the last such message. Reply: `Done`.
        WasRead = 0x011a { handle: u64, },
        /// Striped content up to `end` was written; 0: without making it longer. Only where the extents cannot tell: after
        /// allocating. Reply: `Done`.
        WasWritten = 0x011b { handle: u64, end: u64, },
        /// Takes the set-id bits away. Reply: `Done`.
        DropSetId = 0x011c { handle: u64, },
        /// Length, times and attributes, and inline content, are on disk. Reply: `Synced`.
        SyncFile = 0x011d { handle: u64, data_only: bool, },
        /// Inline content. Reply: `Bytes`, short only at the end.
        ReadInline = 0x011e { handle: u64, offset: u64, length: u32, },
        /// Writes inline content, what the frame carries. Reply: `Size`, how much was written.
        WriteInline = 0x011f { handle: u64, offset: u64, },
        /// Appends inline content, what the frame carries. Reply: `Appended`.
        AppendInline = 0x0120 { handle: u64, },
        /// `fallocate` of inline content. Reply: `Done`.
        FallocateInline = 0x0121 { handle: u64, offset: u64, length: u64, mode: FallocateMode, },
        /// Seeks in inline content. Reply: `Offset`.
        SeekInline = 0x0122 { handle: u64, offset: u64, what: SeekWhat, },
        /// Copies inline content of one open file to another. Reply: `Offset`, how much; none: by no means of the server.
        CopyInline = 0x0123 { from: u64, offset: u64, to: u64, to_offset: u64, length: u64, },
        /// A lock that is in the way. Reply: `Lock`.
        GetLock = 0x0124 { request: LockRequest, },
        /// Takes a lock. With a number it may wait: the reply then is `LockWaits`, and `LockGranted` or `LockFailed` comes on
        /// the callback connection. `reclaim`: it was held before the server was started again. Reply: `Done`, `Entrusted` or
        /// `LockWaits`.
        SetLock = 0x0125 { request: LockRequest, wait: Option<WaitId>, reclaim: bool, },
        /// Gives up what an owner holds within a scope. Reply: `Done`.
        Unlock = 0x0126 { ino: Ino, owner: LockOwner, scope: LockScope, },
        /// Calls a waiting request back. Reply: `Flag`: it waited; `LockFailed` does not come then.
        CancelLock = 0x0127 { wait: WaitId, },
        /// An owner closed a file: its locks of a family go. Reply: `Done`.
        ReleaseLocks = 0x0128 { ino: Ino, owner: LockOwner, family: LockFamily, },
        /// Content of files without name and opener is given back. Reply: `Flag`: there was some.
        GiveBack = 0x0129,
        /// Files created since the namespace was made. Reply: `Size`.
        Counts = 0x012a,
        /// Space and inodes over all servers. Reply: `Space`.
        Statfs = 0x012b,
        /// Limits and accounting of the namespace. Reply: `Status`.
        Status = 0x012c,
        /// All names and attributes are on disk. Reply: `Done`.
        SyncAll = 0x012d,
        /// What a session held before the server was started again; parents before what is in them. The session has as
        /// many references as are claimed afterwards, whatever it had: claiming twice is claiming once. Reply: `Claimed`.
        Reclaim = 0x012e { items: Vec<Claim>, },
        /// All that was held is claimed: the session is complete again. Reply: `Done`.
        ReclaimDone = 0x012f,
        /// The session ends: everything it holds is released. Reply: `Done`.
        Goodbye = 0x0130,
        /// What the session read and wrote since it began; another one takes the place of this. Reply: `Done`.
        Report = 0x0131 { moved: Moved, },
        /// A write that would have made an open file longer than the limit was refused by the client. Reply: `Done`.
        TooLong = 0x0132 { handle: u64, end: u64, },
        /// Striped content beyond the first stripe is going to be written, allocated or punched through an open file; before
        /// the first time. Reply: `Done`.
        Spreads = 0x0133 { handle: u64, },
        /// The locks of a file, which were entrusted to the session under this number, are the server's again. `held`: those of the
        /// session as they are now; none: it has decided about none. Reply: `Done`, also if they were not entrusted so.
        ReturnLocks = 0x0134 { ino: Ino, number: u64, held: Option<Vec<LockRequest>>, },
        /// Of what was reserved at the end of a striped file this was not written, and will not be: the next append begins where it does,
        /// unless something behind it was reserved meanwhile. Reply: `Done`.
        GiveUp = 0x0135 { handle: u64, start: u64, end: u64, },
    }
}

impl MetadataRequest {
    /// It begins with a [`Once`]: sent twice it would do something else than sent once.
    pub fn is_once(kind: u16) -> bool {
        const ONCE: &[u16] = &[
            0x0101, 0x0102, 0x0104, 0x0106, 0x0107, 0x0108, 0x0109, 0x010a, 0x010b, 0x010c, 0x010d, 0x010e,
            0x0110, 0x0111, 0x0115, 0x0117, 0x0119, 0x011f, 0x0120, 0x0121, 0x0123, 0x0125, 0x0126, 0x0128,
            0x0134, 0x0135,
        ];
        ONCE.binary_search(&kind).is_ok()
    }
}

/// A request to the metadata service as it is in the body of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataCall {
    /// Of those that are carried out once.
    pub once: Option<Once>,
    /// The request.
    pub request: MetadataRequest,
}

impl MetadataCall {
    /// Adds its fields to a body. `once` is there exactly for the requests that are carried out once.
    pub fn encode(&self, body: &mut Vec<u8>) {
        debug_assert_eq!(self.once.is_some(), MetadataRequest::is_once(self.request.kind()));
        if let Some(once) = &self.once {
            once.put(body);
        }
        self.request.encode(body);
    }

    /// The request of a kind and a body, all of it.
    pub fn decode(kind: u16, body: &[u8]) -> Result<MetadataCall, DecodeError> {
        let mut from = Reader::new(body);
        let once = MetadataRequest::is_once(kind).then(|| Once::take(&mut from)).transpose()?;
        if once.is_some_and(|once| once.slot >= SLOTS_MAX) {
            return Err(DecodeError::Impossible { what: "a slot" });
        }
        let request = MetadataRequest::take(kind, &mut from)?;
        from.end()?;
        Ok(MetadataCall { once, request })
    }
}
