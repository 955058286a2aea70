//! Disks that fail: after some calls that write to them or sync some do not succeed, or none any more.
//!
//! What was written before and not synced may be lost when the power goes, as ever. A disk is in order again when the process that uses
//! it has ended.

use super::faults::Fault;
use super::{disk, schedule};

/// What the call fails with, if it does.
pub(super) fn refuses(number: i64, a: [usize; 6]) -> Option<i32> {
    let descriptor = match number {
        libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_fallocate => a[0],
        libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_syncfs => a[0],
        libc::SYS_copy_file_range => a[2],
        _ => return None,
    };
    (disk::shown_kind(descriptor as i32).is_some() && fails()).then_some(libc::EIO)
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
