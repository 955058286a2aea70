//! A mount namespace for each test thread.
//!
//! Mounts of a test are seen by nobody else and end with its last process, whatever happens to it. Within, `/dev/fuse` has
//! the mode that udev gives it (0666), which machines without udev lack: ordinary users could not mount there at all.

use rustix::fs::{CWD, FileType, Mode};
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::thread::UnshareFlags;
use std::cell::Cell;

thread_local! {
    static ENTERED: Cell<bool> = const { Cell::new(false) };
}

/// Moves this thread, and what it starts from now on, into a namespace of its own. Once is enough.
pub fn enter() {
    assert!(rustix::process::geteuid().is_root(), "these tests run as root");
    if ENTERED.replace(true) {
        return;
    }
    // SAFETY: only the mount namespace and the file system attributes of this thread are unshared; no memory, no
    // descriptors, and nothing else in the test relies on sharing a working directory between threads.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
    let everything = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", everything).unwrap();
    open_device();
}

/// A node of our own over the machine's, which keeps its mode.
fn open_device() {
    let directory = tempfile::tempdir().unwrap();
    let (place, node) = (directory.path(), directory.path().join("fuse"));
    rustix::mount::mount("none", place, "tmpfs", MountFlags::empty(), None).unwrap();
    let device = rustix::fs::makedev(10, 229);
    rustix::fs::mknodat(CWD, &node, FileType::CharacterDevice, Mode::empty(), device).unwrap();
    rustix::fs::chmod(&node, Mode::from_raw_mode(0o666)).unwrap();
    rustix::mount::mount_bind(&node, "/dev/fuse").unwrap();
    rustix::mount::unmount(place, rustix::mount::UnmountFlags::DETACH).unwrap();
}
