//! Servers that are started anew while clients use them: what clients hold is still theirs.

use super::instance::{Served, volume};
use super::lockstep::lockstep;
use super::support::*;
use forebay_client::remote::Attached;
use forebay_wire::message::MetadataRequest;
use forebay_wire::*;
use std::ffi::OsStr;
use std::time::{Duration, Instant};

/// For what comes at once.
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn open_files_references_and_directories_outlive_the_server() {
    let mut served = Served::new(Shape::striped());
    let attached = served.attach();
    let volume = volume(&attached);
    let data = pattern(1, 60_000);
    let made = volume.mkdir(me(), Ino::ROOT, OsStr::new("directory"), 0o755).unwrap();
    let (attr, opened) = create(&volume, made.ino, "file");
    write_all(&volume, opened.handle, 0, &data);
    let listing = volume.opendir(me(), made.ino).unwrap();
    for position in 0..4 {
        served.restart(position);
        assert_eq!(read_all(&volume, opened.handle), data, "after server {position} was away");
    }
    // By the number alone: the references were claimed, the file's below the directory's.
    assert_eq!(volume.getattr(attr.ino, None).unwrap().size, 60_000);
    write_all(&volume, opened.handle, 60_000, b"more");
    let mut names = Vec::new();
    volume
        .readdir(listing, 0, &mut |entry| {
            names.push(entry.name.to_owned());
            true
        })
        .unwrap();
    assert!(names.contains(&"file".into()), "{names:?}");
    volume.releasedir(listing).unwrap();
    volume.release(opened.handle).unwrap();
    assert_eq!(volume.lookup(me(), made.ino, OsStr::new("file")).unwrap().size, 60_004);
    assert_eq!(attached.status().unwrap().open_files, 0);
}

/// What is reserved at the end of a file outlives the server, and the rest of an append that did not fit is not reserved any more.
#[test]
fn the_place_of_an_append_that_did_not_fit_is_given_back_before_and_after_a_restart() {
    const ROOM: u64 = 1 << 18;
    let mut served = Served::new(Shape::striped().metered(ROOM));
    let attached = served.attach();
    let volume = volume(&attached);
    let (_, opened) = create(&volume, Ino::ROOT, "file");
    let data = pattern(5, 8 * ROOM as usize);
    let (first, done) = volume.append(opened.handle, &data, false).unwrap();
    assert!(first == 0 && done < data.len(), "{done} bytes of it at {first}");
    served.restart(0);
    assert_eq!(volume.append(opened.handle, &data, false), Err(FsError::NoSpace));
    served.restart(0);
    let punch = FallocateMode::PUNCH_HOLE.with(FallocateMode::KEEP_SIZE);
    volume.fallocate(opened.handle, 0, ROOM / 2, punch).unwrap();
    assert_eq!(volume.append(opened.handle, b"more", false), Ok((done as u64, 4)));
    volume.release(opened.handle).unwrap();
}

/// Its server was killed when it had written it down, and had not told it yet: what comes back is one that has nothing to take up, and
/// nobody waits for it to do so.
#[test]
fn who_was_written_down_and_not_answered_is_not_awaited_when_it_is_there() {
    /// After the server's first message, within the one that lets a client in.
    const NOT_LET_IN: u64 = 80;
    const GRACE: Duration = Duration::from_secs(600);
    let mut served = Served::with(Shape::striped(), 0, GRACE);
    served.proxies[0].break_after_answers(NOT_LET_IN);
    let description = served.description(super::instance::token());
    let attaching = std::thread::spawn(move || forebay_client::remote::attach(&description).unwrap());
    served.await_session();
    served.stop(0);
    served.proxies[0].break_after_answers(0);
    served.proxies[0].cut();
    served.start(0);
    let attached = attaching.join().unwrap();
    let volume = volume(&attached);
    let made = volume.mkdir(me(), Ino::ROOT, OsStr::new("directory"), 0o755).unwrap();
    let limit = Instant::now() + LIMIT;
    // Nothing may be kept while somebody is awaited.
    while volume.getattr(made.ino, None).unwrap().valid_ms == 0 {
        assert!(Instant::now() < limit, "somebody is awaited");
    }
}

/// Who said before the server was started anew that he writes beyond the first stripe does not say it again.
#[test]
fn what_is_written_elsewhere_is_known_after_a_restart() {
    let mut served = Served::with(Shape::striped(), 1, Duration::from_secs(30));
    let (here, there) = (served.attach(), served.attach());
    let (a, b) = (volume(&here), volume(&there));
    let (attr, opened) = create(&a, Ino::ROOT, "file");
    write_all(&a, opened.handle, 0, &pattern(1, 4096));
    let seen = b.lookup(me(), Ino::ROOT, OsStr::new("file")).unwrap();
    let other = b.open(me(), seen.ino, OpenFlags::READ_WRITE).unwrap();
    assert_eq!(seen.size, 4096);
    write_all(&a, opened.handle, 4096, b"elsewhere");
    assert_eq!(b.getattr(seen.ino, None).unwrap().size, 4105);
    served.restart(1);
    assert_eq!(b.getattr(seen.ino, None).unwrap().size, 4105, "it is open there again");
    write_all(&a, opened.handle, 4105, b", again");
    assert_eq!(b.getattr(seen.ino, None).unwrap().size, 4112);
    a.release(opened.handle).unwrap();
    b.fsync(other.handle, true).unwrap();
    b.release(other.handle).unwrap();
    assert_eq!(a.getattr(attr.ino, None).unwrap().size, 4112);
}

#[test]
fn locks_are_kept_over_a_restart_and_nobody_gets_them_meanwhile() {
    let mut served = Served::with(Shape::inline(), 0, Duration::from_secs(20));
    let (here, there) = (served.attach(), served.attach());
    let (attr, opened) = create(&volume(&here), Ino::ROOT, "file");
    let seen = volume(&there).lookup(me(), Ino::ROOT, OsStr::new("file")).unwrap();
    let request = |file| LockRequest {
        file,
        owner: LockOwner(1),
        scope: LockScope::File,
        kind: LockKind::Exclusive,
        pid: 1,
    };
    here.locks.lock(&request(attr.ino), None).unwrap();
    served.restart(0);
    assert_eq!(there.locks.lock(&request(seen.ino), None), Err(FsError::WouldBlock));
    here.locks.unlock(attr.ino, LockOwner(1), LockScope::File).unwrap();
    there.locks.lock(&request(seen.ino), None).unwrap();
    let _ = opened;
}

/// What a client does about a lock while the home is started anew; the answer of the earlier one comes when the next one has given the
/// lock to another client, if it has none. `asks`: the request that it makes of it.
fn answered_late(
    act: impl FnOnce(&Attached, &LockRequest) -> Result<()> + Send,
    asks: impl Fn(&LockRequest) -> MetadataRequest,
    is_held_before: bool,
) -> Late {
    let mut served = Served::with(Shape::inline(), 0, Duration::from_secs(20));
    let (here, there) = (served.attach(), served.attach());
    let (attr, _opened) = create(&volume(&here), Ino::ROOT, "file");
    volume(&there).lookup(me(), Ino::ROOT, OsStr::new("file")).unwrap();
    let (owner, kind) = (LockOwner(1), LockKind::Exclusive);
    let request = LockRequest { file: attr.ino, owner, scope: LockScope::File, kind, pid: 1 };
    if is_held_before {
        here.locks.lock(&request, None).unwrap();
        // So that the home is asked about it from now on.
        assert!(there.locks.test(&request).unwrap().is_some());
    }
    served.await_session();
    served.proxies[0].hold_answers();
    let (here, there) = (&here, &there);
    std::thread::scope(|scope| {
        let acting = scope.spawn(move || act(here, &request));
        let (begun, kind) = (Instant::now(), asks(&request).kind());
        while !served.proxies[0].holds_answer_to(kind) {
            assert!(begun.elapsed() < Duration::from_secs(30), "it is not answered");
            std::thread::yield_now();
        }
        served.stop(0);
        served.start(0);
        // The clients notice, and claim what they hold.
        volume(here).lookup(me(), Ino::ROOT, OsStr::new("file")).unwrap();
        let elsewhere = there.locks.lock(&request, None);
        served.proxies[0].let_answers_go();
        let acted = acting.join().unwrap();
        Late { acted, elsewhere, afterwards: there.locks.lock(&request, None) }
    })
}

struct Late {
    acted: Result<()>,
    elsewhere: Result<()>,
    afterwards: Result<()>,
}

#[test]
fn a_lock_that_a_home_gave_which_is_gone_since_is_nobodys() {
    let lock = |here: &Attached, request: &LockRequest| here.locks.lock(request, None);
    let asks =
        |request: &LockRequest| MetadataRequest::SetLock { request: *request, wait: None, reclaim: false };
    let late = answered_late(lock, asks, false);
    assert_eq!((late.elsewhere, late.acted), (Ok(()), Err(FsError::WouldBlock)));
}

#[test]
fn a_lock_that_was_given_up_at_a_home_which_is_gone_since_is_given_up_at_the_next_one() {
    let unlock = |here: &Attached, request: &LockRequest| {
        here.locks.unlock(request.file, request.owner, request.scope)
    };
    let asks = |request: &LockRequest| {
        let LockRequest { file: ino, owner, scope, .. } = *request;
        MetadataRequest::Unlock { ino, owner, scope }
    };
    let late = answered_late(unlock, asks, true);
    assert_eq!((late.elsewhere, late.acted, late.afterwards), (Err(FsError::WouldBlock), Ok(()), Ok(())));
}

#[test]
fn operations_are_as_local_ones_while_servers_are_started_anew() {
    let mut served = Served::with(Shape::striped(), 1, Duration::from_secs(30));
    lockstep(&mut served, 1, 500, |served, done, r| {
        if done % 50 == 25 {
            let position = r.below(4) as usize;
            served.restart(position);
        }
    });
}
