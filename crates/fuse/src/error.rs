//! Why a mount could not be made or removed. Each variant says who can act on it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A mount that did not come about; nothing is left mounted.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// The mount point is missing, no directory, or not reachable (user).
    #[error("cannot mount on {}: {source}", path.display())]
    Mountpoint {
        /// The path as given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The name for `df` is empty, too long or has control characters (program).
    #[error("{name:?} cannot be the device name of a mount: 1 to {max} bytes without control characters are")]
    FsName {
        /// The name as given.
        name: String,
        /// Longest name taken, in bytes.
        max: usize,
    },
    /// A number of threads outside the limits (program).
    #[error("{given} threads cannot serve a mount: 1 to {max} can")]
    Threads {
        /// As given.
        given: usize,
        /// [`crate::MountOptions::THREADS_MAX`].
        max: usize,
    },
    /// `/dev/fuse` is absent or closed to this process (operator).
    #[error("cannot open /dev/fuse: {source}; the kernel's fuse module or the device is missing here")]
    Device {
        /// What the system said.
        source: io::Error,
    },
    /// No `fusermount3` and no right to mount without it (operator).
    #[error("mounting as an ordinary user needs fusermount3 (package fuse3), which is not installed")]
    HelperMissing,
    /// The mount helper could not be started or did not answer (operator).
    #[error("mount helper {}: {source}", helper.display())]
    Helper {
        /// The program.
        helper: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The mount helper refused; its own words (user).
    #[error("{} will not mount on {}: {message}", helper.display(), path.display())]
    HelperRefused {
        /// The program.
        helper: PathBuf,
        /// The mount point.
        path: PathBuf,
        /// Its standard error.
        message: String,
    },
    /// `allow_other` was wanted by an ordinary user and is not permitted on this machine (operator).
    #[error("other users may not be let into a mount: /etc/fuse.conf has no line user_allow_other")]
    AllowOtherRefused,
    /// mount(2) failed (operator).
    #[error("mounting on {}: {source}", path.display())]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel and this program did not agree on a protocol, or the mount went away meanwhile (us).
    #[error("the kernel did not take up the mount on {}: {source}", path.display())]
    Handshake {
        /// The mount point.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A mount that could not be removed, or whose removal could not be seen.
#[derive(Debug, thiserror::Error)]
pub enum UnmountError {
    /// The table of mounts could not be read (operator).
    #[error("reading the table of mounts: {source}")]
    Table {
        /// What the system said.
        source: io::Error,
    },
    /// The path cannot be looked at (user).
    #[error("{}: {source}", path.display())]
    Path {
        /// The path as given.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// umount2(2) failed (operator).
    #[error("unmounting {}: {source}", path.display())]
    Unmount {
        /// The mount point.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The mount helper is missing or could not be started (operator).
    #[error("unmounting {} needs fusermount3 (package fuse3): {source}", path.display())]
    Helper {
        /// The mount point.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The mount helper refused; its own words (operator).
    #[error("{} will not unmount {}: {message}", helper.display(), path.display())]
    HelperRefused {
        /// The program.
        helper: PathBuf,
        /// The mount point.
        path: PathBuf,
        /// Its standard error.
        message: String,
    },
    /// Unmounted, but requests of it are still being served (us).
    #[error("requests of the unmounted {} still run after {} s", path.display(), waited.as_secs())]
    StillServing {
        /// The mount point.
        path: PathBuf,
        /// How long was waited.
        waited: Duration,
    },
    /// More dead mounts lie on one path than anybody made (operator).
    #[error("{} dead mounts removed from {} and there is still one", removed, path.display())]
    TooManyLayers {
        /// The mount point.
        path: PathBuf,
        /// How many were removed.
        removed: usize,
    },
    /// The session of the mount ended with an error of the device (us).
    #[error("serving {} ended early: {message}", path.display())]
    Session {
        /// The mount point.
        path: PathBuf,
        /// What the session said.
        message: String,
    },
}
