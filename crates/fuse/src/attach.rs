//! Making the kernel mount a new FUSE connection at a path: directly where this process may, otherwise through the
//! set-uid helper of the fuse3 package.
//!
//! Order of events: open the device (or have the helper open it), mount, take the descriptor. A crash before the mount
//! leaves nothing; a crash after it leaves a dead mount, which [`crate::unmount_stale`] removes.

mod helper;
mod syscall;

use crate::error::MountError;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

pub(crate) use helper::{find as find_helper, unmount as unmount_by_helper};

/// How a mount was made, which is also how it can be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// mount(2) by this process.
    Syscall,
    /// By this program.
    Helper(PathBuf),
}

/// What the kernel is told at mount time.
#[derive(Clone, Debug)]
pub(crate) struct AttachOptions<'a> {
    pub fsname: &'a str,
    pub allow_other: bool,
}

/// The type in `/proc/mounts` is `fuse.` followed by this.
pub(crate) const SUBTYPE: &str = "dwfs";

/// Mounts at `mountpoint` (canonical) and returns the connection.
pub(crate) fn attach(mountpoint: &Path, options: &AttachOptions) -> Result<(OwnedFd, Way), MountError> {
    if rustix::process::geteuid().is_root()
        && let Some(device) = syscall::mount(mountpoint, options)?
    {
        return Ok((device, Way::Syscall));
    }
    let helper = helper::find().ok_or(MountError::HelperMissing)?;
    let device = helper::mount(&helper, mountpoint, options)?;
    Ok((device, Way::Helper(helper)))
}
