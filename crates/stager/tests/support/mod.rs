//! What the tests of staging share: trees to copy, an oracle that looks at everything, a tree that fails on demand.
#![allow(dead_code, missing_docs)]

pub mod faulty;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use forebay_stager::{
    CancelToken, Direction, ListPair, PosixTree, StageFailure, StageOptions, StageReport, StageRequest, Tree,
    What, stage,
};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};

/// A path as the `everywhere` tree wants it.
pub fn relative(path: &Path) -> PathBuf {
    PosixTree::path_everywhere(path)
}

pub fn pair(source: &Path, destination: &Path) -> ListPair {
    ListPair { source: relative(source), destination: relative(destination) }
}

/// Stages between two places of this machine.
pub fn stage_between(
    direction: Direction,
    what: What,
    options: &StageOptions,
) -> Result<StageReport, StageFailure> {
    let tree = PosixTree::everywhere().expect("the root directory");
    stage_trees(&tree, &tree, direction, what, options)
}

pub fn stage_trees(
    source: &dyn Tree,
    destination: &dyn Tree,
    direction: Direction,
    what: What,
    options: &StageOptions,
) -> Result<StageReport, StageFailure> {
    let request = StageRequest { direction, source, destination, what };
    stage(&request, options, &|_| {}, &CancelToken::new())
}

pub fn directory(direction: Direction, from: &Path, to: &Path) -> Result<StageReport, StageFailure> {
    stage_between(direction, What::Directory(pair(from, to)), &StageOptions::default())
}

/// Without waiting for the disk, for tests that run hundreds of stages.
pub fn directory_cached(direction: Direction, from: &Path, to: &Path) -> Result<StageReport, StageFailure> {
    let options = StageOptions { durable: Some(false), ..StageOptions::default() };
    stage_between(direction, What::Directory(pair(from, to)), &options)
}

pub fn file(direction: Direction, from: &Path, to: &Path) -> Result<StageReport, StageFailure> {
    stage_between(direction, What::File(pair(from, to)), &StageOptions::default())
}

/// Everything about one entry that must survive.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Seen {
    pub kind: &'static str,
    pub mode: u32,
    pub owner: (u32, u32),
    pub mtime: (i64, i64),
    pub content: Vec<u8>,
    pub sparse: bool,
    pub xattrs: BTreeMap<OsString, Vec<u8>>,
    /// The first path (in order) of the same file.
    pub same_as: PathBuf,
}

/// Everything below a directory, by path; the directory itself is the empty path.
pub fn look(top: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut paths = Vec::new();
    collect(top, Path::new(""), &mut paths);
    paths.sort();
    let mut first = BTreeMap::new();
    let mut seen = BTreeMap::new();
    for path in paths {
        let full = top.join(&path);
        let found = fs::symlink_metadata(&full).expect("it was listed");
        let same_as = if found.is_dir() {
            path.clone()
        } else {
            first.entry((found.dev(), found.ino())).or_insert_with(|| path.clone()).clone()
        };
        let kind = found.file_type();
        let (name, content) = if kind.is_dir() {
            ("directory", Vec::new())
        } else if kind.is_symlink() {
            ("symlink", fs::read_link(&full).expect("a link").into_os_string().into_vec())
        } else if kind.is_fifo() {
            ("fifo", Vec::new())
        } else if kind.is_file() {
            ("file", fs::read(&full).expect("a readable file"))
        } else {
            ("special", Vec::new())
        };
        let mode = if kind.is_symlink() { 0 } else { found.permissions().mode() & 0o7777 };
        seen.insert(
            path,
            Seen {
                kind: name,
                mode,
                owner: (found.uid(), found.gid()),
                mtime: (found.mtime(), found.mtime_nsec()),
                content,
                sparse: kind.is_file() && found.blocks() * 512 + 65536 < found.size(),
                xattrs: xattrs(&full),
                same_as,
            },
        );
    }
    seen
}

fn collect(top: &Path, below: &Path, paths: &mut Vec<PathBuf>) {
    paths.push(below.to_path_buf());
    for entry in fs::read_dir(top.join(below)).expect("a directory") {
        let entry = entry.expect("an entry");
        let path = below.join(entry.file_name());
        if entry.file_type().expect("a kind").is_dir() {
            collect(top, &path, paths);
        } else {
            paths.push(path);
        }
    }
}

fn xattrs(path: &Path) -> BTreeMap<OsString, Vec<u8>> {
    let mut list = vec![0u8; 65536];
    let length = rustix::fs::llistxattr(path, &mut list[..]).unwrap_or(0);
    let names = list[..length].split(|byte| *byte == 0).filter(|name| name.starts_with(b"user."));
    names
        .map(|name| {
            let mut value = vec![0u8; 65536];
            let length = rustix::fs::lgetxattr(path, name, &mut value[..]).expect("a listed attribute");
            (OsString::from_vec(name.to_vec()), value[..length].to_vec())
        })
        .collect()
}

/// Says what differs instead of printing two trees.
pub fn assert_same(left: &BTreeMap<PathBuf, Seen>, right: &BTreeMap<PathBuf, Seen>) {
    let names = |tree: &BTreeMap<PathBuf, Seen>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(left), names(right), "names differ");
    for (path, a) in left {
        let b = &right[path];
        if a != b {
            let (mut a, mut b) = (a.clone(), b.clone());
            let contents_equal = a.content == b.content;
            a.content.truncate(32);
            b.content.truncate(32);
            panic!("{} differs (contents equal: {contents_equal}):\n{a:?}\n{b:?}", path.display());
        }
    }
}

/// Names below a directory that begin as our temporary ones do.
pub fn temporaries(top: &Path) -> Vec<PathBuf> {
    let is_ours =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_bytes().starts_with(b".forebay-part-"));
    look(top).into_keys().filter(is_ours).collect()
}

/// Sets the times of an entry itself.
pub fn set_mtime(path: &Path, secs: i64, nanos: i64) {
    let spec = Timespec { tv_sec: secs, tv_nsec: nanos };
    let times = Timestamps { last_access: spec, last_modification: spec };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("times");
}

pub fn set_xattr(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).expect("an attribute");
}

pub fn make_fifo(path: &Path, mode: u32) {
    rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(mode), 0).expect("a fifo");
}

/// Bytes that differ from place to place.
pub fn content(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_add(1);
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        bytes.extend_from_slice(&(state >> 8).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// A tree with one of everything.
pub fn one_of_everything(top: &Path) {
    fs::create_dir(top).expect("a new directory");
    let odd = OsString::from_vec(b"odd \xff\n'$(x)%41 -rf".to_vec());
    fs::create_dir_all(top.join("a/b/empty")).expect("directories");
    fs::create_dir(top.join(&odd)).expect("a directory");
    fs::write(top.join(&odd).join(&odd), b"odd").expect("a file");
    fs::write(top.join("empty file"), b"").expect("a file");
    fs::write(top.join("script"), b"#!/bin/sh\n").expect("a file");
    fs::set_permissions(top.join("script"), fs::Permissions::from_mode(0o4751)).expect("mode");
    fs::write(top.join("secret"), b"s").expect("a file");
    fs::set_permissions(top.join("secret"), fs::Permissions::from_mode(0o400)).expect("mode");
    fs::write(top.join("a/two pieces"), content(1_500_000, 3)).expect("a file");
    fs::hard_link(top.join("a/two pieces"), top.join("a/b/second name")).expect("a link");
    fs::hard_link(top.join("a/two pieces"), top.join("third name")).expect("a link");
    std::os::unix::fs::symlink("a/two pieces", top.join("to file")).expect("a link");
    std::os::unix::fs::symlink("/nowhere/\u{e9}", top.join("dangling")).expect("a link");
    std::os::unix::fs::symlink("..", top.join("a/up")).expect("a link");
    make_fifo(&top.join("a/fifo"), 0o640);
    let sparse = fs::File::create(top.join("a/sparse")).expect("a file");
    std::os::unix::fs::FileExt::write_all_at(&sparse, &content(70_000, 5), 3 << 20).expect("data");
    sparse.set_len(9 << 20).expect("a size");
    set_xattr(&top.join("script"), "user.note", b"\0bytes\xff");
    set_xattr(&top.join("a/b"), "user.directory", b"yes");
    std::os::unix::fs::chown(top.join("a/b/empty"), Some(65534), Some(1234)).expect("root");
    std::os::unix::fs::chown(top.join("script"), Some(65534), Some(1234)).expect("root");
    fs::set_permissions(top.join("script"), fs::Permissions::from_mode(0o4751)).expect("mode");
    std::os::unix::fs::lchown(top.join("dangling"), Some(65534), Some(7)).expect("root");
    for (number, path) in look(top).into_keys().rev().enumerate() {
        let number = i64::try_from(number).expect("few entries");
        set_mtime(&top.join(path), 1_000_000_000 + number, 123_456_000 + number);
    }
    fs::set_permissions(top.join("a/b"), fs::Permissions::from_mode(0o555)).expect("mode");
}
