//! utimensat, and which times each call changes.

use super::check::{granted, holds, refused, refused_with_one_of, same};
use super::child::as_user;
use super::files::*;
use super::{Case, case};
use crate::identity::Identity;
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT,
    XattrFlags, link, rename, rmdir, setxattr, symlink, unlink, utimensat,
};
use rustix::io::{Errno, Result};

pub(super) const CASES: &[Case] = &[
    case!(Anyone times_keep_their_nanoseconds),
    case!(Anyone now_and_omit),
    case!(Anyone links_have_times_of_their_own),
    case!(Anyone utimensat_refusals),
    case!(Anyone calls_on_files_mark_times),
    case!(Anyone calls_that_fail_mark_nothing),
    case!(Anyone names_mark_their_directory),
    case!(Anyone new_files_have_the_time_of_now),
    case!(Anyone new_objects_keep_the_times_they_were_shown_with),
    case!(Anyone set_times_survive_an_open_writer),
    case!(Anyone set_times_survive_a_writer_of_much),
    case!(Root utimensat_is_for_owners),
];

fn times_keep_their_nanoseconds() {
    granted(touch("file", 0o644));
    granted(mkdir("dir", 0o755));
    granted(mkfifo("fifo", 0o644));
    for name in ["file", "dir", "fifo"] {
        for (seconds, nanoseconds) in
            [(0, 0), (1, 999_999_999), (1_700_000_000, 1), (4_000_000_000, 5), (-5, 7)]
        {
            let access = Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
            let modification = Timespec { tv_sec: seconds + 1, tv_nsec: nanoseconds };
            granted(set_times(name, access, modification));
            let [found_access, found_modification, _] = granted(times_of(name));
            same(found_access, (seconds, nanoseconds as u64));
            same(found_modification, (seconds + 1, nanoseconds as u64));
        }
    }
}

fn now_and_omit() {
    let special = |tv_nsec| Timespec { tv_sec: 0, tv_nsec };
    let (now, omit) = (special(UTIME_NOW), special(UTIME_OMIT));
    granted(touch("file", 0o644));
    granted(set_times("file", LONG_AGO, LONG_AGO));
    let long_ago = (LONG_AGO.tv_sec, LONG_AGO.tv_nsec as u64);
    granted(set_times("file", omit, now));
    let [access, modification, change] = granted(times_of("file"));
    same(access, long_ago);
    holds(modification > long_ago, "the modification time is now");
    granted(set_times("file", now, LONG_AGO));
    let [access, modification, _] = granted(times_of("file"));
    holds(access > long_ago, "the access time is now");
    same(modification, long_ago);
    await_clock_after(granted(times_of("file"))[2]);
    let before = granted(times_of("file"));
    granted(set_times("file", omit, omit));
    same(granted(times_of("file")), before);
    holds(before[2] >= change, "the change time does not go back");
}

fn links_have_times_of_their_own() {
    granted(touch("file", 0o644));
    granted(symlink("file", "link"));
    let times = Timestamps { last_access: LONG_AGO, last_modification: LONG_AGO };
    granted(utimensat(CWD, "link", &times, AtFlags::SYMLINK_NOFOLLOW));
    let long_ago = (LONG_AGO.tv_sec, LONG_AGO.tv_nsec as u64);
    same(granted(times_of("link"))[1], long_ago);
    holds(granted(times_of("file"))[1] > long_ago, "the target is left alone");
    granted(utimensat(CWD, "link", &times, AtFlags::empty()));
    same(granted(times_of("file"))[1], long_ago);
}

fn utimensat_refusals() {
    granted(touch("file", 0o644));
    let bad = Timespec { tv_sec: 1, tv_nsec: 1_000_000_000 };
    refused(set_times("file", bad, LONG_AGO), Errno::INVAL);
    refused(set_times("file", LONG_AGO, Timespec { tv_sec: 1, tv_nsec: -1 }), Errno::INVAL);
    refused(set_times("missing", LONG_AGO, LONG_AGO), Errno::NOENT);
    refused(set_times("file/x", LONG_AGO, LONG_AGO), Errno::NOTDIR);
}

/// Which of modification and change time a call is to mark: `m` and `c`.
type Marks = (&'static str, &'static str, fn() -> Result<()>);

/// Sets the file's times long ago, lets the clock pass, makes the call and says which times moved.
fn marked(path: &str, call: fn() -> Result<()>) -> String {
    granted(set_times(path, LONG_AGO, LONG_AGO));
    let before = granted(times_of(path));
    await_clock_after(before[2]);
    granted(call());
    let after = granted(times_of(path));
    holds(after[2] >= before[2], "the change time does not go back");
    let moved = |which: usize, letter| (after[which] != before[which]).then_some(letter);
    [moved(1, 'm'), moved(2, 'c')].into_iter().flatten().collect()
}

fn calls_on_files_mark_times() {
    let calls: [Marks; 21] = [
        ("write", "mc", || write_all_at(open("file", OFlags::WRONLY)?, b"x", 0)),
        ("extend", "mc", || write_all_at(open("file", OFlags::WRONLY)?, &[1; 200_000], 70_000)),
        ("empty write", "", || rustix::io::pwrite(open("file", OFlags::WRONLY)?, b"", 0).map(drop)),
        ("read", "", || read_file("file").map(drop)),
        ("open", "", || open("file", OFlags::RDWR).map(drop)),
        ("open truncating", "mc", || open("file", OFlags::WRONLY | OFlags::TRUNC).map(drop)),
        ("truncate to grow", "mc", || truncate("file", 300_000)),
        ("truncate to shrink", "mc", || truncate("file", 100)),
        ("ftruncate", "mc", || ftruncate(open("file", OFlags::WRONLY)?, 70)),
        ("chmod", "c", || chmod("file", 0o600)),
        ("chown", "c", || chown("file", None, Some(crate::identity::EXTRA_GROUP))),
        ("link", "c", || link("file", "second")),
        ("unlink the other", "c", || unlink("second")),
        ("rename", "c", || rename("file", "moved").and_then(|()| rename("moved", "file"))),
        ("setxattr", "c", || setxattr("file", "user.a", b"b", XattrFlags::empty())),
        ("removexattr", "c", || rustix::fs::removexattr("file", "user.a")),
        ("fallocate", "mc", || {
            rustix::fs::fallocate(open("file", OFlags::WRONLY)?, FallocateFlags::empty(), 0, 100_000)
        }),
        ("punch", "mc", || {
            let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(open("file", OFlags::WRONLY)?, mode, 0, 50_000)
        }),
        ("truncate to grow far", "mc", || truncate("file", 40 << 20)),
        ("punch where nothing is", "mc", || {
            let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(open("file", OFlags::WRONLY)?, mode, 20 << 20, 5)
        }),
        ("fsync", "", || rustix::fs::fsync(open("file", OFlags::WRONLY)?)),
    ];
    granted(write_file("file", &[1; 1000]));
    for (call, expected, make) in calls {
        same((call, marked("file", make)), (call, expected.to_owned()));
    }
}

fn calls_that_fail_mark_nothing() {
    granted(write_file("file", b"x"));
    granted(mkdir("dir", 0o755));
    granted(touch("dir/inside", 0o644));
    let before = (granted(times_of("file")), granted(times_of("dir")), granted(times_of(".")));
    await_clock_after(before.0[2].max(before.1[2]).max(before.2[2]));
    refused(truncate("file", -1), Errno::INVAL);
    refused(link("file", "dir/inside"), Errno::EXIST);
    refused(mkdir("dir/inside", 0o755), Errno::EXIST);
    refused(rmdir("dir"), Errno::NOTEMPTY);
    refused(unlink("dir/missing"), Errno::NOENT);
    refused(rename("file", "dir"), Errno::ISDIR);
    same((granted(times_of("file")), granted(times_of("dir")), granted(times_of("."))), before);
}

fn names_mark_their_directory() {
    let calls: [Marks; 11] = [
        ("create", "mc", || touch("dir/file", 0o644)),
        ("mkdir", "mc", || mkdir("dir/inner", 0o755)),
        ("mkfifo", "mc", || mkfifo("dir/fifo", 0o644)),
        ("symlink", "mc", || symlink("x", "dir/link")),
        ("link", "mc", || link("dir/file", "dir/second")),
        ("write inside", "", || write_file("dir/file", b"x")),
        ("chmod inside", "", || chmod("dir/file", 0o600)),
        ("rename inside", "mc", || rename("dir/file", "dir/moved")),
        ("rename out", "mc", || rename("dir/moved", "moved")),
        ("unlink", "mc", || unlink("dir/second")),
        ("rmdir", "mc", || rmdir("dir/inner")),
    ];
    granted(mkdir("dir", 0o755));
    for (call, expected, make) in calls {
        same((call, marked("dir", make)), (call, expected.to_owned()));
    }
    same(("rename in", marked("dir", || rename("moved", "dir/moved"))), ("rename in", "mc".into()));
    granted(mkdir("other", 0o755));
    granted(rename("dir/moved", "moved"));
    same(("other", marked("other", || rename("moved", "other/moved"))), ("other", "mc".into()));
}

fn new_files_have_the_time_of_now() {
    granted(touch("probe", 0o644));
    let before = granted(times_of("probe"))[2];
    await_clock_after(before);
    granted(touch("file", 0o644));
    granted(mkdir("dir", 0o755));
    granted(symlink("x", "link"));
    granted(mkfifo("fifo", 0o644));
    for name in ["file", "dir", "link", "fifo"] {
        let times = granted(times_of(name));
        holds(times.iter().all(|time| *time > before), "access, modification and change time are now");
        holds(times[1] <= times[2], "modification is not later than change");
    }
}

fn new_objects_keep_the_times_they_were_shown_with() {
    for round in 0..3 {
        let name = |kind: &str| format!("{kind}{round}");
        granted(touch(&name("file"), 0o644));
        granted(touch(&name("sticky"), 0o1755));
        granted(mkdir(&name("dir"), 0o1755));
        granted(symlink("x", name("link")));
        granted(mkfifo(&name("fifo"), 0o644));
        granted(rustix::fs::mknodat(CWD, name("node"), FileType::RegularFile, Mode::from_raw_mode(0o644), 0));
        for kind in ["file", "sticky", "dir", "link", "fifo", "node"] {
            let shown = granted(times_of(&name(kind)));
            same(granted(latest_times_of(&name(kind))), shown);
        }
    }
}

/// More than a stripe: the local file systems give space back that they had put aside, which is no change of the content.
fn set_times_survive_a_writer_of_much() {
    const MUCH: usize = 20 << 20;
    let long_ago = (LONG_AGO.tv_sec, LONG_AGO.tv_nsec as u64);
    let file = granted(create("file"));
    granted(write_all_at(&file, &vec![1; MUCH], 0));
    let times = Timestamps { last_access: LONG_AGO, last_modification: LONG_AGO };
    granted(rustix::fs::futimens(&file, &times));
    same(granted(latest_times_of("file"))[1], long_ago);
    drop(file);
    same(granted(latest_times_of("file"))[1], long_ago);
    let file = granted(open("file", OFlags::RDWR));
    granted(write_all_at(&file, b"x", MUCH as u64 - 1));
    drop(file);
    holds(granted(latest_times_of("file"))[1] > long_ago, "what is written later counts");
}

fn set_times_survive_an_open_writer() {
    let file = granted(create("file"));
    granted(write_all_at(&file, &[1; 100_000], 0));
    granted(set_times("file", LONG_AGO, LONG_AGO));
    granted(rustix::fs::fsync(&file));
    drop(file);
    same(granted(latest_times_of("file"))[1], (LONG_AGO.tv_sec, LONG_AGO.tv_nsec as u64));
    let file = granted(open("file", OFlags::RDWR));
    granted(write_all_at(&file, b"x", 0));
    let times = Timestamps { last_access: LONG_AGO, last_modification: LONG_AGO };
    granted(rustix::fs::futimens(&file, &times));
    drop(file);
    same(granted(latest_times_of("file"))[1], (LONG_AGO.tv_sec, LONG_AGO.tv_nsec as u64));
}

fn utimensat_is_for_owners() {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    granted(touch("file", 0o666));
    granted(touch("closed", 0o644));
    granted(chown("file", Some(1001), Some(1001)));
    as_user(&Identity::user(1002), || {
        refused(set_times("file", LONG_AGO, LONG_AGO), Errno::PERM);
        granted(set_times("file", now, now));
        refused_with_one_of(set_times("closed", now, now), &[Errno::ACCESS]);
        refused(set_times("file", now, LONG_AGO), Errno::PERM);
    });
    as_user(&Identity::user(1001), || granted(set_times("file", LONG_AGO, LONG_AGO)));
    same(granted(times_of("file"))[1].0, LONG_AGO.tv_sec);
}
