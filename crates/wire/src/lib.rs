//! What client and servers of the file system say to each other.
//!
//! Typed requests and answers, and the two services that carry them: the metadata service, one per namespace, and the
//! data service, one per fragment. They are called in the same process or over connections, by the messages of [`message`];
//! requests are lists of ranges over one contiguous buffer so that a network carries them without another copy. Pure: no
//! file, no clock, no thread.

pub mod attr;
pub mod boot;
pub mod data;
pub mod entry;
pub mod error;
pub mod flags;
pub mod lock;
pub mod message;
pub mod metadata;
pub mod proof;
pub mod ticket;
pub mod window;

pub use attr::{Attr, Caller, FileKind, Ino, SetAttr, SetTime, Statfs, Timestamp};
pub use data::{DataService, End, EndOfSync, Extent, FileId, FragmentSpace, Listed, Listing, Share, Span};
pub use entry::DirEntry;
pub use error::{FsError, Result};
pub use flags::{FallocateMode, OpenFlags, RenameMode, SeekWhat, XattrMode};
pub use lock::{
    HeldLock, LockFamily, LockKind, LockLimit, LockOwner, LockRange, LockRefusal, LockRequest, LockScope,
    LockService, WaitId,
};
pub use message::{FragmentAccount, Moved, TrafficAccount, WindowAccount};
pub use metadata::{
    Directory, Loan, MetadataService, NewObject, Placement, Sharing, Spread, Stub, WriteLimits,
};
pub use proof::Secret;
pub use ticket::{Rights, Ticket, TicketKey};
pub use window::Window;
