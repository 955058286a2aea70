//! Sharing blocks instead of copying them, where source and target lie on one file system that can.
//!
//! A clone moves no bytes, so there is nothing to compare: both files are the same blocks, and the file system's own word is
//! all the verification there is.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use rustix::fs;
use rustix::io::Errno;

use super::run::Run;

/// Tries to make the empty `target` a clone of `source`; false when the bytes have to be copied.
pub fn whole(run: &Run<'_>, source: Option<BorrowedFd<'_>>, target: Option<BorrowedFd<'_>>) -> bool {
    let (Some(source), Some(target)) = (source, target) else { return false };
    if !run.may_clone.load(Ordering::Relaxed) {
        return false;
    }
    match fs::ioctl_ficlone(target, source) {
        Ok(()) => true,
        Err(errno) => {
            if matches!(errno, Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOTTY | Errno::XDEV | Errno::INVAL) {
                run.may_clone.store(false, Ordering::Relaxed);
            }
            false
        }
    }
}
