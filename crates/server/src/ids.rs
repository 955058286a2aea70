//! Numbers for the content of striped files, never given away twice.
//!
//! Ids are counted up. The record on disk runs ahead by a lease, so that giving one away touches no disk. After a crash
//! the ids of the lease that were not given away are lost, which 64 bits can bear. After a power cut the record may be
//! old; where all fragments are at hand the walk that is then made starts above every id it meets. Where they are not,
//! the record is on disk before an id of its lease is given away.

use crate::fragment::{Fragment, state};
use forebay_wire::{FileId, Result};
use std::sync::{Mutex, PoisonError};

/// Ids taken from the record at a time.
const LEASE: u64 = 1 << 20;

/// What becomes of a record that a power cut made old.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The walk finds every id that is in use.
    Found,
    /// Nobody would notice: the record must not be lost.
    Hidden,
}

/// The ids of one instance.
pub(crate) struct FileIds {
    loss: Loss,
    state: Mutex<Ids>,
}

struct Ids {
    next: u64,
    leased_until: u64,
}

impl FileIds {
    /// Starts at `next`, which nobody has, and records the lease.
    pub(crate) fn start(fragment: &Fragment, next: u64, loss: Loss) -> Result<FileIds> {
        let leased_until = next + LEASE;
        state::write_open(fragment, leased_until, loss == Loss::Hidden)?;
        Ok(FileIds { loss, state: Mutex::new(Ids { next, leased_until }) })
    }

    /// A new id.
    pub(crate) fn take(&self, fragment: &Fragment) -> Result<FileId> {
        let mut ids = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.next == ids.leased_until {
            let until = ids.leased_until + LEASE;
            state::write_open(fragment, until, self.loss == Loss::Hidden)?;
            ids.leased_until = until;
        }
        ids.next += 1;
        Ok(FileId(ids.next - 1))
    }

    /// The next id that nobody has.
    pub(crate) fn next(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).next
    }
}
