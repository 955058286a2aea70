//! unlink, and the life of a file without a name.

use super::check::{granted, refused, refused_with_one_of, same};
use super::files::*;
use super::{Case, case};
use rustix::fs::{FallocateFlags, OFlags, symlink, unlink};
use rustix::io::Errno;

pub(super) const CASES: &[Case] = &[
    case!(Anyone refusals),
    case!(Anyone a_name_is_removed_not_what_it_points_to),
    case!(Anyone an_unlinked_open_file_lives_on),
    case!(Anyone an_unlinked_file_is_not_its_successor),
    case!(Anyone an_unlinked_file_is_still_changed_by_descriptor),
    case!(Anyone an_unlinked_file_is_inherited),
    case!(Anyone an_unlinked_file_reached_through_proc),
];

fn refusals() {
    granted(mkdir("dir", 0o755));
    granted(touch("file", 0o644));
    refused_with_one_of(unlink("dir"), &[Errno::ISDIR, Errno::PERM]);
    refused(unlink("missing"), Errno::NOENT);
    refused(unlink("missing/file"), Errno::NOENT);
    refused(unlink("file/x"), Errno::NOTDIR);
    refused(unlink("file/"), Errno::NOTDIR);
    refused(unlink(""), Errno::NOENT);
    refused(unlink("n".repeat(256).as_str()), Errno::NAMETOOLONG);
    granted(lstat("file"));
    granted(unlink("file"));
    refused(unlink("file"), Errno::NOENT);
}

fn a_name_is_removed_not_what_it_points_to() {
    granted(write_file("file", b"x"));
    granted(symlink("file", "link"));
    granted(mkfifo("fifo", 0o644));
    granted(unlink("link"));
    granted(unlink("fifo"));
    same(granted(read_file("file")), b"x");
    granted(rustix::fs::link("file", "second"));
    granted(unlink("file"));
    same(granted(links_of("second")), 1);
}

fn an_unlinked_open_file_lives_on() {
    let file = granted(create("file"));
    granted(write_all_at(&file, &[1; 300_000], 0));
    granted(unlink("file"));
    refused(lstat("file"), Errno::NOENT);
    let stat = granted(rustix::fs::fstat(&file));
    same((stat.st_nlink, stat.st_size), (0, 300_000));
    granted(write_all_at(&file, &[2; 300_000], 300_000));
    same(granted(read_at(&file, 2, 299_999)), [1, 2]);
    same(granted(rustix::fs::fstat(&file)).st_size, 600_000);
    granted(ftruncate(&file, 299_999));
    same(granted(read_all(&file)), vec![1; 299_999]);
    granted(rustix::fs::fsync(&file));
}

fn an_unlinked_file_is_not_its_successor() {
    let old = granted(create("file"));
    granted(write_all_at(&old, b"old", 0));
    granted(unlink("file"));
    let new = granted(create("file"));
    granted(write_all_at(&new, b"new!", 0));
    same(granted(read_all(&old)), b"old");
    same(granted(read_all(&new)), b"new!");
    granted(unlink("file"));
    drop(new);
    same(granted(read_all(&old)), b"old");
}

fn an_unlinked_file_is_still_changed_by_descriptor() {
    let file = granted(create("file"));
    granted(unlink("file"));
    granted(rustix::fs::fchmod(&file, rustix::fs::Mode::from_raw_mode(0o600)));
    let times = rustix::fs::Timestamps { last_access: LONG_AGO, last_modification: LONG_AGO };
    granted(rustix::fs::futimens(&file, &times));
    granted(rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 100_000));
    let stat = granted(rustix::fs::fstat(&file));
    same((stat.st_mode & 0o7777, stat.st_size, stat.st_nlink), (0o600, 100_000, 0));
    granted(rustix::fs::fsetxattr(&file, "user.x", b"y", rustix::fs::XattrFlags::empty()));
    let mut value = [0; 8];
    same(granted(rustix::fs::fgetxattr(&file, "user.x", &mut value[..])), 1);
}

fn an_unlinked_file_is_inherited() {
    let file = granted(create("file"));
    granted(write_all_at(&file, b"before", 0));
    granted(unlink("file"));
    let child = super::child::beside(|_| {
        same(granted(read_all(&file)), b"before");
        granted(write_all_at(&file, b"child!", 0));
    });
    child.finish();
    same(granted(read_all(&file)), b"child!");
}

fn an_unlinked_file_reached_through_proc() {
    use std::os::fd::AsRawFd;
    let file = granted(create("file"));
    granted(write_all_at(&file, b"content", 0));
    granted(unlink("file"));
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let again = granted(open(&path, OFlags::RDWR));
    same(granted(read_all(&again)), b"content");
    drop(file);
    granted(write_all_at(&again, b"C", 0));
    same(granted(read_all(&again)), b"Content");
}
