//! The locks of one namespace: `flock` and `fcntl`, over all clients.
//!
//! A pure table. An [`Event`] goes in, the answers it makes due come out; there is no clock, no thread and no file here.
//! One thread at a time: whoever owns the table puts it behind a lock and sends the answers after releasing that.
//! Nothing is kept on disk: a lock lives as long as its session, so a server that starts anew starts with none, and its
//! clients have new sessions.
//!
//! What always holds between two events (the property test looks after each one):
//! * two owners never hold conflicting locks on a byte in the same family;
//! * a request that waits could not be granted now;
//! * no owners of byte ranges wait for each other in a circle;
//! * no limit is exceeded.
//!
//! The rules are those of Linux on a local file system. Where they leave a choice:
//! * *Order.* A request that nobody's lock is in the way of is granted at once, also when others wait: queueing it behind
//!   them could block those forever who hold shared locks already. When locks are given up, requests are granted
//!   in the order in which they came.
//! * *Circles* are looked for among owners of byte ranges, over all files, as POSIX has it. `flock` has no such check.
//!   Owners that are open file descriptions look like others here, so they get the check too.
//! * *flock* is changed in place where nobody is in the way. Otherwise the old lock is given up before the new one
//!   is refused or waits, so two who both want to go from shared to exclusive do not block each other.
//! * *Closing* a file gives the owner's locks up. Requests for byte ranges that the owner still has waiting in another
//!   thread go on, as they do in Linux; for `flock` the owner is the open file itself, and they end with it.

mod deadlock;
mod file;
mod queue;
mod ranges;
mod table;

pub use table::LockTable;

use forebay_wire::{Ino, LockFamily, LockOwner, LockRefusal, LockRequest, LockScope};

/// A client, for as long as it is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session(pub u64);

/// Number of a request, chosen by its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// Who holds locks, among all clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// The client.
    pub session: Session,
    /// The owner as the client names it.
    pub owner: LockOwner,
}

/// How many of what there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockLimits {
    /// Locks on one file, of all clients and both families.
    pub locks_of_file: usize,
    /// Locks of one client on all files.
    pub locks_of_session: usize,
    /// Requests of one client that wait.
    pub waiting_of_session: usize,
}

impl Default for LockLimits {
    /// Enough for a lock of each process of a large job on one file; at about 200 bytes each, a client cannot make the
    /// server hold more than some tens of megabytes.
    fn default() -> LockLimits {
        LockLimits { locks_of_file: 262_144, locks_of_session: 65_536, waiting_of_session: 16_384 }
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Somebody wants a lock. Answered now, or later when it is to wait.
    Lock {
        /// By whom.
        session: Session,
        /// Number for the answer and for [`Event::Cancel`].
        id: RequestId,
        /// What.
        request: LockRequest,
        /// Wait until it can be granted.
        wait: bool,
    },
    /// Somebody gives up what he holds within a scope. Answered now.
    Unlock {
        /// By whom.
        session: Session,
        /// Number for the answer.
        id: RequestId,
        /// Of which file.
        file: Ino,
        /// Of which owner.
        owner: LockOwner,
        /// What.
        scope: LockScope,
    },
    /// A request is not wanted any more. If it waits it is answered as cancelled; if it was answered already, nothing.
    Cancel {
        /// Whose.
        session: Session,
        /// Which.
        id: RequestId,
    },
    /// An owner closed a file.
    OwnerClosed {
        /// Through which client.
        session: Session,
        /// Which file.
        file: Ino,
        /// Which owner.
        owner: LockOwner,
        /// Which of its locks end by that.
        family: LockFamily,
    },
    /// A client has a file open no more: whatever it still holds or wants there goes.
    FileClosed {
        /// Which client.
        session: Session,
        /// Which file.
        file: Ino,
    },
    /// A client is gone, and all it holds and wants with it. Its own requests are not answered any more.
    SessionEnded {
        /// Which client.
        session: Session,
    },
}

/// An answer that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// To whom.
    pub session: Session,
    /// To which request.
    pub id: RequestId,
    /// Done, or why not.
    pub outcome: Result<(), LockRefusal>,
}

#[cfg(test)]
mod tests;
