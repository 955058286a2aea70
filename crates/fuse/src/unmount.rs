//! Removing mounts: our own when the work is done, and dead ones that a killed process left.
//!
//! Only the mount that was made is ever removed: the table of mounts is looked at first, so that a mount somebody put
//! on the same path meanwhile stays. The kernel gives the numbers in the table to the next mount as soon as one is gone, often
//! at the same path: they tell our mount from others only while its connection lives, which keeps the device's number taken.
//! Afterwards what has our numbers is ours only if it is dead. May be called from any thread.

use crate::attach::{SUBTYPE, Way, find_helper, unmount_by_helper};
use crate::error::UnmountError;
use crate::mountinfo::{MountEntry, topmost_at};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How an unmount went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmount {
    /// Nobody used it; everything is flushed and served.
    Clean,
    /// Somebody still has a file or a working directory in it: the path is free, what is open goes on being served by
    /// this process until it is closed or the process ends.
    Lazy,
}

/// A mount that was made by this process, and how.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub mountpoint: PathBuf,
    pub entry: MountEntry,
    pub way: Way,
}

impl Target {
    /// The mount is in the table, at the top of its path.
    fn is_there(&self) -> Result<bool, UnmountError> {
        let top = topmost_at(&self.mountpoint).map_err(|source| UnmountError::Table { source })?;
        Ok(top.is_some_and(|top| (top.mount_id, &top.device) == (self.entry.mount_id, &self.entry.device)))
    }

    /// Takes the mount away, lazily if it is in use. `is_connected`: the kernel has not cut the connection.
    pub(crate) fn remove(&self, is_connected: bool) -> Result<Removal, UnmountError> {
        if !self.is_there()? || (!is_connected && !is_dead(&self.mountpoint)?) {
            return Ok(Removal::GoneBefore);
        }
        match self.remove_unused()? {
            Some(removal) => Ok(removal),
            None => self.detach().map(|()| Removal::Detached),
        }
    }

    /// Takes it away unless it is in use for longer than a moment.
    fn remove_unused(&self) -> Result<Option<Removal>, UnmountError> {
        let end = Instant::now() + IN_USE_WAIT;
        loop {
            let removed = match &self.way {
                Way::Syscall => remove_by_syscall(&self.mountpoint)?,
                Way::Helper(helper) => self.remove_by_helper(helper)?,
            };
            if removed.is_some() || Instant::now() >= end {
                return Ok(removed);
            }
            std::thread::sleep(IN_USE_PAUSE);
            // Somebody may have put another mount there.
            if !self.is_there()? {
                return Ok(Some(Removal::GoneBefore));
            }
        }
    }

    fn remove_by_helper(&self, helper: &Path) -> Result<Option<Removal>, UnmountError> {
        if unmount_by_helper(helper, &self.mountpoint, false).is_ok() {
            return Ok(Some(Removal::Removed));
        }
        // It does not say why it failed.
        Ok(if self.is_there()? { None } else { Some(Removal::GoneBefore) })
    }

    fn detach(&self) -> Result<(), UnmountError> {
        match &self.way {
            Way::Syscall => {
                detach_by_syscall(&self.mountpoint).map_err(|error| failed(&self.mountpoint, error))
            }
            Way::Helper(helper) => unmount_by_helper(helper, &self.mountpoint, true),
        }
    }
}

/// What became of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// It was not there: somebody else took it away, perhaps lazily.
    GoneBefore,
    /// Taken away, nobody used it.
    Removed,
    /// Taken from its path, somebody still uses it.
    Detached,
}

/// Who uses a mount for a moment only is waited for so long: a process that is being started has open what its parent has, until
/// it runs its program.
const IN_USE_WAIT: Duration = Duration::from_millis(200);
const IN_USE_PAUSE: Duration = Duration::from_millis(2);

fn failed(path: &Path, error: Errno) -> UnmountError {
    UnmountError::Unmount { path: path.into(), source: error.into() }
}

/// `None`: it is in use.
fn remove_by_syscall(path: &Path) -> Result<Option<Removal>, UnmountError> {
    match rustix::mount::unmount(path, UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(Some(Removal::Removed)),
        Err(Errno::INVAL) => Ok(Some(Removal::GoneBefore)), // no longer a mount point
        Err(Errno::BUSY) => Ok(None),
        Err(error) => Err(failed(path, error)),
    }
}

fn detach_by_syscall(path: &Path) -> Result<(), Errno> {
    rustix::mount::unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
}

/// Dead mounts on one path that are removed in one call; more than one appears only when a program mounts again over
/// its predecessor's remains.
const LAYERS_MAX: usize = 16;

/// Removes what a killed process left mounted at `path` ("Transport endpoint is not connected"). `false` when nothing
/// dead is there; a living mount is never touched. The last component of `path` is the mount point itself and must not
/// be a symbolic link.
pub fn unmount_stale(path: &Path) -> Result<bool, UnmountError> {
    let Some(mountpoint) = absolute(path)? else { return Ok(false) };
    for removed in 0..LAYERS_MAX {
        if !is_dead(&mountpoint)? {
            return Ok(removed > 0);
        }
        detach(&mountpoint)?;
    }
    match is_dead(&mountpoint)? {
        true => Err(UnmountError::TooManyLayers { path: mountpoint, removed: LAYERS_MAX }),
        false => Ok(true),
    }
}

/// Resolves the parent only: the mount point itself cannot be looked at when it is dead. `None`: no such directory.
fn absolute(path: &Path) -> Result<Option<PathBuf>, UnmountError> {
    let error = |source| UnmountError::Path { path: path.into(), source };
    let Some(name) = path.file_name() else {
        return Err(error(io::ErrorKind::InvalidInput.into()));
    };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    match parent.canonicalize() {
        Ok(parent) => Ok(Some(parent.join(name))),
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(error(source)),
    }
}

/// An attribute that no file has, which the serving process knows by itself: a namespace of other machines may have servers that are
/// away.
const ASKED: &str = "security.forebay";

/// Only a mount of ours can be dead in the way meant here. A question for an extended attribute always goes to the serving process:
/// others may still be answered from the kernel's cache after its death. "Aborted" and "cancelled" are the answers of a connection
/// that is just being cut, which takes the kernel a moment where requests went over io_uring.
fn is_dead(mountpoint: &Path) -> Result<bool, UnmountError> {
    let top = topmost_at(mountpoint).map_err(|source| UnmountError::Table { source })?;
    if top.is_none_or(|entry| entry.fs_type != format!("fuse.{SUBTYPE}")) {
        return Ok(false);
    }
    let asked = rustix::fs::getxattr(mountpoint, ASKED, &mut [0; 0][..]);
    Ok(matches!(asked, Err(Errno::NOTCONN | Errno::CONNABORTED | Errno::CANCELED)))
}

fn detach(mountpoint: &Path) -> Result<(), UnmountError> {
    match detach_by_syscall(mountpoint) {
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(Errno::PERM) => {
            let missing =
                || UnmountError::Helper { path: mountpoint.into(), source: io::ErrorKind::NotFound.into() };
            unmount_by_helper(&find_helper().ok_or_else(missing)?, mountpoint, true)
        }
        Err(error) => Err(failed(mountpoint, error)),
    }
}
