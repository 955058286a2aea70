//! What is counted of a fragment's traffic, and the limits that are held against it.
//!
//! ```text
//! Traffic ─┬─ bytes read and written through this process
//!          ├─ Device: what the fragment's own file system counts, whoever reads and writes it
//!          └─ Window: what may be written within a span of time
//! ```
//!
//! Any thread may call. What was counted is kept in `traffic.json` of the fragment: written when the fragment is closed, and
//! whenever another [`SAVE_EVERY`] bytes were moved; it is not synced. A crash of the process forgets no more than that, a
//! power cut what the local file system loses.

mod device;
pub(crate) mod log;
mod window;

use crate::fragment::{read_file, replace_file};
use device::Device;
use forebay_model::limits::WriteWindow;
use forebay_wire::{FsError, Result, TrafficAccount};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use window::{Sums, Window};

const RECORD: &str = "traffic.json";
/// Bytes moved between two writes of the record.
const SAVE_EVERY: u64 = 16 << 20;

/// `traffic.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    bytes_read: u64,
    bytes_written: u64,
    window: Option<Sums>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Traffic {
    /// Before this process.
    before: Record,
    read: AtomicU64,
    written: AtomicU64,
    device: Option<Device>,
    window: OnceLock<Window>,
    saving: Mutex<()>,
}

impl Traffic {
    /// Of a fragment that was just opened; `is_alone`: its file system has nothing else. A record that cannot be read is
    /// like none: counting begins anew.
    pub(crate) fn open(root: &OwnedFd, is_alone: bool) -> Result<Traffic> {
        let before = match read_file(root, RECORD)? {
            Some(text) => serde_json::from_slice(&text).unwrap_or_default(),
            None => Record::default(),
        };
        let device = if is_alone { Device::of(root) } else { None };
        Ok(Traffic { before, device, ..Traffic::default() })
    }

    /// From now on what is written is held against a window, for a fragment of this size. Once.
    pub(crate) fn limit_writes(&self, rule: WriteWindow, capacity: u64) {
        let sums = self.before.window.clone().unwrap_or_default();
        let _ = self.window.set(Window::new(rule, capacity, sums));
    }

    /// Everything that is written has to pass here.
    pub(crate) fn is_limited(&self) -> bool {
        self.window.get().is_some()
    }

    /// Asks whether so much may be written; what is not written after all is given back.
    pub(crate) fn admit(&self, bytes: u64) -> Result<Admitted<'_>> {
        let Some(window) = self.window.get() else { return Ok(Admitted { window: None, bytes }) };
        if window.admit(now_s(), bytes) {
            Ok(Admitted { window: Some(window), bytes })
        } else {
            Err(FsError::WriteWindow)
        }
    }

    /// So much was read.
    pub(crate) fn was_read(&self, root: &OwnedFd, bytes: u64) {
        self.moved(root, &self.read, bytes);
    }

    /// So much was written.
    pub(crate) fn was_written(&self, root: &OwnedFd, bytes: u64) {
        self.moved(root, &self.written, bytes);
    }

    fn moved(&self, root: &OwnedFd, counter: &AtomicU64, bytes: u64) {
        let before = counter.fetch_add(bytes, Relaxed);
        if before / SAVE_EVERY != (before + bytes) / SAVE_EVERY {
            self.save(root);
        }
    }

    /// What was counted so far.
    pub(crate) fn account(&self) -> TrafficAccount {
        let (read, written) = self.totals();
        let window = self.window.get().map(|window| window.account(now_s()));
        TrafficAccount { bytes_read: read, bytes_written: written, window }
    }

    /// Bytes read and written since the fragment was made.
    fn totals(&self) -> (u64, u64) {
        let here = (self.read.load(Relaxed), self.written.load(Relaxed));
        let (read, written) = self.device.as_ref().and_then(Device::moved).unwrap_or(here);
        (self.before.bytes_read + read, self.before.bytes_written + written)
    }

    /// Writes the record. What cannot be written is forgotten at the next start, and nothing worse.
    pub(crate) fn save(&self, root: &OwnedFd) {
        let Ok(_one_at_a_time) = self.saving.try_lock() else { return };
        let (bytes_read, bytes_written) = self.totals();
        let window = self.window.get().map(|window| window.sums(now_s()));
        let window = window.or_else(|| self.before.window.clone());
        if let Ok(text) = serde_json::to_vec(&Record { bytes_read, bytes_written, window }) {
            let _ = replace_file(root, RECORD, &text, false);
        }
    }
}

/// A write that may be made.
pub(crate) struct Admitted<'a> {
    window: Option<&'a Window>,
    bytes: u64,
}

impl Admitted<'_> {
    /// This much of it was made.
    pub(crate) fn was_made(self, bytes: u64) {
        if let Some(window) = self.window {
            window.take_back(self.bytes.saturating_sub(bytes));
        }
    }
}

/// Seconds since the epoch: a window outlives the process and a boot.
fn now_s() -> u64 {
    u64::try_from(clock_gettime(ClockId::RealtimeCoarse).tv_sec).unwrap_or(0)
}

/// A thread that panicked while it held the lock left counters that are whole: each change of them is one assignment.
pub(crate) fn poisoned<T>(error: PoisonError<T>) -> T {
    error.into_inner()
}
