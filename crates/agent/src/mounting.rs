//! Mounting and unmounting with the kernel's own calls, for root.
//!
//! All of it is idempotent: what is mounted already is left, what is not mounted is not unmounted. Mount points are
//! made without following a symbolic link in the last component. The caller holds the instance's gate.

use crate::error::AgentError;
use crate::holders::Holders;
use crate::mount_table;
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CStr;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::Duration;

/// Tries before a mount counts as busy: processes that have just been ended may take a moment to let go.
const BUSY_TRIES: u32 = 5;
/// Pause between them.
const BUSY_PAUSE: Duration = Duration::from_millis(10);
/// Mounts on top of each other that are removed from one place, at most.
const STACKED: u32 = 16;

/// How a mount went away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Departure {
    /// Completely.
    Clean,
    /// Out of the tree; gone when these (and others not seen) let go.
    Lazy {
        /// Who was seen.
        holders: Holders,
    },
}

impl Departure {
    /// Both together.
    pub fn and(self, other: Departure) -> Departure {
        match (self, other) {
            (Departure::Lazy { holders }, Departure::Lazy { holders: more }) => {
                Departure::Lazy { holders: holders.and(more) }
            }
            (lazy @ Departure::Lazy { .. }, Departure::Clean) => lazy,
            (Departure::Clean, other) => other,
        }
    }
}

/// A directory to mount on: made if it does not exist, refused if something lies in it.
pub(crate) fn make_mount_point(path: &Path) -> Result<(), AgentError> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)
            .map_err(|error| AgentError::system("make directory", parent, error))?;
    }
    match std::fs::DirBuilder::new().mode(0o755).create(path) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(AgentError::system("make mount point", path, error)),
    }
    let meta = std::fs::symlink_metadata(path).map_err(|error| AgentError::system("look at", path, error))?;
    let empty = meta.is_dir()
        && std::fs::read_dir(path).map_err(|error| AgentError::system("read", path, error))?.next().is_none();
    if empty { Ok(()) } else { Err(AgentError::MountPointNotEmpty { path: path.to_owned() }) }
}

/// Removes a mount point that is empty; leaves it if it is not, or is not there.
pub(crate) fn remove_mount_point(path: &Path) -> Result<(), AgentError> {
    match std::fs::remove_dir(path) {
        Ok(()) => Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::DirectoryNotEmpty) => Ok(()),
        Err(error) => Err(AgentError::system("remove mount point", path, error)),
    }
}

/// Mounts XFS on a device. The job's own space needs neither device nodes nor set-id programs, and a file system made
/// by others must not bring them: `nodev`, `nosuid`. Access times are kept as on other local disks (`relatime`).
/// `nouuid`: copies of an image share their UUID with it.
pub(crate) fn mount_xfs(device: &Path, point: &Path) -> Result<(), AgentError> {
    const OPTIONS: &CStr = c"nouuid,inode64";
    let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::RELATIME;
    rustix::mount::mount(device, point, "xfs", flags, OPTIONS)
        .map_err(|error| AgentError::system("mount XFS at", point, error))
}

/// Stops a mounted XFS for good without writing anything back. What its users do then fails.
pub(crate) fn stop_xfs(root: &File) -> std::io::Result<()> {
    // From the kernel's xfs_fs.h.
    const XFS_IOC_GOINGDOWN: libc::c_ulong = 0x8004_587D;
    const XFS_FSOP_GOING_FLAGS_NOLOGFLUSH: u32 = 2;
    let flags = XFS_FSOP_GOING_FLAGS_NOLOGFLUSH;
    // SAFETY: the kernel reads one 32-bit number, which outlives the call.
    let done = unsafe { libc::ioctl(root.as_raw_fd(), XFS_IOC_GOINGDOWN, &raw const flags) };
    if done < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Shows a directory at a second place. `nodev` and `nosuid` of its mount hold there too.
pub(crate) fn mount_bind(directory: &Path, point: &Path) -> Result<(), AgentError> {
    rustix::mount::mount_bind(directory, point)
        .map_err(|error| AgentError::system("bind mount at", point, error))
}

/// Takes a mount away if nobody uses it and the caller may; true if it is gone.
pub(crate) fn unmount_idle(point: &Path) -> bool {
    rustix::mount::unmount(point, UnmountFlags::NOFOLLOW).is_ok()
}

/// Unmounts whatever is mounted at a place (a path without symbolic links). A mount that is in use leaves the tree at
/// once, its content is written back first, and the users of it are named.
pub(crate) fn unmount(point: &Path) -> Result<Departure, AgentError> {
    let mut departure = Departure::Clean;
    for _ in 0..STACKED {
        if mount_table::at(point)?.is_none() {
            break;
        }
        departure = departure.and(unmount_top(point)?);
    }
    Ok(departure)
}

fn unmount_top(point: &Path) -> Result<Departure, AgentError> {
    for _ in 0..BUSY_TRIES {
        match rustix::mount::unmount(point, UnmountFlags::NOFOLLOW) {
            Ok(()) | Err(Errno::INVAL) => return Ok(Departure::Clean),
            Err(Errno::BUSY) => std::thread::sleep(BUSY_PAUSE),
            Err(error) => return Err(AgentError::system("unmount", point, error)),
        }
    }
    let holders = Holders::of_mount(point);
    write_back(point);
    match rustix::mount::unmount(point, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::INVAL) => Ok(Departure::Lazy { holders }),
        Err(error) => Err(AgentError::system("detach mount", point, error)),
    }
}

/// Nobody waits for the end of a lazily detached mount, so what was written goes to the disk first. An error here is
/// one of the disk, which the file system itself remembers and reports to the next fsync.
fn write_back(point: &Path) {
    if let Ok(directory) = std::fs::File::open(point) {
        let _ = rustix::fs::syncfs(&directory);
    }
}
