//! chmod, chown, and when suid and sgid are taken away.

use super::check::{granted, refused, refused_with_one_of, same};
use super::child::as_user;
use super::files::*;
use super::{Case, case};
use crate::identity::{EXTRA_GROUP, Identity};
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, chmodat, fallocate, symlink};
use rustix::io::Errno;

pub(super) const CASES: &[Case] = &[
    case!(Anyone chmod_sets_every_bit),
    case!(Anyone chmod_refusals),
    case!(Anyone chown_to_oneself),
    case!(Anyone chown_to_nobody_takes_suid_and_sgid),
    case!(Root chown_to_nobody_is_for_the_owner_of_such_bits),
    case!(Root chown_gives_away),
    case!(Root chown_takes_suid_and_sgid),
    case!(Root only_owner_and_root_change_modes),
    case!(Root writing_by_others_takes_suid),
    case!(Root sgid_needs_the_group),
    case!(User own_writes_take_suid),
    case!(User writes_through_an_older_descriptor_take_suid),
    case!(User a_user_gives_nothing_away),
];

fn chmod_sets_every_bit() {
    granted(touch("file", 0o644));
    let file = granted(open("file", OFlags::RDWR));
    granted(mkdir("dir", 0o755));
    for mode in [0o000, 0o777, 0o421, 0o4755, 0o2755, 0o1644, 0o6711, 0o644] {
        granted(chmod("file", mode));
        same(granted(mode_of("file")), mode);
        granted(rustix::fs::fchmod(&file, Mode::from_raw_mode(mode ^ 0o111)));
        same(granted(mode_of("file")), mode ^ 0o111);
        granted(chmod("dir", mode | 0o700));
        same(granted(mode_of("dir")), mode | 0o700);
    }
    granted(symlink("file", "link"));
    granted(chmod("link", 0o600));
    same(granted(mode_of("file")), 0o600);
    granted(chmodat(CWD, "dir", Mode::from_raw_mode(0o711), AtFlags::empty()));
    same(granted(mode_of("dir")), 0o711);
}

fn chmod_refusals() {
    granted(touch("file", 0o644));
    granted(symlink("nowhere", "dangling"));
    refused(chmod("missing", 0o644), Errno::NOENT);
    refused(chmod("dangling", 0o644), Errno::NOENT);
    refused(chmod("file/x", 0o644), Errno::NOTDIR);
    refused(chmod("n".repeat(256).as_str(), 0o644), Errno::NAMETOOLONG);
}

fn chown_to_oneself() {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    granted(touch("file", 0o644));
    same(granted(owner_of("file")), (uid, gid));
    granted(chown("file", Some(uid), Some(EXTRA_GROUP)));
    same(granted(owner_of("file")), (uid, EXTRA_GROUP));
    granted(chown("file", None, None));
    same(granted(owner_of("file")), (uid, EXTRA_GROUP));
    granted(chown("file", None, Some(gid)));
    same(granted(owner_of("file")), (uid, gid));
    granted(symlink("file", "link"));
    granted(lchown("link", None, Some(EXTRA_GROUP)));
    same(granted(owner_of("file")), (uid, gid));
    same(granted(owner_of("link")), (uid, EXTRA_GROUP));
    granted(chown("link", None, Some(EXTRA_GROUP)));
    same(granted(owner_of("file")), (uid, EXTRA_GROUP));
    refused(chown("missing", None, Some(gid)), Errno::NOENT);
    refused(chown("file/x", None, Some(gid)), Errno::NOTDIR);
}

fn chown_to_nobody_takes_suid_and_sgid() {
    // Linux: a chown that changes neither owner nor group takes the bits all the same.
    for mode in [0o4755, 0o2755, 0o6755] {
        granted(write_file("file", b"x"));
        granted(chmod("file", mode));
        granted(chown("file", None, None));
        same(granted(mode_of("file")), 0o755);
    }
    granted(mkfifo("fifo", 0o644));
    granted(chmod("fifo", 0o6755));
    granted(chown("fifo", None, None));
    same(granted(mode_of("fifo")), 0o755);
    granted(mkdir("dir", 0o755));
    granted(chmod("dir", 0o2755));
    granted(chown("dir", None, None));
    same(granted(mode_of("dir")), 0o2755);
}

fn chown_to_nobody_is_for_the_owner_of_such_bits() {
    for mode in [0o4755, 0o2755, 0o6777] {
        granted(write_file("file", b"x"));
        granted(chmod("file", mode));
        as_user(&Identity::user(1001), || refused(chown("file", None, None), Errno::PERM));
        same(granted(mode_of("file")), mode);
    }
    granted(chmod("file", 0o755));
    as_user(&Identity::user(1001), || granted(chown("file", None, None)));
}

fn chown_gives_away() {
    granted(touch("file", 0o640));
    granted(mkdir("dir", 0o750));
    granted(mkfifo("fifo", 0o640));
    granted(symlink("nowhere", "link"));
    for name in ["file", "dir", "fifo", "link"] {
        granted(lchown(name, Some(1001), Some(1002)));
        same(granted(owner_of(name)), (1001, 1002));
        granted(lchown(name, Some(1003), None));
        same(granted(owner_of(name)), (1003, 1002));
        granted(lchown(name, None, Some(4_000_000_000)));
        same(granted(owner_of(name)), (1003, 4_000_000_000));
    }
    let file = granted(open("file", OFlags::RDONLY));
    granted(rustix::fs::fchown(&file, Some(rustix::fs::Uid::from_raw(7)), None));
    same(granted(owner_of("file")), (7, 4_000_000_000));
}

fn chown_takes_suid_and_sgid() {
    // Linux: a chown of an executable takes suid and sgid, whoever does it; sgid without group execute is a mark of
    // mandatory locking and stays; directories keep theirs.
    for (before, after) in [(0o6755, 0o755), (0o4700, 0o700), (0o2755, 0o755), (0o2744, 0o2744)] {
        let name = format!("f{before:o}");
        granted(touch(&name, 0o644));
        granted(chown(&name, Some(1001), Some(1001)));
        granted(chmod(&name, before));
        granted(chown(&name, Some(1002), Some(1002)));
        same(granted(mode_of(&name)), after);
    }
    granted(mkdir("dir", 0o755));
    granted(chmod("dir", 0o6755));
    granted(chown("dir", Some(1001), Some(1001)));
    same(granted(mode_of("dir")), 0o6755);
}

fn only_owner_and_root_change_modes() {
    granted(touch("file", 0o666));
    granted(chown("file", Some(1001), Some(1001)));
    as_user(&Identity::user(1002), || {
        refused(chmod("file", 0o777), Errno::PERM);
        refused(chown("file", Some(1002), None), Errno::PERM);
        refused(chown("file", None, Some(1002)), Errno::PERM);
    });
    let member = Identity { uid: 1001, gid: 1001, groups: vec![1005] };
    as_user(&member, || {
        granted(chmod("file", 0o600));
        granted(chown("file", None, Some(1005)));
        refused(chown("file", None, Some(1006)), Errno::PERM);
        refused(chown("file", Some(1002), None), Errno::PERM);
        granted(chown("file", Some(1001), Some(1001)));
    });
    same(granted(mode_of("file")), 0o600);
    same(granted(owner_of("file")), (1001, 1001));
}

type Change = (&'static str, fn() -> rustix::io::Result<()>);

/// Changes of content, each of which takes suid and sgid when somebody without privilege makes it.
const CONTENT_CHANGES: [Change; 5] = [
    ("write", || write_all_at(open("file", OFlags::WRONLY)?, b"x", 0)),
    ("append", || rustix::io::write(open("file", OFlags::WRONLY | OFlags::APPEND)?, b"x").map(drop)),
    ("truncate", || truncate("file", 10)),
    ("ftruncate", || ftruncate(open("file", OFlags::WRONLY)?, 5)),
    ("open truncating", || open("file", OFlags::WRONLY | OFlags::TRUNC).map(drop)),
];

fn suid_after(change: &Change, mode: u32) -> (&'static str, u32) {
    granted(write_file("file", &[1; 1000]));
    granted(chmod("file", mode));
    granted(change.1());
    (change.0, granted(mode_of("file")))
}

fn own_writes_take_suid() {
    for change in &CONTENT_CHANGES {
        same(suid_after(change, 0o4755), (change.0, 0o755));
        same(suid_after(change, 0o2755), (change.0, 0o755));
        same(suid_after(change, 0o6755), (change.0, 0o755));
    }
    granted(write_file("file", &[1; 1000]));
    granted(chmod("file", 0o4755));
    let file = granted(open("file", OFlags::RDWR));
    granted(fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, 500));
    same(granted(mode_of("file")), 0o755);
}

fn writes_through_an_older_descriptor_take_suid() {
    // The bits come after the open, so nothing that is decided at open can take them.
    for mode in [0o4755, 0o2755, 0o6755, 0o4644] {
        let file = granted(create("file"));
        granted(write_all_at(&file, &[1; 100_000], 0));
        granted(chmod("file", mode));
        same(granted(mode_of("file")), mode);
        granted(write_all_at(&file, b"x", 70_000));
        same(granted(mode_of("file")), mode & 0o777);
        granted(chmod("file", mode));
        granted(ftruncate(&file, 10));
        same(granted(mode_of("file")), mode & 0o777);
    }
}

fn writing_by_others_takes_suid() {
    // Root keeps them: it has the capability for it.
    for change in &CONTENT_CHANGES {
        same(suid_after(change, 0o4755), (change.0, 0o4755));
    }
    granted(write_file("file", &[1; 1000]));
    granted(chown("file", Some(1001), Some(1001)));
    for change in &CONTENT_CHANGES {
        granted(chmod("file", 0o6777));
        as_user(&Identity::user(1002), || granted(change.1()));
        same((change.0, granted(mode_of("file"))), (change.0, 0o777));
    }
}

fn sgid_needs_the_group() {
    granted(touch("file", 0o644));
    granted(chown("file", Some(1001), Some(1005)));
    as_user(&Identity::user(1001), || {
        granted(chmod("file", 0o2755));
        same(granted(mode_of("file")), 0o755);
    });
    as_user(&Identity { uid: 1001, gid: 1001, groups: vec![1005] }, || {
        granted(chmod("file", 0o2755));
        same(granted(mode_of("file")), 0o2755);
    });
}

fn a_user_gives_nothing_away() {
    granted(touch("file", 0o644));
    refused(chown("file", Some(0), None), Errno::PERM);
    refused(chown("file", None, Some(0)), Errno::PERM);
    granted(chmod("file", 0o4755));
    granted(chown("file", None, Some(EXTRA_GROUP)));
    same(granted(mode_of("file")), 0o755);
    refused_with_one_of(chmod("/", 0o777), &[Errno::PERM, Errno::ROFS]);
}
