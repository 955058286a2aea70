//! fallocate, holes, and copies inside the kernel.

use super::check::{granted, holds, refused, refused_with_one_of, same};
use super::files::*;
use super::{Case, case};
use crate::random::Random;
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, copy_file_range, fallocate, seek, sendfile};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

pub(super) const CASES: &[Case] = &[
    case!(Anyone allocating_extends),
    case!(Anyone allocating_keeps_the_size),
    case!(Anyone punching_makes_zeros),
    case!(Anyone punching_gives_space_back),
    case!(Anyone zeroing),
    case!(Anyone collapsing_and_inserting_work_or_are_refused),
    case!(Anyone fallocate_refusals),
    case!(Anyone data_and_holes_are_found),
    case!(Anyone a_file_of_holes),
    case!(Anyone used_blocks_are_told),
    case!(Anyone copying_a_range),
    case!(Anyone copying_inside_one_file),
    case!(Anyone copy_refusals),
    case!(Anyone sending_a_file),
];

const SIZE: usize = 600_000;
const KEEP: FallocateFlags = FallocateFlags::KEEP_SIZE;

fn filled(path: &str) -> (OwnedFd, Vec<u8>) {
    let content = Random::new(5).bytes(SIZE);
    let file = granted(create(path));
    granted(write_all_at(&file, &content, 0));
    (file, content)
}

fn allocating_extends() {
    let file = granted(create("file"));
    granted(fallocate(&file, FallocateFlags::empty(), 0, 500_000));
    same(granted(size_of("file")), 500_000);
    holds(granted(stat("file")).st_blocks * 512 >= 500_000, "space is allocated");
    holds(granted(read_all(&file)).iter().all(|&byte| byte == 0), "allocated space reads as zeros");
    granted(write_all_at(&file, b"data", 250_000));
    granted(fallocate(&file, FallocateFlags::empty(), 100_000, 300_000));
    same(granted(read_at(&file, 4, 250_000)), b"data");
    same(granted(size_of("file")), 500_000);
}

fn allocating_keeps_the_size() {
    let (file, content) = filled("file");
    granted(fallocate(&file, KEEP, SIZE as u64, 300_000));
    same(granted(size_of("file")), SIZE as i64);
    holds(granted(read_all(&file)) == content, "the content is untouched");
    granted(write_all_at(&file, b"x", SIZE as u64 + 100_000));
    let gap = granted(read_at(&file, 100_000, SIZE as u64));
    holds(gap.iter().all(|&byte| byte == 0), "space kept beyond the end reads as zeros");
}

const RANGES: [(u64, u64); 8] = [
    (0, 65_536),
    (1, 10),
    (4096, 4096),
    (65_535, 2),
    (60_000, 140_000),
    (100_001, 333_333),
    (550_000, 200_000),
    (0, 600_000),
];

fn punching_makes_zeros() {
    for (offset, length) in RANGES {
        let (file, mut expected) = filled("file");
        granted(fallocate(&file, FallocateFlags::PUNCH_HOLE | KEEP, offset, length));
        let end = ((offset + length) as usize).min(SIZE);
        expected[offset as usize..end].fill(0);
        holds(granted(read_all(&file)) == expected, "zeros in the range and nothing else");
    }
}

fn punching_gives_space_back() {
    let (file, _) = filled("file");
    granted(rustix::fs::fsync(&file));
    let before = granted(rustix::fs::fstat(&file)).st_blocks;
    granted(fallocate(&file, FallocateFlags::PUNCH_HOLE | KEEP, 0, SIZE as u64));
    let after = granted(rustix::fs::fstat(&file)).st_blocks;
    holds(before * 512 >= SIZE as i64, "the data took space");
    holds(after * 512 < 100_000, "the hole takes none");
}

fn zeroing() {
    for (offset, length) in RANGES {
        let (file, mut expected) = filled("file");
        granted(fallocate(&file, FallocateFlags::ZERO_RANGE, offset, length));
        let end = (offset + length) as usize;
        expected.resize(expected.len().max(end), 0);
        expected[offset as usize..end].fill(0);
        holds(granted(read_all(&file)) == expected, "zeros in the range, and the file as long as it");
        let (file, mut expected) = filled("file");
        granted(fallocate(&file, FallocateFlags::ZERO_RANGE | KEEP, offset, length));
        expected[offset as usize..end.min(SIZE)].fill(0);
        holds(granted(read_all(&file)) == expected, "zeros in the range, the size kept");
    }
}

fn collapsing_and_inserting_work_or_are_refused() {
    let (file, content) = filled("file");
    match fallocate(&file, FallocateFlags::COLLAPSE_RANGE, 65_536, 65_536) {
        Ok(()) => {
            let expected = [&content[..65_536], &content[131_072..]].concat();
            holds(granted(read_all(&file)) == expected, "the range is gone");
        }
        Err(error) => {
            same(error, Errno::OPNOTSUPP);
            holds(granted(read_all(&file)) == content, "a refusal changes nothing");
        }
    }
    let (file, content) = filled("file");
    match fallocate(&file, FallocateFlags::INSERT_RANGE, 65_536, 65_536) {
        Ok(()) => {
            let expected = [&content[..65_536], &[0; 65_536], &content[65_536..]].concat();
            holds(granted(read_all(&file)) == expected, "zeros are between");
        }
        Err(error) => {
            same(error, Errno::OPNOTSUPP);
            holds(granted(read_all(&file)) == content, "a refusal changes nothing");
        }
    }
}

fn fallocate_refusals() {
    granted(write_file("file", b"abc"));
    let file = granted(open("file", OFlags::RDWR));
    let none = FallocateFlags::empty();
    refused(fallocate(&file, none, 0, 0), Errno::INVAL);
    refused(fallocate(&file, none, i64::MAX as u64, 10), Errno::FBIG);
    refused(fallocate(&file, FallocateFlags::PUNCH_HOLE, 0, 10), Errno::OPNOTSUPP);
    let reader = granted(open("file", OFlags::RDONLY));
    refused(fallocate(&reader, none, 0, 10), Errno::BADF);
    granted(mkfifo("fifo", 0o600));
    let fifo = granted(open("fifo", OFlags::RDWR));
    refused(fallocate(&fifo, none, 0, 10), Errno::SPIPE);
    let directory = granted(open(".", OFlags::RDONLY));
    refused_with_one_of(fallocate(&directory, none, 0, 10), &[Errno::BADF, Errno::ISDIR]);
    same(granted(read_file("file")), b"abc");
}

/// Data ranges as SEEK_DATA and SEEK_HOLE tell them.
fn data_ranges(file: impl AsFd) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    let mut at = 0;
    loop {
        match seek(&file, SeekFrom::Data(at)) {
            Ok(start) => {
                let end = granted(seek(&file, SeekFrom::Hole(start)));
                holds(start >= at && end > start, "ranges go forward");
                ranges.push((start, end));
                at = end;
            }
            Err(error) => {
                same(error, Errno::NXIO);
                return ranges;
            }
        }
    }
}

fn data_and_holes_are_found() {
    let file = granted(create("file"));
    let written = [(0u64, 4096usize), (200_000, 10), (1_000_000, 300_000)];
    for (offset, length) in written {
        granted(write_all_at(&file, &vec![1; length], offset));
    }
    granted(ftruncate(&file, 3_000_000));
    granted(rustix::fs::fsync(&file));
    let ranges = data_ranges(&file);
    for (offset, length) in written {
        let covered = ranges.iter().any(|(start, end)| *start <= offset && offset + length as u64 <= *end);
        let pieces: u64 =
            ranges.iter().map(|(start, end)| overlap(*start, *end, offset, length as u64)).sum();
        holds(covered || pieces == length as u64, "what was written is data");
    }
    let data: u64 = ranges.iter().map(|(start, end)| end - start).sum();
    holds(data < 1_000_000, "most of the file is hole");
    let content = granted(read_all(&file));
    let outside = content.iter().enumerate().filter(|(_, byte)| **byte != 0);
    let in_data = |at: u64| ranges.iter().any(|(start, end)| (*start..*end).contains(&at));
    holds(outside.map(|(at, _)| at as u64).all(in_data), "no byte that is not zero is in a hole");
    refused(seek(&file, SeekFrom::Data(3_000_000)), Errno::NXIO);
    refused(seek(&file, SeekFrom::Hole(3_000_000)), Errno::NXIO);
    same(granted(seek(&file, SeekFrom::Hole(2_999_999))), 2_999_999);
}

fn overlap(start: u64, end: u64, offset: u64, length: u64) -> u64 {
    end.min(offset + length).saturating_sub(start.max(offset))
}

fn a_file_of_holes() {
    let file = granted(create("file"));
    granted(ftruncate(&file, 10_000_000));
    refused(seek(&file, SeekFrom::Data(0)), Errno::NXIO);
    same(granted(seek(&file, SeekFrom::Hole(0))), 0);
    let (full, _) = filled("full");
    same(granted(seek(&full, SeekFrom::Data(70_000))), 70_000);
    same(granted(seek(&full, SeekFrom::Hole(0))), SIZE as u64);
    let empty = granted(create("empty"));
    refused(seek(&empty, SeekFrom::Data(0)), Errno::NXIO);
    refused(seek(&empty, SeekFrom::Hole(0)), Errno::NXIO);
}

fn used_blocks_are_told() {
    // Programs like tar take a file without blocks for one without data.
    for size in [1usize, 100, 4096, 70_000, 600_000] {
        granted(write_file("file", &vec![1; size]));
        let blocks = granted(stat("file")).st_blocks;
        let inline_possible = size <= 100;
        holds(blocks > 0 || inline_possible, "a file with data uses blocks");
        holds(blocks * 512 >= (size as i64) - 4096, "as many as its data needs");
    }
}

fn copying_a_range() {
    let (from, content) = filled("from");
    let to = granted(create("to"));
    let (mut at, mut into) = (50_000u64, 7u64);
    let mut left = 400_000;
    while left > 0 {
        let count = granted(copy_file_range(&from, Some(&mut at), &to, Some(&mut into), left));
        holds(count > 0, "progress");
        if count == 0 {
            return;
        }
        left -= count;
    }
    same((at, into), (450_000, 400_007));
    let copied = granted(read_all(&to));
    same(copied.len(), 400_007);
    holds(copied[7..] == content[50_000..450_000], "the copy is the same");
    // Beyond the end there is nothing to copy; across it, what is left.
    let mut end = SIZE as u64;
    same(granted(copy_file_range(&from, Some(&mut end), &to, None, 100)), 0);
    let mut near = SIZE as u64 - 10;
    let mut target = 0;
    same(granted(copy_file_range(&from, Some(&mut near), &to, Some(&mut target), 100)), 10);
    // Without offsets it moves the descriptors.
    granted(seek(&from, SeekFrom::Start(0)));
    granted(seek(&to, SeekFrom::Start(0)));
    let count = granted(copy_file_range(&from, None, &to, None, 1000));
    same(granted(rustix::fs::tell(&from)), count as u64);
    same(granted(rustix::fs::tell(&to)), count as u64);
}

fn copying_inside_one_file() {
    let (file, mut expected) = filled("file");
    let (mut at, mut into, mut left) = (0u64, 300_000u64, 250_000);
    while left > 0 {
        match granted(copy_file_range(&file, Some(&mut at), &file, Some(&mut into), left)) {
            0 => break,
            count => left -= count,
        }
    }
    let piece = expected[..250_000].to_vec();
    expected[300_000..550_000].copy_from_slice(&piece);
    holds(granted(read_all(&file)) == expected, "the copy stands, the rest is untouched");
}

fn copy_refusals() {
    let (file, content) = filled("file");
    let (mut at, mut into) = (0, 100);
    refused(copy_file_range(&file, Some(&mut at), &file, Some(&mut into), 1000), Errno::INVAL);
    let reader = granted(open("file", OFlags::RDONLY));
    refused(copy_file_range(&file, None, &reader, None, 10), Errno::BADF);
    let appender = granted(open("file", OFlags::WRONLY | OFlags::APPEND));
    refused(copy_file_range(&reader, None, &appender, None, 10), Errno::BADF);
    let directory = granted(open(".", OFlags::RDONLY));
    refused(copy_file_range(&directory, None, &file, None, 10), Errno::ISDIR);
    holds(granted(read_file("file")) == content, "a refusal changes nothing");
}

fn sending_a_file() {
    let (from, content) = filled("from");
    let to = granted(create("to"));
    let mut at = 1000;
    let mut left = SIZE - 1000;
    while left > 0 {
        match granted(sendfile(&to, &from, Some(&mut at), left)) {
            0 => break,
            count => left -= count,
        }
    }
    holds(granted(read_file("to")) == content[1000..], "what was sent is what was there");
}
