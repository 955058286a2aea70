//! Mutexes, conditions and whatever else Rust's library builds on the futex.

use super::real::{fail, real};
use super::schedule::{self, Key};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

const COMMAND: i32 = !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);

/// As the C library's; with as many arguments as a system call can have.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: i64,
    first: usize,
    second: usize,
    third: usize,
    fourth: usize,
    fifth: usize,
    sixth: usize,
) -> i64 {
    let is_ours = schedule::own().is_some();
    match number {
        // Safe: the caller says that there is a word, and a time or none.
        libc::SYS_futex if is_ours => unsafe { futex(first, second as i32, third as u32, fourth) },
        libc::SYS_getrandom if is_ours => super::chance::fill(first as *mut u8, second) as i64,
        _ => {
            let syscall = real!(syscall(i64, usize, usize, usize, usize, usize, usize) -> i64);
            // Safe: passed on.
            unsafe { syscall(number, first, second, third, fourth, fifth, sixth) }
        }
    }
}

unsafe fn futex(address: usize, operation: i32, value: u32, time: usize) -> i64 {
    // Safe: the caller says so.
    let word = unsafe { AtomicU32::from_ptr(address as *mut u32) };
    let command = operation & COMMAND;
    match command {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
            if word.load(SeqCst) != value {
                return fail(libc::EAGAIN).into();
            }
            let until = (time != 0).then(|| {
                // Safe: the caller says that there is a time.
                let time = unsafe { *(time as *const libc::timespec) };
                let time = super::clock::nanoseconds(&time);
                if command == libc::FUTEX_WAIT { schedule::now() + time } else { time }
            });
            if schedule::wait(Key::Futex(address), until) { 0 } else { fail(libc::ETIMEDOUT).into() }
        }
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => {
            let woken = schedule::with(|schedule| schedule.wake(Key::Futex(address), value as usize));
            schedule::pass();
            woken as i64
        }
        other => panic!("futex operation {other} is not simulated"),
    }
}
