//! One random operation on names, attributes or data.

use crate::random::Random;
use rustix::fs::{FallocateFlags, OFlags, RenameFlags};

/// Open files that a run keeps.
pub const SLOTS: usize = 8;

/// Greatest offset of a write or truncation: nine stripes of 64 KiB.
const FARTHEST: u64 = 9 * 65_536;

/// Names in use. Few, so that operations meet; among them one that is long and one that is no ASCII.
const NAMES: [&str; 6] =
    ["a", "b", "c", "d.txt", "ünï cödé", "long-name-long-name-long-name-long-name-long-name"];

/// Levels of directories in use; the shallow ones more often, because they exist more often.
const DEPTHS: [usize; 6] = [1, 1, 1, 2, 2, 3];

/// What is done on both sides.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Operation {
    Create { path: String, mode: u32, slot: usize },
    Open { path: String, flags: OFlags, slot: usize },
    Close { slot: usize },
    Read { slot: usize, offset: u64, length: usize },
    Write { slot: usize, offset: u64, length: usize, pattern: u64 },
    SetLength { slot: usize, length: u64 },
    Allocate { slot: usize, mode: FallocateFlags, offset: u64, length: u64 },
    Copy { from: usize, from_offset: u64, to: usize, to_offset: u64, length: usize },
    Sync { slot: usize },
    StatOpen { slot: usize },
    MakeDirectory { path: String, mode: u32 },
    RemoveDirectory { path: String },
    Unlink { path: String },
    Rename { from: String, to: String, flags: RenameFlags },
    Link { from: String, to: String },
    Symlink { target: String, path: String },
    Fifo { path: String, mode: u32 },
    ChangeMode { path: String, mode: u32 },
    ChangeOwner { path: String, uid: Option<u32>, gid: Option<u32> },
    SetTimes { path: String, seconds: i64, nanoseconds: i64 },
    Truncate { path: String, length: u64 },
    SetAttribute { path: String, name: &'static str, length: usize, pattern: u64 },
    RemoveAttribute { path: String, name: &'static str },
    Stat { path: String },
    ReadLink { path: String },
    List { path: String },
}

const ATTRIBUTES: [&str; 3] = ["user.one", "user.two", "user.three"];
const OWNERS: [Option<u32>; 4] = [None, Some(0), Some(1001), Some(crate::identity::NOBODY)];
const GROUPS: [Option<u32>; 4] = [None, Some(0), Some(1002), Some(crate::identity::EXTRA_GROUP)];
const FILE_MODES: [u32; 8] = [0o644, 0o644, 0o600, 0o666, 0o444, 0o000, 0o4755, 0o2755];
const DIRECTORY_MODES: [u32; 6] = [0o755, 0o755, 0o755, 0o700, 0o2775, 0o1777];

/// The next operation.
pub fn next(random: &mut Random) -> Operation {
    match random.below(100) {
        0..45 => with_open_file(random),
        45..80 => on_names(random),
        _ => on_attributes(random),
    }
}

fn with_open_file(random: &mut Random) -> Operation {
    let slot = random.below(SLOTS as u64) as usize;
    match random.below(20) {
        0..3 => Operation::Open { path: path(random), flags: open_flags(random), slot },
        3..5 => Operation::Create { path: path(random), mode: *random.pick(&FILE_MODES), slot },
        5 => Operation::Close { slot },
        6..10 => Operation::Read { slot, offset: offset(random), length: length(random) },
        10..15 => {
            Operation::Write { slot, offset: offset(random), length: length(random), pattern: random.bits() }
        }
        15 => Operation::SetLength { slot, length: offset(random) },
        16 => {
            let (mode, length) = (allocation(random), length(random) as u64 + 1);
            Operation::Allocate { slot, mode, offset: offset(random), length }
        }
        17 => Operation::Copy {
            from: slot,
            from_offset: offset(random),
            to: random.below(SLOTS as u64) as usize,
            to_offset: offset(random),
            length: length(random),
        },
        18 => Operation::Sync { slot },
        _ => Operation::StatOpen { slot },
    }
}

fn on_names(random: &mut Random) -> Operation {
    match random.below(20) {
        0..4 => Operation::MakeDirectory { path: path(random), mode: *random.pick(&DIRECTORY_MODES) },
        4..6 => Operation::RemoveDirectory { path: path(random) },
        6..9 => Operation::Unlink { path: path(random) },
        9..13 => Operation::Rename { from: path(random), to: path(random), flags: rename_flags(random) },
        13..15 => Operation::Link { from: path(random), to: path(random) },
        15 => Operation::Symlink { target: path(random), path: path(random) },
        16 => Operation::Fifo { path: path(random), mode: *random.pick(&FILE_MODES) },
        _ => Operation::List { path: path(random) },
    }
}

fn on_attributes(random: &mut Random) -> Operation {
    let path = path(random);
    match random.below(16) {
        0..3 => Operation::Stat { path },
        3 => Operation::ReadLink { path },
        4..6 => {
            Operation::ChangeMode { path, mode: *random.pick(&FILE_MODES) | (0o100 * random.below(2) as u32) }
        }
        6 => Operation::ChangeOwner { path, uid: *random.pick(&OWNERS), gid: *random.pick(&GROUPS) },
        7..10 => {
            let seconds = random.below(super::discrepancies::RECENT as u64) as i64;
            Operation::SetTimes { path, seconds, nanoseconds: random.below(1_000_000_000) as i64 }
        }
        10..12 => Operation::Truncate { path, length: offset(random) },
        12..14 => {
            let length = random.below(500) as usize;
            Operation::SetAttribute {
                path,
                name: random.pick::<&str>(&ATTRIBUTES),
                length,
                pattern: random.bits(),
            }
        }
        _ => Operation::RemoveAttribute { path, name: random.pick::<&str>(&ATTRIBUTES) },
    }
}

fn path(random: &mut Random) -> String {
    let depth = *random.pick(&DEPTHS);
    let parts: Vec<&str> = (0..depth).map(|_| *random.pick(&NAMES)).collect();
    parts.join("/")
}

/// Near the edges of stripes and pages as often as anywhere.
fn offset(random: &mut Random) -> u64 {
    match random.below(4) {
        0 => 0,
        1 => (random.below(10) * 65_536 + random.below(3)).saturating_sub(1),
        2 => random.below(20_000),
        _ => random.below(FARTHEST),
    }
}

fn length(random: &mut Random) -> usize {
    match random.below(4) {
        0 => random.below(10) as usize,
        1 => random.below(5000) as usize,
        2 => 65_536,
        _ => random.below(200_000) as usize,
    }
}

fn open_flags(random: &mut Random) -> OFlags {
    let access = *random.pick(&[OFlags::RDONLY, OFlags::WRONLY, OFlags::RDWR, OFlags::RDWR]);
    let extra = [
        (OFlags::CREATE, 3),
        (OFlags::EXCL | OFlags::CREATE, 8),
        (OFlags::TRUNC, 8),
        (OFlags::APPEND, 6),
        (OFlags::NOFOLLOW, 8),
        (OFlags::DIRECTORY, 20),
    ];
    extra
        .iter()
        .fold(access, |flags, (flag, chance)| if random.one_in(*chance) { flags | *flag } else { flags })
}

fn allocation(random: &mut Random) -> FallocateFlags {
    let keep = FallocateFlags::KEEP_SIZE;
    let modes = [
        FallocateFlags::empty(),
        keep,
        FallocateFlags::PUNCH_HOLE | keep,
        FallocateFlags::PUNCH_HOLE | keep,
        FallocateFlags::ZERO_RANGE,
        FallocateFlags::ZERO_RANGE | keep,
    ];
    *random.pick(&modes)
}

fn rename_flags(random: &mut Random) -> RenameFlags {
    let none = RenameFlags::empty();
    *random.pick(&[none, none, none, RenameFlags::NOREPLACE, RenameFlags::EXCHANGE])
}
