//! Names and paths: how long, of which bytes, through what.

use super::check::{granted, refused, same};
use super::files::*;
use super::{Case, case};
use rustix::fs::{Access, OFlags, access, link, rename, rmdir, symlink, unlink};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

pub(super) const CASES: &[Case] = &[
    case!(Anyone names_of_255_bytes),
    case!(Anyone names_of_256_bytes),
    case!(Anyone paths_of_4095_bytes),
    case!(Anyone names_of_any_bytes),
    case!(Anyone a_file_is_no_directory_on_the_way),
    case!(Anyone missing_directories_on_the_way),
    case!(Anyone loops_on_the_way),
    case!(Anyone dots_and_slashes),
];

/// A call that takes a path, and its name.
type Call = (&'static str, fn(&str) -> Result<()>);

/// Every call that takes a path.
const CALLS: [Call; 14] = [
    ("open", |path| open(path, OFlags::RDONLY).map(drop)),
    ("create", |path| open(path, OFlags::CREATE | OFlags::WRONLY).map(drop)),
    ("stat", |path| stat(path).map(drop)),
    ("lstat", |path| lstat(path).map(drop)),
    ("mkdir", |path| mkdir(path, 0o755)),
    ("rmdir", |path| rmdir(path)),
    ("unlink", |path| unlink(path)),
    ("mkfifo", |path| mkfifo(path, 0o644)),
    ("symlink", |path| symlink("x", path)),
    ("chmod", |path| chmod(path, 0o644)),
    ("truncate", |path| truncate(path, 0)),
    ("access", |path| access(path, Access::EXISTS)),
    ("rename from", |path| rename(path, "elsewhere")),
    ("link from", |path| link(path, "elsewhere")),
];

#[track_caller]
fn all_refuse(path: &str, error: Errno) {
    for (_, call) in CALLS {
        refused(call(path), error);
    }
}

fn names_of_255_bytes() {
    let longest = "n".repeat(255);
    granted(write_file(&longest, b"x"));
    same(granted(read_file(&longest)), b"x");
    let renamed = "m".repeat(255);
    granted(rename(&longest, &renamed));
    granted(link(&renamed, &longest));
    granted(unlink(&renamed));
    granted(unlink(&longest));
    granted(mkdir(&longest, 0o755));
    granted(rmdir(&longest));
    granted(symlink(&longest, &renamed));
    let listed = super::reading_directories::names_in(granted(open(".", OFlags::RDONLY)));
    same(granted(listed), [renamed]);
}

fn names_of_256_bytes() {
    all_refuse(&"n".repeat(256), Errno::NAMETOOLONG);
    all_refuse(&format!("{}/file", "n".repeat(256)), Errno::NAMETOOLONG);
    granted(touch("file", 0o644));
    refused(rename("file", "n".repeat(256).as_str()), Errno::NAMETOOLONG);
    refused(link("file", "n".repeat(256).as_str()), Errno::NAMETOOLONG);
}

fn paths_of_4095_bytes() {
    // 4095 bytes and the closing zero are PATH_MAX.
    let path = "./".repeat(2045) + "file!";
    same(path.len(), 4095);
    granted(write_file(&path, b"x"));
    same(granted(read_file("file!")), b"x");
    all_refuse(&format!("{path}!"), Errno::NAMETOOLONG);
}

fn names_of_any_bytes() {
    for byte in (1..=255u8).filter(|byte| !b"/.".contains(byte)) {
        let name = [byte, b'-', byte];
        let name = OsStr::from_bytes(&name);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
        granted(rustix::fs::open(name, flags, rustix::fs::Mode::from_raw_mode(0o644)));
        granted(rustix::fs::lstat(name));
    }
    let names = super::reading_directories::raw_names_in(granted(open(".", OFlags::RDONLY)));
    same(granted(names).len(), 253);
    for name in ["...", ".hidden", " ", "a b", "tab\t", "new\nline", "-rf", "*", "ünï", "日本"] {
        granted(write_file(name, name.as_bytes()));
        same(granted(read_file(name)), name.as_bytes());
    }
}

fn a_file_is_no_directory_on_the_way() {
    granted(touch("file", 0o644));
    granted(mkfifo("fifo", 0o644));
    granted(symlink("file", "link"));
    all_refuse("file/x", Errno::NOTDIR);
    all_refuse("fifo/x", Errno::NOTDIR);
    all_refuse("link/x", Errno::NOTDIR);
    all_refuse("file/x/y", Errno::NOTDIR);
    refused(lstat("file/"), Errno::NOTDIR);
    refused(lstat("file/."), Errno::NOTDIR);
}

fn missing_directories_on_the_way() {
    granted(symlink("nowhere", "dangling"));
    all_refuse("missing/x", Errno::NOENT);
    all_refuse("dangling/x", Errno::NOENT);
    all_refuse("", Errno::NOENT);
}

fn loops_on_the_way() {
    granted(symlink("loop", "loop"));
    all_refuse("loop/x", Errno::LOOP);
}

fn dots_and_slashes() {
    granted(mkdir("dir", 0o755));
    granted(mkdir("dir/inner", 0o755));
    granted(write_file("dir/file", b"x"));
    let inode = granted(stat("dir/file")).st_ino;
    for way in ["dir//file", "./dir/./file", "dir/../dir/file", "dir/inner/../file", ".//dir///file"] {
        same(granted(stat(way)).st_ino, inode);
    }
    same(granted(stat("dir/..")).st_ino, granted(stat(".")).st_ino);
    same(granted(stat("dir/inner/../..")).st_ino, granted(stat(".")).st_ino);
    granted(stat("dir/"));
    let full = std::env::current_dir().expect("a case has a directory").join("dir/file");
    same(granted(rustix::fs::stat(&full)).st_ino, inode);
}
