//! Mounts of ours that were taken from their path while somebody was in them: they had died, or who was in them was not seen.
//!
//! Whoever has a working directory, an open or a mapped file in one keeps it, and nothing at any path shows it any more: it is
//! known by its number in the mount table, which the kernel gives to no other mount while somebody keeps this one. The numbers are
//! written down before a mount is taken from its path; a crash in between leaves the number of a mount that is still there. At the
//! end of the activation those who are in one are ended, where that is configured. A number that a mount has which can be
//! seen - by us or by the process itself - is another mount's by now, or is not left, and counts for nothing.

use super::evict;
use super::state;
use crate::error::AgentError;
use crate::mount_table::MountId;
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The file in the directory of an activation.
const FILE: &str = "left.json";
/// Most numbers that are remembered; a mount dies only when its process is killed.
const LEFT_MAX: usize = 64;
/// How the device of a file system without a disk begins in `maps`.
const NO_DISK: &str = "00:";
/// Inode of a mapping of no file.
const NO_FILE: &str = "0";

/// Remembers a mount that is about to be taken from its path.
pub(super) fn remember(directory: &Path, id: MountId) -> Result<(), AgentError> {
    let mut left = read(directory)?;
    if left.contains(&id) {
        return Ok(());
    }
    left.push(id);
    let forgotten = left.len().saturating_sub(LEFT_MAX);
    left.drain(..forgotten);
    state::write(&directory.join(FILE), &left)
}

fn read(directory: &Path) -> Result<Vec<MountId>, AgentError> {
    Ok(state::read(&directory.join(FILE))?.unwrap_or_default())
}

/// Ends whoever is in a mount that was remembered.
pub(super) fn end_holders(directory: &Path) -> Result<(), AgentError> {
    let left: BTreeSet<MountId> = read(directory)?.into_iter().collect();
    let left: BTreeSet<MountId> = left.difference(&seen(Path::new("/proc/self"))).copied().collect();
    if left.is_empty() {
        return Ok(());
    }
    evict::end_all(|process| is_in(process, &left), || Ok(true))
}

/// Whether a process is in one of these mounts.
fn is_in(process: &Path, left: &BTreeSet<MountId>) -> bool {
    let used: BTreeSet<MountId> = used(process).intersection(left).copied().collect();
    !used.is_empty() && !used.is_subset(&seen(process))
}

/// The mounts that a process sees.
fn seen(process: &Path) -> BTreeSet<MountId> {
    MountId::all(&process.join("mountinfo")).unwrap_or_default()
}

/// The mounts of a process's directories, its program, its open and its mapped files.
fn used(process: &Path) -> BTreeSet<MountId> {
    let links = ["cwd", "root", "exe"].map(|name| process.join(name)).into_iter();
    let files = std::fs::read_dir(process.join("fdinfo")).into_iter().flatten().flatten();
    let files = files.filter_map(|file| MountId::of_fdinfo(&file.path()));
    links.chain(mapped(process)).filter_map(|link| mount_of(&link)).chain(files).collect()
}

/// Links to the mapped files that may be ours: those on a file system without a disk, as every one of FUSE is. `maps` names
/// them by a path that says nothing once the mount is gone.
fn mapped(process: &Path) -> Vec<PathBuf> {
    let maps = std::fs::read(process.join("maps")).unwrap_or_default();
    let files = process.join("map_files");
    let link = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        let mut words = line.split_ascii_whitespace();
        let (range, device, inode) = (words.next()?, words.nth(2)?, words.next()?);
        if !device.starts_with(NO_DISK) || inode == NO_FILE {
            return None;
        }
        // One has zeros in front, the other not.
        let (begin, end) = range.split_once('-')?;
        Some(files.join([begin, end].map(|address| address.trim_start_matches('0')).join("-")))
    };
    maps.split(|byte| *byte == b'\n').filter_map(link).collect()
}

/// The link is followed without asking the file system behind it, which may be dead.
fn mount_of(link: &Path) -> Option<MountId> {
    use std::os::fd::AsRawFd;
    let place = rustix::fs::open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    MountId::of_fdinfo(Path::new(&format!("/proc/self/fdinfo/{}", place.as_raw_fd())))
}
