//! How large an XFS image must be so that a wanted number of bytes can be stored in it.
//!
//! Pure. XFS takes from the image: its log; a pool of blocks it never hands out (5 % of the image, at most 32 MiB); and
//! about 0.7 % for the headers, free-space trees and the trees reserved for shared extents and free inodes. The figures
//! were measured with `mkfs.xfs` 6.1 from 24 MiB to 4 TiB with the options of this module and hold for every size; a
//! test makes real images and compares.

use forebay_model::units::{Bytes, KIB, MIB};

/// Smallest image that is made: below it there is no room for log and headers.
const SMALLEST: u64 = 24 * MIB;
/// Below this `mkfs.xfs` wants `--unsupported` and chooses a log of little more than 5 MiB.
const SUPPORTED: u64 = 300 * MIB;
/// Log of an image of supported size: the smallest that `mkfs.xfs` accepts.
const LOG: u64 = 64 * MIB;
/// Log of a smaller image.
const SMALL_LOG: u64 = 5 * MIB + 400 * KIB;
/// Most that XFS holds back.
const HELD_BACK: u64 = 32 * MIB;
/// For headers of fixed size, and so that a full fragment can still hold names.
const SLACK: u64 = 2 * MIB;

/// The file to reserve and how to make a file system in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ImagePlan {
    /// Size of the file, a whole number of MiB.
    pub size: Bytes,
    /// `mkfs.xfs` must be told that so small a file system is meant.
    pub unsupported: bool,
    /// Size of the log, where it is not left to `mkfs.xfs`.
    pub log: Option<Bytes>,
}

/// The plan for an image in which `capacity` bytes can be stored.
pub(crate) fn plan(capacity: Bytes) -> ImagePlan {
    let small = small_size(capacity.0);
    if small < SUPPORTED {
        return ImagePlan { size: Bytes(small), unsupported: true, log: None };
    }
    let size = large_size(capacity.0).max(SUPPORTED);
    ImagePlan { size: Bytes(size), unsupported: false, log: Some(Bytes(LOG)) }
}

/// 5 % held back and 0.7 % for trees leave 94.3 % of the image.
fn small_size(capacity: u64) -> u64 {
    let bytes = u128::from(capacity) + u128::from(SMALL_LOG + SLACK);
    whole_mib(bytes * 1000 / 943).max(SMALLEST)
}

/// 0.7 % for trees leave 99.3 %; 99.28 % is counted with.
fn large_size(capacity: u64) -> u64 {
    let bytes = u128::from(capacity) + u128::from(LOG + HELD_BACK + SLACK);
    whole_mib(bytes * 10_000 / 9_928)
}

/// Rounded up; a size beyond every disk stays beyond every disk.
fn whole_mib(bytes: u128) -> u64 {
    let whole = bytes.div_ceil(u128::from(MIB)) * u128::from(MIB);
    u64::try_from(whole).unwrap_or(u64::MAX / MIB * MIB)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_model::units::{GIB, TIB};

    #[test]
    fn images_are_larger_than_what_they_hold_but_not_by_much() {
        for capacity in [1, MIB, 100 * MIB, 270 * MIB, GIB, 200 * GIB, TIB, 100 * TIB] {
            let plan = plan(Bytes(capacity));
            assert!(plan.size.0 > capacity && plan.size.0.is_multiple_of(MIB), "{capacity}: {plan:?}");
            assert!(plan.size.0 < capacity + capacity / 14 + 130 * MIB, "{capacity}: {plan:?}");
            assert_eq!(plan.unsupported, plan.size.0 < SUPPORTED);
        }
        assert_eq!(plan(Bytes(u64::MAX)).size.0, u64::MAX / MIB * MIB);
    }
}
