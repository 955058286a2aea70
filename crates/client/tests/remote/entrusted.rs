//! Locks that a client which is alone decides about by itself, and what becomes of them when another one comes, when the server is
//! started anew, and when the client is cut off.

use super::instance::{Served, volume};
use super::support::*;
use forebay_client::remote::{Attached, attach};
use forebay_wire::*;
use std::ffi::OsStr;
use std::time::{Duration, Instant};

/// For what comes soon.
const LIMIT: Duration = Duration::from_secs(30);
/// Locks taken and given up to see whether somebody is asked, and more bytes than a term's end costs, and less than they would.
const ROUNDS: u64 = 50;
const FEW_BYTES: u64 = 2000;

fn request(file: Ino, owner: u64, (start, last): (u64, u64), kind: LockKind) -> LockRequest {
    let scope = LockScope::Bytes(LockRange::new(start, last).unwrap());
    LockRequest { file, owner: LockOwner(owner), scope, kind, pid: owner as u32 }
}

fn exclusive(file: Ino, owner: u64, range: (u64, u64)) -> LockRequest {
    request(file, owner, range, LockKind::Exclusive)
}

fn unlock(attached: &Attached, lock: &LockRequest) {
    attached.locks.unlock(lock.file, lock.owner, lock.scope).unwrap();
}

/// Whether locks of a file are taken and given up without asking.
fn asks_nobody(served: &Served, attached: &Attached, file: Ino) -> bool {
    let before = served.proxies[served.home].carried();
    for round in 0..ROUNDS {
        let lock = exclusive(file, 100, (1_000_000 + round, 1_000_000 + round));
        attached.locks.lock(&lock, None).unwrap();
        unlock(attached, &lock);
    }
    served.proxies[served.home].carried() - before < FEW_BYTES
}

/// Waits until the locks of a file are the client's to decide.
fn await_entrusted(served: &Served, attached: &Attached, file: Ino) {
    let limit = Instant::now() + LIMIT;
    while !asks_nobody(served, attached, file) {
        assert!(Instant::now() < limit, "the server is asked for each lock");
    }
}

/// A file that a client made, and decides about the locks of.
fn begin(served: &Served) -> (Attached, Ino) {
    let here = served.attach();
    let (attr, _) = create(&volume(&here), Ino::ROOT, "file");
    await_entrusted(served, &here, attr.ino);
    (here, attr.ino)
}

/// Another client that knows the file, through the Unix sockets.
fn another(served: &Served) -> Attached {
    let there = attach(&served.local_description(false)).unwrap();
    volume(&there).lookup(me(), Ino::ROOT, OsStr::new("file")).unwrap();
    there
}

#[test]
fn what_was_decided_here_holds_for_who_comes() {
    let served = Served::new(Shape::inline());
    let (here, file) = begin(&served);
    let (kept, given_up) = (exclusive(file, 1, (0, 9)), exclusive(file, 1, (20, 29)));
    here.locks.lock(&given_up, None).unwrap();
    here.locks.lock(&kept, None).unwrap();
    unlock(&here, &given_up);
    let there = another(&served);
    assert_eq!(there.locks.lock(&exclusive(file, 1, (5, 5)), None), Err(FsError::WouldBlock));
    let held = there.locks.test(&exclusive(file, 1, (0, 100))).unwrap().expect("it is held");
    assert_eq!((held.range, held.pid, held.same_client), (kept.scope.range(), 1, false));
    there.locks.lock(&exclusive(file, 1, (20, 29)), None).unwrap();
    assert!(!asks_nobody(&served, &here, file), "there are two");
    assert_eq!(here.locks.lock(&given_up, None), Err(FsError::WouldBlock));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| there.locks.lock(&exclusive(file, 2, (9, 9)), Some(WaitId(1))));
        unlock(&here, &kept);
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
    there.close();
    await_entrusted(&served, &here, file);
    here.locks.lock(&given_up, None).unwrap();
}

#[test]
fn owners_of_one_client_keep_each_other_out() {
    let served = Served::new(Shape::inline());
    let (here, file) = begin(&served);
    let first = exclusive(file, 1, (0, 9));
    here.locks.lock(&first, None).unwrap();
    assert_eq!(here.locks.lock(&exclusive(file, 2, (9, 20)), None), Err(FsError::WouldBlock));
    assert_eq!(here.locks.lock(&request(file, 2, (9, 20), LockKind::Shared), None), Err(FsError::WouldBlock));
    here.locks.lock(&exclusive(file, 2, (10, 20)), None).unwrap();
    let whole = |owner| LockRequest { scope: LockScope::File, ..exclusive(file, owner, (0, 0)) };
    here.locks.lock(&whole(3), None).unwrap();
    assert_eq!(here.locks.lock(&whole(4), None), Err(FsError::WouldBlock));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| here.locks.lock(&exclusive(file, 3, (0, 0)), Some(WaitId(1))));
        here.locks.owner_closed(file, LockOwner(1), LockFamily::Bytes).unwrap();
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
    assert_eq!(here.locks.lock(&first, None), Err(FsError::WouldBlock));
    let held = here.locks.test(&first).unwrap().expect("it is held");
    assert!((held.pid, held.same_client) == (3, true), "{held:?}");
}

#[test]
fn what_was_decided_here_is_claimed_from_a_server_that_was_started_anew() {
    let mut served = Served::new(Shape::inline());
    let (here, file) = begin(&served);
    let (kept, given_up) = (exclusive(file, 1, (0, 9)), exclusive(file, 1, (20, 29)));
    here.locks.lock(&given_up, None).unwrap();
    here.locks.lock(&kept, None).unwrap();
    unlock(&here, &given_up);
    served.restart(0);
    let there = another(&served);
    assert_eq!(there.locks.lock(&kept, None), Err(FsError::WouldBlock));
    there.locks.lock(&given_up, None).unwrap();
    assert_eq!(here.locks.lock(&given_up, None), Err(FsError::WouldBlock));
}

/// Its processes may have locks that nobody else knows of. They are its own until its session is over.
#[test]
fn who_is_cut_off_keeps_what_it_decided_until_its_session_is_over() {
    let served = Served::with(Shape::inline(), 0, Duration::from_secs(3));
    let (here, file) = begin(&served);
    let lock = exclusive(file, 1, (0, 9));
    here.locks.lock(&lock, None).unwrap();
    let there = another(&served);
    served.proxies[0].away();
    there.locks.lock(&lock, None).unwrap();
    assert_eq!(there.status().unwrap().sessions, 1, "it was given while the other one may hold it");
    drop(here);
}
