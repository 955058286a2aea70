//! Files are real. Before a call changes one, its process may be killed, or its machine lose its power; or the disk is full.

use super::dispatch::raw;
use super::faults::Fault;
use super::real::{fail, real};
use super::schedule::{self, Schedule, Seen};
use super::{broken, disk, space};
use std::ffi::CStr;
use std::ffi::c_char;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time that a sync waits for its disk, in microseconds.
const SYNC_US_MAX: u64 = 300;

/// Says which start of the machine this is.
const BOOT: &CStr = c"/proc/sys/kernel/random/boot_id";

/// A call is going to change a file. Does not return when the process is killed at it.
fn before(name: &str) {
    schedule::pass();
    let is_over = schedule::with(|schedule| {
        schedule.note(|| name.to_owned());
        let process = schedule.process();
        let seen = match ending(schedule) {
            None => return false,
            Some(Fault::CrashedAtChange) => {
                schedule.faults.crashes_left -= 1;
                schedule.happened(Fault::CrashedAtChange);
                schedule.crash(process);
                Seen::Crashed(process)
            }
            Some(fault) => {
                schedule.faults.kills_left -= 1;
                schedule.happened(fault);
                schedule.kill(process);
                Seen::Killed(process)
            }
        };
        schedule.tell(seen);
        true
    });
    if is_over {
        schedule::hand_over();
        unreachable!("a thread of a killed process runs");
    }
}

/// How the process of this thread ends here, if it does.
fn ending(schedule: &mut Schedule) -> Option<Fault> {
    if !schedule.may_die() {
        return None;
    }
    let faults = schedule.faults;
    let mut happens = |rate: u64, left: u64| rate > 0 && left > 0 && schedule.dice.one_in(rate);
    if happens(faults.kill, faults.kills_left) {
        return Some(Fault::KilledAtChange);
    }
    happens(faults.crash, faults.crashes_left).then_some(Fault::CrashedAtChange)
}

/// A call that changes a file; `make` makes it. Results are as the kernel gives them.
pub(super) fn change(name: &str, number: i64, a: [usize; 6], make: impl FnOnce([usize; 6]) -> i64) -> i64 {
    if matches!(number, libc::SYS_fsync | libc::SYS_fdatasync) {
        // The disk takes its time, and others go on meanwhile.
        std::thread::sleep(Duration::from_micros(super::below(SYNC_US_MAX)));
    }
    before(&disk::named(name, number, a));
    if let Some(errno) = broken::refuses(number, a) {
        return -i64::from(errno);
    }
    match space::left(number, a) {
        Ok(a) => disk::around(number, a, || make(a)),
        Err(errno) => -i64::from(errno),
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
    // Safe: the same.
    let is_boot = schedule::own().is_some() && unsafe { CStr::from_ptr(path) } == BOOT;
    let mut bytes = [0u8; 256];
    if is_boot {
        return in_memory(schedule::with(|schedule| schedule.boot()).as_bytes());
    }
    if is_chance {
        super::chance::fill(bytes.as_mut_ptr(), bytes.len());
        return in_memory(&bytes);
    }
    // Safe: passed on.
    let make = || unsafe { open(path, flags, mode) };
    if schedule::own().is_none() || flags & libc::O_CREAT == 0 {
        return make();
    }
    let a = [libc::AT_FDCWD as usize, path as usize, flags as usize, mode as usize, 0, 0];
    as_c(change("open", libc::SYS_openat, a, |_| raw(i64::from(make()))))
}

/// A file that holds these bytes, read from its begin.
fn in_memory(bytes: &[u8]) -> i32 {
    // Safe: a file in memory.
    unsafe {
        let file = libc::memfd_create(c"chance".as_ptr(), libc::MFD_CLOEXEC);
        assert_eq!(libc::pwrite(file, bytes.as_ptr().cast(), bytes.len(), 0), bytes.len() as isize);
        file
    }
}

/// What the C library says is what the kernel said.
fn as_c(result: i64) -> i32 {
    if result < 0 { fail(-result as i32) } else { result as i32 }
}

/// Stands in front of functions that Rust's library changes files with. `$call` is the system call that does the same, and its
/// arguments.
macro_rules! change {
    ($(fn $name:ident($($argument:ident: $type:ty),*) as $call:ident($($given:expr),*);)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        /// As there.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> i32 {
            let function = real!($name($($type),*) -> i32);
            // Safe: passed on.
            let make = || unsafe { function($($argument),*) };
            if schedule::own().is_none() {
                return make();
            }
            let mut a = [0; 6];
            for (at, given) in [$($given),*].into_iter().enumerate() {
                a[at] = given;
            }
            as_c(change(stringify!($name), libc::$call, a, |_| raw(i64::from(make()))))
        }
    )*};
}

const HERE: usize = libc::AT_FDCWD as usize;

change! {
    fn fsync(descriptor: i32) as SYS_fsync(descriptor as usize);
    fn fdatasync(descriptor: i32) as SYS_fdatasync(descriptor as usize);
    fn rename(from: *const c_char, to: *const c_char) as SYS_renameat(HERE, from as usize, HERE, to as usize);
    fn unlink(path: *const c_char) as SYS_unlinkat(HERE, path as usize);
}
