//! What was staged in and out again is what it was.
#![allow(missing_docs)]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use forebay_stager::{Direction, PosixTree, StageOptions, What};
use proptest::prelude::*;
use support::*;

#[test]
fn one_of_everything_survives_in_and_out() {
    let place = tempfile::tempdir().unwrap();
    let [pfs, back] = ["pfs", "back"].map(|name| place.path().join(name));
    one_of_everything(&pfs);
    let instance = place.path().join("instance");
    fs::create_dir(&instance).unwrap();
    let everywhere = PosixTree::everywhere().unwrap();
    let confined = PosixTree::confined(&instance).unwrap();
    let into = forebay_stager::ListPair { source: relative(&pfs), destination: PathBuf::from("x/data/") };
    let report =
        stage_trees(&everywhere, &confined, Direction::In, What::Directory(into), &StageOptions::default())
            .unwrap();
    assert_same(&look(&pfs), &look(&instance.join("x/data")));
    assert_eq!((report.hard_links, report.symlinks, report.fifos, report.warnings_total), (2, 3, 1, 0));
    let out = forebay_stager::ListPair { source: PathBuf::from("x/data"), destination: relative(&back) };
    stage_trees(&confined, &everywhere, Direction::Out, What::Directory(out), &StageOptions::default())
        .unwrap();
    assert_same(&look(&pfs), &look(&back));
    assert!(report.bytes_moved < report.bytes, "holes were copied: {report:?}");
}

#[test]
fn staging_again_replaces_what_changed_and_merges_with_what_is_there() {
    let place = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| place.path().join(name));
    one_of_everything(&from);
    directory(Direction::In, &from, &to).unwrap();
    fs::write(from.join("script"), "new text").unwrap();
    fs::write(to.join("only here"), "kept").unwrap();
    directory(Direction::Out, &from, &to).unwrap();
    assert_eq!(fs::read(to.join("only here")).unwrap(), b"kept");
    fs::remove_file(to.join("only here")).unwrap();
    let (mut left, mut right) = (look(&from), look(&to));
    // The directory itself was there: its own attributes stay.
    left.remove(Path::new(""));
    right.remove(Path::new(""));
    assert_same(&left, &right);
    assert_eq!(temporaries(&to), Vec::<PathBuf>::new());
}

#[test]
fn a_file_takes_the_sources_name_and_missing_directories_are_made() {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("input.dat");
    fs::write(&source, "data").unwrap();
    file(Direction::In, &source, &place.path().join("new/sub/")).unwrap();
    assert_eq!(fs::read(place.path().join("new/sub/input.dat")).unwrap(), b"data");
    let instance = PosixTree::confined(&place.path().join("new")).unwrap();
    let everywhere = PosixTree::everywhere().unwrap();
    let pair = forebay_stager::ListPair { source: relative(&source), destination: PathBuf::new() };
    stage_trees(&everywhere, &instance, Direction::In, What::File(pair), &StageOptions::default()).unwrap();
    assert_eq!(fs::read(place.path().join("new/input.dat")).unwrap(), b"data");
}

#[test]
fn a_named_link_is_followed_on_both_sides() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::write(at("real"), "data").unwrap();
    fs::write(at("old"), "old").unwrap();
    std::os::unix::fs::symlink("real", at("source link")).unwrap();
    std::os::unix::fs::symlink("old", at("target link")).unwrap();
    file(Direction::Out, &at("source link"), &at("target link")).unwrap();
    assert_eq!(fs::read(at("old")).unwrap(), b"data");
    assert!(fs::symlink_metadata(at("target link")).unwrap().is_symlink());
}

#[test]
fn large_files_are_copied_in_ranges_and_stay_sparse() {
    use std::os::unix::fs::FileExt;
    let place = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| place.path().join(name));
    let source = fs::File::create(&from).unwrap();
    let data = content(3 << 20, 9);
    for offset in [0, 15 << 20, (80 << 20) - 5, (200 << 20) + 7] {
        source.write_all_at(&data, offset).unwrap();
    }
    source.set_len(300 << 20).unwrap();
    let report = file(Direction::In, &from, &to).unwrap();
    assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap(), "contents differ");
    assert!(report.bytes_moved < 16 << 20, "{report:?}");
    assert!(fs::metadata(&to).unwrap().blocks() * 512 < 16 << 20);
    fs::write(&from, content(100 << 20, 4)).unwrap();
    file(Direction::Out, &from, &to).unwrap();
    assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap(), "contents differ");
}

#[test]
fn reading_a_source_leaves_no_trace_and_its_access_time_is_kept() {
    let place = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| place.path().join(name));
    fs::create_dir(&from).unwrap();
    fs::write(from.join("f"), content(5000, 1)).unwrap();
    // An access before the last change is what a mount with `relatime` brings up to date at the next read.
    let spec = |tv_sec| rustix::fs::Timespec { tv_sec, tv_nsec: 5 };
    let times = rustix::fs::Timestamps { last_access: spec(1000), last_modification: spec(2000) };
    rustix::fs::utimensat(rustix::fs::CWD, from.join("f"), &times, rustix::fs::AtFlags::empty()).unwrap();
    directory(Direction::In, &from, &to).unwrap();
    let accessed = |path: &Path| fs::metadata(path).map(|found| (found.atime(), found.atime_nsec())).unwrap();
    assert_eq!(accessed(&from.join("f")), (1000, 5));
    assert_eq!(accessed(&to.join("f")), (1000, 5));
}

#[test]
fn a_list_goes_file_by_file() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let mut pairs = Vec::new();
    for number in 0..30 {
        fs::write(at(&format!("in{number}")), format!("{number}")).unwrap();
        pairs.push(pair(
            &at(&format!("in{number}")),
            &at(&format!("out/{}/f", number % 7)).with_extension(number.to_string()),
        ));
    }
    let report = stage_between(Direction::In, What::List { pairs }, &StageOptions::default()).unwrap();
    assert_eq!(report.files, 30);
    for number in 0..30 {
        assert_eq!(
            fs::read_to_string(at(&format!("out/{}/f.{number}", number % 7))).unwrap(),
            number.to_string()
        );
    }
}

#[test]
fn set_id_bits_go_with_the_owner_and_sockets_are_left_out_with_a_warning() {
    let place = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| place.path().join(name));
    fs::create_dir(&from).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(from.join("socket")).unwrap();
    fs::write(from.join("file"), "x").unwrap();
    fs::set_permissions(from.join("file"), fs::Permissions::from_mode(0o6755)).unwrap();
    let report = directory(Direction::In, &from, &to).unwrap();
    assert_eq!(report.warnings_total, 1);
    assert_eq!(report.warnings[0].path, from.join("socket"));
    assert!(!to.join("socket").exists());
    assert_eq!(fs::metadata(to.join("file")).unwrap().mode() & 0o7777, 0o6755);
}

/// As `cp -p` has it: what a project shares stays the project's.
#[test]
fn a_group_that_is_the_users_too_is_kept() {
    const USER: u32 = 65_534;
    const PROJECT: u32 = 60_001;
    const STRANGERS: u32 = 60_002;
    let place = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| place.path().join(name));
    fs::create_dir_all(from.join("shared")).unwrap();
    let give = |name: &str, uid: u32, gid: u32, mode: u32| {
        let path = from.join(name);
        if name != "shared" {
            fs::write(&path, "x").unwrap();
        }
        std::os::unix::fs::chown(&path, Some(uid), Some(gid)).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    give("shared", USER, PROJECT, 0o2770);
    give("shared/file", USER, PROJECT, 0o640);
    give("set-id", USER, PROJECT, 0o2755);
    give("colleagues", 60_000, PROJECT, 0o664);
    give("colleagues-set-id", 60_000, PROJECT, 0o2755);
    give("strangers", USER, STRANGERS, 0o644);
    std::os::unix::fs::symlink("shared", from.join("link")).unwrap();
    std::os::unix::fs::lchown(from.join("link"), Some(USER), Some(PROJECT)).unwrap();
    std::os::unix::fs::chown(place.path(), Some(USER), Some(USER)).unwrap();
    let report = std::thread::scope(|scope| {
        let as_user = || {
            // Threads that this one starts are who it is then; the other tests stay root.
            rustix::thread::set_thread_groups(&[rustix::process::Gid::from_raw(PROJECT)]).unwrap();
            rustix::thread::set_thread_gid(rustix::process::Gid::from_raw(USER)).unwrap();
            rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(USER)).unwrap();
            directory(Direction::Out, &from, &to).unwrap()
        };
        scope.spawn(as_user).join().unwrap()
    });
    let seen = |name: &str| {
        let found = fs::symlink_metadata(to.join(name)).unwrap();
        (found.uid(), found.gid(), found.mode() & 0o7777)
    };
    assert_eq!(seen("shared"), (USER, PROJECT, 0o2770));
    assert_eq!(seen("shared/file"), (USER, PROJECT, 0o640));
    assert_eq!(seen("set-id"), (USER, PROJECT, 0o2755));
    assert_eq!(seen("colleagues"), (USER, PROJECT, 0o664));
    assert_eq!(seen("colleagues-set-id"), (USER, PROJECT, 0o755), "it would run as another user's program");
    assert_eq!(seen("strangers"), (USER, USER, 0o644));
    assert_eq!(seen("link").1, PROJECT);
    assert_eq!(report.warnings_total, 1, "{report:?}");
}

#[test]
fn deep_trees_do_not_use_up_descriptors() {
    let place = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| place.path().join(name));
    let mut deep = from.clone();
    for number in 0..400 {
        deep.push(format!("d{number}"));
    }
    fs::create_dir_all(&deep).unwrap();
    for below in deep.ancestors().take(300) {
        fs::write(below.join("f"), "x").unwrap();
        fs::create_dir(below.join("sibling")).unwrap();
    }
    directory(Direction::In, &from, &to).unwrap();
    assert_same(&look(&from), &look(&to));
}

/// Part of a random tree.
#[derive(Debug, Clone)]
enum Item {
    File { content: Vec<u8>, mode: u32, xattr: Option<Vec<u8>> },
    Sparse { at: u32, length: u16, tail: u32 },
    Link(Vec<u8>),
    HardLink(usize),
    Fifo,
    Directory { mode: u32, items: Vec<(Vec<u8>, Item)> },
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_map(|byte| if byte == 0 || byte == b'/' { b'_' } else { byte });
    proptest::collection::vec(byte, 1..24)
        .prop_map(|name| if name.iter().all(|b| *b == b'.') { b"dots".to_vec() } else { name })
}

fn item() -> impl Strategy<Value = Item> {
    let leaf = prop_oneof![
        4 => (proptest::collection::vec(any::<u8>(), 0..5000), 0u32..0o1000, proptest::option::of(proptest::collection::vec(any::<u8>(), 0..100)))
            .prop_map(|(content, mode, xattr)| Item::File { content, mode, xattr }),
        1 => (0u32..4_000_000, 1u16.., 0u32..4_000_000).prop_map(|(at, length, tail)| Item::Sparse { at, length, tail }),
        1 => proptest::collection::vec(1u8.., 1..60).prop_map(Item::Link),
        2 => any::<usize>().prop_map(Item::HardLink),
        1 => Just(Item::Fifo),
    ];
    leaf.prop_recursive(4, 60, 12, |inner| {
        (0u32..0o1000, proptest::collection::vec((name(), inner), 0..12))
            .prop_map(|(mode, items)| Item::Directory { mode, items })
    })
}

fn build(top: &Path, items: &[(Vec<u8>, Item)], files: &mut Vec<PathBuf>) {
    use std::os::unix::ffi::OsStringExt;
    use std::os::unix::fs::FileExt;
    for (number, (name, item)) in items.iter().enumerate() {
        let path = top.join(std::ffi::OsString::from_vec(name.clone()));
        if fs::symlink_metadata(&path).is_ok() {
            continue;
        }
        match item {
            Item::File { content, mode, xattr } => {
                fs::write(&path, content).unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
                if let Some(value) = xattr {
                    set_xattr(&path, "user.any", value);
                }
                files.push(path.clone());
            }
            Item::Sparse { at, length, tail } => {
                let file = fs::File::create(&path).unwrap();
                file.write_all_at(&content(usize::from(*length), 1), u64::from(*at)).unwrap();
                file.set_len(u64::from(*at) + u64::from(*length) + u64::from(*tail)).unwrap();
                files.push(path.clone());
            }
            Item::Link(text) => {
                std::os::unix::fs::symlink(std::ffi::OsString::from_vec(text.clone()), &path).unwrap();
            }
            Item::HardLink(which) if !files.is_empty() => {
                fs::hard_link(&files[which % files.len()], &path).unwrap()
            }
            Item::HardLink(_) => continue,
            Item::Fifo => make_fifo(&path, 0o600),
            Item::Directory { mode, items } => {
                fs::create_dir(&path).unwrap();
                build(&path, items, files);
                fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
            }
        }
        set_mtime(&path, -5 + i64::try_from(number).unwrap() * 100_000_000, 999_999_999);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn any_tree_survives_in_and_out(items in proptest::collection::vec((name(), item()), 0..12)) {
        let place = tempfile::tempdir().unwrap();
        let [from, inside, back] = ["from", "inside", "back"].map(|name| place.path().join(name));
        fs::create_dir(&from).unwrap();
        build(&from, &items, &mut Vec::new());
        let before = look(&from);
        directory_cached(Direction::In, &from, &inside).unwrap();
        directory_cached(Direction::Out, &inside, &back).unwrap();
        assert_same(&before, &look(&back));
        assert_same(&before, &look(&from));
    }
}
