//! A mount namespace for each test.
//!
//! What a test mounts is seen by nobody else, and it ends with the test's last process, whatever happens to that. Within,
//! `/dev/fuse` is open to every user, as udev makes it: on a machine without udev ordinary users could not mount.
//!
//! The namespace belongs to the calling thread and to everything it starts afterwards; other threads stay where they are.
//! That is why [`crate::mounts`] reads the mount table of the thread and not of the process.

use rustix::fs::{CWD, FileType, Mode};
use rustix::io::Result;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::UnshareFlags;
use std::cell::Cell;
use std::path::Path;

/// The character device of FUSE.
const DEVICE: &str = "/dev/fuse";

/// Its numbers.
const MAJOR: u32 = 10;
const MINOR: u32 = 229;

thread_local! {
    static ENTERED: Cell<bool> = const { Cell::new(false) };
}

/// Moves this thread, and what it starts from here on, into a namespace of its own, once. Needs root.
///
/// `directory` is an empty directory that is used for a moment.
pub fn enter(directory: &Path) -> Result<()> {
    if ENTERED.get() {
        return Ok(());
    }
    // SAFETY: what is unshared is the mount namespace and the working directory of this thread; no memory and no
    // descriptors, and nothing in the tests relies on threads sharing a working directory.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }?;
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    cover_device(directory)?;
    ENTERED.set(true);
    Ok(())
}

/// Puts a node with the mode that udev gives over the machine's own, which keeps its mode.
fn cover_device(directory: &Path) -> Result<()> {
    let node = directory.join("fuse");
    rustix::mount::mount("none", directory, "tmpfs", MountFlags::empty(), None)?;
    let device = rustix::fs::makedev(MAJOR, MINOR);
    rustix::fs::mknodat(CWD, &node, FileType::CharacterDevice, Mode::empty(), device)?;
    rustix::fs::chmod(&node, Mode::from_raw_mode(0o666))?;
    rustix::mount::mount_bind(&node, DEVICE)?;
    rustix::mount::unmount(directory, UnmountFlags::DETACH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Scratch, mounts};

    #[test]
    fn mounts_of_one_thread_are_not_seen_by_another() {
        let scratch = Scratch::new("isolation");
        let (device, point) = (scratch.directory("device", 0o755), scratch.directory("point", 0o755));
        let (inside, outside) = (point.clone(), point);
        std::thread::spawn(move || {
            enter(&device).unwrap();
            rustix::mount::mount("none", &inside, "tmpfs", MountFlags::empty(), None).unwrap();
            assert!(mounts::at(&inside).is_some());
            assert_eq!(rustix::fs::stat(DEVICE).unwrap().st_mode & 0o777, 0o666);
        })
        .join()
        .unwrap();
        assert!(mounts::at(&outside).is_none());
        scratch.finish();
    }
}
