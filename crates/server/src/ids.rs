//! Numbers for the content of striped files, never given away twice.
//!
//! Ids are counted up. The record on disk runs ahead by a lease, so that giving one away touches no disk. After a crash
//! the ids of the lease that were not given away are lost, which 64 bits can bear. After a power cut the record may be
//! old; the walk that is then made starts above every id it meets.

use crate::fragment::{Fragment, state};
use forebay_wire::{FileId, Result};
use std::sync::{Mutex, PoisonError};

/// Ids taken from the record at a time.
const LEASE: u64 = 1 << 20;

/// The ids of one instance.
pub(crate) struct FileIds {
    state: Mutex<Ids>,
}

struct Ids {
    next: u64,
    leased_until: u64,
}

impl FileIds {
    /// Starts at `next`, which nobody has, and records the lease.
    pub(crate) fn start(fragment: &Fragment, next: u64) -> Result<FileIds> {
        let leased_until = next + LEASE;
        state::write_open(fragment, leased_until)?;
        Ok(FileIds { state: Mutex::new(Ids { next, leased_until }) })
    }

    /// A new id.
    pub(crate) fn take(&self, fragment: &Fragment) -> Result<FileId> {
        let mut ids = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.next == ids.leased_until {
            let until = ids.leased_until + LEASE;
            state::write_open(fragment, until)?;
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
