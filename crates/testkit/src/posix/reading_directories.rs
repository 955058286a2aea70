//! readdir: what is listed, where a reader stands, what happens while the directory changes.

use super::check::{granted, holds, same};
use super::files::*;
use super::{Case, case};
use rustix::fs::{FileType, OFlags, RawDir, SeekFrom, seek, symlink, unlink};
use rustix::io::Result;
use std::collections::BTreeSet;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;

pub(super) const CASES: &[Case] = &[
    case!(Anyone an_empty_directory_has_dots),
    case!(Anyone every_kind_is_named),
    case!(Anyone reading_stops_and_goes_on),
    case!(Anyone a_cookie_leads_back),
    case!(Anyone rewinding_shows_what_is_new),
    case!(Anyone removing_while_reading_loses_nothing),
    case!(Anyone what_stays_is_listed_once),
    case!(Anyone two_readers_do_not_disturb_each_other),
    case!(Anyone long_names_fill_the_buffer),
    case!(Anyone inode_numbers_agree_with_stat),
];

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    name: Vec<u8>,
    kind: FileType,
    inode: u64,
    /// Where reading goes on after this entry.
    cookie: u64,
}

/// Reads at most `limit` entries from where the descriptor stands, with a buffer of `size` bytes.
fn read_entries(directory: impl AsFd, limit: usize, size: usize) -> Result<Vec<Entry>> {
    let mut buffer = vec![MaybeUninit::uninit(); size];
    let mut reader = RawDir::new(directory.as_fd(), &mut buffer);
    let mut out = Vec::new();
    while let Some(entry) = reader.next() {
        let entry = entry?;
        out.push(Entry {
            name: entry.file_name().to_bytes().to_vec(),
            kind: entry.file_type(),
            inode: entry.ino(),
            cookie: entry.next_entry_cookie(),
        });
        if out.len() == limit {
            break;
        }
    }
    Ok(out)
}

fn from_start(directory: impl AsFd) -> Result<Vec<Entry>> {
    seek(&directory, SeekFrom::Start(0))?;
    read_entries(directory, usize::MAX, 8192)
}

/// All names but the dots, sorted, as bytes.
pub(super) fn raw_names_in(directory: impl AsFd) -> Result<Vec<Vec<u8>>> {
    let names = from_start(directory)?.into_iter().map(|entry| entry.name);
    let mut names: Vec<_> = names.filter(|name| name != b"." && name != b"..").collect();
    names.sort();
    Ok(names)
}

/// All names but the dots, sorted.
pub(super) fn names_in(directory: impl AsFd) -> Result<Vec<String>> {
    let names = raw_names_in(directory)?.into_iter();
    Ok(names.map(|name| String::from_utf8_lossy(&name).into_owned()).collect())
}

fn directory_with(count: usize) -> std::os::fd::OwnedFd {
    granted(mkdir("dir", 0o755));
    for number in 0..count {
        granted(touch(&format!("dir/{number:06}"), 0o644));
    }
    granted(open("dir", OFlags::RDONLY | OFlags::DIRECTORY))
}

fn an_empty_directory_has_dots() {
    let directory = directory_with(0);
    let entries = granted(from_start(&directory));
    let names: BTreeSet<&[u8]> = entries.iter().map(|entry| &entry.name[..]).collect();
    same(names, BTreeSet::from([&b"."[..], b".."]));
    holds(entries.iter().all(|entry| entry.kind == FileType::Directory), "dots are directories");
    same(granted(read_entries(&directory, 10, 8192)).len(), 0);
}

fn every_kind_is_named() {
    granted(mkdir("dir", 0o755));
    granted(touch("dir/file", 0o644));
    granted(mkdir("dir/directory", 0o755));
    granted(symlink("directory", "dir/link"));
    granted(mkfifo("dir/fifo", 0o644));
    let entries = granted(from_start(granted(open("dir", OFlags::RDONLY))));
    same(entries.len(), 6);
    for entry in entries {
        let expected = match &entry.name[..] {
            b"file" => FileType::RegularFile,
            b"link" => FileType::Symlink,
            b"fifo" => FileType::Fifo,
            _ => FileType::Directory,
        };
        // A file system may leave the kind to stat, but it may not lie.
        holds(entry.kind == expected || entry.kind == FileType::Unknown, "the kind of an entry");
    }
}

fn reading_stops_and_goes_on() {
    const COUNT: usize = 3000;
    let directory = directory_with(COUNT);
    let mut names = BTreeSet::new();
    let mut total = 0;
    loop {
        // Each round one small buffer: the next begins where the kernel stopped.
        let mut buffer = vec![MaybeUninit::uninit(); 600];
        let mut reader = RawDir::new(&directory, &mut buffer);
        let mut in_buffer = 0;
        while let Some(entry) = reader.next() {
            names.insert(granted(entry).file_name().to_bytes().to_vec());
            in_buffer += 1;
            if reader.is_buffer_empty() {
                break;
            }
        }
        if in_buffer == 0 {
            break;
        }
        total += in_buffer;
    }
    same((names.len(), total), (COUNT + 2, COUNT + 2));
}

fn a_cookie_leads_back() {
    let directory = directory_with(500);
    let all = granted(from_start(&directory));
    for position in [0, 1, 2, 100, 300, 499, 501] {
        granted(seek(&directory, SeekFrom::Start(all[position].cookie)));
        let rest = granted(read_entries(&directory, usize::MAX, 1000));
        same(rest.len(), all.len() - position - 1);
        same(rest.first(), all.get(position + 1));
    }
}

fn rewinding_shows_what_is_new() {
    let directory = directory_with(10);
    same(granted(from_start(&directory)).len(), 12);
    granted(touch("dir/new", 0o644));
    granted(unlink("dir/000003"));
    granted(rustix::fs::rename("dir/000004", "dir/renamed"));
    let names = granted(names_in(&directory));
    same(names.len(), 10);
    holds(names.contains(&"new".into()) && names.contains(&"renamed".into()), "new names are listed");
    holds(!names.contains(&"000003".into()) && !names.contains(&"000004".into()), "old names are not");
}

fn removing_while_reading_loses_nothing() {
    const COUNT: usize = 2000;
    let directory = directory_with(COUNT);
    granted(seek(&directory, SeekFrom::Start(0)));
    let mut removed = 0;
    let mut buffer = vec![MaybeUninit::uninit(); 1000];
    let mut reader = RawDir::new(&directory, &mut buffer);
    while let Some(entry) = reader.next() {
        let entry = granted(entry);
        let name = entry.file_name();
        if name.to_bytes().starts_with(b".") {
            continue;
        }
        granted(rustix::fs::unlinkat(&directory, name, rustix::fs::AtFlags::empty()));
        removed += 1;
    }
    same(removed, COUNT);
    granted(rustix::fs::rmdir("dir"));
}

fn what_stays_is_listed_once() {
    const COUNT: usize = 1000;
    let directory = directory_with(COUNT);
    granted(seek(&directory, SeekFrom::Start(0)));
    let first = granted(read_entries(&directory, 100, 100));
    let (mut seen, mut cookie) = (first.clone(), first[first.len() - 1].cookie);
    let mut round = 0;
    loop {
        granted(touch(&format!("dir/extra{round}"), 0o644));
        granted(rustix::fs::unlink(format!("dir/extra{round}").as_str()));
        granted(seek(&directory, SeekFrom::Start(cookie)));
        let next = granted(read_entries(&directory, 100, 4096));
        let Some(last) = next.last() else { break };
        cookie = last.cookie;
        seen.extend(next);
        round += 1;
    }
    let stayed: Vec<_> = seen.iter().filter(|entry| entry.name.starts_with(b"0")).collect();
    let names: BTreeSet<_> = stayed.iter().map(|entry| &entry.name).collect();
    same((stayed.len(), names.len()), (COUNT, COUNT));
}

fn two_readers_do_not_disturb_each_other() {
    let first = directory_with(300);
    let second = granted(open("dir", OFlags::RDONLY));
    let whole = granted(from_start(&first));
    granted(seek(&first, SeekFrom::Start(0)));
    let mut buffer = vec![MaybeUninit::uninit(); 500];
    let mut reader = RawDir::new(&first, &mut buffer);
    let mut names = Vec::new();
    while let Some(entry) = reader.next() {
        names.push(granted(entry).file_name().to_bytes().to_vec());
        if names.len() % 50 == 0 {
            same(granted(from_start(&second)).len(), whole.len());
        }
    }
    same(names.len(), whole.len());
}

fn long_names_fill_the_buffer() {
    const COUNT: usize = 200;
    granted(mkdir("dir", 0o755));
    for number in 0..COUNT {
        granted(touch(&format!("dir/{number:0>255}"), 0o644));
    }
    let directory = granted(open("dir", OFlags::RDONLY));
    for size in [300, 4096, 65_536, 1 << 20] {
        granted(seek(&directory, SeekFrom::Start(0)));
        same(granted(read_entries(&directory, usize::MAX, size)).len(), COUNT + 2);
    }
}

fn inode_numbers_agree_with_stat() {
    let directory = directory_with(50);
    for entry in granted(from_start(&directory)) {
        let path = format!("dir/{}", String::from_utf8_lossy(&entry.name));
        if entry.name != b".." {
            same(entry.inode, granted(lstat(&path)).st_ino);
        }
    }
}
