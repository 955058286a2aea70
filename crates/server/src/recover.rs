//! The walk over all files after an instance was not closed cleanly.
//!
//! It finds out what the counters are, removes substripe files without a stub, and cuts substripe files that reach
//! beyond the length of their stub (data of a write that was never answered).
//!
//! Order of events: first every tree is read, completely; only then is anything removed or cut. If any stub cannot be
//! read the walk fails, the instance is not opened and nothing is lost. A crash during the walk means another walk.
//!
//! Memory: one entry for each striped file. Depth: directories are walked with one open descriptor for each level.

use crate::content::counted;
use crate::data::{parse_name, substripe_path};
use crate::fragment::state::State;
use crate::fragment::{DIRECTORY, Fragment, NAMESPACES};
use crate::host::host;
use crate::metadata::{ATTRIBUTE, Annotation, TEXT_MAX, is_marked};
use forebay_model::layout::{Layout, Substripe};
use forebay_wire::{FileId, FileKind, FsError, Result};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::os::fd::{BorrowedFd, OwnedFd};

/// A striped file as its stub has it.
struct Known {
    layout: Layout,
    size: u64,
}

/// What the trees say.
#[derive(Default)]
struct Found {
    files: HashMap<(String, FileId), Known>,
    created: BTreeMap<String, u64>,
    /// Bytes of inline files.
    inline: u64,
    next_file: u64,
    /// Inline files with several names, so that they count once.
    linked: HashSet<u64>,
}

/// Walks, repairs and returns the counters. `next_file` is a lower bound for free file ids.
pub(crate) fn walk(fragments: &[Fragment], next_file: u64) -> Result<State> {
    let mut found = Found { next_file, ..Found::default() };
    for (name, namespace) in namespaces(&fragments[0])? {
        if let Some(tree) = open_if_there(&namespace, "tree")? {
            found.created.insert(name.clone(), 0);
            read_tree(&name, tree, &mut found)?;
        }
    }
    let mut used = vec![0; fragments.len()];
    used[0] = found.inline;
    for (index, fragment) in fragments.iter().enumerate() {
        for (name, namespace) in namespaces(fragment)? {
            if let Some(data) = open_if_there(&namespace, "data")? {
                used[index] += repair_data(&name, index as u32, &data, &mut found)?;
            }
        }
    }
    let used = fragments.iter().zip(used).map(|(f, used)| if f.meter.counts() { used } else { 0 });
    Ok(State::counters(found.next_file, used.collect(), found.created))
}

fn namespaces(fragment: &Fragment) -> Result<Vec<(String, OwnedFd)>> {
    let Some(directory) = open_if_there(&fragment.root, NAMESPACES)? else { return Ok(Vec::new()) };
    let mut namespaces = Vec::new();
    for name in names(&directory)? {
        let text = name.to_str().map_err(|_| FsError::Damaged { what: "the name of a namespace" })?;
        if let Some(namespace) = open_if_there(&directory, text)? {
            namespaces.push((text.to_owned(), namespace));
        }
    }
    Ok(namespaces)
}

fn open_if_there(parent: &OwnedFd, name: &str) -> Result<Option<OwnedFd>> {
    match rustix::fs::openat(parent, name, DIRECTORY, Mode::empty()) {
        Ok(directory) => Ok(Some(directory)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(host("open a directory of a fragment")(errno)),
    }
}

/// All names of a directory but `.` and `..`. Only for directories of ours, which are small.
fn names(directory: &OwnedFd) -> Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory).map_err(host("list a directory of a fragment"))? {
        let entry = entry.map_err(host("list a directory of a fragment"))?;
        if !is_dot(entry.file_name()) {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

fn is_dot(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// Reads every stub of a tree. Iterative: users make deep trees.
fn read_tree(namespace: &str, root: OwnedFd, found: &mut Found) -> Result<()> {
    let list = |directory: OwnedFd| Dir::new(directory).map_err(host("list a directory"));
    let mut open = vec![list(root)?];
    while let Some(entries) = open.last_mut() {
        let Some(entry) = entries.next() else {
            open.pop();
            continue;
        };
        let entry = entry.map_err(host("list a directory"))?;
        let name = entry.file_name();
        if is_dot(name) {
            continue;
        }
        let directory = entries.fd().map_err(host("list a directory"))?;
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(host("stat"))?;
        match FileKind::from_mode(stat.st_mode) {
            Some(FileKind::Directory) => {
                let next = rustix::fs::openat(directory, name, DIRECTORY, Mode::empty())
                    .map_err(host("open a directory"))?;
                open.push(list(next)?);
            }
            Some(FileKind::Regular) => read_stub(namespace, directory, name, &stat, found)?,
            _ => {}
        }
    }
    Ok(())
}

fn read_stub(
    namespace: &str,
    directory: BorrowedFd<'_>,
    name: &CStr,
    stat: &Stat,
    found: &mut Found,
) -> Result<()> {
    let annotation = if is_marked(stat) { annotation_of(directory, name)? } else { Annotation::default() };
    let first_name = match annotation.striped {
        Some((file, layout)) => {
            found.next_file = found.next_file.max(file.0 + 1);
            let known = Known { layout, size: stat.st_size as u64 };
            found.files.insert((namespace.to_owned(), file), known).is_none()
        }
        None => {
            let first = stat.st_nlink == 1 || found.linked.insert(stat.st_ino);
            found.inline += if first { counted(stat) } else { 0 };
            first
        }
    };
    if first_name {
        *found.created.entry(namespace.to_owned()).or_default() += 1;
    }
    Ok(())
}

fn annotation_of(directory: BorrowedFd<'_>, name: &CStr) -> Result<Annotation> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let stub = rustix::fs::openat(directory, name, flags, Mode::empty()).map_err(host("open a stub"))?;
    let mut text = [0; TEXT_MAX];
    match rustix::fs::fgetxattr(&stub, ATTRIBUTE, &mut text) {
        Ok(length) => Annotation::parse(&text[..length]),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(Annotation::default()),
        Err(errno) => Err(host("read the attribute of a stub")(errno)),
    }
}

/// Removes and cuts what no stub accounts for, and returns the bytes that are left.
fn repair_data(namespace: &str, server: u32, data: &OwnedFd, found: &mut Found) -> Result<u64> {
    let mut used = 0;
    for bucket_name in names(data)? {
        let bucket = rustix::fs::openat(data, &bucket_name, DIRECTORY, Mode::empty())
            .map_err(host("open a substripe directory"))?;
        for entry in Dir::read_from(&bucket).map_err(host("list a substripe directory"))? {
            let entry = entry.map_err(host("list a substripe directory"))?;
            let name = entry.file_name();
            // What was not made by the file system is left alone.
            let Some((file, index)) = parse_name(name.to_bytes()) else { continue };
            found.next_file = found.next_file.max(file.0 + 1);
            let known = found.files.get(&(namespace.to_owned(), file));
            let length = known.and_then(|known| share_len(known, server, index));
            used += match length {
                Some(length) => cut(data, file, index, length)?,
                None => {
                    rustix::fs::unlinkat(&bucket, name, AtFlags::empty())
                        .map_err(host("remove a substripe file without a stub"))?;
                    0
                }
            };
        }
    }
    Ok(used)
}

/// The longest that a substripe file may be; `None` if the layout has no such file on this server.
fn share_len(known: &Known, server: u32, index: u32) -> Option<u64> {
    let layout = known.layout;
    let slot = (0..layout.stripe_count()).find(|slot| layout.server(*slot) == server)?;
    (index < layout.substripes()).then(|| layout.share_len(Substripe { slot, index }, known.size))
}

fn cut(data: &OwnedFd, file: FileId, index: u32, length: u64) -> Result<u64> {
    let path = substripe_path(file, index);
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let stat =
        rustix::fs::statat(data, &path, AtFlags::SYMLINK_NOFOLLOW).map_err(host("stat of substripe"))?;
    if stat.st_size as u64 <= length {
        return Ok(counted(&stat));
    }
    let substripe = rustix::fs::openat(data, &path, flags, Mode::empty()).map_err(host("open substripe"))?;
    rustix::fs::ftruncate(&substripe, length).map_err(host("cut a substripe"))?;
    let stat = rustix::fs::fstat(&substripe).map_err(host("stat of substripe"))?;
    Ok(counted(&stat))
}
