//! truncate and ftruncate.

use super::check::{granted, holds, refused, refused_with_one_of, same};
use super::files::*;
use super::{Case, case};
use rustix::fs::{OFlags, symlink};
use rustix::io::Errno;

pub(super) const CASES: &[Case] = &[
    case!(Anyone growing_makes_zeros),
    case!(Anyone a_shrunk_tail_never_comes_back),
    case!(Anyone every_size_around_a_stripe),
    case!(Anyone refusals),
    case!(Anyone beyond_the_greatest_size),
    case!(Anyone the_file_size_limit_of_a_process),
    case!(Anyone descriptors_see_it_at_once),
    case!(User truncate_needs_write_permission),
];

fn growing_makes_zeros() {
    granted(write_file("file", &[1; 1000]));
    granted(truncate("file", 1_000_000));
    let content = granted(read_file("file"));
    same(content.len(), 1_000_000);
    holds(content[..1000] == [1; 1000], "what was there stays");
    holds(content[1000..].iter().all(|&byte| byte == 0), "what was added is zeros");
    granted(truncate("file", 1 << 40));
    same(granted(size_of("file")), 1 << 40);
    let far = granted(read_at(granted(open("file", OFlags::RDONLY)), 100, (1 << 40) - 50));
    same(far, vec![0; 50]);
    let used = granted(stat("file")).st_blocks * 512;
    holds(used < 2_000_000, "a hole takes no space");
}

fn a_shrunk_tail_never_comes_back() {
    for keep in [0u64, 1, 4095, 4096, 65_535, 65_536, 65_537, 131_072, 262_143, 299_999] {
        granted(write_file("file", &[9; 300_000]));
        granted(truncate("file", keep as i64));
        same(granted(size_of("file")), keep as i64);
        granted(truncate("file", 300_000));
        let content = granted(read_file("file"));
        same(content.len(), 300_000);
        let (kept, gone) = content.split_at(keep as usize);
        holds(kept.iter().all(|&byte| byte == 9), "the kept part");
        holds(gone.iter().all(|&byte| byte == 0), "the cut part reads as zeros");
    }
}

fn every_size_around_a_stripe() {
    let file = granted(create("file"));
    let pattern: Vec<u8> = (0..600_000u32).map(|at| (at % 251) as u8 + 1).collect();
    granted(write_all_at(&file, &pattern, 0));
    for stripes in (1..=9u64).rev() {
        for size in [stripes * 65_536 + 1, stripes * 65_536, stripes * 65_536 - 1] {
            granted(ftruncate(&file, size as i64));
            let content = granted(read_all(&file));
            holds(content == pattern[..size as usize], "exactly the prefix is left");
        }
    }
}

fn refusals() {
    granted(write_file("file", b"abc"));
    granted(mkdir("dir", 0o755));
    granted(mkfifo("fifo", 0o644));
    granted(symlink("file", "link"));
    let file = granted(open("file", OFlags::RDWR));
    refused(truncate("file", -1), Errno::INVAL);
    refused(ftruncate(&file, -1), Errno::INVAL);
    refused(truncate("dir", 0), Errno::ISDIR);
    refused(truncate("missing", 0), Errno::NOENT);
    refused(truncate("file/x", 0), Errno::NOTDIR);
    refused(truncate("fifo", 0), Errno::INVAL);
    let reader = granted(open("file", OFlags::RDONLY));
    refused_with_one_of(ftruncate(&reader, 0), &[Errno::INVAL, Errno::BADF]);
    same(granted(size_of("file")), 3);
    granted(truncate("link", 1));
    same(granted(read_file("file")), b"a");
}

fn beyond_the_greatest_size() {
    granted(write_file("file", b"abc"));
    // The greatest offset may be allowed (XFS) or not (ext4); nothing in between may happen.
    match truncate("file", i64::MAX) {
        Ok(()) => same(granted(size_of("file")), i64::MAX),
        Err(error) => {
            same(error, Errno::FBIG);
            same(granted(read_file("file")), b"abc");
        }
    }
    let file = granted(create("other"));
    refused_with_one_of(
        rustix::io::pwrite(&file, b"xx", i64::MAX as u64),
        &[Errno::FBIG, Errno::INVAL, Errno::OVERFLOW],
    );
    same(granted(size_of("other")), 0);
}

fn the_file_size_limit_of_a_process() {
    let child = super::child::beside(|_| {
        let limit = libc::rlimit { rlim_cur: 100_000, rlim_max: 100_000 };
        // SAFETY: ignores a signal and reads a live struct, in a child of one thread.
        unsafe {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
        }
        let file = granted(create("file"));
        same(granted(rustix::io::pwrite(&file, &[1; 60_000], 50_000)), 50_000);
        refused(rustix::io::pwrite(&file, b"x", 100_000), Errno::FBIG);
        refused(ftruncate(&file, 100_001), Errno::FBIG);
        granted(ftruncate(&file, 100_000));
    });
    child.finish();
    same(granted(size_of("file")), 100_000);
}

fn descriptors_see_it_at_once() {
    let file = granted(create("file"));
    let other = granted(open("file", OFlags::RDWR));
    granted(write_all_at(&file, &[1; 200_000], 0));
    same(granted(rustix::fs::fstat(&other)).st_size, 200_000);
    granted(truncate("file", 70_000));
    same(granted(rustix::fs::fstat(&file)).st_size, 70_000);
    same(granted(rustix::fs::seek(&other, rustix::fs::SeekFrom::End(0))), 70_000);
    same(granted(read_at(&other, 100, 70_000)), b"");
    same(granted(read_at(&other, 100, 69_990)), vec![1; 10]);
    granted(write_all_at(&file, b"Z", 150_000));
    same(granted(read_at(&other, 10, 149_995)), [0, 0, 0, 0, 0, b'Z']);
}

fn truncate_needs_write_permission() {
    granted(write_file("file", b"abc"));
    granted(chmod("file", 0o444));
    refused(truncate("file", 0), Errno::ACCESS);
    refused(open("file", OFlags::WRONLY | OFlags::TRUNC), Errno::ACCESS);
    same(granted(read_file("file")), b"abc");
    // A descriptor from before keeps its right.
    granted(chmod("file", 0o644));
    let file = granted(open("file", OFlags::RDWR));
    granted(chmod("file", 0));
    granted(ftruncate(&file, 1));
    same(granted(size_of("file")), 1);
}
