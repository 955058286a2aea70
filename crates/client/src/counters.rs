//! What was read and written through a volume. Any thread; single values are exact, together they are a snapshot.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What was done so far, in bytes and files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes read through this volume.
    pub bytes_read: u64,
    /// Bytes written through this volume.
    pub bytes_written: u64,
    /// Regular files created since the namespace was made.
    pub files_created: u64,
    /// End of the furthest read.
    pub max_offset_read: u64,
    /// End of the furthest write.
    pub max_offset_written: u64,
}

/// What stagings moved, in bytes: beside what is read and written, because much of it goes past the volume.
#[derive(Default)]
pub(crate) struct Staged {
    out: AtomicU64,
    brought_in: AtomicU64,
}

impl Staged {
    pub(crate) fn count(&self, out: u64, brought_in: u64) {
        self.out.fetch_add(out, Relaxed);
        self.brought_in.fetch_add(brought_in, Relaxed);
    }

    /// Taken out, and brought in.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.out.load(Relaxed), self.brought_in.load(Relaxed))
    }
}

/// One direction of transfer.
#[derive(Default)]
pub(crate) struct Transfer {
    bytes: AtomicU64,
    furthest: AtomicU64,
}

impl Transfer {
    pub(crate) fn count(&self, offset: u64, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
        let end = offset + bytes as u64;
        if end > self.furthest.load(Relaxed) {
            self.furthest.fetch_max(end, Relaxed);
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    pub(crate) fn furthest(&self) -> u64 {
        self.furthest.load(Relaxed)
    }
}
