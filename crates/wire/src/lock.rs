//! Locks on files: who asks for what, and what the answer can be.
//!
//! Two families that know nothing of each other, as on Linux: `flock` locks whole files for an open file description,
//! `fcntl` locks byte ranges for a process. Locks of an open file description (`F_OFD_SETLK`) are byte ranges whose owner
//! happens to be the description.
//!
//! A client names owners by the numbers its kernel gives them; the server adds which client it was. What a client has to
//! tell the server, since no kernel tells it twice:
//! * a close of a file by a process gives up all ranges that the process has on the file, whichever descriptor took them;
//! * the last close of an open file description gives up its `flock` and the ranges whose owner it is. Linux does not
//!   name that owner when it closes, so a client remembers which owners took ranges through which handle, forgets them
//!   when they close, and gives up the rest with the handle.

use crate::attr::Ino;
use crate::error::Result;

/// Who holds a lock, as the kernel of its client names it: a process's table of files, or an open file description.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockOwner(pub u64);

/// How much a lock excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockKind {
    /// Others may share: `F_RDLCK`, `LOCK_SH`.
    Shared,
    /// Nobody else: `F_WRLCK`, `LOCK_EX`.
    Exclusive,
}

impl LockKind {
    /// Two owners cannot have these on the same bytes at the same time.
    pub fn conflicts_with(self, other: LockKind) -> bool {
        self == LockKind::Exclusive || other == LockKind::Exclusive
    }
}

/// Bytes of a file from `start` to `last`, both included, so that "to the end, however long the file gets" is a range.
/// Never empty and never beyond [`LockRange::LAST_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LockRange {
    start: u64,
    last: u64,
}

impl LockRange {
    /// The last byte a range can have: the largest offset of a file.
    pub const LAST_MAX: u64 = i64::MAX as u64;
    /// All bytes of a file.
    pub const WHOLE: LockRange = LockRange { start: 0, last: LockRange::LAST_MAX };

    /// The bytes `start ..= last`; `None` for what is empty or reaches beyond the largest offset.
    pub fn new(start: u64, last: u64) -> Option<LockRange> {
        (start <= last && last <= LockRange::LAST_MAX).then_some(LockRange { start, last })
    }

    /// First byte.
    pub fn start(self) -> u64 {
        self.start
    }

    /// Last byte.
    pub fn last(self) -> u64 {
        self.last
    }

    /// Some byte is in both.
    pub fn overlaps(self, other: LockRange) -> bool {
        self.start <= other.last && other.start <= self.last
    }
}

/// What is locked of a file, and in which family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockScope {
    /// The file as such: `flock`.
    File,
    /// Some of its bytes: `fcntl`.
    Bytes(LockRange),
}

impl LockScope {
    /// The family.
    pub fn family(self) -> LockFamily {
        match self {
            LockScope::File => LockFamily::File,
            LockScope::Bytes(_) => LockFamily::Bytes,
        }
    }

    /// The bytes: for `flock` all of them.
    pub fn range(self) -> LockRange {
        match self {
            LockScope::File => LockRange::WHOLE,
            LockScope::Bytes(range) => range,
        }
    }
}

/// Locks of one family never meet those of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockFamily {
    /// `flock`.
    File,
    /// `fcntl`, of processes and of open file descriptions.
    Bytes,
}

/// A lock that somebody wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRequest {
    /// On which file.
    pub file: Ino,
    /// For whom.
    pub owner: LockOwner,
    /// What of the file.
    pub scope: LockScope,
    /// How.
    pub kind: LockKind,
    /// The process that asks, as its client numbers it; `F_GETLK` tells it to others.
    pub pid: u32,
}

/// A lock that stands in somebody's way: the answer of `F_GETLK`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldLock {
    /// How it locks.
    pub kind: LockKind,
    /// What it locks.
    pub range: LockRange,
    /// The process that took it, as its client numbers it.
    pub pid: u32,
    /// It is held through the client that asks, so that `pid` means a process there.
    pub same_client: bool,
}

/// Why a lock was not given, or not taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockRefusal {
    /// Somebody else has it, and the request was not to wait.
    #[error("somebody else holds a lock in the way")]
    WouldBlock,
    /// Those who hold it wait, directly or not, for the one who asks.
    #[error("waiting for this lock would never end")]
    Deadlock,
    /// A limit on locks or on waiting requests is reached; closing files or giving up locks helps.
    #[error("a limit is reached: {limit} {what}")]
    TooMany {
        /// Of what.
        what: LockLimit,
        /// How many there may be.
        limit: usize,
    },
    /// The request was called back while it waited.
    #[error("the request was called back")]
    Cancelled,
    /// A request of the same client with this number waits already.
    #[error("a request with this number waits already")]
    NumberInUse,
}

/// What is limited of locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockLimit {
    /// Locks on one file.
    LocksOfFile,
    /// Locks of one client.
    LocksOfClient,
    /// Requests of one client that wait.
    WaitingOfClient,
}

impl std::fmt::Display for LockLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            LockLimit::LocksOfFile => "locks on the file",
            LockLimit::LocksOfClient => "locks of the client",
            LockLimit::WaitingOfClient => "waiting requests of the client",
        })
    }
}

/// Number by which a request that waits is called back; chosen by the caller, and used for one request at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitId(pub u64);

/// The locks of one namespace, as one client sees them. Every method may be called from any thread.
pub trait LockService: Send + Sync {
    /// A lock that is in the way of a request; `None` when it could be granted.
    fn test(&self, request: &LockRequest) -> Result<Option<HeldLock>>;
    /// Takes a lock. With a number it waits, and returns when the lock is granted, refused, or called back by that
    /// number; without, it returns at once.
    fn lock(&self, request: &LockRequest, wait: Option<WaitId>) -> Result<()>;
    /// Gives up what an owner holds within a scope.
    fn unlock(&self, file: Ino, owner: LockOwner, scope: LockScope) -> Result<()>;
    /// Calls a request back. Does nothing when it has not begun, or has ended. Never waits.
    fn cancel(&self, wait: WaitId);
    /// An owner closed a file: its locks of that family go.
    fn owner_closed(&self, file: Ino, owner: LockOwner, family: LockFamily) -> Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_a_byte_and_ends_at_the_largest_offset() {
        assert_eq!(LockRange::new(5, 4), None);
        assert_eq!(LockRange::new(0, u64::MAX), None);
        assert_eq!(LockRange::new(0, LockRange::LAST_MAX), Some(LockRange::WHOLE));
        assert!(LockRange::new(LockRange::LAST_MAX, LockRange::LAST_MAX).is_some());
    }

    #[test]
    fn ranges_overlap_where_they_share_a_byte() {
        let range = |start, last| LockRange::new(start, last).unwrap();
        assert!(range(0, 9).overlaps(range(9, 9)));
        assert!(!range(0, 9).overlaps(range(10, 19)));
        assert!(LockRange::WHOLE.overlaps(range(7, 7)));
    }
}
