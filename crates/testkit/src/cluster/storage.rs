//! What the fragment of a server is on.
//!
//! An XFS image is mounted in its host alone: when the host ends, the kernel unmounts it and frees its loop device, and when
//! the host boots again the same image is mounted, with what was on it.

use super::host::TOOL_LIMIT;
use super::{ClusterError, GONE_WITHIN, Host, HostId};
use crate::Identity;
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
    /// As [`Storage::Directory`], but the disk of one server promises more than it has: what is written is taken, and fails
    /// when it is to go to the disk. [`super::Cluster::repair_disk`] gives it the room that
    /// it promised. It holds nothing after a crash of its host.
    Failing {
        /// Which server.
        server: usize,
    },
}

/// What a failing disk promises, and what it has, in bytes.
const PROMISED_BYTES: u64 = 200 << 20;
const ROOM_BYTES: u64 = 24 << 20;

/// Makes the fragment's directory as it has to be in a host that just booted.
pub(super) fn prepare(host: &Host, storage: Storage) -> Result<(), ClusterError> {
    let point = host.fragment();
    fs::create_dir_all(&point).map_err(ClusterError::file(&point))?;
    match storage {
        Storage::Xfs { bytes } => {
            let image = image_path(host.directory());
            if !image.exists() {
                make_image(&image, bytes)?;
            }
            let mut mount = Command::new("mount");
            mount.args(["-o", "loop"]).args([&image, &point]);
            host.success(&mut mount, TOOL_LIMIT).map(drop)
        }
        Storage::Failing { server } if host.id() == HostId::Server(server) => prepare_failing(host, &point),
        Storage::Failing { .. } | Storage::Directory => Ok(()),
    }
}

/// A file system on a sparse image in a memory that is too small for it. Without a journal, so that data fails and not the
/// file system as a whole.
fn prepare_failing(host: &Host, point: &Path) -> Result<(), ClusterError> {
    let memory = memory_path(host);
    let script = format!(
        "mkdir -p {memory:?}; mount -t tmpfs -o size={ROOM_BYTES} forebay-test {memory:?}\n\
         truncate -s {PROMISED_BYTES} {memory:?}/image; mkfs.ext4 -q -F -O ^has_journal {memory:?}/image\n\
         mount -o loop,errors=continue {memory:?}/image {point:?}"
    );
    host.shell(&Identity::root(), &script, TOOL_LIMIT).map(drop)
}

fn memory_path(host: &Host) -> PathBuf {
    host.directory().join("memory")
}

/// Gives the disk of [`Storage::Failing`] what it promised.
pub(super) fn repair(host: &Host) -> Result<(), ClusterError> {
    let script = format!("mount -o remount,size={} {:?}", 2 * PROMISED_BYTES, memory_path(host));
    host.shell(&Identity::root(), &script, TOOL_LIMIT).map(drop)
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
