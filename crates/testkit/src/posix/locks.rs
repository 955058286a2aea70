//! flock, POSIX record locks and open file description locks.

use super::check::{granted, holds, refused, same};
use super::child::{self, Link};
use super::files::*;
use super::{Case, case};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

/// Longer than anything takes that does come.
const LIMIT: Duration = Duration::from_secs(20);
/// A close that ends in another order than programs close is seen in one of so many rounds.
const DEATHS: usize = 30;

pub(super) const CASES: &[Case] = &[
    case!(Anyone flock_shared_and_exclusive),
    case!(Anyone flock_belongs_to_the_open_file),
    case!(Anyone flock_wakes_a_waiter),
    case!(Anyone a_dead_process_keeps_no_lock),
    case!(Anyone posix_ranges_conflict_where_they_meet),
    case!(Anyone posix_locks_split_and_join),
    case!(Anyone posix_get_names_the_holder),
    case!(Anyone posix_locks_go_with_any_close),
    case!(Anyone posix_wakes_a_waiter),
    case!(Anyone posix_finds_deadlocks),
    case!(Anyone posix_refusals),
    case!(Anyone description_locks_belong_to_the_open_file),
    case!(Anyone kinds_of_locks_and_each_other),
];

/// Commands of fcntl for one of the two families of byte range locks.
#[derive(Clone, Copy)]
struct Family {
    try_set: i32,
    set_and_wait: i32,
    get: i32,
}

const POSIX: Family = Family { try_set: libc::F_SETLK, set_and_wait: libc::F_SETLKW, get: libc::F_GETLK };
const DESCRIPTION: Family =
    Family { try_set: libc::F_OFD_SETLK, set_and_wait: libc::F_OFD_SETLKW, get: libc::F_OFD_GETLK };

const READ: i32 = libc::F_RDLCK;
const WRITE: i32 = libc::F_WRLCK;
const UNLOCK: i32 = libc::F_UNLCK;

/// One fcntl about `length` bytes from `start`; 0 is to the end of all files.
fn call(file: impl AsFd, command: i32, kind: i32, start: i64, length: i64) -> Result<libc::flock> {
    // SAFETY: a struct of plain numbers, for which zeros are valid.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as i16;
    lock.l_whence = libc::SEEK_SET as i16;
    (lock.l_start, lock.l_len) = (start, length);
    // SAFETY: the descriptor is borrowed and the struct lives for the length of the call.
    done(unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, &raw mut lock) })?;
    Ok(lock)
}

fn file() -> OwnedFd {
    granted(open("file", OFlags::CREATE | OFlags::RDWR))
}

const EXCLUSIVE: FlockOperation = FlockOperation::NonBlockingLockExclusive;
const SHARED: FlockOperation = FlockOperation::NonBlockingLockShared;

/// Awaits a lock whose holder was closed. A file system that grants the lock hears of the close a moment later: close does not
/// wait for it.
fn free_after_close(take: impl FnMut() -> bool) {
    let went = crate::wait_until("the lock of a closed file to go", LIMIT, take);
    granted(went.map_err(|_| Errno::TIMEDOUT));
}

fn flock_shared_and_exclusive() {
    let (first, second, third) = (file(), file(), file());
    granted(flock(&first, SHARED));
    granted(flock(&second, SHARED));
    refused(flock(&third, EXCLUSIVE), Errno::AGAIN);
    granted(flock(&second, FlockOperation::Unlock));
    granted(flock(&first, EXCLUSIVE));
    refused(flock(&second, SHARED), Errno::AGAIN);
    granted(flock(&first, SHARED));
    granted(flock(&second, SHARED));
    drop(first);
    free_after_close(|| flock(&second, EXCLUSIVE).is_ok());
    // Also on a directory and through a descriptor for reading.
    let directory = granted(open(".", OFlags::RDONLY));
    granted(flock(&directory, EXCLUSIVE));
    refused(flock(granted(open(".", OFlags::RDONLY)), SHARED), Errno::AGAIN);
}

fn flock_belongs_to_the_open_file() {
    let first = file();
    granted(flock(&first, EXCLUSIVE));
    child::beside(|_| {
        // Inherited: the same open file. Opened anew: another.
        granted(flock(&first, EXCLUSIVE));
        refused(flock(file(), SHARED), Errno::AGAIN);
    })
    .finish();
    let twin = granted(rustix::io::dup(&first));
    drop(first);
    refused(flock(file(), SHARED), Errno::AGAIN);
    granted(flock(&twin, FlockOperation::Unlock));
    granted(flock(file(), EXCLUSIVE));
}

/// Awaits the kernel's word that a child sleeps waiting for a lock on `file`. A lock that a file system grants is not in the
/// kernel's table of locks; then the child sleeps in the call.
fn await_waiter(file: impl AsFd, child: &child::Child) {
    let stat = granted(rustix::fs::fstat(file));
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    let needle = format!(" {major:02x}:{minor:02x}:{} ", stat.st_ino);
    let waits = || {
        let table = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        let is_listed = table.lines().any(|line| line.contains(" -> ") && line.contains(&needle));
        is_listed || child.is_inside(&[libc::SYS_flock, libc::SYS_fcntl])
    };
    granted(crate::wait_until("a waiter for the lock", LIMIT, waits).map_err(|_| Errno::TIMEDOUT));
}

/// The parent holds a lock, a child waits for it: it must come when the parent lets go and not before.
fn waiter_is_woken(take: impl Fn(&OwnedFd), wait: impl Fn(&OwnedFd), let_go: impl Fn(&OwnedFd)) {
    let held = file();
    take(&held);
    let mut child = child::beside(|link: &mut Link| {
        let own = file();
        link.tell();
        wait(&own);
        same(granted(read_all(&own)), b"released");
        link.tell();
    });
    child.link.listen();
    await_waiter(&held, &child);
    granted(write_all_at(&held, b"released", 0));
    let_go(&held);
    child.link.listen();
    child.finish();
}

fn flock_wakes_a_waiter() {
    waiter_is_woken(
        |file| granted(flock(file, EXCLUSIVE)),
        |file| granted(flock(file, FlockOperation::LockExclusive)),
        |file| granted(flock(file, FlockOperation::Unlock)),
    );
}

fn posix_wakes_a_waiter() {
    for family in [POSIX, DESCRIPTION] {
        granted(write_file("file", b""));
        waiter_is_woken(
            |file| _ = granted(call(file, family.try_set, WRITE, 10, 10)),
            |file| _ = granted(call(file, family.set_and_wait, READ, 15, 1)),
            |file| _ = granted(call(file, family.try_set, UNLOCK, 0, 0)),
        );
    }
}

fn a_dead_process_keeps_no_lock() {
    (0..DEATHS).for_each(|_| a_process_dies_with_locks());
}

fn a_process_dies_with_locks() {
    let mut child = child::beside(|link| {
        let own = file();
        granted(flock(&own, EXCLUSIVE));
        granted(call(&own, POSIX.try_set, WRITE, 0, 0));
        link.tell();
        link.listen();
    });
    child.link.listen();
    let own = file();
    refused(flock(&own, SHARED), Errno::AGAIN);
    refused(call(&own, POSIX.try_set, READ, 0, 0), Errno::AGAIN);
    child.kill();
    granted(flock(&own, EXCLUSIVE));
    granted(call(&own, POSIX.try_set, WRITE, 0, 0));
}

fn posix_ranges_conflict_where_they_meet() {
    let own = file();
    granted(call(&own, POSIX.try_set, WRITE, 100, 100));
    granted(call(&own, POSIX.try_set, READ, 300, 0));
    child::beside(|_| {
        let other = file();
        let table = [
            (READ, 0, 100, true),
            (WRITE, 0, 100, true),
            (READ, 99, 2, false),
            (READ, 150, 1, false),
            (READ, 199, 1, false),
            (WRITE, 200, 100, true),
            (READ, 300, 1, true),
            (READ, 1 << 40, 1, true),
            (WRITE, 299, 2, false),
            (WRITE, 1 << 40, 1, false),
            (READ, 0, 0, false),
        ];
        for (kind, start, length, free) in table {
            let answer = call(&other, POSIX.try_set, kind, start, length);
            same((kind, start, length, answer.is_ok()), (kind, start, length, free));
            same(answer.err().is_none_or(|error| error == Errno::AGAIN), true);
            granted(call(&other, POSIX.try_set, UNLOCK, 0, 0));
        }
    })
    .finish();
    // The holder may change its own locks as it likes.
    granted(call(&own, POSIX.try_set, READ, 0, 0));
    granted(call(&own, POSIX.try_set, WRITE, 0, 0));
}

fn posix_locks_split_and_join() {
    let own = file();
    granted(call(&own, POSIX.try_set, WRITE, 0, 300));
    granted(call(&own, POSIX.try_set, UNLOCK, 100, 100));
    granted(call(&own, POSIX.try_set, READ, 250, 50));
    let table = [
        (0, 10, (WRITE, 0, 100)),
        (100, 100, (UNLOCK, 100, 100)),
        (200, 10, (WRITE, 200, 50)),
        (250, 50, (READ, 250, 50)),
    ];
    child::beside(|_| {
        for (start, length, expected) in table {
            let lock = granted(call(file(), POSIX.get, WRITE, start, length));
            same((i32::from(lock.l_type), lock.l_start, lock.l_len), expected);
        }
    })
    .finish();
    // Neighbours of one kind become one lock again.
    granted(call(&own, POSIX.try_set, WRITE, 0, 300));
    child::beside(|_| {
        let lock = granted(call(file(), POSIX.get, READ, 299, 1));
        same((lock.l_start, lock.l_len), (0, 300));
    })
    .finish();
}

fn posix_get_names_the_holder() {
    let own = file();
    granted(call(&own, POSIX.try_set, WRITE, 10, 20));
    let me = rustix::process::getpid().as_raw_nonzero().get();
    child::beside(|_| {
        let lock = granted(call(file(), POSIX.get, WRITE, 0, 0));
        same((i32::from(lock.l_type), lock.l_start, lock.l_len, lock.l_pid), (WRITE, 10, 20, me));
        let free = granted(call(file(), POSIX.get, WRITE, 0, 10));
        same(i32::from(free.l_type), UNLOCK);
    })
    .finish();
    same(i32::from(granted(call(&own, POSIX.get, WRITE, 0, 0)).l_type), UNLOCK);
}

fn posix_locks_go_with_any_close() {
    let own = file();
    granted(call(&own, POSIX.try_set, WRITE, 0, 10));
    drop(file());
    child::beside(|_| {
        granted(call(file(), POSIX.try_set, WRITE, 0, 10));
    })
    .finish();
    // And a child does not inherit them.
    granted(call(&own, POSIX.try_set, WRITE, 0, 10));
    child::beside(|_| {
        refused(call(&own, POSIX.try_set, WRITE, 0, 10), Errno::AGAIN);
    })
    .finish();
}

/// Of two who wait for each other one is refused: the second, but which of them that is only a kernel that grants the locks
/// itself lets one see.
fn posix_finds_deadlocks() {
    let own = file();
    granted(call(&own, POSIX.try_set, WRITE, 0, 1));
    let mut child = child::beside(|link| {
        let other = file();
        granted(call(&other, POSIX.try_set, WRITE, 1, 1));
        link.tell();
        if let Err(error) = call(&other, POSIX.set_and_wait, WRITE, 0, 1) {
            same(error, Errno::DEADLK);
            granted(write_all_at(&other, b"refused", 0));
        }
        granted(call(&other, POSIX.try_set, UNLOCK, 0, 0));
    });
    child.link.listen();
    await_waiter(&own, &child);
    let asked = call(&own, POSIX.set_and_wait, WRITE, 1, 1);
    same(asked.as_ref().err().is_none_or(|error| *error == Errno::DEADLK), true);
    granted(call(&own, POSIX.try_set, UNLOCK, 0, 0));
    child.finish();
    let child_was_refused = granted(read_all(&own)) == b"refused";
    same(asked.is_err(), !child_was_refused);
}

fn posix_refusals() {
    granted(touch("file", 0o644));
    let reader = granted(open("file", OFlags::RDONLY));
    let writer = granted(open("file", OFlags::WRONLY));
    for family in [POSIX, DESCRIPTION] {
        refused(call(&reader, family.try_set, WRITE, 0, 1), Errno::BADF);
        refused(call(&writer, family.try_set, READ, 0, 1), Errno::BADF);
        refused(call(&writer, family.try_set, WRITE, -1, 1), Errno::INVAL);
        granted(call(&writer, family.try_set, WRITE, 10, -5));
        granted(call(&writer, family.try_set, UNLOCK, 0, 0));
    }
}

fn description_locks_belong_to_the_open_file() {
    let (first, second) = (file(), file());
    granted(call(&first, DESCRIPTION.try_set, WRITE, 0, 10));
    refused(call(&second, DESCRIPTION.try_set, READ, 5, 1), Errno::AGAIN);
    granted(call(&second, DESCRIPTION.try_set, READ, 10, 1));
    same(granted(call(&second, DESCRIPTION.get, READ, 0, 1)).l_pid, -1);
    drop(file());
    refused(call(&second, DESCRIPTION.try_set, READ, 5, 1), Errno::AGAIN);
    child::beside(|_| {
        granted(call(&first, DESCRIPTION.try_set, WRITE, 0, 10));
        refused(call(file(), DESCRIPTION.try_set, READ, 5, 1), Errno::AGAIN);
    })
    .finish();
    drop(first);
    free_after_close(|| call(&second, DESCRIPTION.try_set, WRITE, 0, 10).is_ok());
}

fn kinds_of_locks_and_each_other() {
    let (first, second) = (file(), file());
    granted(call(&first, POSIX.try_set, WRITE, 0, 10));
    refused(call(&second, DESCRIPTION.try_set, WRITE, 0, 10), Errno::AGAIN);
    // flock is another world on a local file system.
    granted(flock(&second, EXCLUSIVE));
    holds(flock(&first, SHARED).is_err(), "flock still conflicts with flock");
}
