//! rename and renameat2.

use super::check::{granted, holds, refused, refused_with_one_of, same};
use super::files::*;
use super::{Case, case};
use rustix::fs::{CWD, FileType, OFlags, RenameFlags, link, rename, renameat_with, symlink};
use rustix::io::Errno;

pub(super) const CASES: &[Case] = &[
    case!(Anyone every_kind_over_every_kind),
    case!(Anyone a_directory_over_a_full_directory),
    case!(Anyone into_its_own_subdirectory),
    case!(Anyone hard_links_of_one_file_stay),
    case!(Anyone over_an_open_file),
    case!(Anyone an_open_file_keeps_its_content),
    case!(Anyone refusals),
    case!(Anyone dots_cannot_be_renamed),
    case!(Anyone trailing_slashes),
    case!(Anyone noreplace),
    case!(Anyone exchange),
    case!(Anyone across_directories_moves_the_parent),
    case!(Anyone a_link_is_renamed_not_followed),
    case!(Anyone replaced_files_are_always_there),
];

const KINDS: [&str; 4] = ["file", "dir", "link", "fifo"];

fn make(kind: &str, path: &str) {
    granted(match kind {
        "file" => write_file(path, path.as_bytes()),
        "dir" => mkdir(path, 0o755),
        "link" => symlink("anywhere", path),
        _ => mkfifo(path, 0o644),
    });
}

fn every_kind_over_every_kind() {
    for from in KINDS {
        for to in KINDS {
            let (source, target) = (format!("{from}-{to}-s"), format!("{from}-{to}-t"));
            make(from, &source);
            make(to, &target);
            let inode = granted(lstat(&source)).st_ino;
            let renamed = rename(&source, &target);
            match (from, to) {
                ("dir", "dir") => granted(renamed),
                ("dir", _) => refused(renamed, Errno::NOTDIR),
                (_, "dir") => refused(renamed, Errno::ISDIR),
                _ => granted(renamed),
            }
            let moved = (from == "dir") == (to == "dir");
            same(granted(lstat(if moved { &target } else { &source })).st_ino, inode);
            same(lstat(&source).is_err(), moved);
        }
        // And to a name that is free.
        make(from, &format!("{from}-free"));
        let before = granted(kind_of(&format!("{from}-free")));
        granted(rename(format!("{from}-free"), format!("{from}-taken")));
        same(granted(kind_of(&format!("{from}-taken"))), before);
        refused(lstat(&format!("{from}-free")), Errno::NOENT);
    }
}

fn a_directory_over_a_full_directory() {
    granted(mkdir("source", 0o700));
    granted(touch("source/s", 0o644));
    granted(mkdir("target", 0o755));
    granted(touch("target/t", 0o644));
    refused_with_one_of(rename("source", "target"), &[Errno::NOTEMPTY, Errno::EXIST]);
    granted(lstat("source/s"));
    granted(lstat("target/t"));
    granted(rustix::fs::unlink("target/t"));
    granted(rename("source", "target"));
    granted(lstat("target/s"));
    same(granted(mode_of("target")), 0o700);
}

fn into_its_own_subdirectory() {
    granted(mkdir("dir", 0o755));
    granted(mkdir("dir/inner", 0o755));
    refused(rename("dir", "dir/new"), Errno::INVAL);
    refused(rename("dir", "dir/inner/new"), Errno::INVAL);
    refused(rename("dir", "dir/inner"), Errno::INVAL);
    refused(rename("dir/inner", "dir"), Errno::NOTEMPTY);
    granted(rename("dir", "dir"));
    granted(lstat("dir/inner"));
}

fn hard_links_of_one_file_stay() {
    granted(write_file("a", b"x"));
    granted(link("a", "b"));
    granted(rename("a", "b"));
    same(granted(links_of("a")), 2);
    same(granted(links_of("b")), 2);
    granted(rename("a", "a"));
    granted(lstat("a"));
}

fn over_an_open_file() {
    granted(write_file("old", &[1; 200_000]));
    granted(write_file("new", b"new"));
    let open_old = granted(open("old", OFlags::RDWR));
    granted(rename("new", "old"));
    same(granted(read_file("old")), b"new");
    same(granted(rustix::fs::fstat(&open_old)).st_nlink, 0);
    granted(write_all_at(&open_old, &[2; 10], 199_995));
    let content = granted(read_all(&open_old));
    same(content.len(), 200_005);
    same(content[199_994..199_996].to_vec(), [1, 2]);
    same(granted(read_file("old")), b"new");
}

fn an_open_file_keeps_its_content() {
    let file = granted(create("before"));
    granted(write_all_at(&file, b"one", 0));
    granted(mkdir("dir", 0o755));
    granted(rename("before", "dir/after"));
    granted(write_all_at(&file, b"two", 3));
    granted(rename("dir", "elsewhere"));
    granted(write_all_at(&file, &[b'3'; 100_000], 6));
    same(granted(read_file("elsewhere/after")).len(), 100_006);
    same(granted(rustix::fs::fstat(&file)).st_nlink, 1);
}

fn refusals() {
    granted(touch("file", 0o644));
    granted(mkdir("dir", 0o755));
    refused(rename("missing", "new"), Errno::NOENT);
    refused(rename("file", "missing/new"), Errno::NOENT);
    refused(rename("file", "file/new"), Errno::NOTDIR);
    refused(rename("file/x", "new"), Errno::NOTDIR);
    refused(rename("", "new"), Errno::NOENT);
    refused(rename("file", ""), Errno::NOENT);
    refused(rename("file", "n".repeat(256).as_str()), Errno::NAMETOOLONG);
    refused(rename("file", "/proc/new"), Errno::XDEV);
    granted(lstat("file"));
}

fn dots_cannot_be_renamed() {
    granted(mkdir("dir", 0o755));
    for (from, to) in [("dir/.", "new"), ("dir/..", "new"), ("dir", "."), ("dir", "..")] {
        refused_with_one_of(rename(from, to), &[Errno::INVAL, Errno::BUSY, Errno::EXIST]);
    }
    granted(lstat("dir"));
}

fn trailing_slashes() {
    granted(mkdir("dir", 0o755));
    granted(touch("file", 0o644));
    granted(rename("dir/", "moved/"));
    granted(lstat("moved"));
    refused(rename("file/", "new"), Errno::NOTDIR);
    refused(rename("file", "new/"), Errno::NOTDIR);
    granted(lstat("file"));
}

fn with_flags(from: &str, to: &str, flags: RenameFlags) -> rustix::io::Result<()> {
    renameat_with(CWD, from, CWD, to, flags)
}

fn noreplace() {
    granted(write_file("a", b"a"));
    for kind in KINDS {
        make(kind, &format!("taken-{kind}"));
        refused(with_flags("a", &format!("taken-{kind}"), RenameFlags::NOREPLACE), Errno::EXIST);
    }
    granted(with_flags("a", "free", RenameFlags::NOREPLACE));
    same(granted(read_file("free")), b"a");
    refused(with_flags("a", "b", RenameFlags::NOREPLACE), Errno::NOENT);
    refused(with_flags("free", "free", RenameFlags::NOREPLACE), Errno::EXIST);
}

fn exchange() {
    granted(mkdir("dir", 0o755));
    granted(write_file("dir/inside", &[6; 70_000]));
    granted(write_file("file", b"file"));
    granted(symlink("x", "link"));
    let inodes = |a, b| (granted(lstat(a)).st_ino, granted(lstat(b)).st_ino);
    for (a, b) in [("dir", "file"), ("file", "link"), ("dir", "link")] {
        let (first, second) = inodes(a, b);
        granted(with_flags(a, b, RenameFlags::EXCHANGE));
        same(inodes(a, b), (second, first));
        granted(with_flags(a, b, RenameFlags::EXCHANGE));
        same(inodes(a, b), (first, second));
    }
    granted(with_flags("dir/inside", "file", RenameFlags::EXCHANGE));
    same(granted(read_file("dir/inside")), b"file");
    same(granted(read_file("file")).len(), 70_000);
    refused(with_flags("file", "missing", RenameFlags::EXCHANGE), Errno::NOENT);
    refused(with_flags("missing", "file", RenameFlags::EXCHANGE), Errno::NOENT);
    refused(with_flags("dir", "dir/inside", RenameFlags::EXCHANGE), Errno::INVAL);
    refused(with_flags("dir/inside", "dir", RenameFlags::EXCHANGE), Errno::INVAL);
    refused(with_flags("file", "link", RenameFlags::EXCHANGE | RenameFlags::NOREPLACE), Errno::INVAL);
}

fn across_directories_moves_the_parent() {
    for name in ["a", "b", "a/child"] {
        granted(mkdir(name, 0o755));
    }
    granted(rename("a/child", "b/child"));
    same(granted(stat("b/child/..")).st_ino, granted(stat("b")).st_ino);
    same((granted(links_of("a")), granted(links_of("b"))), (2, 3));
    granted(mkdir("a/child", 0o755));
    granted(with_flags("a", "b/child", RenameFlags::EXCHANGE));
    same(granted(stat("b/child/..")).st_ino, granted(stat("b")).st_ino);
    same(granted(stat("a/..")).st_ino, granted(stat(".")).st_ino);
}

fn a_link_is_renamed_not_followed() {
    granted(write_file("file", b"x"));
    granted(symlink("file", "link"));
    granted(rename("link", "moved"));
    same(granted(kind_of("moved")), FileType::Symlink);
    granted(touch("other", 0o644));
    granted(symlink("other", "target"));
    granted(rename("file", "target"));
    same(granted(kind_of("target")), FileType::RegularFile);
    same(granted(size_of("other")), 0);
}

fn replaced_files_are_always_there() {
    const ROUNDS: usize = 300;
    granted(write_file("file", &[1; 100]));
    let writer = super::child::beside(|_| {
        for _ in 0..ROUNDS {
            granted(write_file("next", &[1; 100]));
            granted(rename("next", "file"));
        }
    });
    let mut missing = 0;
    for _ in 0..ROUNDS {
        missing += usize::from(read_file("file").map_or(0, |content| content.len()) != 100);
    }
    writer.finish();
    same(missing, 0);
    holds(lstat("next").is_err(), "the last rename took the name away");
}
