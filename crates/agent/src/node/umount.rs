//! Taking a mount of ours away from outside of its process.
//!
//! Only a mount of type `fuse.dwfs` is touched, at exactly the path that was named. The process that serves it sees that it is
//! gone, gives back what it holds at the servers, and ends. A dead mount, whose process was killed, goes as well.

use super::NodeError;
use crate::holders::Holders;
use crate::mount_table;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Type of our mounts in the mount table.
const KIND: &str = "fuse.dwfs";
/// The program that unmounts for users other than root.
const HELPER: &str = "fusermount3";

/// How long a mount that nobody is seen to use may still be in use: the kernel lets go of what was closed a moment ago, with requests
/// over io_uring a little after the close has returned.
const SETTLED_WITHIN: Duration = Duration::from_secs(1);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// Unmounts; with `lazy` also what is in use.
pub fn unmount(mountpoint: &Path, lazy: bool) -> Result<(), NodeError> {
    let absolute = std::path::absolute(mountpoint).map_err(|source| failed(mountpoint, source))?;
    let point = mount_table::resolved(&absolute);
    let found = mount_table::at(&point)?.map(|mount| mount.kind);
    if found.as_deref() != Some(KIND) {
        return Err(NodeError::NotOurs { path: point, found });
    }
    let dead =
        forebay_fuse::unmount_stale(&point).map_err(|error| failed(&point, io::Error::other(error)))?;
    if dead {
        return Ok(());
    }
    let begin = Instant::now();
    loop {
        match remove(&point, lazy) {
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => {
                let holders = Holders::of_mount(&point);
                if !holders.is_nobody() || begin.elapsed() >= SETTLED_WITHIN {
                    return Err(NodeError::InUse { holders, path: point });
                }
                std::thread::sleep(PAUSE);
            }
            done => return done.map_err(|source| failed(&point, source)),
        }
    }
}

fn remove(point: &PathBuf, lazy: bool) -> io::Result<()> {
    let flags = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(point, flags | UnmountFlags::NOFOLLOW) {
        Err(Errno::PERM) => remove_by_helper(point, lazy),
        done => Ok(done?),
    }
}

fn remove_by_helper(point: &PathBuf, lazy: bool) -> io::Result<()> {
    let mut helper = Command::new(HELPER);
    helper.arg("-u").args(lazy.then_some("-z")).arg("--").arg(point).stdin(Stdio::null());
    let ended = helper.env("LC_ALL", "C").output()?;
    let said = String::from_utf8_lossy(&ended.stderr);
    match ended.status.success() {
        true => Ok(()),
        false if said.contains("busy") => Err(Errno::BUSY.into()),
        false => Err(io::Error::other(format!("{HELPER}: {}", said.trim()))),
    }
}

fn failed(path: &Path, source: io::Error) -> NodeError {
    NodeError::Unmount { path: path.to_owned(), source }
}
