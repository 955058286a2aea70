//! Disks that are full for a while.
//!
//! A call that needs space is refused, or a write done in part, at page boundaries. What is stored can be written over, and
//! whatever gives space back goes through, as on any local file system.

use super::faults::Fault;
use super::schedule;

/// What is allocated at a time, in bytes.
const PAGE_BYTES: u64 = 4096;
/// Longest time that a disk is full, in nanoseconds.
const FULL_NS_MAX: u64 = 400_000_000;

/// A disk is as much likelier to be full for a call of which a part fits.
const PARTLY_CHANCES: u32 = 16;

/// The call with what there is space for, or what it fails with.
pub(super) fn left(number: i64, a: [usize; 6]) -> Result<[usize; 6], i32> {
    let is_full = || schedule::with(is_full);
    let refuse = |fault| schedule::with(|schedule| schedule.happened(fault));
    match number {
        libc::SYS_write | libc::SYS_pwrite64 => {
            // Safe: nothing is changed.
            let at = if number == libc::SYS_write {
                schedule::aside(|| unsafe { libc::lseek(a[0] as i32, 0, libc::SEEK_CUR) }) as u64
            } else {
                a[3] as u64
            };
            // What has no places, as a pipe that is somebody's log, is on no disk.
            let Some(end) = at.checked_add(a[2] as u64) else { return Ok(a) };
            let hole = first_hole(a[0] as i32, at);
            // What fits in part is seldom.
            let chances = if hole > at { PARTLY_CHANCES } else { 1 };
            if hole >= end || !(0..chances).any(|_| is_full()) {
                return Ok(a);
            }
            // As much as falls on what is stored, and sometimes more.
            let more = schedule::with(|schedule| schedule.dice.below((end - hole).div_ceil(PAGE_BYTES)));
            let fits = if more == 0 { hole } else { (hole / PAGE_BYTES + more) * PAGE_BYTES };
            if fits <= at {
                refuse(Fault::Full);
                return Err(libc::ENOSPC);
            }
            refuse(Fault::PartlyFull);
            Ok([a[0], a[1], (fits.min(end) - at) as usize, a[3], a[4], a[5]])
        }
        libc::SYS_openat if a[2] & libc::O_CREAT as usize == 0 => Ok(a),
        libc::SYS_fallocate if a[1] as i32 & libc::FALLOC_FL_PUNCH_HOLE != 0 => Ok(a),
        libc::SYS_openat
        | libc::SYS_mkdirat
        | libc::SYS_mknodat
        | libc::SYS_linkat
        | libc::SYS_renameat
        | libc::SYS_renameat2
        | libc::SYS_fallocate
        | libc::SYS_copy_file_range
        | libc::SYS_fsetxattr
        | libc::SYS_setxattr
            if is_full() =>
        {
            refuse(Fault::Full);
            Err(libc::ENOSPC)
        }
        _ => Ok(a),
    }
}

fn is_full(schedule: &mut schedule::Schedule) -> bool {
    let (now, process, rate) = (schedule.now(), schedule.process(), schedule.faults.full);
    let Some(until) = schedule.full.get(&process).copied() else { return false };
    if rate > 0 && until <= now && schedule.dice.one_in(rate) {
        let until = now + schedule.dice.below(FULL_NS_MAX);
        schedule.full.insert(process, until);
        return true;
    }
    rate > 0 && now < until
}

/// Where in a range the first byte is for which nothing is allocated.
fn first_hole(descriptor: i32, start: u64) -> u64 {
    schedule::aside(|| {
        // Safe: the place is put back.
        unsafe {
            let before = libc::lseek(descriptor, 0, libc::SEEK_CUR);
            let length = libc::lseek(descriptor, 0, libc::SEEK_END) as u64;
            let hole = libc::lseek(descriptor, start as i64, libc::SEEK_HOLE) as u64;
            libc::lseek(descriptor, before, libc::SEEK_SET);
            match hole {
                // The rest of the last page is there.
                _ if start >= length || hole == length => length.next_multiple_of(PAGE_BYTES).max(start),
                _ => hole,
            }
        }
    })
}
