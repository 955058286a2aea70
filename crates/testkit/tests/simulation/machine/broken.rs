//! Disks that fail: after some calls that change something on them, or sync it, do not succeed, or none any more.
//!
//! What is there can be read: it is in memory. What was written before and not synced may be lost when the power goes, as ever. A disk
//! is in order again when the process that uses it has ended.

use super::faults::Fault;
use super::{disk, schedule};

/// What the call fails with, if it does.
pub(super) fn refuses(number: i64, a: [usize; 6]) -> Option<i32> {
    let is_on_disk = match number {
        libc::SYS_write
        | libc::SYS_pwrite64
        | libc::SYS_fallocate
        | libc::SYS_ftruncate
        | libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_syncfs
        | libc::SYS_fsetxattr
        | libc::SYS_fremovexattr
        | libc::SYS_fchmod
        | libc::SYS_fchown => disk::shown_kind(a[0] as i32).is_some(),
        libc::SYS_copy_file_range => disk::shown_kind(a[2] as i32).is_some(),
        // A server has no names but those on its disk.
        libc::SYS_openat
        | libc::SYS_mkdirat
        | libc::SYS_mknodat
        | libc::SYS_linkat
        | libc::SYS_unlinkat
        | libc::SYS_renameat
        | libc::SYS_renameat2
        | libc::SYS_setxattr
        | libc::SYS_removexattr
        | libc::SYS_fchmodat
        | libc::SYS_fchownat
        | libc::SYS_utimensat => true,
        _ => false,
    };
    (is_on_disk && fails()).then_some(libc::EIO)
}

fn fails() -> bool {
    schedule::with(|schedule| {
        let process = schedule.process();
        let Some((before, left)) = schedule.failing.get_mut(&process) else { return false };
        let fails = *before == 0 && *left > 0;
        if fails {
            *left -= 1;
        }
        *before = before.saturating_sub(1);
        if fails {
            schedule.happened(Fault::Failed);
        }
        fails
    })
}
