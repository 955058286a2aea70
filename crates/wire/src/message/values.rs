//! The nouns of the file system as fields of messages.

use super::codec::{DecodeError, Field, Item, Reader};
use super::record::{record, tags};
use crate::attr::{Attr, Caller, FileKind, Ino, SetAttr, SetTime, Statfs, Timestamp};
use crate::data::{Extent, FileId, FragmentSpace, Listed};
use crate::flags::{FallocateMode, OpenFlags, RenameMode, SeekWhat, XattrMode};
use crate::lock::{HeldLock, LockFamily, LockKind, LockOwner, LockRange, LockRequest, LockScope, WaitId};
use crate::metadata::{NewObject, Placement};
use forebay_model::layout::Layout;

/// Most groups of a person.
pub const GROUPS_MAX: usize = 65536;
/// Most spans of a request.
pub const SPANS_MAX: usize = 1024;

macro_rules! numbers {
    ($($type:ident($inner:ty)),*) => {$(
        impl Field for $type {
            fn put(&self, to: &mut Vec<u8>) {
                self.0.put(to);
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
                <$inner>::take(from).map($type)
            }
        }

        #[cfg(test)]
        impl super::tests::sample::Sample for $type {
            fn sample(from: &mut super::tests::sample::Source) -> Self {
                $type(super::tests::sample::Sample::sample(from))
            }
        }
    )*};
}
numbers!(
    Ino(u64),
    FileId(u64),
    OpenFlags(u32),
    FallocateMode(u32),
    LockOwner(u64),
    WaitId(u64),
    SessionId([u8; 16]),
    Group(u32)
);

/// A type that exists already, as its fields in the order of the wire.
macro_rules! fields {
    ($type:ident { $($field:ident),* }) => {
        impl Field for $type {
            fn put(&self, to: &mut Vec<u8>) {
                $(self.$field.put(to);)*
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
                Ok($type { $($field: Field::take(from)?,)* })
            }
        }

        #[cfg(test)]
        impl super::tests::sample::Sample for $type {
            fn sample(from: &mut super::tests::sample::Source) -> Self {
                $type { $($field: super::tests::sample::Sample::sample(from),)* }
            }
        }
    };
}
fields!(Attr {
    ino,
    size,
    blocks,
    atime,
    mtime,
    ctime,
    kind,
    mode,
    nlink,
    uid,
    gid,
    rdev,
    block_size,
    generation,
    valid_ms
});
fields!(SetAttr { mode, uid, gid, size, atime, mtime, ctime, kill_suid_sgid });
fields!(Caller { uid, gid, pid });
fields!(NewObject { caller, mode, rdev });
fields!(Statfs { block_size, blocks, blocks_free, blocks_available, files, files_free, name_max });
fields!(Extent { length, blocks, mtime });
fields!(Listed { file, substripe, extent });
fields!(FragmentSpace { capacity, free, files, files_free });
fields!(HeldLock { kind, range, pid, same_client });
fields!(LockRequest { file, owner, scope, kind, pid });

tags!(FileKind, "kind of object", {
    Regular = 1,
    Directory = 2,
    Symlink = 3,
    Fifo = 4,
    Socket = 5,
    CharDevice = 6,
    BlockDevice = 7,
});
tags!(RenameMode, "way to rename", { Replace = 0, NoReplace = 1, Exchange = 2, });
tags!(SeekWhat, "thing to seek", { Data = 0, Hole = 1, });
tags!(XattrMode, "way to set an attribute", { Any = 0, Create = 1, Replace = 2, });
tags!(LockKind, "kind of lock", { Shared = 0, Exclusive = 1, });
tags!(LockFamily, "family of locks", { File = 0, Bytes = 1, });

const NANOS_PER_SECOND: u32 = 1_000_000_000;

impl Field for Timestamp {
    fn put(&self, to: &mut Vec<u8>) {
        self.secs.put(to);
        self.nanos.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let time = Timestamp { secs: i64::take(from)?, nanos: u32::take(from)? };
        if time.nanos < NANOS_PER_SECOND { Ok(time) } else { Err(DecodeError::Impossible { what: "a time" }) }
    }
}

impl Field for SetTime {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            SetTime::Now => 0u8.put(to),
            SetTime::At(time) => {
                1u8.put(to);
                time.put(to);
            }
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match u8::take(from)? {
            0 => Ok(SetTime::Now),
            1 => Timestamp::take(from).map(SetTime::At),
            tag => Err(DecodeError::UnknownTag { what: "time to set", tag }),
        }
    }
}

impl Field for Layout {
    fn put(&self, to: &mut Vec<u8>) {
        self.stripe_size().put(to);
        self.stripe_count().put(to);
        self.first_server().put(to);
        self.substripes().put(to);
        self.servers().put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let stripe_size = u64::take(from)?;
        let [count, first, substripes, servers] =
            [u32::take(from)?, u32::take(from)?, u32::take(from)?, u32::take(from)?];
        Layout::new(stripe_size, count, first, substripes, servers)
            .map_err(|_| DecodeError::Impossible { what: "a layout" })
    }
}

impl Field for Placement {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            Placement::Inline => 0u8.put(to),
            Placement::Striped { file, layout } => {
                1u8.put(to);
                file.put(to);
                layout.put(to);
            }
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match u8::take(from)? {
            0 => Ok(Placement::Inline),
            1 => Ok(Placement::Striped { file: FileId::take(from)?, layout: Layout::take(from)? }),
            tag => Err(DecodeError::UnknownTag { what: "placement", tag }),
        }
    }
}

impl Field for LockRange {
    fn put(&self, to: &mut Vec<u8>) {
        self.start().put(to);
        self.last().put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (start, last) = (u64::take(from)?, u64::take(from)?);
        LockRange::new(start, last).ok_or(DecodeError::Impossible { what: "a range to lock" })
    }
}

impl Field for LockScope {
    fn put(&self, to: &mut Vec<u8>) {
        match self {
            LockScope::File => 0u8.put(to),
            LockScope::Bytes(range) => {
                1u8.put(to);
                range.put(to);
            }
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, DecodeError> {
        match u8::take(from)? {
            0 => Ok(LockScope::File),
            1 => LockRange::take(from).map(LockScope::Bytes),
            tag => Err(DecodeError::UnknownTag { what: "scope of a lock", tag }),
        }
    }
}

/// One run of a client program, or of a server that asks another: chosen at random by it, the same on all its connections
/// to all servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub [u8; 16]);

/// A supplementary group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group(pub u32);

record! {
    /// Who asks, with all that permissions depend on.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Credentials {
        /// User.
        pub uid: u32,
        /// Group that new files get.
        pub gid: u32,
        /// Process, for messages and locks only.
        pub pid: u32,
        /// Supplementary groups.
        pub groups: Vec<Group>,
    }
}

impl Credentials {
    /// Without the supplementary groups.
    pub fn caller(&self) -> Caller {
        Caller { uid: self.uid, gid: self.gid, pid: self.pid }
    }
}

record! {
    /// A piece of a substripe file. The bytes of a request's pieces follow each other, in the order of the list, in what
    /// the frame carries.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Piece {
        /// Which of the server's substripe files.
        pub substripe: u32,
        /// Offset in it.
        pub offset: u64,
        /// Length in bytes.
        pub length: u32,
    }
}

impl Item for Group {
    const LIST: &'static str = "groups";
    const MOST: usize = GROUPS_MAX;
}

impl Item for Piece {
    const LIST: &'static str = "spans";
    const MOST: usize = SPANS_MAX;
}

impl Item for Extent {
    const LIST: &'static str = "extents";
    const MOST: usize = forebay_model::layout::SUBSTRIPES_MAX as usize;
}

impl Item for Listed {
    const LIST: &'static str = "substripe files";
    const MOST: usize = 17 << 10;
}

/// Substripe numbers and the like.
impl Item for u32 {
    const LIST: &'static str = "numbers";
    const MOST: usize = SPANS_MAX;
}

/// Numbers of objects.
impl Item for Ino {
    const LIST: &'static str = "objects";
    const MOST: usize = 4096;
}
