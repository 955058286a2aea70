//! Mounts of ours that died and were taken from their path while somebody was in them.
//!
//! Whoever has a working directory or an open file in one keeps it, and nothing at any path shows it any more: it is known by
//! its number in the mount table, which the kernel gives to no other mount while somebody keeps this one. The numbers are
//! written down before a mount is taken from its path; a crash in between leaves the number of a mount that is still there. At the
//! end of the activation those who are in one are ended, where that is configured. A number that a mount has which can be
//! seen - by us or by the process itself - is another mount's by now, or is not left, and counts for nothing.

use super::evict;
use super::state;
use crate::error::AgentError;
use crate::mount_table::MountId;
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The file in the directory of an activation.
const FILE: &str = "left.json";
/// Most numbers that are remembered; a mount dies only when its process is killed.
const LEFT_MAX: usize = 64;
/// Rounds of looking: what was asked to end first is killed then.
const ROUNDS: usize = 3;

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
    for round in 0..ROUNDS {
        if left.is_empty() {
            break;
        }
        let holders = holders(&left);
        if holders.is_empty() {
            break;
        }
        evict::end(&holders, if round == 0 { Signal::TERM } else { Signal::KILL });
    }
    Ok(())
}

/// The processes that are in one of these mounts.
fn holders(left: &BTreeSet<MountId>) -> Vec<u32> {
    let seen = |process: &Path| MountId::all(&process.join("mountinfo")).unwrap_or_default();
    let ours = seen(Path::new("/proc/self"));
    let left: BTreeSet<MountId> = left.difference(&ours).copied().collect();
    let is_in = |pid: &u32| {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let used: BTreeSet<MountId> = used(&process).intersection(&left).copied().collect();
        !used.is_empty() && !used.is_subset(&seen(&process))
    };
    crate::holders::processes().filter(is_in).collect()
}

/// The mounts of a process's directories, its program and its open files.
fn used(process: &Path) -> BTreeSet<MountId> {
    let links = ["cwd", "root", "exe"].iter().filter_map(|name| mount_of(&process.join(name)));
    let files = std::fs::read_dir(process.join("fdinfo")).into_iter().flatten().flatten();
    links.chain(files.filter_map(|file| MountId::of_fdinfo(&file.path()))).collect()
}

/// The link is followed without asking the file system behind it, which may be dead.
fn mount_of(link: &Path) -> Option<MountId> {
    use std::os::fd::AsRawFd;
    let place = rustix::fs::open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    MountId::of_fdinfo(Path::new(&format!("/proc/self/fdinfo/{}", place.as_raw_fd())))
}
