//! Bytes that nobody can guess come from the seed here: session ids, nonces, the order of hash tables.

use super::real::real;
use super::schedule;
use std::ffi::c_void;

/// Fills memory; returns how much.
pub(super) fn fill(to: *mut u8, length: usize) -> isize {
    let bytes: Vec<u8> = schedule::with(|schedule| (0..length).map(|_| schedule.dice.bits() as u8).collect());
    // Safe: the caller of the function that this stands for says that there is room.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, length) };
    length as isize
}

/// As the C library's.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(to: *mut c_void, length: usize, flags: u32) -> isize {
    if schedule::own().is_some() {
        return fill(to.cast(), length);
    }
    let random = real!(getrandom(*mut c_void, usize, u32) -> isize);
    // Safe: passed on.
    unsafe { random(to, length, flags) }
}
