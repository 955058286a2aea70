//! The real files of a disk: reading all of them, and making them again what a disk has after the power went.
//!
//! Files stay the same ones, with their numbers and the moment of their birth: whoever is given a file after the power came back
//! has to know it again. So a file whose last name goes gets one beside the disk first ([`keep`]).

use super::content::Content;
use super::log::{Attributes, Node, Tree};
use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Longest list of names, and longest value, of extended attributes in bytes.
const ATTRIBUTES_MAX: usize = 65_536;
/// Zeros are left out in pieces of this size in bytes.
const PAGE_BYTES: usize = 4096;

/// All that is on a disk.
pub struct Found {
    pub tree: Tree,
    pub contents: BTreeMap<Node, Content>,
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("a path")
}

pub fn is_directory(attributes: &Attributes) -> bool {
    attributes.mode & libc::S_IFMT == libc::S_IFDIR
}

fn is_file(attributes: &Attributes) -> bool {
    attributes.mode & libc::S_IFMT == libc::S_IFREG
}

/// Attributes of what a path names, a link followed.
pub fn attributes(path: &Path) -> Attributes {
    let found = fs::metadata(path).expect("attributes");
    let extended = names_of_attributes(path).into_iter().map(|name| {
        let value = attribute(path, &name);
        (name.into_bytes(), value)
    });
    Attributes { mode: found.mode(), uid: found.uid(), gid: found.gid(), extended: extended.collect() }
}

fn names_of_attributes(path: &Path) -> Vec<CString> {
    let (path, mut list) = (c_path(path), vec![0u8; ATTRIBUTES_MAX]);
    // Safe: there is so much room.
    let length = unsafe { libc::listxattr(path.as_ptr(), list.as_mut_ptr().cast(), list.len()) };
    list.truncate(usize::try_from(length).expect("the names of extended attributes"));
    list.split_inclusive(|byte| *byte == 0)
        .map(|name| CStr::from_bytes_with_nul(name).expect("a name").to_owned())
        .collect()
}

fn attribute(path: &Path, name: &CStr) -> Vec<u8> {
    let (path, mut value) = (c_path(path), vec![0u8; ATTRIBUTES_MAX]);
    // Safe: there is so much room.
    let length =
        unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len()) };
    value.truncate(usize::try_from(length).expect("an extended attribute"));
    value
}

/// Reads a disk.
pub fn read(root: &Path) -> Found {
    let node = fs::metadata(root).expect("a disk").ino();
    let mut found = Found { tree: Tree::default(), contents: BTreeMap::new() };
    found.tree.attributes.insert(node, attributes(root));
    read_directory(root, node, &mut found);
    found
}

fn read_directory(path: &Path, directory: Node, found: &mut Found) {
    for entry in fs::read_dir(path).expect("a directory").map(|entry| entry.expect("an entry")) {
        let (path, node) = (entry.path(), entry.metadata().expect("attributes").ino());
        let known = attributes(&path);
        found.tree.names.insert((directory, entry.file_name()), node);
        if is_directory(&known) {
            read_directory(&path, node, found);
        } else if is_file(&known) {
            found.contents.insert(node, Content::of(fs::read(&path).expect("a file")));
        } else {
            panic!("{path:?}: only files and directories are simulated on a disk");
        }
        found.tree.attributes.insert(node, known);
    }
}

/// Where a file without a name is kept.
pub fn kept_at(kept: &Path, node: Node) -> PathBuf {
    kept.join(node.to_string())
}

/// Gives a file that has a name one more beside the disk.
pub fn keep(path: &Path, kept: &Path, node: Node) {
    match fs::hard_link(path, kept_at(kept, node)) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => panic!("{path:?} is kept: {error}"),
    }
}

/// Makes a disk what it is to be.
pub fn write(root: &Path, kept: &Path, tree: &Tree, contents: &BTreeMap<Node, Vec<u8>>) {
    take_apart(root, kept);
    let node = fs::metadata(root).expect("a disk").ino();
    let ground = Writer { kept, tree, contents };
    ground.directory(root, node);
    for left in fs::read_dir(kept).expect("a directory").map(|entry| entry.expect("an entry").path()) {
        let removed = if left.is_dir() { fs::remove_dir(&left) } else { fs::remove_file(&left) };
        removed.expect("nothing is left beside the disk");
    }
}

/// All names of a directory go; what they named is beside the disk then.
fn take_apart(directory: &Path, kept: &Path) {
    let entries: Vec<_> = fs::read_dir(directory).expect("a directory").collect();
    for entry in entries.into_iter().map(|entry| entry.expect("an entry")) {
        let (path, found) = (entry.path(), entry.metadata().expect("attributes"));
        if found.is_dir() {
            take_apart(&path, kept);
            fs::rename(&path, kept_at(kept, found.ino())).expect("a directory is kept");
        } else {
            keep(&path, kept, found.ino());
            fs::remove_file(&path).expect("a name is removed");
        }
    }
}

struct Writer<'a> {
    kept: &'a Path,
    tree: &'a Tree,
    contents: &'a BTreeMap<Node, Vec<u8>>,
}

impl Writer<'_> {
    fn directory(&self, path: &Path, directory: Node) {
        let names = self.tree.names.range((directory, OsString::new())..(directory + 1, OsString::new()));
        for ((_, name), node) in names {
            let (path, kept) = (path.join(name), kept_at(self.kept, *node));
            let attributes = &self.tree.attributes[node];
            if is_directory(attributes) {
                // One that had been removed is another one when it comes back.
                let made = if kept.exists() { fs::rename(&kept, &path) } else { fs::create_dir(&path) };
                made.expect("a directory is put back");
                self.directory(&path, *node);
            } else {
                fs::hard_link(&kept, &path).expect("a file is put back");
                put_content(&path, &self.contents[node]);
            }
            put_attributes(&path, attributes);
        }
    }
}

fn put_content(path: &Path, content: &[u8]) {
    if fs::read(path).expect("a file") == content {
        return;
    }
    let file = fs::OpenOptions::new().write(true).open(path).expect("a file");
    file.set_len(0).expect("a cut");
    file.set_len(content.len() as u64).expect("a length");
    for (at, page) in (0..).step_by(PAGE_BYTES).zip(content.chunks(PAGE_BYTES)) {
        if page.iter().any(|byte| *byte != 0) {
            file.write_all_at(page, at).expect("a write");
        }
    }
}

fn put_attributes(path: &Path, wanted: &Attributes) {
    let now = attributes(path);
    for name in now.extended.keys().filter(|name| !wanted.extended.contains_key(*name)) {
        let (path, name) = (c_path(path), CString::new(name.clone()).expect("a name"));
        // Safe: texts that end with a zero.
        assert_eq!(unsafe { libc::removexattr(path.as_ptr(), name.as_ptr()) }, 0);
    }
    for (name, value) in wanted.extended.iter().filter(|(name, value)| now.extended.get(*name) != Some(value))
    {
        let (path, name) = (c_path(path), CString::new(name.clone()).expect("a name"));
        let (from, length) = (value.as_ptr().cast(), value.len());
        // Safe: texts that end with a zero, and a value of this length.
        assert_eq!(unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), from, length, 0) }, 0);
    }
    if (now.uid, now.gid) != (wanted.uid, wanted.gid) {
        std::os::unix::fs::chown(path, Some(wanted.uid), Some(wanted.gid)).expect("an owner");
    }
    let mode = wanted.mode & 0o7777;
    if fs::metadata(path).expect("attributes").mode() & 0o7777 != mode {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    }
}

/// A name of a directory, from bytes.
pub fn name_of(bytes: &[u8]) -> OsString {
    OsString::from_vec(bytes.to_vec())
}
