//! Who may do what: owner, group, other, supplementary groups, the sticky bit.

use super::check::{granted, holds, refused, refused_with_one_of, same};
use super::child::as_user;
use super::files::*;
use super::{Case, case};
use crate::identity::Identity;
use rustix::fs::{Access, OFlags, access, rename, rmdir, unlink};
use rustix::io::Errno;

pub(super) const CASES: &[Case] = &[
    case!(Root each_class_has_its_own_bits),
    case!(Root supplementary_groups_count),
    case!(Root directories_need_search_and_write),
    case!(Root the_sticky_bit_protects_names),
    case!(Root new_files_belong_to_their_maker),
    case!(Root link_and_rename_need_write_on_both_sides),
    case!(Root root_passes_everywhere),
    case!(User a_user_is_held_to_own_bits),
    case!(User unsearchable_directories),
];

/// Opens for reading and for writing, and says which worked: `r`, `w`.
fn opens(path: &str) -> String {
    let works = |flags, letter| open(path, flags).is_ok().then_some(letter);
    [works(OFlags::RDONLY, 'r'), works(OFlags::WRONLY, 'w')].into_iter().flatten().collect()
}

fn each_class_has_its_own_bits() {
    granted(write_file("file", b"x"));
    granted(chown("file", Some(1001), Some(1002)));
    let owner = Identity { uid: 1001, gid: 1009, groups: vec![1002] };
    let group = Identity { uid: 1003, gid: 1002, groups: vec![] };
    let other = Identity::user(1004);
    let table = [
        (0o600, "rw", "", ""),
        (0o060, "", "rw", ""),
        (0o006, "", "", "rw"),
        (0o640, "rw", "r", ""),
        (0o424, "r", "w", "r"),
        (0o000, "", "", ""),
        (0o066, "", "rw", "rw"),
        (0o606, "rw", "", "rw"),
    ];
    for (mode, for_owner, for_group, for_other) in table {
        granted(chmod("file", mode));
        for (identity, expected) in [(&owner, for_owner), (&group, for_group), (&other, for_other)] {
            as_user(identity, || same((mode, opens("file")), (mode, expected.to_owned())));
        }
    }
    granted(chmod("file", 0o750));
    as_user(&owner, || granted(access("file", Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK)));
    as_user(&group, || {
        granted(access("file", Access::READ_OK | Access::EXEC_OK));
        refused(access("file", Access::WRITE_OK), Errno::ACCESS);
    });
    as_user(&other, || refused(access("file", Access::READ_OK), Errno::ACCESS));
}

fn supplementary_groups_count() {
    granted(write_file("file", b"x"));
    granted(chown("file", Some(1001), Some(1050)));
    granted(chmod("file", 0o640));
    let many = Identity { uid: 1002, gid: 1002, groups: (1020..1060).collect() };
    as_user(&many, || same(opens("file"), "r"));
    as_user(&Identity { groups: (1020..1050).collect(), ..many }, || same(opens("file"), ""));
}

fn directories_need_search_and_write() {
    granted(mkdir("dir", 0o755));
    granted(write_file("dir/file", b"x"));
    granted(chmod("dir/file", 0o666));
    let other = Identity::user(1002);
    let try_mode = |mode, work: fn()| {
        granted(chmod("dir", mode));
        as_user(&other, work);
    };
    try_mode(0o755, || {
        granted(read_file("dir/file"));
        refused(touch("dir/new", 0o644), Errno::ACCESS);
        refused(mkdir("dir/new", 0o755), Errno::ACCESS);
        refused(unlink("dir/file"), Errno::ACCESS);
        refused(rename("dir/file", "dir/new"), Errno::ACCESS);
    });
    // Search without read: names can be used but not listed.
    try_mode(0o711, || {
        granted(read_file("dir/file"));
        refused(open("dir", OFlags::RDONLY), Errno::ACCESS);
        refused(lstat("dir/missing"), Errno::NOENT);
    });
    // Read without search: names can be listed but not used.
    try_mode(0o744, || {
        let names = super::reading_directories::names_in(granted(open("dir", OFlags::RDONLY)));
        same(granted(names), ["file"]);
        refused(lstat("dir/file"), Errno::ACCESS);
        refused(lstat("dir/missing"), Errno::ACCESS);
    });
    // Write without search is worth nothing.
    try_mode(0o722, || refused(touch("dir/new", 0o644), Errno::ACCESS));
    try_mode(0o777, || {
        granted(touch("dir/new", 0o644));
        granted(unlink("dir/file"));
    });
}

fn the_sticky_bit_protects_names() {
    granted(mkdir("dir", 0o777));
    granted(chmod("dir", 0o1777));
    granted(chown("dir", Some(1001), Some(1001)));
    for name in ["a", "b", "c", "d"] {
        granted(touch(&format!("dir/{name}"), 0o666));
        granted(chown(&format!("dir/{name}"), Some(1002), Some(1002)));
    }
    granted(mkdir("dir/inner", 0o777));
    granted(chown("dir/inner", Some(1002), Some(1002)));
    as_user(&Identity::user(1003), || {
        refused(unlink("dir/a"), Errno::PERM);
        refused(rename("dir/a", "dir/x"), Errno::PERM);
        refused_with_one_of(rename("dir/a", "moved"), &[Errno::ACCESS, Errno::PERM]);
        refused(rmdir("dir/inner"), Errno::PERM);
        granted(touch("dir/mine", 0o644));
        refused(rename("dir/mine", "dir/a"), Errno::PERM);
        granted(unlink("dir/mine"));
    });
    as_user(&Identity::user(1002), || granted(unlink("dir/a")));
    as_user(&Identity::user(1001), || granted(unlink("dir/b")));
    granted(rename("dir/c", "dir/e"));
    refused(lstat("dir/a"), Errno::NOENT);
}

fn new_files_belong_to_their_maker() {
    granted(mkdir("dir", 0o777));
    as_user(&Identity { uid: 1002, gid: 1005, groups: vec![] }, || {
        granted(write_file("dir/file", &[1; 200_000]));
        granted(mkdir("dir/inner", 0o700));
        granted(rustix::fs::symlink("x", "dir/link"));
        granted(mkfifo("dir/fifo", 0o600));
        granted(rustix::fs::link("dir/file", "dir/second"));
        same(granted(read_file("dir/file")).len(), 200_000);
    });
    for name in ["file", "inner", "link", "fifo", "second"] {
        same(granted(owner_of(&format!("dir/{name}"))), (1002, 1005));
    }
    granted(mkdir("group", 0o777));
    granted(chown("group", None, Some(1006)));
    granted(chmod("group", 0o2777));
    as_user(&Identity { uid: 1002, gid: 1005, groups: vec![] }, || {
        granted(touch("group/file", 0o2755));
        granted(mkdir("group/inner", 0o755));
    });
    same(granted(owner_of("group/file")), (1002, 1006));
    same(granted(owner_of("group/inner")), (1002, 1006));
    same(granted(mode_of("group/inner")), 0o2755);
    // A maker outside the group does not get a set-group-id file of it.
    same(granted(mode_of("group/file")), 0o755);
}

fn link_and_rename_need_write_on_both_sides() {
    for (name, mode) in [("open", 0o777), ("closed", 0o755)] {
        granted(mkdir(name, mode));
        granted(touch(&format!("{name}/file"), 0o666));
    }
    as_user(&Identity::user(1002), || {
        refused(rename("open/file", "closed/new"), Errno::ACCESS);
        refused(rename("closed/file", "open/new"), Errno::ACCESS);
        refused_with_one_of(rustix::fs::link("open/file", "closed/new"), &[Errno::ACCESS]);
        granted(rename("open/file", "open/new"));
    });
    // Moving a directory elsewhere changes its "..", so it must be writable for its mover.
    granted(mkdir("open/dir", 0o755));
    granted(mkdir("other", 0o777));
    as_user(&Identity::user(1002), || {
        refused(rename("open/dir", "other/dir"), Errno::ACCESS);
        granted(rename("open/dir", "open/renamed"));
    });
}

fn root_passes_everywhere() {
    granted(mkdir("dir", 0));
    granted(touch("dir/file", 0));
    granted(chown("dir/file", Some(1001), Some(1001)));
    granted(chown("dir", Some(1001), Some(1001)));
    granted(write_file("dir/file", b"x"));
    granted(access("dir/file", Access::READ_OK | Access::WRITE_OK));
    refused(access("dir/file", Access::EXEC_OK), Errno::ACCESS);
    granted(unlink("dir/file"));
}

fn a_user_is_held_to_own_bits() {
    granted(write_file("file", b"x"));
    for (mode, expected) in [(0o400, "r"), (0o200, "w"), (0o000, ""), (0o600, "rw"), (0o066, "")] {
        granted(chmod("file", mode));
        same((mode, opens("file")), (mode, expected.to_owned()));
    }
    refused(access("file", Access::EXEC_OK), Errno::ACCESS);
}

fn unsearchable_directories() {
    granted(mkdir("dir", 0o755));
    granted(write_file("dir/file", b"x"));
    granted(chmod("dir", 0o600));
    refused(lstat("dir/file"), Errno::ACCESS);
    refused(read_file("dir/file"), Errno::ACCESS);
    refused(touch("dir/new", 0o644), Errno::ACCESS);
    granted(chmod("dir", 0o500));
    refused(touch("dir/new", 0o644), Errno::ACCESS);
    refused(unlink("dir/file"), Errno::ACCESS);
    granted(chmod("dir", 0o700));
    holds(granted(read_file("dir/file")) == b"x", "the file came to no harm");
}
