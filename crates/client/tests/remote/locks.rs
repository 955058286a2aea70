//! Locks between clients.

use super::instance::{Served, volume};
use super::support::*;
use forebay_wire::*;
use std::ffi::OsStr;

fn request(file: Ino, owner: u64, scope: LockScope, kind: LockKind) -> LockRequest {
    LockRequest { file, owner: LockOwner(owner), scope, kind, pid: owner as u32 }
}

fn bytes(start: u64, last: u64) -> LockScope {
    LockScope::Bytes(LockRange::new(start, last).unwrap())
}

#[test]
fn a_lock_is_waited_for_granted_called_back_and_given_up_by_closing() {
    let served = Served::new(Shape::inline());
    let (here, there) = (served.attach(), served.attach());
    let (attr, opened) = create(&volume(&here), Ino::ROOT, "file");
    volume(&there).lookup(me(), Ino::ROOT, OsStr::new("file")).unwrap();
    let mine = request(attr.ino, 1, bytes(0, 99), LockKind::Exclusive);
    let theirs = request(attr.ino, 2, bytes(50, 149), LockKind::Exclusive);
    here.locks.lock(&mine, None).unwrap();
    assert_eq!(there.locks.lock(&theirs, None), Err(FsError::WouldBlock));
    let held = there.locks.test(&theirs).unwrap().unwrap();
    assert_eq!((held.kind, held.pid, held.same_client), (LockKind::Exclusive, 1, false));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| there.locks.lock(&theirs, Some(WaitId(5))));
        let called_back = scope.spawn(|| {
            let other = request(attr.ino, 3, bytes(0, 0), LockKind::Shared);
            there.locks.lock(&other, Some(WaitId(6)))
        });
        // Until it waits there is nothing to call back.
        while !called_back.is_finished() {
            there.locks.cancel(WaitId(6));
            std::thread::yield_now();
        }
        assert_eq!(called_back.join().unwrap(), Err(FsError::Interrupted));
        assert!(!waiting.is_finished());
        here.locks.owner_closed(attr.ino, LockOwner(1), LockFamily::Bytes).unwrap();
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
    assert!(here.locks.test(&mine).unwrap().is_some());
    there.locks.unlock(attr.ino, LockOwner(2), bytes(0, 1000)).unwrap();
    assert_eq!(here.locks.test(&mine).unwrap(), None);
    let _ = opened;
}

#[test]
fn a_client_that_is_gone_leaves_no_locks() {
    let served = Served::new(Shape::inline());
    let (here, there) = (served.attach(), served.attach());
    let (attr, _) = create(&volume(&here), Ino::ROOT, "file");
    volume(&there).lookup(me(), Ino::ROOT, OsStr::new("file")).unwrap();
    let lock = request(attr.ino, 1, LockScope::File, LockKind::Exclusive);
    here.locks.lock(&lock, None).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| there.locks.lock(&lock, Some(WaitId(1))));
        here.close();
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
}
