//! What is stored in an instance and what has been read and written.

use crate::process::Figures;
use crate::xfs_counters::XfsCounters;
use forebay_model::units::Bytes;
use serde::{Deserialize, Serialize};

/// Figures of an attached instance. Counts begin with this attachment and include what was staged through it (and what
/// others attached to the same instance did), so that what a script did is the difference of two calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Bytes that can be stored.
    pub capacity: Bytes,
    /// Bytes that are taken.
    pub used: Bytes,
    /// Bytes read; `None` where they cannot be counted.
    pub bytes_read: Option<Bytes>,
    /// Bytes written; `None` where they cannot be counted.
    pub bytes_written: Option<Bytes>,
    /// Files created (of a directly served instance: names of every kind); `None` where they cannot be counted.
    pub files_created: Option<u64>,
}

/// Bytes taken of a capacity. File systems have a little more room than was promised, which is not counted.
pub(crate) fn used(capacity: Bytes, available: Bytes) -> Bytes {
    Bytes(capacity.0.saturating_sub(available.0))
}

/// Counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    bytes_read: Option<u64>,
    bytes_written: Option<u64>,
    files_created: Option<u64>,
}

impl Counts {
    /// From what the instance process counts, and the local file systems. Files that the kernel reads and writes
    /// without asking the process are only seen by the local file systems, which see all others too.
    pub fn new(process: Option<Figures>, local: Option<Vec<XfsCounters>>) -> Counts {
        let sum = |pick: fn(&XfsCounters) -> u64| local.as_ref().map(|all| all.iter().map(pick).sum::<u64>());
        Counts {
            bytes_read: sum(|xfs| xfs.bytes_read).or(process.map(|figures| figures.bytes_read)),
            bytes_written: sum(|xfs| xfs.bytes_written).or(process.map(|figures| figures.bytes_written)),
            files_created: process.map(|figures| figures.files_created).or(sum(|xfs| xfs.creates)),
        }
    }

    /// What was added since `earlier`.
    pub fn since(self, earlier: Counts) -> Counts {
        let added =
            |now: Option<u64>, then: Option<u64>| now.map(|now| now.saturating_sub(then.unwrap_or(0)));
        Counts {
            bytes_read: added(self.bytes_read, earlier.bytes_read),
            bytes_written: added(self.bytes_written, earlier.bytes_written),
            files_created: added(self.files_created, earlier.files_created),
        }
    }

    /// Together with the space.
    pub fn usage(self, capacity: Bytes, used: Bytes) -> Usage {
        Usage {
            capacity,
            used,
            bytes_read: self.bytes_read.map(Bytes),
            bytes_written: self.bytes_written.map(Bytes),
            files_created: self.files_created,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_file_systems_know_better_what_was_moved_and_the_process_what_was_created() {
        let process = Figures { bytes_read: 1, bytes_written: 2, files_created: 3, ..Figures::default() };
        let xfs = XfsCounters { bytes_read: 10, bytes_written: 20, creates: 30 };
        let both = Counts::new(Some(process), Some(vec![xfs, xfs]));
        let expected = Counts { bytes_read: Some(20), bytes_written: Some(40), files_created: Some(3) };
        assert_eq!(both, expected);
        assert_eq!(
            both.since(both),
            Counts { bytes_read: Some(0), bytes_written: Some(0), files_created: Some(0) }
        );
        assert_eq!(Counts::new(None, None), Counts::default());
        assert_eq!(used(Bytes(100), Bytes(130)), Bytes(0));
    }
}
