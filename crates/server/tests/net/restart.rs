//! After a server was started anew: who was there before takes up what he had, and others wait.

use crate::client::{Connection, Welcome};
use crate::place::*;
use forebay_wire::message::*;
use forebay_wire::{Attr, FsError, Ino, LockKind, LockOwner, LockRequest, LockScope, OpenFlags, RenameMode};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(30);

fn again(connection: &mut Connection, request: MetadataRequest, sequence: u64) -> Reply {
    connection.send_once(request, Once { slot: 9, sequence }, true, &[]);
    connection.answer().unwrap().0
}

fn mkdir(connection: &mut Connection, text: &str) -> Attr {
    let request = MetadataRequest::Mkdir { who: me(), parent: Ino::ROOT, name: name(text), mode: 0o755 };
    match connection.ask(request) {
        Reply::Attr { attr } => attr,
        other => panic!("{other:?}"),
    }
}

fn unlink(text: &str) -> MetadataRequest {
    MetadataRequest::Unlink { who: me(), parent: Ino::ROOT, name: name(text) }
}

fn come(place: &Place, client: u8) -> (Connection, Welcome) {
    place.try_connect(&place.hello(client, ConnectionKind::Metadata)).unwrap()
}

#[test]
fn files_and_locks_are_taken_up_before_others_may_take_them_away() {
    let mut place = Place::new(LONG);
    let (mut first, before) = come(&place, 1);
    let create = MetadataRequest::Create {
        who: me(),
        parent: Ino::ROOT,
        name: name("f"),
        mode: 0o100_644,
        flags: OpenFlags::READ_WRITE,
    };
    let Reply::Opened { opened } = first.ask(create) else { panic!() };
    let (ino, handle) = (opened.attr.ino, opened.handle);
    let lock = LockRequest {
        file: ino,
        owner: LockOwner(1),
        scope: LockScope::File,
        kind: LockKind::Exclusive,
        pid: 1,
    };
    let set = |reclaim| MetadataRequest::SetLock { request: lock, wait: None, reclaim };
    assert_eq!(first.ask(set(false)), Reply::Done);
    place.stop();
    assert!(first.answer().is_none());
    place.start();

    let (mut other, _) = come(&place, 2);
    let (mut first, after) = come(&place, 1);
    assert_ne!((before.boot, before.incarnation), (after.boot, after.incarnation));
    std::thread::scope(|scope| {
        // Both of the other's requests wait until the first is complete again.
        let lookup = MetadataRequest::Lookup { who: me(), parent: Ino::ROOT, name: name("f") };
        assert!(matches!(other.ask(lookup), Reply::Attr { .. }));
        let others = scope.spawn(|| (other.ask(set(false)), other.ask(unlink("f"))));
        let claim =
            Claim { ino, generation: opened.attr.generation, count: 2, place: Some((Ino::ROOT, name("f"))) };
        let gone = Claim { ino: Ino(99), generation: 1, count: 1, place: Some((Ino::ROOT, name("g"))) };
        let reclaim = MetadataRequest::Reclaim { items: vec![claim, gone] };
        assert_eq!(first.ask(reclaim), Reply::Claimed { gone: vec![Ino(99)] });
        let open =
            MetadataRequest::Open { who: me(), ino, flags: OpenFlags::READ_WRITE, reclaim: Some(handle) };
        let Reply::Opened { opened } = first.ask(open) else { panic!() };
        assert_eq!(opened.handle, handle);
        assert_eq!(first.ask(set(true)), Reply::Done);
        assert_eq!(first.ask(MetadataRequest::ReclaimDone), Reply::Done);
        let (locked, removed) = others.join().unwrap();
        assert_eq!(locked, Reply::Failed { error: FsError::WouldBlock });
        assert_eq!(removed, Reply::Done);
    });
    let write = MetadataRequest::WriteInline { handle, offset: 0 };
    assert_eq!(first.ask_with(write, b"kept").0, Reply::Size { bytes: 4 });
}

#[test]
fn who_does_not_come_back_is_not_waited_for_longer_than_the_grace_time() {
    let mut place = Place::new(Duration::from_millis(300));
    let (mut first, _) = come(&place, 1);
    mkdir(&mut first, "d");
    place.stop();
    place.start();
    let (mut other, _) = come(&place, 2);
    let rmdir = MetadataRequest::Rmdir { who: me(), parent: Ino::ROOT, name: name("d") };
    assert_eq!(other.ask(rmdir), Reply::Done);
}

#[test]
fn a_change_whose_answer_was_lost_is_settled_by_looking() {
    let mut place = Place::new(LONG);
    let (mut first, _) = come(&place, 1);
    let old = mkdir(&mut first, "old");
    mkdir(&mut first, "gone");
    let new = mkdir(&mut first, "new");
    for request in [
        MetadataRequest::Rmdir { who: me(), parent: Ino::ROOT, name: name("gone") },
        MetadataRequest::Rename {
            who: me(),
            from: (Ino::ROOT, name("old")),
            to: (Ino::ROOT, name("moved")),
            mode: RenameMode::Replace,
            expected: Some(old.ino),
        },
    ] {
        assert_eq!(first.ask(request), Reply::Done);
    }
    place.stop();
    // As after a crash of the machine: what was written down of the first life counts for nothing.
    std::fs::remove_dir_all(place.socket().with_file_name("sessions.deeds")).unwrap();
    place.start();
    let (mut first, _) = come(&place, 1);
    assert_eq!(first.ask(MetadataRequest::ReclaimDone), Reply::Done);
    // A slot that never had an answer here, each time.
    let mut settle = |request: MetadataRequest, slot: u16| {
        first.send_once(request, Once { slot, sequence: 40 }, true, &[]);
        first.answer().unwrap().0
    };
    let rmdir = |text| MetadataRequest::Rmdir { who: me(), parent: Ino::ROOT, name: name(text) };
    assert_eq!(settle(rmdir("gone"), 10), Reply::Done);
    let rename = |from: &str, to: &str, expected| MetadataRequest::Rename {
        who: me(),
        from: (Ino::ROOT, name(from)),
        to: (Ino::ROOT, name(to)),
        mode: RenameMode::Replace,
        expected,
    };
    assert_eq!(settle(rename("old", "moved", Some(old.ino)), 11), Reply::Done);
    let not_found = Reply::Failed { error: FsError::NotFound };
    assert_eq!(settle(rename("old", "moved", Some(new.ino)), 12), not_found, "another object is there");
    let make =
        |text: &str| MetadataRequest::Mkdir { who: me(), parent: Ino::ROOT, name: name(text), mode: 0o755 };
    assert!(matches!(settle(make("new"), 13), Reply::Attr { attr } if attr.ino == new.ino));
    let exclusive = MetadataRequest::Create {
        who: me(),
        parent: Ino::ROOT,
        name: name("new"),
        mode: 0o100_644,
        flags: OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE),
    };
    let exists = Reply::Failed { error: FsError::Exists };
    assert_eq!(settle(exclusive, 14), exists);
    // In a slot with a past the server knows that it made no such change.
    assert_eq!(again(&mut first, rmdir("gone"), 1), Reply::Done);
    assert_eq!(again(&mut first, rmdir("gone"), 2), not_found);
    assert_eq!(again(&mut first, make("new"), 3), exists);
}

#[test]
fn a_server_stops_while_somebody_waits() {
    let mut place = Place::new(LONG);
    let (mut first, _) = come(&place, 1);
    mkdir(&mut first, "d");
    place.stop();
    place.start();
    let (mut other, _) = come(&place, 2);
    other.send_once(unlink("d"), Once { slot: 0, sequence: 1 }, false, &[]);
    // It waits for the first client, which never comes; the server does not wait for it.
    let waiting = std::thread::spawn(move || other.answer());
    place.stop();
    assert_eq!(waiting.join().unwrap(), None, "it was answered by a server that ended");
}

#[test]
fn a_file_without_a_name_is_taken_up_again_or_goes() {
    let mut place = Place::new(Duration::from_millis(1500));
    let (mut first, _) = come(&place, 1);
    let (mut second, _) = come(&place, 2);
    let create = |text: &str| MetadataRequest::Create {
        who: me(),
        parent: Ino::ROOT,
        name: name(text),
        mode: 0o100_644,
        flags: OpenFlags::READ_WRITE,
    };
    let open = |connection: &mut Connection, text: &str| {
        let Reply::Opened { opened } = connection.ask(create(text)) else { panic!() };
        let write = MetadataRequest::WriteInline { handle: opened.handle, offset: 0 };
        assert_eq!(connection.ask_with(write, &vec![7; 1 << 20]).0, Reply::Size { bytes: 1 << 20 });
        assert_eq!(connection.ask(unlink(text)), Reply::Done);
        opened
    };
    let free = |connection: &mut Connection| match connection.ask(MetadataRequest::Statfs) {
        Reply::Space { space } => space.blocks_free * u64::from(space.block_size),
        other => panic!("{other:?}"),
    };
    let before = free(&mut first);
    let kept = open(&mut first, "kept");
    open(&mut second, "lost");
    assert_eq!(free(&mut first), before - (2 << 20));
    place.stop();
    place.start();
    let (mut first, _) = come(&place, 1);
    let claim = Claim { ino: kept.attr.ino, generation: kept.attr.generation, count: 1, place: None };
    let wrong = Claim { generation: 1, ..claim.clone() };
    let reclaim = MetadataRequest::Reclaim { items: vec![wrong, claim] };
    assert_eq!(first.ask(reclaim), Reply::Claimed { gone: vec![kept.attr.ino] });
    let open = MetadataRequest::Open {
        who: me(),
        ino: kept.attr.ino,
        flags: OpenFlags::READ_WRITE,
        reclaim: Some(kept.handle),
    };
    assert!(matches!(first.ask(open), Reply::Opened { .. }));
    assert_eq!(first.ask(MetadataRequest::ReclaimDone), Reply::Done);
    let read = MetadataRequest::ReadInline { handle: kept.handle, offset: 0, length: 2 << 20 };
    assert_eq!(first.ask_with(read, &[]).1, vec![7; 1 << 20]);
    // The second client does not come back. What it alone had open goes, when it is awaited no more.
    while free(&mut first) != before - (1 << 20) {
        std::thread::yield_now();
    }
    assert_eq!(
        first.ask(MetadataRequest::Close { items: vec![Closed { handle: kept.handle, wrote: true }] }),
        Reply::Done
    );
    assert_eq!(free(&mut first), before);
}
