//! Extended attributes.

use super::check::{granted, holds, refused, refused_with_one_of, same};
use super::child::as_user;
use super::files::*;
use super::{Case, case};
use crate::identity::Identity;
use rustix::fs::{
    OFlags, XattrFlags, fgetxattr, fsetxattr, getxattr, getxattr_query, lgetxattr, listxattr,
    listxattr_query, lsetxattr, removexattr, setxattr, symlink,
};
use rustix::io::{Errno, Result};

pub(super) const CASES: &[Case] = &[
    case!(Anyone set_get_list_remove),
    case!(Anyone create_and_replace),
    case!(Anyone sizes_are_told),
    case!(Anyone big_values),
    case!(Anyone many_names),
    case!(Anyone any_bytes),
    case!(Anyone directories_have_them_links_do_not),
    case!(Anyone refusals),
    case!(Anyone they_follow_the_file),
    case!(Root trusted_is_for_root),
    case!(Root other_users_need_permission),
    case!(User a_read_only_file_of_its_own),
];

const NONE: XattrFlags = XattrFlags::empty();

fn get(path: &str, name: &str) -> Result<Vec<u8>> {
    let mut buffer = vec![0; 65_536];
    let count = getxattr(path, name, &mut buffer[..])?;
    buffer.truncate(count);
    Ok(buffer)
}

/// The names of the user's own namespace, sorted.
fn list(path: &str) -> Result<Vec<String>> {
    let mut buffer = vec![0; 65_536];
    let count = listxattr(path, &mut buffer[..])?;
    let names = buffer[..count].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    let names = names.map(|name| String::from_utf8_lossy(name).into_owned());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("user.")).collect();
    names.sort();
    Ok(names)
}

fn set_get_list_remove() {
    granted(write_file("file", &[1; 100_000]));
    same(granted(list("file")), Vec::<String>::new());
    granted(setxattr("file", "user.one", b"1", NONE));
    granted(setxattr("file", "user.two", b"", NONE));
    same(granted(get("file", "user.one")), b"1");
    same(granted(get("file", "user.two")), b"");
    same(granted(list("file")), ["user.one", "user.two"]);
    granted(setxattr("file", "user.one", b"longer than before", NONE));
    same(granted(get("file", "user.one")), b"longer than before");
    granted(removexattr("file", "user.one"));
    refused(get("file", "user.one"), Errno::NODATA);
    refused(removexattr("file", "user.one"), Errno::NODATA);
    same(granted(list("file")), ["user.two"]);
    let file = granted(open("file", OFlags::RDONLY));
    granted(fsetxattr(&file, "user.three", b"3", NONE));
    let mut buffer = [0; 10];
    same(granted(fgetxattr(&file, "user.three", &mut buffer[..])), 1);
    same(granted(read_file("file")).len(), 100_000);
}

fn create_and_replace() {
    granted(touch("file", 0o644));
    refused(setxattr("file", "user.x", b"1", XattrFlags::REPLACE), Errno::NODATA);
    granted(setxattr("file", "user.x", b"1", XattrFlags::CREATE));
    refused(setxattr("file", "user.x", b"2", XattrFlags::CREATE), Errno::EXIST);
    same(granted(get("file", "user.x")), b"1");
    granted(setxattr("file", "user.x", b"3", XattrFlags::REPLACE));
    same(granted(get("file", "user.x")), b"3");
}

fn sizes_are_told() {
    granted(touch("file", 0o644));
    granted(setxattr("file", "user.x", b"12345", NONE));
    same(granted(getxattr_query("file", "user.x")), 5);
    let mut small = [0; 4];
    refused(getxattr("file", "user.x", &mut small[..]), Errno::RANGE);
    let mut exact = [0; 5];
    same(granted(getxattr("file", "user.x", &mut exact[..])), 5);
    let all = granted(listxattr_query("file"));
    holds(all > "user.x".len(), "the length of the list");
    refused(listxattr("file", &mut small[..]), Errno::RANGE);
}

fn big_values() {
    granted(touch("file", 0o644));
    for size in [255usize, 1000, 2000, 3000] {
        let value = vec![size as u8; size];
        granted(setxattr("file", "user.big", &value, NONE));
        holds(granted(get("file", "user.big")) == value, "a big value comes back");
    }
    // XFS takes 64 KiB, ext4 what fits in a block; nobody may cut a value.
    let value = vec![7; 65_536];
    match setxattr("file", "user.big", &value, NONE) {
        Ok(()) => holds(granted(get("file", "user.big")) == value, "the biggest value comes back"),
        Err(error) => {
            holds(matches!(error, Errno::NOSPC | Errno::TOOBIG), "too big, in one word or the other");
            same(granted(get("file", "user.big")).len(), 3000);
        }
    }
    refused(setxattr("file", "user.big", &vec![7; 65_537], NONE), Errno::TOOBIG);
}

fn many_names() {
    granted(mkdir("dir", 0o755));
    let names: Vec<String> = (0..60).map(|number| format!("user.name-{number:03}")).collect();
    for name in &names {
        granted(setxattr("dir", name.as_str(), name.as_bytes(), NONE));
    }
    same(granted(list("dir")), names.clone());
    for name in &names {
        same(granted(get("dir", name)), name.as_bytes());
        granted(removexattr("dir", name.as_str()));
    }
    same(granted(list("dir")), Vec::<String>::new());
}

fn any_bytes() {
    granted(touch("file", 0o644));
    let value: Vec<u8> = (0..=255).collect();
    granted(setxattr("file", "user.bytes", &value, NONE));
    same(granted(get("file", "user.bytes")), value);
    let longest = format!("user.{}", "n".repeat(250));
    granted(setxattr("file", longest.as_str(), b"x", NONE));
    same(granted(get("file", &longest)), b"x");
    refused_with_one_of(
        setxattr("file", format!("{longest}n").as_str(), b"x", NONE),
        &[Errno::RANGE, Errno::NAMETOOLONG],
    );
    granted(setxattr("file", "user.ünï.日本", b"x", NONE));
    granted(get("file", "user.ünï.日本"));
}

fn directories_have_them_links_do_not() {
    granted(mkdir("dir", 0o755));
    granted(setxattr("dir", "user.x", b"on a directory", NONE));
    granted(symlink("dir", "link"));
    same(granted(get("link", "user.x")), b"on a directory");
    refused(lsetxattr("link", "user.x", b"x", NONE), Errno::PERM);
    let mut buffer = [0; 10];
    refused_with_one_of(lgetxattr("link", "user.x", &mut buffer[..]), &[Errno::PERM, Errno::NODATA]);
    granted(mkfifo("fifo", 0o644));
    refused(setxattr("fifo", "user.x", b"x", NONE), Errno::PERM);
}

fn refusals() {
    granted(touch("file", 0o644));
    refused(setxattr("missing", "user.x", b"x", NONE), Errno::NOENT);
    refused(setxattr("file/x", "user.x", b"x", NONE), Errno::NOTDIR);
    refused(get("file", "user.missing"), Errno::NODATA);
    refused(setxattr("file", "nonsense.x", b"x", NONE), Errno::OPNOTSUPP);
    refused_with_one_of(setxattr("file", "user.", b"x", NONE), &[Errno::INVAL, Errno::RANGE]);
    refused(setxattr("file", "", b"x", NONE), Errno::RANGE);
}

fn they_follow_the_file() {
    granted(write_file("file", b"x"));
    granted(setxattr("file", "user.x", b"kept", NONE));
    granted(rustix::fs::link("file", "second"));
    granted(rustix::fs::rename("file", "moved"));
    granted(truncate("moved", 0));
    granted(write_file("second", &[1; 300_000]));
    same(granted(get("moved", "user.x")), b"kept");
    same(granted(get("second", "user.x")), b"kept");
    granted(rustix::fs::unlink("moved"));
    granted(rustix::fs::unlink("second"));
    granted(touch("file", 0o644));
    refused(get("file", "user.x"), Errno::NODATA);
}

fn trusted_is_for_root() {
    granted(touch("file", 0o666));
    granted(setxattr("file", "trusted.x", b"secret", NONE));
    same(granted(get("file", "trusted.x")), b"secret");
    as_user(&Identity::user(1002), || {
        refused(get("file", "trusted.x"), Errno::NODATA);
        refused(setxattr("file", "trusted.y", b"x", NONE), Errno::PERM);
    });
}

fn other_users_need_permission() {
    granted(touch("file", 0o644));
    granted(setxattr("file", "user.x", b"1", NONE));
    as_user(&Identity::user(1002), || {
        same(granted(get("file", "user.x")), b"1");
        refused(setxattr("file", "user.x", b"2", NONE), Errno::ACCESS);
        refused(removexattr("file", "user.x"), Errno::ACCESS);
    });
    granted(chmod("file", 0o620));
    as_user(&Identity::user(1002), || refused(get("file", "user.x"), Errno::ACCESS));
    granted(chmod("file", 0o666));
    as_user(&Identity::user(1002), || granted(setxattr("file", "user.x", b"2", NONE)));
    same(granted(get("file", "user.x")), b"2");
}

fn a_read_only_file_of_its_own() {
    granted(touch("file", 0o444));
    refused(setxattr("file", "user.x", b"1", NONE), Errno::ACCESS);
    granted(chmod("file", 0o644));
    granted(setxattr("file", "user.x", b"1", NONE));
    granted(chmod("file", 0));
    refused(get("file", "user.x"), Errno::ACCESS);
}
