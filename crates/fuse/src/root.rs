//! Lets the kernel know the root of a new mount before anybody uses it.
//!
//! mount(2) makes the root without an owner's permissions: mode 0, of user 0. Its attributes come with the first GETATTR,
//! and the kernel drops that answer if the root's attributes are announced as changed while it is on its way; who asked
//! is then refused (EACCES) by the permissions that the mount began with. So the attributes are asked for here, until the
//! kernel has them. An answer that is dropped later does no such harm: those of before stay.
//!
//! Called while the mount is served, by a thread that does not serve it. A crash leaves a mount like any other.

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use rustix::io::Errno;
use std::io;
use std::path::Path;

/// An answer is dropped only if an announcement meets it, which a few in a row do not.
const ATTEMPTS_MAX: usize = 1000;

/// Owner, group and mode of the root are known to the kernel afterwards. Errors: the mount is gone, or the file system
/// does not answer; `TimedOut` if every answer was dropped.
pub(crate) fn make_known(mountpoint: &Path) -> io::Result<()> {
    for _ in 0..ATTEMPTS_MAX {
        let answered = permissions(mountpoint, AtFlags::STATX_FORCE_SYNC)?;
        if permissions(mountpoint, AtFlags::STATX_DONT_SYNC)? == answered {
            return Ok(());
        }
    }
    Err(Errno::TIMEDOUT.into())
}

/// As the file system answers now, or as the kernel has them.
fn permissions(mountpoint: &Path, sync: AtFlags) -> io::Result<(u16, u32, u32)> {
    let wanted = StatxFlags::MODE | StatxFlags::UID | StatxFlags::GID;
    let Statx { stx_mode, stx_uid, stx_gid, .. } = statx(CWD, mountpoint, sync, wanted)?;
    Ok((stx_mode, stx_uid, stx_gid))
}
