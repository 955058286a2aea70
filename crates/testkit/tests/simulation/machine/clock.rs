//! Time since the start is simulated. The time of day is the real one, as that of files is.

use super::real::real;
use super::schedule::{self, Key};

const NS_PER_SECOND: u64 = 1_000_000_000;

/// A time in nanoseconds.
pub(super) fn nanoseconds(time: &libc::timespec) -> u64 {
    time.tv_sec as u64 * NS_PER_SECOND + time.tv_nsec as u64
}

fn is_simulated(clock: libc::clockid_t) -> bool {
    matches!(
        clock,
        libc::CLOCK_MONOTONIC
            | libc::CLOCK_BOOTTIME
            | libc::CLOCK_MONOTONIC_RAW
            | libc::CLOCK_MONOTONIC_COARSE
    )
}

/// As the C library's.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> i32 {
    if schedule::own().is_none() || !is_simulated(clock) {
        let gettime = real!(clock_gettime(libc::clockid_t, *mut libc::timespec) -> i32);
        // Safe: passed on.
        return unsafe { gettime(clock, time) };
    }
    schedule::pass();
    let now = schedule::now();
    // Safe: the caller says that there is room for a time.
    unsafe {
        (*time).tv_sec = (now / NS_PER_SECOND) as libc::time_t;
        (*time).tv_nsec = (now % NS_PER_SECOND) as i64;
    }
    0
}

/// As the C library's.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nanosleep(time: *const libc::timespec, left: *mut libc::timespec) -> i32 {
    if schedule::own().is_none() {
        let sleep = real!(nanosleep(*const libc::timespec, *mut libc::timespec) -> i32);
        // Safe: passed on.
        return unsafe { sleep(time, left) };
    }
    // Safe: the caller says that there is a time.
    let until = schedule::now() + nanoseconds(unsafe { &*time });
    schedule::wait(Key::Time, Some(until));
    0
}

/// As the C library's.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_nanosleep(
    clock: libc::clockid_t,
    flags: i32,
    time: *const libc::timespec,
    left: *mut libc::timespec,
) -> i32 {
    if schedule::own().is_none() {
        let sleep =
            real!(clock_nanosleep(libc::clockid_t, i32, *const libc::timespec, *mut libc::timespec) -> i32);
        // Safe: passed on.
        return unsafe { sleep(clock, flags, time, left) };
    }
    // Safe: the caller says that there is a time.
    let time = nanoseconds(unsafe { &*time });
    let until = if flags & libc::TIMER_ABSTIME != 0 { time } else { schedule::now() + time };
    schedule::wait(Key::Time, Some(until));
    0
}
