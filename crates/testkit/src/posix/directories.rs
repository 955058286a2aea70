//! mkdir and rmdir.

use super::check::{granted, refused, refused_with_one_of, same};
use super::files::*;
use super::{Case, case};
use rustix::fs::{OFlags, rmdir, symlink};
use rustix::io::Errno;

pub(super) const CASES: &[Case] = &[
    case!(Anyone mkdir_refuses_whatever_exists),
    case!(Anyone mkdir_needs_its_parent),
    case!(Anyone a_directory_counts_its_children),
    case!(Anyone rmdir_wants_an_empty_directory),
    case!(Anyone rmdir_refuses_dots),
    case!(Anyone a_removed_directory_stays_usable_while_open),
    case!(Anyone a_removed_working_directory),
    case!(Anyone set_gid_is_inherited),
    case!(Anyone sticky_and_odd_modes_stay),
    case!(Anyone deep_trees),
];

fn mkdir_refuses_whatever_exists() {
    granted(touch("file", 0o644));
    granted(mkdir("dir", 0o755));
    granted(mkfifo("fifo", 0o644));
    granted(symlink("dir", "link"));
    granted(symlink("nowhere", "dangling"));
    for existing in ["file", "dir", "dir/", "fifo", "link", "dangling", ".", ".."] {
        refused(mkdir(existing, 0o755), Errno::EXIST);
    }
}

fn mkdir_needs_its_parent() {
    granted(touch("file", 0o644));
    refused(mkdir("missing/dir", 0o755), Errno::NOENT);
    refused(mkdir("file/dir", 0o755), Errno::NOTDIR);
    refused(mkdir("", 0o755), Errno::NOENT);
    granted(mkdir("trailing/", 0o755));
    granted(mkdir("trailing//./inner/", 0o755));
    same(granted(kind_of("trailing/inner")), rustix::fs::FileType::Directory);
}

fn a_directory_counts_its_children() {
    granted(mkdir("dir", 0o755));
    same(granted(links_of("dir")), 2);
    granted(mkdir("dir/a", 0o755));
    granted(mkdir("dir/b", 0o755));
    granted(touch("dir/file", 0o644));
    same(granted(links_of("dir")), 4);
    granted(rustix::fs::rename("dir/b", "b"));
    same(granted(links_of("dir")), 3);
    granted(rmdir("dir/a"));
    same(granted(links_of("dir")), 2);
}

fn rmdir_wants_an_empty_directory() {
    granted(touch("file", 0o644));
    granted(mkdir("dir", 0o755));
    granted(mkdir("dir/inner", 0o755));
    granted(symlink("dir/inner", "link"));
    refused_with_one_of(rmdir("dir"), &[Errno::NOTEMPTY, Errno::EXIST]);
    refused(rmdir("file"), Errno::NOTDIR);
    refused(rmdir("link"), Errno::NOTDIR);
    refused(rmdir("missing"), Errno::NOENT);
    refused(rmdir("file/x"), Errno::NOTDIR);
    granted(rmdir("dir/inner"));
    granted(rmdir("dir/"));
    refused(lstat("dir"), Errno::NOENT);
}

fn rmdir_refuses_dots() {
    granted(mkdir("dir", 0o755));
    granted(mkdir("dir/inner", 0o755));
    refused(rmdir("dir/inner/."), Errno::INVAL);
    refused(rmdir("dir/inner/.."), Errno::NOTEMPTY);
    granted(lstat("dir/inner"));
}

fn a_removed_directory_stays_usable_while_open() {
    granted(mkdir("dir", 0o755));
    let dir = granted(open("dir", OFlags::RDONLY | OFlags::DIRECTORY));
    granted(rmdir("dir"));
    let stat = granted(rustix::fs::fstat(&dir));
    same(stat.st_nlink, 0);
    same(stat.st_mode & 0o777, 0o755);
    refused(super::reading_directories::names_in(&dir), Errno::NOENT);
    refused(rustix::fs::mkdirat(&dir, "x", rustix::fs::Mode::from_raw_mode(0o755)), Errno::NOENT);
}

fn a_removed_working_directory() {
    let home = std::env::current_dir().expect("a case has a directory");
    granted(mkdir("dir", 0o755));
    std::env::set_current_dir("dir").expect("it was made");
    let removed = rmdir("../dir");
    let made = touch("file", 0o644);
    let looked_at = lstat(".");
    let opened = open(".", OFlags::RDONLY | OFlags::DIRECTORY);
    std::env::set_current_dir(home).expect("a case has a directory");
    granted(removed);
    refused(made, Errno::NOENT);
    granted(looked_at);
    refused(super::reading_directories::names_in(granted(opened)), Errno::NOENT);
}

fn set_gid_is_inherited() {
    granted(mkdir("plain", 0o755));
    granted(mkdir("group", 0o755));
    // Root picks any group, a user one of its own.
    granted(chown("group", None, Some(crate::identity::EXTRA_GROUP)));
    granted(chmod("group", 0o2755));
    granted(touch("group/file", 0o644));
    granted(mkdir("group/dir", 0o755));
    granted(mkfifo("group/fifo", 0o644));
    granted(symlink("x", "group/link"));
    for inside in ["group/file", "group/dir", "group/fifo", "group/link"] {
        same(granted(owner_of(inside)).1, crate::identity::EXTRA_GROUP);
    }
    same(granted(mode_of("group/dir")), 0o2755);
    same(granted(mode_of("group/file")), 0o644);
    granted(touch("plain/file", 0o644));
    same(granted(owner_of("plain/file")).1, rustix::process::getegid().as_raw());
}

fn sticky_and_odd_modes_stay() {
    for mode in [0o1777, 0o1000, 0o000, 0o111, 0o700, 0o222] {
        let name = format!("d{mode:o}");
        granted(mkdir(&name, mode));
        same(granted(mode_of(&name)), mode);
        granted(chmod(&name, 0o755));
    }
}

fn deep_trees() {
    const DEPTH: usize = 200;
    let mut path = String::from("d");
    for _ in 0..DEPTH {
        granted(mkdir(&path, 0o755));
        path.push_str("/d");
    }
    granted(write_file(&path, b"bottom"));
    same(granted(read_file(&path)), b"bottom");
    granted(rustix::fs::rename("d", "e"));
    same(granted(read_file(&path.replacen('d', "e", 1))), b"bottom");
}
