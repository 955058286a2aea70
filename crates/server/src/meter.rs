//! How much of a fragment is used, where the local file system does not say it.
//!
//! A metered fragment shares a file system with others. Its use is the sum over its content files of what
//! [`crate::content::counted`] says of each. A writer first *claims* the most that it can come to use, then writes, then
//! *settles*: the claim is replaced by what was really allocated. The sum of use and claims never passes the capacity.
//!
//! When a claim does not fit, the writer goes the exact way: it waits until no other claim is open (claims are upper
//! bounds and would refuse wrongly) and works out what the write really needs.
//!
//! Any thread may call. Lock order: the `claims` lock is taken before the lock of a file's accounting. A crash loses the
//! value: it is counted again by the walk of [`crate::recover`].

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Use of one fragment.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Capacity in bytes; `None` where the local file system has the size.
    capacity: Option<u64>,
    /// Used and claimed bytes.
    claimed: AtomicU64,
    /// Held shared from claim to settlement, exclusively by the exact way.
    claims: RwLock<()>,
}

/// A claim to be settled. Nothing is claimed where nothing is counted.
pub(crate) struct Claim<'a> {
    pub(crate) bytes: u64,
    _open: RwLockReadGuard<'a, ()>,
}

impl Meter {
    pub(crate) fn new(capacity: Option<u64>) -> Meter {
        Meter { capacity, ..Meter::default() }
    }

    /// Use is counted here.
    pub(crate) fn counts(&self) -> bool {
        self.capacity.is_some()
    }

    /// Capacity in bytes, where it is counted.
    pub(crate) fn capacity(&self) -> Option<u64> {
        self.capacity
    }

    /// Used and claimed bytes.
    pub(crate) fn used(&self) -> u64 {
        self.claimed.load(Relaxed)
    }

    /// Bytes that can still be claimed.
    pub(crate) fn room(&self) -> u64 {
        self.capacity.unwrap_or(u64::MAX).saturating_sub(self.used())
    }

    /// Says what is used, before anybody claims.
    pub(crate) fn start_at(&self, used: u64) {
        self.claimed.store(used, Relaxed);
    }

    /// Claims `bytes`, if they fit.
    pub(crate) fn claim(&self, bytes: u64) -> Option<Claim<'_>> {
        let open = self.claims.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let limit = self.capacity.unwrap_or(u64::MAX);
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        self.claimed.fetch_update(Relaxed, Relaxed, fits).ok()?;
        Some(Claim { bytes, _open: open })
    }

    /// Waits until no claim is open and lets nobody claim while the guard lives.
    pub(crate) fn exactly(&self) -> RwLockWriteGuard<'_, ()> {
        self.claims.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The use of a file went from `before` to `after`; `claimed` bytes of it were claimed.
    pub(crate) fn settle(&self, before: u64, after: u64, claimed: u64) {
        let settle = |sum: u64| Some((sum + after).saturating_sub(before + claimed));
        // The closure always gives a value, so this cannot fail.
        let _ = self.claimed.fetch_update(Relaxed, Relaxed, settle);
    }
}
