//! Threads: made in the process of who makes them, and waited for in simulated time.

use super::real::real;
use super::schedule::{self, Key};
use std::ffi::{CStr, c_char, c_void};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

type Start = extern "C" fn(*mut c_void) -> *mut c_void;

struct Begin {
    task: schedule::Task,
    turn: Arc<AtomicU32>,
    start: Start,
    argument: *mut c_void,
}

extern "C" fn begin(argument: *mut c_void) -> *mut c_void {
    // Safe: made below for this thread alone.
    let begin = unsafe { Box::from_raw(argument.cast::<Begin>()) };
    schedule::enter(begin.task, &begin.turn);
    let result = (begin.start)(begin.argument);
    schedule::leave();
    result
}

/// As the C library's.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    native: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> i32 {
    let create =
        real!(pthread_create(*mut libc::pthread_t, *const libc::pthread_attr_t, Start, *mut c_void) -> i32);
    if schedule::own().is_none() {
        // Safe: passed on.
        return unsafe { create(native, attributes, start, argument) };
    }
    let (task, turn) = schedule::with(|schedule| schedule.add_thread(schedule.process()));
    let started = Box::into_raw(Box::new(Begin { task, turn, start, argument })).cast();
    // Safe: passed on, with what the new thread takes over.
    let failed = unsafe { create(native, attributes, begin, started) };
    assert_eq!(failed, 0, "the machine has no thread left for the simulation");
    // Safe: it was written just now.
    let made = unsafe { *native };
    schedule::with(|schedule| schedule.set_native(task, made));
    schedule::pass();
    0
}

/// As the C library's.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_join(native: libc::pthread_t, result: *mut *mut c_void) -> i32 {
    if schedule::own().is_some() {
        while let Some((task, false)) = schedule::with(|schedule| schedule.by_native(native)) {
            schedule::wait(Key::Ended(task), None);
        }
    }
    // It is at its end: this waits for the real one a moment.
    let join = real!(pthread_join(libc::pthread_t, *mut *mut c_void) -> i32);
    // Safe: passed on.
    unsafe { join(native, result) }
}

/// As the C library's.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_setname_np(native: libc::pthread_t, name: *const c_char) -> i32 {
    if schedule::own().is_some() {
        // Safe: the name ends with a zero.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        schedule::with(|schedule| schedule.set_name(&name));
    }
    let set = real!(pthread_setname_np(libc::pthread_t, *const c_char) -> i32);
    // Safe: passed on.
    unsafe { set(native, name) }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn sched_yield() -> i32 {
    schedule::pass();
    0
}
