//! Hard links and symbolic links.

use super::check::{granted, refused, refused_with_one_of, same};
use super::files::*;
use super::{Case, case};
use rustix::fs::{AtFlags, CWD, FileType, OFlags, link, linkat, readlink, symlink, unlink};
use rustix::io::Errno;

pub(super) const CASES: &[Case] = &[
    case!(Anyone a_hard_link_is_the_same_file),
    case!(Anyone link_refusals),
    case!(Anyone link_of_a_symbolic_link),
    case!(Anyone link_of_other_kinds),
    case!(Anyone many_links),
    case!(Anyone a_symbolic_link_keeps_any_text),
    case!(Anyone symlink_refusals),
    case!(Anyone symbolic_links_are_followed),
    case!(Anyone dangling_and_looping_links),
    case!(Anyone a_long_chain_of_links),
];

fn a_hard_link_is_the_same_file() {
    granted(write_file("a", b"one"));
    granted(mkdir("dir", 0o755));
    granted(link("a", "b"));
    granted(link("b", "dir/c"));
    same(granted(links_of("a")), 3);
    for name in ["b", "dir/c"] {
        same(granted(stat(name)).st_ino, granted(stat("a")).st_ino);
    }
    granted(write_file("dir/c", &[4; 100_000]));
    granted(chmod("b", 0o600));
    same(granted(size_of("a")), 100_000);
    same(granted(mode_of("a")), 0o600);
    granted(unlink("a"));
    same(granted(links_of("b")), 2);
    same(granted(read_file("b")).len(), 100_000);
    granted(unlink("b"));
    same(granted(read_file("dir/c")).len(), 100_000);
    granted(touch("a", 0o644));
    same(granted(links_of("dir/c")), 1);
    same(granted(size_of("a")), 0);
}

fn link_refusals() {
    granted(touch("file", 0o644));
    granted(mkdir("dir", 0o755));
    granted(symlink("nowhere", "dangling"));
    refused(link("file", "file"), Errno::EXIST);
    refused(link("file", "dir"), Errno::EXIST);
    refused(link("file", "dangling"), Errno::EXIST);
    refused(link("missing", "new"), Errno::NOENT);
    refused(link("file", "missing/new"), Errno::NOENT);
    refused(link("file", "file/new"), Errno::NOTDIR);
    refused(link("dir", "new"), Errno::PERM);
    refused(link("file", "/dev/new"), Errno::XDEV);
    same(granted(links_of("file")), 1);
}

fn link_of_a_symbolic_link() {
    granted(write_file("file", b"text"));
    granted(symlink("file", "link"));
    granted(linkat(CWD, "link", CWD, "hard", AtFlags::empty()));
    same(granted(kind_of("hard")), FileType::Symlink);
    same(granted(links_of("link")), 2);
    granted(linkat(CWD, "link", CWD, "followed", AtFlags::SYMLINK_FOLLOW));
    same(granted(kind_of("followed")), FileType::RegularFile);
    same(granted(links_of("file")), 2);
}

fn link_of_other_kinds() {
    granted(mkfifo("fifo", 0o640));
    granted(link("fifo", "other"));
    same(granted(kind_of("other")), FileType::Fifo);
    same(granted(links_of("other")), 2);
    granted(unlink("fifo"));
    same(granted(links_of("other")), 1);
}

fn many_links() {
    const COUNT: u64 = 500;
    granted(write_file("file", b"x"));
    for number in 0..COUNT {
        granted(link("file", format!("link{number}").as_str()));
    }
    same(granted(links_of("file")), COUNT + 1);
    for number in (0..COUNT).step_by(2) {
        granted(unlink(format!("link{number}").as_str()));
    }
    same(granted(links_of("file")), COUNT / 2 + 1);
}

fn a_symbolic_link_keeps_any_text() {
    // XFS takes 1023 bytes and others 4095.
    let longest = "t".repeat(1023);
    let bytes = "\u{1}\n \\é→";
    for (name, target) in [("a", "x"), ("b", "../../../etc"), ("c", longest.as_str()), ("d", bytes)] {
        granted(symlink(target, name));
        same(granted(readlink(name, Vec::new())).to_bytes(), target.as_bytes());
        same(granted(size_of(name)), target.len() as i64);
        same(granted(kind_of(name)), FileType::Symlink);
        same(granted(mode_of(name)), 0o777);
    }
    // readlink fills what it gets and says no more.
    let longer = "t".repeat(4095);
    match symlink(longer.as_str(), "e") {
        Ok(()) => same(granted(readlink("e", Vec::new())).to_bytes(), longer.as_bytes()),
        Err(error) => same(error, Errno::NAMETOOLONG),
    }
    let mut small = [0; 3];
    same(granted(rustix::fs::readlinkat_raw(CWD, "b", &mut small[..])), 3);
    same(small, *b"../");
}

fn symlink_refusals() {
    granted(touch("file", 0o644));
    refused(symlink("x", "file"), Errno::EXIST);
    refused(symlink("x", "missing/link"), Errno::NOENT);
    refused(symlink("x", "file/link"), Errno::NOTDIR);
    refused(symlink("", "empty"), Errno::NOENT);
    refused(symlink("t".repeat(4096).as_str(), "long"), Errno::NAMETOOLONG);
    refused(readlink("file", Vec::new()), Errno::INVAL);
    refused(readlink(".", Vec::new()), Errno::INVAL);
    refused(readlink("missing", Vec::new()), Errno::NOENT);
}

fn symbolic_links_are_followed() {
    granted(mkdir("dir", 0o755));
    granted(write_file("dir/file", b"text"));
    granted(symlink("dir", "link"));
    granted(symlink("link/file", "second"));
    same(granted(read_file("link/file")), b"text");
    same(granted(read_file("second")), b"text");
    same(granted(stat("second")).st_ino, granted(stat("dir/file")).st_ino);
    granted(chmod("second", 0o600));
    same(granted(mode_of("dir/file")), 0o600);
    same(granted(mode_of("second")), 0o777);
    granted(unlink("second"));
    granted(lstat("dir/file"));
    refused(rustix::fs::rmdir("link"), Errno::NOTDIR);
    refused_with_one_of(unlink("link/"), &[Errno::NOTDIR, Errno::ISDIR]);
}

fn dangling_and_looping_links() {
    granted(symlink("nowhere", "dangling"));
    granted(symlink("self", "self"));
    granted(symlink("b", "a"));
    granted(symlink("a", "b"));
    refused(stat("dangling"), Errno::NOENT);
    granted(lstat("dangling"));
    for looping in ["self", "a", "b", "self/x", "a/x"] {
        refused(stat(looping), Errno::LOOP);
        refused(open(looping, OFlags::RDWR | OFlags::CREATE), Errno::LOOP);
    }
    refused(chmod("self", 0o600), Errno::LOOP);
    refused(truncate("a", 0), Errno::LOOP);
    refused(mkdir("self/x", 0o755), Errno::LOOP);
    granted(unlink("self"));
}

fn a_long_chain_of_links() {
    // Linux follows 40.
    granted(write_file("l0", b"end"));
    for number in 1..=41 {
        granted(symlink(format!("l{}", number - 1).as_str(), format!("l{number}").as_str()));
    }
    same(granted(read_file("l40")), b"end");
    refused(stat("l41"), Errno::LOOP);
}
