//! Mounts of ours that were taken from their path while somebody was in them: they had died, or who was in them was not seen.
//!
//! Whoever has a working directory, an open or a mapped file in one keeps it, and nothing at any path shows it any more: it is
//! known by its number in the mount table. When nobody keeps it any more the kernel gives the number to the next mount, which may
//! be anybody's; so the agent keeps each of them itself, by a descriptor of its root that opens nothing, until those who are in it
//! were ended at the end of the activation.
//!
//! Order of events: the descriptor - the mount leaves the tree - ... - who is in it is ended - the descriptor goes, and with it the
//! mount, whose process ends then if it still lived. With the agent the descriptors go too: of a mount that was left before an
//! agent started nothing is known, and whoever is still in it fails there and is not ended.

use super::error::TaskError;
use super::evict;
use crate::error::AgentError;
use crate::mount_table::{Mount, MountId};
use forebay_model::ids::ActivationId;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most mounts of an activation that are kept; one dies only when its process is killed. Of more the oldest goes.
const LEFT_MAX: usize = 64;
/// How the device of a file system without a disk begins in `maps`.
const NO_DISK: &str = "00:";
/// Inode of a mapping of no file.
const NO_FILE: &str = "0";

/// The mounts that were left, by activation.
#[derive(Debug, Default)]
pub(super) struct LeftMounts {
    kept: Mutex<BTreeMap<ActivationId, Vec<Kept>>>,
}

/// A mount whose number is no other's.
#[derive(Debug)]
struct Kept {
    id: MountId,
    _root: OwnedFd,
}

impl LeftMounts {
    /// Keeps a mount that is about to be taken from its path.
    pub fn keep(&self, activation: ActivationId, mount: &Mount) -> Result<(), AgentError> {
        let Some(one) = Kept::take(mount)? else { return Ok(()) };
        let mut kept = self.kept();
        let of_it = kept.entry(activation).or_default();
        of_it.retain(|other| other.id != one.id);
        of_it.push(one);
        let too_many = of_it.len().saturating_sub(LEFT_MAX);
        of_it.drain(..too_many);
        Ok(())
    }

    /// Ends whoever is in a mount that an activation left, and keeps them no longer.
    pub fn end_holders(&self, activation: ActivationId) -> Result<(), TaskError> {
        let left: BTreeSet<MountId> =
            self.kept().get(&activation).into_iter().flatten().map(|one| one.id).collect();
        if !left.is_empty() {
            evict::end_all(|process| !used(process).is_disjoint(&left), || Ok(true))?;
        }
        self.kept().remove(&activation);
        Ok(())
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<ActivationId, Vec<Kept>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// `None` if the mount is not at its path any more: what is seen there then is another one, which is not ours to end anybody in.
    fn take(mount: &Mount) -> Result<Option<Kept>, AgentError> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = match rustix::fs::open(&mount.point, flags, Mode::empty()) {
            Ok(root) => root,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(AgentError::system("keep the mount at", &mount.point, error)),
        };
        let is_it = mount_of(&root) == Some(mount.id);
        Ok(is_it.then_some(Kept { id: mount.id, _root: root }))
    }
}

/// The mounts of a process's directories, its program, its open and its mapped files.
fn used(process: &Path) -> BTreeSet<MountId> {
    let links = ["cwd", "root", "exe"].map(|name| process.join(name)).into_iter();
    let files = std::fs::read_dir(process.join("fdinfo")).into_iter().flatten().flatten();
    let files = files.filter_map(|file| MountId::of_fdinfo(&file.path()));
    links.chain(mapped(process)).filter_map(|link| mount_behind(&link)).chain(files).collect()
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
fn mount_behind(link: &Path) -> Option<MountId> {
    mount_of(&rustix::fs::open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?)
}

fn mount_of(file: &OwnedFd) -> Option<MountId> {
    MountId::of_fdinfo(Path::new(&format!("/proc/self/fdinfo/{}", file.as_raw_fd())))
}
