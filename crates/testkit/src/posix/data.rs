//! read and write in all their forms.

use super::check::{granted, holds, refused, same};
use super::child;
use super::files::*;
use super::{Case, case};
use crate::random::Random;
use rustix::fs::{OFlags, SeekFrom, seek};
use rustix::io::Errno;
use std::io::{IoSlice, IoSliceMut};

pub(super) const CASES: &[Case] = &[
    case!(Anyone offsets_move_with_reads_and_writes),
    case!(Anyone sizes_and_offsets_across_stripes),
    case!(Anyone one_call_moves_megabytes),
    case!(Anyone vectors),
    case!(Anyone writing_beyond_the_end_leaves_a_hole),
    case!(Anyone far_offsets),
    case!(Anyone nothing_is_written_by_empty_writes),
    case!(Anyone duplicated_descriptors_share_the_offset),
    case!(Anyone two_processes_write_one_file),
    case!(Anyone a_write_is_seen_by_every_descriptor_at_once),
    case!(Anyone seek_refusals),
];

fn offsets_move_with_reads_and_writes() {
    let file = granted(create("file"));
    same(granted(rustix::io::write(&file, b"0123456789")), 10);
    same(granted(rustix::fs::tell(&file)), 10);
    same(granted(seek(&file, SeekFrom::Start(3))), 3);
    let mut buffer = [0; 4];
    same(granted(rustix::io::read(&file, &mut buffer[..])), 4);
    same(buffer, *b"3456");
    same(granted(seek(&file, SeekFrom::Current(-2))), 5);
    same(granted(seek(&file, SeekFrom::End(-1))), 9);
    same(granted(rustix::io::read(&file, &mut buffer[..])), 1);
    same(granted(rustix::io::read(&file, &mut buffer[..])), 0);
    same(granted(rustix::io::pwrite(&file, b"X", 0)), 1);
    same(granted(rustix::fs::tell(&file)), 10);
}

fn sizes_and_offsets_across_stripes() {
    const EDGE: u64 = 65_536;
    const SIZE: usize = 9 * 65_536;
    let mut random = Random::new(1);
    let mut expected = random.bytes(SIZE);
    let file = granted(create("file"));
    granted(write_all_at(&file, &expected, 0));
    for stripe in 1..8 {
        for start in [stripe * EDGE - 1, stripe * EDGE, stripe * EDGE + 1, stripe * EDGE - 4097] {
            for length in [1usize, 2, 511, 4096, 65_536, 65_537] {
                let piece = random.bytes(length);
                let end = (start as usize + length).min(SIZE);
                granted(write_all_at(&file, &piece[..end - start as usize], start));
                expected[start as usize..end].copy_from_slice(&piece[..end - start as usize]);
                let found = granted(read_at(&file, length, start));
                holds(found == piece[..end - start as usize], "a read gives what was just written");
            }
        }
    }
    holds(granted(read_file("file")) == expected, "the whole file is what was written");
}

fn one_call_moves_megabytes() {
    const SIZE: usize = 9 << 20;
    let content = Random::new(2).bytes(SIZE);
    let file = granted(create("file"));
    same(granted(rustix::io::pwrite(&file, &content, 0)), SIZE);
    same(granted(read_at(&file, SIZE, 0)) == content, true);
    same(granted(read_at(&file, SIZE, 12_345)).len(), SIZE - 12_345);
    same(granted(read_at(&file, 100, SIZE as u64)), b"");
    same(granted(read_at(&file, 100, SIZE as u64 + 5)), b"");
}

fn vectors() {
    let file = granted(create("file"));
    let pieces: Vec<Vec<u8>> = (0..100u8).map(|number| vec![number; 1000 + usize::from(number)]).collect();
    let slices: Vec<IoSlice> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
    let whole: Vec<u8> = pieces.concat();
    same(granted(rustix::io::pwritev(&file, &slices, 60_000)), whole.len());
    let (mut first, mut second) = (vec![0; 70_000], vec![0; 200_000]);
    let mut into = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
    same(granted(rustix::io::preadv(&file, &mut into, 59_999)), whole.len() + 1);
    same(first[0], 0);
    first.extend(second);
    holds(first[1..=whole.len()] == whole[..], "vectored read gives the vectored write");
}

fn writing_beyond_the_end_leaves_a_hole() {
    let file = granted(create("file"));
    granted(write_all_at(&file, b"start", 0));
    granted(write_all_at(&file, b"end", 1_000_000));
    let content = granted(read_file("file"));
    same(content.len(), 1_000_003);
    holds(content[5..1_000_000].iter().all(|&byte| byte == 0), "zeros between");
    granted(seek(&file, SeekFrom::Start(2_000_000)));
    same(granted(size_of("file")), 1_000_003);
    granted(rustix::io::write(&file, b"x"));
    same(granted(size_of("file")), 2_000_001);
}

fn far_offsets() {
    let file = granted(create("file"));
    for power in [31u32, 32, 33, 40, 42] {
        let offset = (1u64 << power) - 3;
        granted(write_all_at(&file, b"across", offset));
        same(granted(read_at(&file, 6, offset)), b"across");
        same(granted(read_at(&file, 3, offset - 3)), [0; 3]);
        same(granted(size_of("file")), offset as i64 + 6);
    }
}

fn nothing_is_written_by_empty_writes() {
    let file = granted(create("file"));
    same(granted(rustix::io::pwrite(&file, b"", 1000)), 0);
    same(granted(size_of("file")), 0);
    same(granted(read_at(&file, 0, 0)), b"");
}

fn duplicated_descriptors_share_the_offset() {
    let file = granted(create("file"));
    let twin = granted(rustix::io::dup(&file));
    granted(rustix::io::write(&file, b"abc"));
    same(granted(rustix::fs::tell(&twin)), 3);
    child::beside(|_| {
        granted(rustix::io::write(&twin, b"def"));
    })
    .finish();
    same(granted(rustix::fs::tell(&file)), 6);
    drop(file);
    granted(rustix::io::write(&twin, b"ghi"));
    same(granted(read_file("file")), b"abcdefghi");
}

fn two_processes_write_one_file() {
    const RECORD: usize = 50_000;
    const RECORDS: u64 = 40;
    granted(touch("file", 0o644));
    let write_own = |who: u64| {
        let file = granted(open("file", OFlags::WRONLY));
        for record in (who..RECORDS).step_by(2) {
            granted(write_all_at(&file, &[record as u8 + 1; RECORD], record * RECORD as u64));
        }
    };
    let child = child::beside(|_| write_own(1));
    write_own(0);
    child.finish();
    let content = granted(read_file("file"));
    same(content.len(), RECORD * RECORDS as usize);
    let right = content.chunks(RECORD).zip(1u8..).all(|(record, value)| record.iter().all(|&b| b == value));
    holds(right, "every record is its writer's");
}

fn a_write_is_seen_by_every_descriptor_at_once() {
    granted(touch("file", 0o644));
    let reader = granted(open("file", OFlags::RDONLY));
    let mut child = child::beside(|link| {
        let writer = granted(open("file", OFlags::WRONLY));
        for round in 1..=20u8 {
            link.listen();
            granted(write_all_at(&writer, &[round; 100], u64::from(round - 1) * 40_000));
            link.tell();
        }
    });
    for round in 1..=20u8 {
        child.link.tell();
        child.link.listen();
        let offset = u64::from(round - 1) * 40_000;
        same(granted(rustix::fs::fstat(&reader)).st_size as u64, offset + 100);
        same(granted(read_at(&reader, 200, offset)), vec![round; 100]);
    }
    child.finish();
}

fn seek_refusals() {
    let file = granted(create("file"));
    refused(seek(&file, SeekFrom::Current(-1)), Errno::INVAL);
    refused(seek(&file, SeekFrom::End(-1)), Errno::INVAL);
    same(granted(rustix::fs::tell(&file)), 0);
    granted(mkfifo("fifo", 0o600));
    let fifo = granted(open("fifo", OFlags::RDONLY | OFlags::NONBLOCK));
    refused(seek(&fifo, SeekFrom::Start(0)), Errno::SPIPE);
}
