//! open and its flags.

use super::check::{granted, holds, refused, refused_with_one_of, same};
use super::files::*;
use super::{Case, case};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

pub(super) const CASES: &[Case] = &[
    case!(Anyone excl_refuses_whatever_exists),
    case!(Anyone create_leaves_an_existing_file_alone),
    case!(Anyone mode_is_masked),
    case!(Anyone trunc_empties_and_keeps_the_inode),
    case!(Anyone access_modes_bind),
    case!(Anyone append_writes_at_the_end),
    case!(Anyone append_of_two_descriptors_never_overlaps),
    case!(Anyone directory_flag_wants_a_directory),
    case!(Anyone directories_are_read_only),
    case!(Anyone nofollow_refuses_links),
    case!(Anyone path_descriptors_name_without_access),
    case!(Anyone direct_io_moves_whole_blocks),
    case!(Anyone sync_flags_write),
    case!(Anyone openat_starts_at_the_directory),
    case!(Anyone tmpfile_works_or_is_refused),
    case!(Anyone read_only_mode_at_create_still_writes),
    case!(User noatime_is_for_the_owner),
];

fn excl_refuses_whatever_exists() {
    let excl = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR;
    granted(open("new", excl));
    granted(mkdir("dir", 0o755));
    granted(mkfifo("fifo", 0o644));
    granted(rustix::fs::symlink("new", "link"));
    granted(rustix::fs::symlink("nowhere", "dangling"));
    for existing in ["new", "dir", "fifo", "link", "dangling"] {
        refused(open(existing, excl), Errno::EXIST);
    }
    refused(lstat("nowhere"), Errno::NOENT);
}

fn create_leaves_an_existing_file_alone() {
    granted(write_file("file", b"content"));
    granted(chmod("file", 0o600));
    let before = granted(stat("file")).st_ino;
    granted(open_mode("file", OFlags::CREATE | OFlags::RDWR, 0o777));
    same(granted(mode_of("file")), 0o600);
    same(granted(read_file("file")), b"content");
    same(granted(stat("file")).st_ino, before);
    refused(open("missing", OFlags::RDWR), Errno::NOENT);
    refused(open("missing/file", OFlags::CREATE | OFlags::RDWR), Errno::NOENT);
    granted(rustix::fs::symlink("made-through-link", "link"));
    granted(open("link", OFlags::CREATE | OFlags::WRONLY));
    same(granted(kind_of("made-through-link")), FileType::RegularFile);
}

fn mode_is_masked() {
    use rustix::fs::Mode;
    for (mask, mode, expected) in
        [(0o022, 0o666, 0o644), (0o077, 0o777, 0o700), (0o000, 0o604, 0o604), (0o777, 0o777, 0)]
    {
        let name = format!("{mask:o}-{mode:o}");
        rustix::process::umask(Mode::from_raw_mode(mask));
        let made = touch(&name, mode);
        let made_directory = mkdir(&format!("{name}-d"), mode);
        let made_fifo = mkfifo(&format!("{name}-p"), mode);
        rustix::process::umask(Mode::empty());
        granted(made);
        granted(made_directory);
        granted(made_fifo);
        same(granted(mode_of(&name)), expected);
        same(granted(mode_of(&format!("{name}-d"))), expected);
        same(granted(mode_of(&format!("{name}-p"))), expected);
        granted(chmod(&format!("{name}-d"), 0o700));
    }
}

fn trunc_empties_and_keeps_the_inode() {
    granted(write_file("file", &[7; 200_000]));
    let other = granted(open("file", OFlags::RDONLY));
    let before = granted(stat("file")).st_ino;
    granted(open("file", OFlags::WRONLY | OFlags::TRUNC));
    same(granted(stat("file")).st_ino, before);
    same(granted(size_of("file")), 0);
    same(granted(read_all(&other)), b"");
}

fn access_modes_bind() {
    granted(write_file("file", b"abc"));
    let reader = granted(open("file", OFlags::RDONLY));
    let writer = granted(open("file", OFlags::WRONLY));
    refused(rustix::io::write(&reader, b"x"), Errno::BADF);
    refused(rustix::io::pwrite(&reader, b"x", 0), Errno::BADF);
    refused(read_at(&writer, 1, 0), Errno::BADF);
    refused_with_one_of(ftruncate(&reader, 0), &[Errno::INVAL, Errno::BADF]);
    same(granted(read_file("file")), b"abc");
}

fn append_writes_at_the_end() {
    granted(write_file("file", b"0123456789"));
    let log = granted(open("file", OFlags::RDWR | OFlags::APPEND));
    granted(rustix::fs::seek(&log, rustix::fs::SeekFrom::Start(2)));
    same(granted(rustix::io::write(&log, b"abc")), 3);
    same(granted(rustix::fs::tell(&log)), 13);
    // On Linux pwrite on an appending descriptor appends too.
    same(granted(rustix::io::pwrite(&log, b"def", 0)), 3);
    same(granted(read_file("file")), b"0123456789abcdef");
    granted(truncate("file", 4));
    same(granted(rustix::io::write(&log, b"X")), 1);
    same(granted(read_file("file")), b"0123X");
}

fn append_of_two_descriptors_never_overlaps() {
    const LINES: usize = 300;
    granted(touch("log", 0o644));
    let line = |who: u8| [&[who; 99][..], b"\n"].concat();
    let write_all = move |who: u8| {
        let log = granted(open("log", OFlags::WRONLY | OFlags::APPEND));
        for _ in 0..LINES {
            same(granted(rustix::io::write(&log, &line(who))), 100);
        }
    };
    let child = super::child::beside(move |_| write_all(b'c'));
    write_all(b'p');
    child.finish();
    let content = granted(read_file("log"));
    same(content.len(), 2 * LINES * 100);
    let whole = content.chunks(100).all(|found| found == line(b'c') || found == line(b'p'));
    holds(whole, "every line stands whole");
}

fn directory_flag_wants_a_directory() {
    granted(touch("file", 0o644));
    granted(mkdir("dir", 0o755));
    granted(rustix::fs::symlink("dir", "link"));
    refused(open("file", OFlags::DIRECTORY | OFlags::RDONLY), Errno::NOTDIR);
    granted(open("dir", OFlags::DIRECTORY | OFlags::RDONLY));
    granted(open("link", OFlags::DIRECTORY | OFlags::RDONLY));
    refused_with_one_of(
        open("link", OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY),
        &[Errno::NOTDIR, Errno::LOOP],
    );
}

fn directories_are_read_only() {
    granted(mkdir("dir", 0o755));
    for flags in [OFlags::WRONLY, OFlags::RDWR, OFlags::WRONLY | OFlags::TRUNC] {
        refused(open("dir", flags), Errno::ISDIR);
    }
    refused(open("dir", OFlags::CREATE | OFlags::RDONLY), Errno::ISDIR);
    let dir = granted(open("dir", OFlags::RDONLY));
    refused(read_at(&dir, 1, 0), Errno::ISDIR);
    refused_with_one_of(rustix::io::write(&dir, b"x"), &[Errno::BADF, Errno::ISDIR]);
    refused(open("missing/", OFlags::CREATE | OFlags::WRONLY), Errno::ISDIR);
}

fn nofollow_refuses_links() {
    granted(touch("file", 0o644));
    granted(rustix::fs::symlink("file", "link"));
    granted(rustix::fs::symlink("nowhere", "dangling"));
    granted(open("file", OFlags::NOFOLLOW | OFlags::RDONLY));
    refused(open("link", OFlags::NOFOLLOW | OFlags::RDONLY), Errno::LOOP);
    refused(open("dangling", OFlags::NOFOLLOW | OFlags::CREATE | OFlags::WRONLY), Errno::LOOP);
}

fn path_descriptors_name_without_access() {
    granted(touch("file", 0));
    granted(rustix::fs::symlink("file", "link"));
    let file = granted(open("file", OFlags::PATH));
    same(granted(rustix::fs::fstat(&file)).st_ino, granted(stat("file")).st_ino);
    refused(read_at(&file, 1, 0), Errno::BADF);
    refused(rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(0o777)), Errno::BADF);
    let link = granted(open("link", OFlags::PATH | OFlags::NOFOLLOW));
    let stat = granted(rustix::fs::fstat(&link));
    same(FileType::from_raw_mode(stat.st_mode), FileType::Symlink);
    granted(mkdir("dir", 0o755));
    let dir = granted(open("dir", OFlags::PATH | OFlags::DIRECTORY));
    granted(rustix::fs::mkdirat(&dir, "inner", rustix::fs::Mode::from_raw_mode(0o755)));
    same(granted(kind_of("dir/inner")), FileType::Directory);
}

fn direct_io_moves_whole_blocks() {
    const BLOCK: usize = 4096;
    const BLOCKS: usize = 50;
    // A block aligned buffer inside a larger one.
    let mut space = vec![0u8; BLOCK * (BLOCKS + 1)];
    let start = space.as_ptr().align_offset(BLOCK);
    let buffer = &mut space[start..start + BLOCK * BLOCKS];
    buffer.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / 7) as u8);
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::DIRECT;
    let direct = granted(open("file", flags));
    granted(write_all_at(&direct, buffer, 0));
    let expected = buffer.to_vec();
    buffer.fill(0);
    same(granted(rustix::io::pread(&direct, &mut buffer[..], 0)), BLOCK * BLOCKS);
    holds(buffer == &expected[..], "direct read gives what direct write wrote");
    holds(granted(read_file("file")) == expected, "buffered read gives what direct write wrote");
    granted(write_all_at(granted(open("file", OFlags::WRONLY)), &[9; 100], 5000));
    same(granted(rustix::io::pread(&direct, &mut buffer[..BLOCK], 4096)), BLOCK);
    holds(buffer[904..1004] == [9; 100], "direct read sees a buffered write");
}

fn sync_flags_write() {
    for (name, flag) in [("sync", OFlags::SYNC), ("dsync", OFlags::DSYNC)] {
        let file = granted(open(name, OFlags::CREATE | OFlags::RDWR | flag));
        granted(write_all_at(&file, &[5; 150_000], 0));
        same(granted(read_file(name)).len(), 150_000);
    }
    let file = granted(open("sync", OFlags::RDWR));
    granted(rustix::fs::fsync(&file));
    granted(rustix::fs::fdatasync(&file));
    granted(rustix::fs::fsync(granted(open(".", OFlags::RDONLY))));
}

fn openat_starts_at_the_directory() {
    granted(mkdir("dir", 0o755));
    granted(write_file("dir/file", b"inside"));
    let dir = granted(open("dir", OFlags::RDONLY | OFlags::DIRECTORY));
    granted(rustix::fs::rename("dir", "moved"));
    let none = rustix::fs::Mode::empty();
    let file = granted(rustix::fs::openat(&dir, "file", OFlags::RDONLY, none));
    same(granted(read_all(&file)), b"inside");
    refused(rustix::fs::openat(&file, "file", OFlags::RDONLY, none), Errno::NOTDIR);
    granted(rustix::fs::unlink("moved/file"));
    granted(rustix::fs::rmdir("moved"));
    refused(rustix::fs::openat(&dir, "new", OFlags::CREATE | OFlags::WRONLY, none), Errno::NOENT);
    refused(rustix::fs::mkdirat(&dir, "new", none), Errno::NOENT);
}

fn tmpfile_works_or_is_refused() {
    // A file system may lack unnamed files; every program that uses them has another way.
    match open(".", OFlags::TMPFILE | OFlags::RDWR) {
        Ok(file) => {
            granted(write_all_at(&file, b"unnamed", 0));
            same(granted(rustix::fs::fstat(&file)).st_nlink, 0);
            same(granted(read_all(&file)), b"unnamed");
        }
        Err(error) => same(error, Errno::OPNOTSUPP),
    }
}

fn read_only_mode_at_create_still_writes() {
    let file = granted(open_mode("file", OFlags::CREATE | OFlags::EXCL | OFlags::RDWR, 0o444));
    granted(write_all_at(&file, &[3; 300_000], 0));
    drop(file);
    same(granted(mode_of("file")), 0o444);
    same(granted(read_file("file")).len(), 300_000);
    let hidden = granted(open_mode("hidden", OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY, 0));
    granted(write_all_at(&hidden, &[3; 100_000], 0));
    same(granted(rustix::fs::fstat(&hidden)).st_size, 100_000);
}

fn noatime_is_for_the_owner() {
    granted(touch("file", 0o644));
    granted(open("file", OFlags::RDONLY | OFlags::NOATIME));
    let owner = granted(stat("/etc/passwd")).st_uid;
    holds(owner == 0, "/etc/passwd belongs to root");
    refused(open("/etc/passwd", OFlags::RDONLY | OFlags::NOATIME), Errno::PERM);
}
