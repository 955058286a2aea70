//! mmap: files as memory.

use super::check::{granted, holds, refused, same};
use super::child;
use super::files::*;
use super::{Case, case};
use crate::map::Map;
use crate::random::Random;
use rustix::fs::OFlags;
use rustix::io::Errno;

pub(super) const CASES: &[Case] = &[
    case!(Anyone a_map_shows_the_file),
    case!(Anyone a_shared_map_writes_the_file),
    case!(Anyone a_private_map_writes_nothing),
    case!(Anyone writes_are_seen_in_the_map),
    case!(Anyone a_file_extended_then_mapped),
    case!(Anyone a_map_of_holes),
    case!(Anyone beyond_the_end_is_sigbus),
    case!(Anyone two_processes_share_a_map),
    case!(Anyone a_map_outlives_descriptor_and_name),
    case!(Anyone truncating_under_a_map),
    case!(Anyone refusals),
    case!(Anyone programs_run_from_it),
];

const PAGE: usize = 4096;

fn a_map_shows_the_file() {
    let content = Random::new(9).bytes(300_001);
    granted(write_file("file", &content));
    let file = granted(open("file", OFlags::RDONLY));
    for kind in [libc::MAP_SHARED, libc::MAP_PRIVATE] {
        let map = granted(Map::new(&file, content.len(), libc::PROT_READ, kind));
        holds(map.bytes() == content, "the map is the file");
    }
    let padded =
        granted(Map::new(&file, 300_001usize.next_multiple_of(PAGE), libc::PROT_READ, libc::MAP_SHARED));
    same(padded.get(300_001), 0);
}

fn a_shared_map_writes_the_file() {
    granted(write_file("file", &[1; 300_000]));
    let file = granted(open("file", OFlags::RDWR));
    let map = granted(Map::shared(&file, 300_000));
    for at in [0, 4095, 4096, 65_535, 65_536, 131_072, 299_999] {
        map.put(at, 9);
        granted(map.sync());
        same(granted(read_at(&file, 1, at as u64)), [9]);
    }
    map.put(100_000, 8);
    same(granted(read_at(granted(open("file", OFlags::RDONLY)), 1, 100_000)), [8]);
    granted(map.sync());
    drop(map);
    drop(file);
    let content = granted(read_file("file"));
    same(content.iter().filter(|&&byte| byte != 1).count(), 8);
    same(content[100_000], 8);
}

fn a_private_map_writes_nothing() {
    granted(write_file("file", &[1; 100_000]));
    let file = granted(open("file", OFlags::RDONLY));
    let map = granted(Map::new(&file, 100_000, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE));
    map.put(70_000, 9);
    same(map.get(70_000), 9);
    drop(map);
    same(granted(read_file("file")), vec![1; 100_000]);
}

fn writes_are_seen_in_the_map() {
    granted(write_file("file", &[1; 200_000]));
    let file = granted(open("file", OFlags::RDWR));
    let map = granted(Map::shared(&file, 200_000));
    same(map.get(150_000), 1);
    granted(write_all_at(&file, &[2; 10], 150_000));
    same(map.get(150_000), 2);
    granted(write_all_at(granted(open("file", OFlags::WRONLY)), &[3; 100], 65_500));
    same((map.get(65_500), map.get(65_599), map.get(65_600)), (3, 3, 1));
    map.put(65_510, 4);
    granted(map.sync());
    same(granted(read_at(&file, 3, 65_509)), [3, 4, 3]);
    granted(write_all_at(&file, &[5], 65_511));
    same((map.get(65_510), map.get(65_511)), (4, 5));
}

fn a_file_extended_then_mapped() {
    // What databases do with shared memory files: extend by writes or by truncate, then map, then extend again.
    let file = granted(create("file"));
    for round in 1..=40usize {
        let size = round * 32_768;
        if round % 2 == 0 {
            granted(write_all_at(&file, &[0], size as u64 - 1));
        } else {
            granted(ftruncate(&file, size as i64));
        }
        let map = granted(Map::shared(&file, size));
        map.put(size - 1, round as u8);
        map.put((round - 1) * 32_768, round as u8);
        same(granted(read_at(&file, 1, size as u64 - 1)), [round as u8]);
    }
    let content = granted(read_file("file"));
    same(content.len(), 40 * 32_768);
    holds((1..=40).all(|round| content[round * 32_768 - 1] == round as u8), "every round left its mark");
}

fn a_map_of_holes() {
    let file = granted(create("file"));
    granted(ftruncate(&file, 1_000_000));
    let map = granted(Map::shared(&file, 1_000_000));
    holds(map.bytes().iter().all(|&byte| byte == 0), "a hole reads as zeros");
    map.put(500_000, 7);
    granted(map.sync());
    drop(map);
    let content = granted(read_file("file"));
    same(content[500_000], 7);
    same(content.iter().filter(|&&byte| byte != 0).count(), 1);
    same(granted(size_of("file")), 1_000_000);
}

/// Touches one byte in a child and tells whether the child died of SIGBUS.
fn dies_touching(map: &Map, at: usize) -> bool {
    // SAFETY: one thread; the child touches memory and ends.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::signal(libc::SIGBUS, libc::SIG_DFL);
            std::hint::black_box(map.get(at));
            libc::_exit(0);
        }
        let mut status = 0;
        libc::waitpid(pid, &raw mut status, 0);
        libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGBUS
    }
}

fn beyond_the_end_is_sigbus() {
    granted(write_file("file", &[1; PAGE + 1]));
    let file = granted(open("file", OFlags::RDWR));
    let map = granted(Map::shared(&file, 4 * PAGE));
    same(dies_touching(&map, PAGE), false);
    same(dies_touching(&map, 2 * PAGE - 1), false);
    same(dies_touching(&map, 2 * PAGE), true);
    granted(ftruncate(&file, 3 * PAGE as i64));
    same(dies_touching(&map, 2 * PAGE), false);
}

fn two_processes_share_a_map() {
    let file = granted(create("file"));
    granted(ftruncate(&file, 200_000));
    let map = granted(Map::shared(&file, 200_000));
    let mut child = child::beside(|link| {
        let own = granted(open("file", OFlags::RDWR));
        let theirs = granted(Map::shared(&own, 200_000));
        for round in 1..=50u8 {
            link.listen();
            same(theirs.get(100_000), round);
            theirs.put(100_001, round);
            link.tell();
        }
    });
    for round in 1..=50u8 {
        map.put(100_000, round);
        child.link.tell();
        child.link.listen();
        same(map.get(100_001), round);
    }
    child.finish();
    granted(map.sync());
    same(granted(read_at(&file, 2, 100_000)), [50, 50]);
}

fn a_map_outlives_descriptor_and_name() {
    let file = granted(create("file"));
    granted(write_all_at(&file, &[1; 100_000], 0));
    let map = granted(Map::shared(&file, 100_000));
    drop(file);
    map.put(0, 2);
    granted(map.sync());
    same(granted(read_file("file"))[..2].to_vec(), [2, 1]);
    granted(rustix::fs::unlink("file"));
    map.put(90_000, 3);
    granted(map.sync());
    same((map.get(0), map.get(90_000), map.get(99_999)), (2, 3, 1));
}

fn truncating_under_a_map() {
    granted(write_file("file", &[1; 100_000]));
    let file = granted(open("file", OFlags::RDWR));
    let map = granted(Map::shared(&file, 100_000));
    same(map.get(99_999), 1);
    granted(ftruncate(&file, 10_000));
    same((map.get(9_999), map.get(10_000)), (1, 0));
    same(dies_touching(&map, 50_000), true);
    granted(ftruncate(&file, 100_000));
    same(map.get(50_000), 0);
}

fn refusals() {
    granted(write_file("file", &[1; 100]));
    let reader = granted(open("file", OFlags::RDONLY));
    let writer = granted(open("file", OFlags::WRONLY));
    refused(Map::shared(&reader, 100).map(drop), Errno::ACCESS);
    refused(Map::new(&writer, 100, libc::PROT_READ, libc::MAP_SHARED).map(drop), Errno::ACCESS);
    refused(Map::new(&writer, 100, libc::PROT_READ, libc::MAP_PRIVATE).map(drop), Errno::ACCESS);
    let directory = granted(open(".", OFlags::RDONLY));
    refused(Map::new(&directory, 100, libc::PROT_READ, libc::MAP_SHARED).map(drop), Errno::NODEV);
}

fn programs_run_from_it() {
    let program = std::fs::read("/bin/true").expect("coreutils are installed");
    granted(write_file("program", &program));
    granted(chmod("program", 0o755));
    let run = || std::process::Command::new("./program").status();
    same(run().ok().and_then(|status| status.code()), Some(0));
    granted(chmod("program", 0o644));
    same(run().map(drop).map_err(|error| error.kind()), Err(std::io::ErrorKind::PermissionDenied));
    granted(write_file("script", b"#!/bin/sh\nexit 7\n"));
    granted(chmod("script", 0o755));
    let script = std::process::Command::new("./script").status();
    same(script.ok().and_then(|status| status.code()), Some(7));
}
