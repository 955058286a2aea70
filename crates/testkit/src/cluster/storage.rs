//! What the fragment of a server is on.
//!
//! An XFS image is mounted in its host alone: when the host ends, the kernel unmounts it and frees its loop device, and when
//! the host boots again the same image is mounted, with what was on it.

use super::host::TOOL_LIMIT;
use super::{ClusterError, GONE_WITHIN, Host};
use crate::leaks::{self, Leak};
use crate::process;
use crate::wait;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the fragment of a server is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// A directory of the machine's own file system.
    Directory,
    /// An XFS file system of so many bytes, at least [`crate::xfs_image::SMALLEST_BYTES`]; only what is used takes space.
    Xfs {
        /// Its size.
        bytes: u64,
    },
}

/// Makes the fragment's directory as it has to be in a host that just booted.
pub(super) fn prepare(host: &Host, storage: Storage) -> Result<(), ClusterError> {
    let point = host.fragment();
    fs::create_dir_all(&point).map_err(ClusterError::file(&point))?;
    let Storage::Xfs { bytes } = storage else { return Ok(()) };
    let image = image_path(host.directory());
    if !image.exists() {
        make_image(&image, bytes)?;
    }
    let mut mount = Command::new("mount");
    mount.args(["-o", "loop"]).args([&image, &point]);
    host.success(&mut mount, TOOL_LIMIT).map(drop)
}

fn image_path(directory: &Path) -> PathBuf {
    directory.join("disk.img")
}

fn make_image(image: &Path, bytes: u64) -> Result<(), ClusterError> {
    fs::File::create(image).and_then(|made| made.set_len(bytes)).map_err(ClusterError::file(image))?;
    process::run(Command::new("mkfs.xfs").arg("-q").arg(image), TOOL_LIMIT)?.success()?;
    Ok(())
}

/// Awaits that the disk of a host that has ended is in use no more; it is unmounted in the background.
pub(super) fn await_release(directory: &Path) -> Result<(), ClusterError> {
    let held = || leaks::below(directory).iter().any(|leak| matches!(leak, Leak::Loop { .. }));
    Ok(wait::wait_until("the release of a crashed host's disk", GONE_WITHIN, || !held())?)
}
