//! Files are real. Before a call changes one, its process may be killed.

use super::faults::Fault;
use super::real::real;
use super::schedule::{self, Seen};
use std::ffi::CStr;
use std::ffi::c_char;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A call is going to change a file. Does not return when the process is killed at it.
pub(super) fn before(name: &str) {
    schedule::pass();
    let is_killed = schedule::with(|schedule| {
        let faults = schedule.faults;
        let may_be = schedule.may_die() && faults.kill > 0 && faults.kills_left > 0;
        schedule.note(|| name.to_owned());
        let is_killed = may_be && schedule.dice.one_in(faults.kill);
        if is_killed {
            let process = schedule.process();
            schedule.faults.kills_left -= 1;
            schedule.happened(Fault::KilledAtChange);
            schedule.kill(process);
            schedule.tell(Seen::Killed(process));
        }
        is_killed
    });
    if is_killed {
        schedule::hand_over();
        unreachable!("a thread of a killed process runs");
    }
}

/// Descriptors of files at or below a directory.
pub(super) fn open_below(directory: &Path) -> Vec<(i32, PathBuf)> {
    let entries = std::fs::read_dir("/proc/self/fd").expect("/proc is there");
    let open = entries.flatten().filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, std::fs::read_link(entry.path()).ok()?))
    });
    open.filter(|(_, path)| path.as_os_str().as_bytes().starts_with(directory.as_os_str().as_bytes()))
        .collect()
}

/// Closes every descriptor of a file at or below a directory: nobody has them any more.
pub(super) fn close_below(directory: &Path) {
    let close = real!(close(i32) -> i32);
    for (number, _) in open_below(directory) {
        // Safe: the threads that had it never run again.
        unsafe { close(number) };
    }
}

/// As the C library's: but what nobody can guess comes from the seed.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open64(path: *const c_char, flags: i32, mode: u32) -> i32 {
    let open = real!(open64(*const c_char, i32, u32) -> i32);
    // Safe: the path ends with a zero.
    let is_chance = schedule::own().is_some() && unsafe { CStr::from_ptr(path) } == c"/dev/urandom";
    if !is_chance {
        // Safe: passed on.
        return unsafe { open(path, flags, mode) };
    }
    let mut bytes = [0u8; 256];
    super::chance::fill(bytes.as_mut_ptr(), bytes.len());
    // Safe: a file in memory, written and read from its begin.
    unsafe {
        let file = libc::memfd_create(c"chance".as_ptr(), libc::MFD_CLOEXEC);
        assert_eq!(libc::pwrite(file, bytes.as_ptr().cast(), bytes.len(), 0), bytes.len() as isize);
        file
    }
}

/// Stands in front of functions that Rust's library changes files with.
macro_rules! change {
    ($(fn $name:ident($($argument:ident: $type:ty),*))*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        /// As there.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> i32 {
            if schedule::own().is_some() {
                before(stringify!($name));
            }
            let function = real!($name($($type),*) -> i32);
            // Safe: passed on.
            unsafe { function($($argument),*) }
        }
    )*};
}

change! {
    fn fsync(descriptor: i32)
    fn fdatasync(descriptor: i32)
    fn rename(from: *const c_char, to: *const c_char)
    fn unlink(path: *const c_char)
}
