//! Sizes and their units.
//!
//! `Bytes` and `Granules` are newtypes so that a count of one is never taken for a count of the other. How a size is
//! read and printed is in [`crate::capacity`].

use serde::{Deserialize, Serialize};

/// A size or a count of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A count of granules of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Granules(pub u64);

/// 1024 bytes.
pub const KIB: u64 = 1 << 10;
/// 1024 KiB.
pub const MIB: u64 = 1 << 20;
/// 1024 MiB.
pub const GIB: u64 = 1 << 30;
/// 1024 GiB.
pub const TIB: u64 = 1 << 40;
/// 1024 TiB.
pub const PIB: u64 = 1 << 50;
/// 1024 PiB.
pub const EIB: u64 = 1 << 60;
/// 1000 bytes.
pub const KB: u64 = 1_000;
/// 1000 KB.
pub const MB: u64 = 1_000_000;
/// 1000 MB.
pub const GB: u64 = 1_000_000_000;
/// 1000 GB.
pub const TB: u64 = 1_000_000_000_000;
/// 1000 TB.
pub const PB: u64 = 1_000_000_000_000_000;
/// 1000 PB.
pub const EB: u64 = 1_000_000_000_000_000_000;
