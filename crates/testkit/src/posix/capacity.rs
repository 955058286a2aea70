//! statfs, and a file system that is full.

use super::check::{granted, holds, refused, same};
use super::files::*;
use super::{Case, Cost, case};
use rustix::fs::{FallocateFlags, OFlags, StatVfs, fallocate, statvfs, unlink};
use rustix::io::Errno;

pub(super) const CASES: &[Case] = &[
    case!(Anyone statfs_tells_sizes),
    case!(Anyone full_is_enospc_and_deleting_frees).costing(Cost::FillsUp),
    case!(Anyone a_full_system_still_takes_rewrites).costing(Cost::FillsUp),
    case!(Anyone allocation_beyond_the_capacity).costing(Cost::FillsUp),
];

fn free_bytes(stat: &StatVfs) -> u64 {
    stat.f_bavail * stat.f_frsize
}

fn statfs_tells_sizes() {
    let stat = granted(statvfs("."));
    holds(stat.f_frsize > 0 && stat.f_blocks > 0, "there is a size");
    holds(stat.f_bfree <= stat.f_blocks && stat.f_bavail <= stat.f_bfree, "free is part of all");
    holds(stat.f_files > 0 && stat.f_ffree <= stat.f_files, "files are counted");
    same(stat.f_namemax, 255);
    let file = granted(open(".", OFlags::RDONLY));
    same(granted(rustix::fs::fstatvfs(&file)).f_blocks, stat.f_blocks);
}

/// Awaits that so many bytes are free. The space of a removed file comes back a moment later: a local file system frees
/// it in the background, and the kernel tells a file system in user space of the last close without waiting.
fn await_free(bytes: u64) {
    let limit = std::time::Duration::from_secs(20);
    let is_free = || statvfs(".").is_ok_and(|stat| free_bytes(&stat) > bytes);
    holds(crate::wait_until("free space", limit, is_free).is_ok(), "the space has come back");
}

/// Writes until the file system is full; the length of what fitted.
fn fill(path: &str) -> u64 {
    let piece = vec![b'f'; 1 << 20];
    let file = granted(create(path));
    let mut written = 0u64;
    let mut length = piece.len();
    while length > 0 {
        match rustix::io::pwrite(&file, &piece[..length], written) {
            Ok(count) => written += count as u64,
            Err(error) => {
                same(error, Errno::NOSPC);
                length /= 2;
            }
        }
    }
    // What a page cache took must fit too, or be refused here.
    granted(rustix::fs::fsync(&file));
    written
}

fn full_is_enospc_and_deleting_frees() {
    let before = free_bytes(&granted(statvfs(".")));
    let written = fill("filler");
    same(granted(size_of("filler")) as u64, written);
    holds(written > before / 2, "most of what was free can be used");
    let left = free_bytes(&granted(statvfs(".")));
    holds(left < before / 10, "statfs shows that it is full");
    let content = granted(read_file("filler"));
    holds(
        content.len() as u64 == written && content.iter().all(|&byte| byte == b'f'),
        "what was taken is kept",
    );
    granted(unlink("filler"));
    await_free(before - before / 20);
    let pattern = [6; 1_000_000];
    let file = granted(create("after"));
    for round in 0..5u64 {
        granted(write_all_at(&file, &pattern, round * 1_000_000));
    }
    same(granted(size_of("after")), 5_000_000);
    granted(unlink("after"));
    drop(file);
    await_free(before - before / 20);
}

fn a_full_system_still_takes_rewrites() {
    granted(write_file("old", &[1; 2_000_000]));
    granted(rustix::fs::fsync(granted(open("old", OFlags::RDWR))));
    fill("filler");
    let old = granted(open("old", OFlags::RDWR));
    granted(write_all_at(&old, &[2; 2_000_000], 0));
    granted(rustix::fs::fsync(&old));
    same(granted(read_at(&old, 2, 1_999_998)), [2, 2]);
    granted(ftruncate(&old, 0));
    granted(write_all_at(&old, &[3; 500_000], 0));
    granted(unlink("old"));
    granted(unlink("filler"));
}

fn allocation_beyond_the_capacity() {
    let stat = granted(statvfs("."));
    let file = granted(create("file"));
    let too_much = stat.f_blocks * stat.f_frsize * 2;
    refused(fallocate(&file, FallocateFlags::empty(), 0, too_much), Errno::NOSPC);
    granted(ftruncate(&file, too_much as i64));
    granted(ftruncate(&file, 0));
    granted(fallocate(&file, FallocateFlags::empty(), 0, 1_000_000));
    drop(file);
    granted(unlink("file"));
    await_free(free_bytes(&stat) / 10 * 9);
}
