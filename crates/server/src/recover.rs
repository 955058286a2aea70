//! The walk over all files after an instance was not closed cleanly.
//!
//! It finds out what the counters are, removes substripe files without a stub, and makes a stub as long as its substripe
//! files reach: a file is as long as its data ([docs/adr/0008](../../../docs/adr/0008-files-know-their-own-length.md)),
//! and a length that grew by a write need not have reached the disk in the stub.
//!
//! A file that was one substripe file, and lent to the kernel, gets its last modification too: that is all there is of
//! what the kernel wrote in place. The substripe file's counts if it was changed after the stub was.
//!
//! Why nothing comes back that was cut: the substripe files are cut first and the stub then, and the next sync of the
//! file reaches both. A cut of which a power cut left only the stub's part did not happen: it was not synced, and
//! the file is what it was before. A cut of which a crash left only the substripe files' part leaves the old length
//! with zeros.
//!
//! Where the other fragments belong to other processes ([`Extent::OwnFragment`]) only what is on this one is looked at;
//! what they hold is looked at later, through their services ([`crate::metadata`]).
//!
//! Order of events: first every tree is read, completely, and then every data directory; only then is anything removed
//! or made longer. If any stub cannot be read the walk fails, the instance is not opened and nothing is lost. A crash
//! during the walk means another walk.
//!
//! Memory: one entry for each striped file. Depth: directories are walked with one open descriptor for each level.

use crate::content::counted;
use crate::data::parse_name;
use crate::fragment::state::State;
use crate::fragment::{DIRECTORY, Fragment, NAMESPACES};
use crate::host::host;
use crate::metadata::{ATTRIBUTE, Annotation, TEXT_MAX, UNLINKED, is_marked};
use forebay_model::layout::{Layout, Substripe};
use forebay_wire::{FileId, FileKind, FsError, Result, Timestamp};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::rc::Rc;

/// The directory of a namespace's names.
const TREE: &str = "tree";

/// How much of an instance the process has at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All fragments.
    Whole,
    /// Only the fragment of this position.
    OwnFragment(u32),
}

/// What a walk found out.
pub(crate) struct Walked {
    pub(crate) state: State,
    /// The striped files of each namespace.
    pub(crate) stubs: BTreeMap<String, Stubs>,
}

/// The striped files of a namespace.
pub(crate) type Stubs = HashMap<FileId, Known>;

/// A striped file as its stub has it.
pub(crate) struct Known {
    pub(crate) layout: Layout,
    pub(crate) size: u64,
    /// When the stub was last changed.
    pub(crate) ctime: Timestamp,
    /// The end of the last byte in its substripe files, as far as they were looked at.
    end: u64,
    /// Last modification of its only substripe file, if that was changed after the stub.
    written: Option<Timestamp>,
}

impl Known {
    fn is_short(&self) -> bool {
        self.end > self.size
    }
}

/// What the trees say.
#[derive(Default)]
struct Found {
    files: BTreeMap<String, Stubs>,
    created: BTreeMap<String, u64>,
    /// Bytes of inline files.
    inline: u64,
    next_file: u64,
    /// Inline files with several names, so that they count once.
    linked: HashSet<u64>,
}

/// Walks, repairs and returns the counters. `next_file` is a lower bound for free file ids.
pub(crate) fn walk(fragments: &[Fragment], extent: Extent, next_file: u64) -> Result<Walked> {
    let mut found = Found { next_file, ..Found::default() };
    let mut orphans = Vec::new();
    for (name, namespace) in namespaces(&fragments[0])? {
        if let Some(tree) = open_if_there(&namespace, TREE)? {
            found.created.insert(name.clone(), 0);
            found.files.insert(name.clone(), Stubs::new());
            each_stub(tree, &mut |directory, stub, stat| {
                let is_first = read_stub(&name, directory, stub, stat, &mut found)?;
                *found.created.entry(name.clone()).or_default() += u64::from(is_first);
                Ok(())
            })?;
        }
        let Some(unlinked) = open_if_there(&namespace, UNLINKED)? else { continue };
        if extent == Extent::Whole {
            // Nobody can claim them: they go, and their content with them.
            let unlinked = Rc::new(unlinked);
            orphans.extend(names(&unlinked)?.into_iter().map(|name| (unlinked.clone(), name)));
        } else {
            each_stub(unlinked, &mut |directory, stub, stat| {
                read_stub(&name, directory, stub, stat, &mut found).map(|_| ())
            })?;
        }
    }
    let mut used = vec![0; fragments.len()];
    used[0] = found.inline;
    for (index, fragment) in fragments.iter().enumerate() {
        let server = match extent {
            Extent::Whole => index as u32,
            Extent::OwnFragment(position) => position,
        };
        for (name, namespace) in namespaces(fragment)? {
            if let Some(data) = open_if_there(&namespace, "data")? {
                let is_ours = extent == Extent::Whole || found.created.contains_key(&name);
                used[index] += read_data(&name, server, data, is_ours, &mut found, &mut orphans)?;
            }
        }
    }
    for (bucket, name) in orphans {
        rustix::fs::unlinkat(&bucket, name, AtFlags::empty())
            .map_err(host("remove a substripe file without a stub"))?;
    }
    lengthen_stubs(&fragments[0], &found, extent)?;
    let used = fragments.iter().zip(used).map(|(f, used)| if f.meter.counts() { used } else { 0 });
    Ok(Walked { state: State::counters(found.next_file, used.collect(), found.created), stubs: found.files })
}

/// Makes those stubs longer whose substripe files reach further, and newer those that were lent.
fn lengthen_stubs(home: &Fragment, found: &Found, extent: Extent) -> Result<()> {
    let is_newer = |known: &Known| extent == Extent::Whole && known.written.is_some();
    let is_behind = |known: &Known| known.is_short() || is_newer(known);
    for (name, namespace) in namespaces(home)? {
        let Some(stubs) = found.files.get(&name).filter(|stubs| stubs.values().any(is_behind)) else {
            continue;
        };
        let Some(tree) = open_if_there(&namespace, TREE)? else { continue };
        each_stub(tree, &mut |directory, stub, stat| {
            let Some((file, _)) = read_annotation_of(directory, stub, stat)?.striped else { return Ok(()) };
            match stubs.get(&file) {
                Some(known) if is_behind(known) => {
                    let written = known.written.filter(|_| is_newer(known));
                    catch_up(directory, stub, known.is_short().then_some(known.end), written)
                }
                _ => Ok(()),
            }
        })?;
    }
    Ok(())
}

fn catch_up(
    directory: BorrowedFd<'_>,
    name: &CStr,
    length: Option<u64>,
    written: Option<Timestamp>,
) -> Result<()> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let stub = rustix::fs::openat(directory, name, flags, Mode::empty()).map_err(host("open a stub"))?;
    if let Some(length) = length {
        rustix::fs::ftruncate(&stub, length).map_err(host("grow a stub"))?;
    }
    let Some(written) = written else { return Ok(()) };
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: written.secs, tv_nsec: written.nanos as _ },
    };
    rustix::fs::futimens(&stub, &times).map_err(host("set the time of a stub"))
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

/// The name of a directory itself, or of the one it is in.
pub(crate) fn is_dot(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// Visits every name of a regular file in a tree.
fn each_stub(root: OwnedFd, visit: &mut dyn FnMut(BorrowedFd<'_>, &CStr, &Stat) -> Result<()>) -> Result<()> {
    let found = find_name(root, |directory, name, stat| {
        if FileKind::from_mode(stat.st_mode) == Some(FileKind::Regular) {
            visit(directory, name, stat)?;
        }
        Ok(None::<()>)
    });
    found.map(drop)
}

/// Visits every name in a tree until one comes to something, a directory before what is in it. Iterative, with one open descriptor
/// for each level: users make deep trees.
pub(crate) fn find_name<T>(
    root: OwnedFd,
    mut visit: impl FnMut(BorrowedFd<'_>, &CStr, &Stat) -> Result<Option<T>>,
) -> Result<Option<T>> {
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
        let found = visit(directory, name, &stat)?;
        if found.is_some() {
            return Ok(found);
        }
        if FileKind::from_mode(stat.st_mode) == Some(FileKind::Directory) {
            let next = rustix::fs::openat(directory, name, DIRECTORY, Mode::empty())
                .map_err(host("open a directory"))?;
            open.push(list(next)?);
        }
    }
    Ok(None)
}

/// Returns whether it is the first name of its file.
fn read_stub(
    namespace: &str,
    directory: BorrowedFd<'_>,
    name: &CStr,
    stat: &Stat,
    found: &mut Found,
) -> Result<bool> {
    let annotation = read_annotation_of(directory, name, stat)?;
    Ok(match annotation.striped {
        Some((file, layout)) => {
            found.next_file = found.next_file.max(file.0 + 1);
            let ctime = Timestamp { secs: stat.st_ctime, nanos: stat.st_ctime_nsec as u32 };
            let known = Known { layout, size: stat.st_size as u64, ctime, end: 0, written: None };
            found.files.entry(namespace.to_owned()).or_default().insert(file, known).is_none()
        }
        None => {
            let first = stat.st_nlink == 1 || found.linked.insert(stat.st_ino);
            found.inline += if first { counted(stat) } else { 0 };
            first
        }
    })
}

fn read_annotation_of(directory: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> Result<Annotation> {
    if is_marked(stat) { annotation_of(directory, name) } else { Ok(Annotation::default()) }
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

/// Learns how far the files of a namespace reach, finds what no stub accounts for, and returns the bytes that are left.
/// `is_ours`: the stubs of the namespace were read.
fn read_data(
    namespace: &str,
    server: u32,
    data: OwnedFd,
    is_ours: bool,
    found: &mut Found,
    orphans: &mut Vec<(Rc<OwnedFd>, CString)>,
) -> Result<u64> {
    let mut used = 0;
    for bucket_name in names(&data)? {
        let bucket = rustix::fs::openat(&data, &bucket_name, DIRECTORY, Mode::empty())
            .map_err(host("open a substripe directory"))?;
        let bucket = Rc::new(bucket);
        for entry in Dir::read_from(&*bucket).map_err(host("list a substripe directory"))? {
            let entry = entry.map_err(host("list a substripe directory"))?;
            let name = entry.file_name();
            // What was not made by the file system is left alone.
            let Some((file, index)) = parse_name(name.to_bytes()) else { continue };
            found.next_file = found.next_file.max(file.0 + 1);
            let known = found.files.get_mut(namespace).and_then(|stubs| stubs.get_mut(&file));
            let place = known.as_ref().and_then(|known| place_of(&known.layout, server, index));
            if is_ours && place.is_none() {
                orphans.push((bucket.clone(), name.to_owned()));
                continue;
            }
            let stat = rustix::fs::statat(&*bucket, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(host("stat of substripe"))?;
            used += counted(&stat);
            if let (Some(known), Some(place)) = (known, place) {
                known.end = known.end.max(end_of(&known.layout, place, stat.st_size as u64));
                let changed = Timestamp { secs: stat.st_ctime, nanos: stat.st_ctime_nsec as u32 };
                let mtime = Timestamp { secs: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 };
                known.written = (known.layout.is_whole() && changed > known.ctime).then_some(mtime);
            }
        }
    }
    Ok(used)
}

/// Which substripe of a file this one is; `None` if the layout has no such file on this server.
pub(crate) fn place_of(layout: &Layout, server: u32, index: u32) -> Option<Substripe> {
    let slot = (0..layout.stripe_count()).find(|slot| layout.server(*slot) == server)?;
    (index < layout.substripes()).then_some(Substripe { slot, index })
}

/// The end, in the file, of a substripe file of this length; what no offset can name does not count.
pub(crate) fn end_of(layout: &Layout, substripe: Substripe, length: u64) -> u64 {
    let last = length.checked_sub(1).and_then(|last| layout.offset_of(substripe, last));
    last.map_or(0, |last| last + 1)
}
