//! A directory tree as a value: everything a user can see, without what may differ.

use super::discrepancies::{comparable, is_layout_attribute};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, Result};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Seconds and nanoseconds.
pub type Moment = (i64, u64);

/// What stat says of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// File, directory, link...
    pub kind: FileType,
    /// Permissions, suid, sgid and sticky.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names.
    pub links: u64,
    /// Bytes.
    pub size: i64,
    /// Device number, of device nodes.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Blocks of 512 bytes.
    pub blocks: i64,
    /// Last access.
    pub accessed: Option<Moment>,
    /// Last modification.
    pub modified: Option<Moment>,
}

impl Attributes {
    /// The comparable part of what the kernel said.
    pub fn of(stat: &Stat) -> Attributes {
        comparable(Attributes {
            kind: FileType::from_raw_mode(stat.st_mode),
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            links: stat.st_nlink,
            size: stat.st_size,
            device: stat.st_rdev,
            inode: stat.st_ino,
            blocks: stat.st_blocks,
            accessed: Some((stat.st_atime, stat.st_atime_nsec)),
            modified: Some((stat.st_mtime, stat.st_mtime_nsec)),
        })
    }
}

/// What one path holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    attributes: Attributes,
    /// The first path of the same file.
    same_as: PathBuf,
    content: Result<Content>,
    extended: Result<Extended>,
}

/// Extended attributes: name to length and hash of the value.
type Extended = BTreeMap<String, (usize, u64)>;

/// What is inside.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    /// Length and hash of a regular file's bytes, holes read as zeros.
    Bytes { length: u64, hash: u64 },
    /// The names are entries of their own.
    Directory,
    /// Where it leads.
    Link(Vec<u8>),
    /// Nothing to see inside.
    Node,
}

/// A whole tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    entries: BTreeMap<PathBuf, Entry>,
}

impl Tree {
    /// Reads everything below `root`, with the eyes of the caller: what may not be read is an error in its place.
    pub fn read(root: &Path) -> Result<Tree> {
        let root = rustix::fs::open(root, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?;
        let mut reader = Reader { root, first_paths: HashMap::new(), tree: Tree::default() };
        reader.descend(Path::new("."))?;
        Ok(reader.tree)
    }

    /// Number of paths.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// There is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The first path where two trees differ, with both sides of it.
    pub fn difference(&self, other: &Tree) -> Option<String> {
        let paths = self.entries.keys().chain(other.entries.keys());
        let path = paths.filter(|path| self.entries.get(*path) != other.entries.get(*path)).min()?;
        let (ours, theirs) = (self.entries.get(path), other.entries.get(path));
        Some(format!("{}:\n  under test {ours:?}\n  beside     {theirs:?}", path.display()))
    }
}

struct Reader {
    root: OwnedFd,
    first_paths: HashMap<(u64, u64), PathBuf>,
    tree: Tree,
}

impl Reader {
    fn descend(&mut self, directory: &Path) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let listing = Dir::new(rustix::fs::openat(&self.root, directory, flags, Mode::empty())?)?;
        let mut names = Vec::new();
        for entry in listing {
            names.push(entry?.file_name().to_bytes().to_vec());
        }
        names.sort();
        for name in names.iter().filter(|name| *name != b"." && *name != b"..") {
            self.take(directory.join(OsStr::from_bytes(name)))?;
        }
        Ok(())
    }

    fn take(&mut self, path: PathBuf) -> Result<()> {
        let stat = match rustix::fs::statat(&self.root, &path, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            // A directory that may be listed and not searched.
            Err(Errno::ACCESS) => return Ok(()),
            Err(error) => return Err(error),
        };
        let attributes = Attributes::of(&stat);
        let same_as =
            self.first_paths.entry((stat.st_dev, stat.st_ino)).or_insert_with(|| path.clone()).clone();
        let content = self.content(&path, attributes.kind);
        let extended = self.extended(&path, attributes.kind);
        let kind = attributes.kind;
        self.tree.entries.insert(path.clone(), Entry { attributes, same_as, content, extended });
        match kind {
            FileType::Directory => self.descend(&path).or_else(allowed_to_be_closed),
            _ => Ok(()),
        }
    }

    fn content(&self, path: &Path, kind: FileType) -> Result<Content> {
        match kind {
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW;
                let file = rustix::fs::openat(&self.root, path, flags, Mode::empty())?;
                hash_of(file)
            }
            FileType::Directory => Ok(Content::Directory),
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(&self.root, path, Vec::new())?;
                Ok(Content::Link(target.into_bytes()))
            }
            _ => Ok(Content::Node),
        }
    }

    fn extended(&self, path: &Path, kind: FileType) -> Result<Extended> {
        if !matches!(kind, FileType::RegularFile | FileType::Directory) {
            return Ok(BTreeMap::new());
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW;
        extended_of(rustix::fs::openat(&self.root, path, flags, Mode::empty())?)
    }
}

fn allowed_to_be_closed(error: Errno) -> Result<()> {
    if error == Errno::ACCESS { Ok(()) } else { Err(error) }
}

fn hash_of(file: OwnedFd) -> Result<Content> {
    let mut hasher = Xxh3::new();
    let mut buffer = vec![0; 1 << 18];
    let mut length = 0;
    loop {
        match rustix::io::pread(&file, &mut buffer[..], length)? {
            0 => return Ok(Content::Bytes { length, hash: hasher.digest() }),
            count => {
                hasher.update(&buffer[..count]);
                length += count as u64;
            }
        }
    }
}

/// The extended attributes of the user's namespace, without those that only the side under test has.
fn extended_of(file: impl AsFd) -> Result<Extended> {
    let mut list = vec![0; 65_536];
    let length = rustix::fs::flistxattr(&file, &mut list[..])?;
    let mut out = BTreeMap::new();
    let names = list[..length].split(|&byte| byte == 0);
    for name in names.filter(|name| name.starts_with(b"user.") && !is_layout_attribute(name)) {
        let mut value = vec![0; 65_536];
        let length = rustix::fs::fgetxattr(&file, name, &mut value[..])?;
        out.insert(String::from_utf8_lossy(name).into_owned(), (length, xxh3_64(&value[..length])));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scratch;
    use std::fs;

    fn twins(scratch: &Scratch) -> [PathBuf; 2] {
        let make = |name| {
            let root = scratch.directory(name, 0o755);
            fs::create_dir(root.join("dir")).unwrap();
            fs::write(root.join("dir/file"), "content").unwrap();
            fs::hard_link(root.join("dir/file"), root.join("hard")).unwrap();
            std::os::unix::fs::symlink("dir/file", root.join("link")).unwrap();
            root
        };
        [make("a"), make("b")]
    }

    fn difference(roots: &[PathBuf; 2]) -> Option<String> {
        Tree::read(&roots[0]).unwrap().difference(&Tree::read(&roots[1]).unwrap())
    }

    #[test]
    fn twins_are_equal_until_anything_changes() {
        let changes: [fn(&Path); 7] = [
            |root| fs::write(root.join("dir/file"), "Content").unwrap(),
            |root| fs::write(root.join("dir/new"), "").unwrap(),
            |root| fs::remove_file(root.join("link")).unwrap(),
            |root| {
                fs::remove_file(root.join("hard")).unwrap();
                fs::write(root.join("hard"), "content").unwrap();
            },
            |root| {
                use std::os::unix::fs::PermissionsExt;
                fs::set_permissions(root.join("dir"), fs::Permissions::from_mode(0o700)).unwrap();
            },
            |root| {
                let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000);
                fs::File::open(root.join("hard")).unwrap().set_modified(long_ago).unwrap();
            },
            |root| {
                let none = rustix::fs::XattrFlags::empty();
                rustix::fs::setxattr(root.join("dir"), "user.x", b"y", none).unwrap();
            },
        ];
        for (number, change) in changes.iter().enumerate() {
            let scratch = Scratch::new("tree");
            let roots = twins(&scratch);
            assert_eq!(difference(&roots), None);
            change(&roots[1]);
            assert!(difference(&roots).is_some(), "change {number} was not seen");
        }
    }
}
