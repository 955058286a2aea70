//! The table against the kernel's own locks on a local file.
//!
//! Open file descriptions stand for owners: with their locks (`F_OFD_SETLK`, `flock`) one process can play them all.

use super::{requests, requests_of_one_file};
use crate::locks::*;
use forebay_wire::{HeldLock, LockKind, LockRange};
use proptest::prelude::*;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;

/// Descriptions of one file of the kernel's.
struct Kernel {
    file: tempfile::NamedTempFile,
    open: HashMap<Owner, File>,
}

impl Kernel {
    fn new() -> Kernel {
        Kernel { file: tempfile::NamedTempFile::new().unwrap(), open: HashMap::new() }
    }

    fn descriptor(&mut self, owner: Owner) -> i32 {
        let path = self.file.path();
        let reopen = || File::options().read(true).write(true).open(path).unwrap();
        self.open.entry(owner).or_insert_with(reopen).as_raw_fd()
    }

    /// `true` when it was granted.
    fn set(&mut self, owner: Owner, scope: LockScope, kind: Option<LockKind>) -> bool {
        let fd = self.descriptor(owner);
        let done = match scope {
            // SAFETY: the descriptor is open, and the call touches no memory.
            LockScope::File => unsafe { libc::flock(fd, libc::LOCK_NB | flock_operation(kind)) },
            LockScope::Bytes(range) => {
                let mut lock = description(range, kind);
                // SAFETY: the descriptor is open and the description outlives the call.
                unsafe { libc::fcntl(fd, libc::F_OFD_SETLK, &raw mut lock) }
            }
        };
        let error = std::io::Error::last_os_error();
        assert!(done == 0 || error.kind() == std::io::ErrorKind::WouldBlock, "{error}");
        done == 0
    }

    /// The kind and first and last byte of a lock in the way. Only of ranges.
    fn test(&mut self, owner: Owner, range: LockRange, kind: LockKind) -> Option<(i32, u64, u64)> {
        let fd = self.descriptor(owner);
        let mut lock = description(range, Some(kind));
        // SAFETY: the descriptor is open and the description outlives the call.
        let done = unsafe { libc::fcntl(fd, libc::F_OFD_GETLK, &raw mut lock) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        let start = lock.l_start as u64;
        let last = if lock.l_len == 0 { LockRange::LAST_MAX } else { start + lock.l_len as u64 - 1 };
        (i32::from(lock.l_type) != libc::F_UNLCK).then_some((i32::from(lock.l_type), start, last))
    }
}

fn flock_operation(kind: Option<LockKind>) -> i32 {
    match kind {
        Some(LockKind::Shared) => libc::LOCK_SH,
        Some(LockKind::Exclusive) => libc::LOCK_EX,
        None => libc::LOCK_UN,
    }
}

fn lock_type(kind: Option<LockKind>) -> i32 {
    match kind {
        Some(LockKind::Shared) => libc::F_RDLCK,
        Some(LockKind::Exclusive) => libc::F_WRLCK,
        None => libc::F_UNLCK,
    }
}

fn description(range: LockRange, kind: Option<LockKind>) -> libc::flock {
    let to_the_end = range.last() == LockRange::LAST_MAX;
    let length = if to_the_end { 0 } else { range.last() - range.start() + 1 };
    libc::flock {
        l_type: lock_type(kind) as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: range.start() as i64,
        l_len: length as i64,
        l_pid: 0,
    }
}

/// Locks held in the way of a question, as the kernel would say them. It picks one by an order of its own.
fn is_one_of(table: &LockTable, owner: Owner, asked: &LockRequest, found: (i32, u64, u64)) -> bool {
    let range = LockRange::new(found.1, found.2).unwrap();
    let within = LockRequest { scope: LockScope::Bytes(range), ..*asked };
    let held = table.test(owner.session, &within);
    held.is_some_and(|held: HeldLock| {
        held.range.overlaps(range) && (found.0 == libc::F_WRLCK) <= (held.kind == LockKind::Exclusive)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Grants and refusals are the kernel's, lock by lock, and so is whether something is in the way.
    #[test]
    fn the_table_answers_as_the_kernel_does(
        steps in prop::collection::vec((requests_of_one_file(), 0..8, requests()), 1..80),
    ) {
        let mut table = LockTable::new(LockLimits::default());
        let mut kernel = Kernel::new();
        for (number, ((session, request), what, (asking, asked))) in steps.into_iter().enumerate() {
            let owner = Owner { session, owner: request.owner };
            let id = RequestId(number as u64);
            let event = match what {
                0 => {
                    for family in [LockFamily::File, LockFamily::Bytes] {
                        let closed = Event::OwnerClosed { session, file: request.file, owner: owner.owner, family };
                        prop_assert_eq!(table.apply(closed), []);
                    }
                    kernel.open.remove(&owner);
                    continue;
                }
                1 | 2 => Event::Unlock {
                    session, id, file: request.file, owner: owner.owner, scope: request.scope,
                },
                _ => Event::Lock { session, id, request, wait: false },
            };
            let kind = matches!(event, Event::Lock { .. }).then_some(request.kind);
            let granted = kernel.set(owner, request.scope, kind);
            let answers = table.apply(event);
            let outcome = if granted { Ok(()) } else { Err(LockRefusal::WouldBlock) };
            prop_assert_eq!(answers, [Answer { session, id, outcome }]);

            let asked = LockRequest { file: request.file, ..asked };
            let asking = Owner { session: asking, owner: asked.owner };
            if let LockScope::Bytes(range) = asked.scope {
                let found = kernel.test(asking, range, asked.kind);
                let ours = table.test(asking.session, &asked);
                prop_assert_eq!(found.is_some(), ours.is_some());
                prop_assert!(found.is_none_or(|found| is_one_of(&table, asking, &asked, found)));
            }
        }
    }
}
