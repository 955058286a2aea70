//! mount(2) by a process that may.

use super::{AttachOptions, SUBTYPE};
use crate::error::MountError;
use forebay_fusedev::device;
use rustix::io::Errno;
use rustix::mount::MountFlags;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// `None` when the kernel says that this process may not mount (root without the capability, as in many containers).
pub(super) fn mount(mountpoint: &Path, options: &AttachOptions) -> Result<Option<OwnedFd>, MountError> {
    let device = device::open().map_err(|error| MountError::Device { source: error.into() })?;
    let fs_type = format!("fuse.{SUBTYPE}");
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    let data = mount_data(mountpoint, &device, options)?;
    match rustix::mount::mount(options.fsname, mountpoint, fs_type.as_str(), flags, data.as_c_str()) {
        Ok(()) => Ok(Some(device)),
        Err(Errno::PERM) => Ok(None),
        Err(error) => Err(MountError::Mount { path: mountpoint.into(), source: error.into() }),
    }
}

fn mount_data(mountpoint: &Path, device: &OwnedFd, options: &AttachOptions) -> Result<CString, MountError> {
    let root = rustix::fs::stat(mountpoint)
        .map_err(|error| MountError::Mountpoint { path: mountpoint.into(), source: error.into() })?;
    let mut data = format!(
        "fd={},rootmode={:o},user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        root.st_mode & libc::S_IFMT,
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    Ok(CString::new(data).unwrap_or_default()) // numbers and fixed words have no NUL
}
