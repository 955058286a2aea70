//! What a client holds, and that each change is made once.

use crate::client::Connection;
use crate::place::*;
use forebay_wire::message::*;
use forebay_wire::{FsError, Ino, OpenFlags};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(30);
const LIMIT: Duration = Duration::from_secs(20);

fn mkdir(text: &str) -> MetadataRequest {
    MetadataRequest::Mkdir { who: me(), parent: Ino::ROOT, name: name(text), mode: 0o755 }
}

fn unlink(text: &str) -> MetadataRequest {
    MetadataRequest::Unlink { who: me(), parent: Ino::ROOT, name: name(text) }
}

fn create(text: &str) -> MetadataRequest {
    let flags = OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE);
    MetadataRequest::Create { who: me(), parent: Ino::ROOT, name: name(text), mode: 0o100_644, flags }
}

fn opened(reply: Reply) -> Opened {
    match reply {
        Reply::Opened { opened } => opened,
        other => panic!("{other:?}"),
    }
}

fn again(connection: &mut Connection, request: MetadataRequest, once: Once) -> Reply {
    connection.send_once(request, once, true, &[]);
    connection.answer().unwrap().0
}

#[test]
fn a_change_sent_again_on_another_connection_is_made_once() {
    let place = Place::new(LONG);
    let once = |sequence| Once { slot: 5, sequence };
    let mut first = place.metadata(1);
    first.send_once(mkdir("d"), once(1), false, &[]);
    let made = first.answer().unwrap().0;
    assert!(matches!(made, Reply::Attr { .. }));
    drop(first);
    let mut second = place.metadata(1);
    assert_eq!(again(&mut second, mkdir("d"), once(1)), made);
    assert_eq!(again(&mut second, mkdir("d"), once(2)), Reply::Failed { error: FsError::Exists });
    let file = opened(again(&mut second, create("f"), once(3)));
    assert_eq!(opened(again(&mut second, create("f"), once(3))).handle, file.handle);
    assert_eq!(again(&mut second, unlink("f"), once(4)), Reply::Done);
    assert_eq!(again(&mut second, unlink("f"), once(4)), Reply::Done);
    assert_eq!(again(&mut second, unlink("f"), once(5)), Reply::Failed { error: FsError::NotFound });
    // What was appended once is there once.
    let log = opened(again(&mut second, create("log"), once(6)));
    let append = MetadataRequest::AppendInline { handle: log.handle };
    for _ in 0..3 {
        second.send_once(append.clone(), once(7), true, b"line");
        assert_eq!(second.answer().unwrap().0, Reply::Appended { offset: 0, bytes: 4 });
    }
    assert_eq!(second.ask(MetadataRequest::Size { handle: log.handle }), Reply::Size { bytes: 4 });
    // A number of the past is nonsense.
    assert!(matches!(again(&mut second, mkdir("e"), once(3)), Reply::Malformed { .. }));
}

#[test]
fn what_a_client_holds_outlives_its_connections_by_the_grace_time() {
    let place = Place::new(LONG);
    let mut first = place.metadata(1);
    let file = opened(first.ask(create("f")));
    drop(first);
    let mut second = place.metadata(1).with_slot(1);
    let write = MetadataRequest::WriteInline { handle: file.handle, offset: 0 };
    assert_eq!(second.ask_with(write, b"still open").0, Reply::Size { bytes: 10 });
    let read = MetadataRequest::ReadInline { handle: file.handle, offset: 6, length: 100 };
    assert_eq!(second.ask_with(read, &[]), (Reply::Bytes, b"open".to_vec()));
}

#[test]
fn what_a_client_holds_is_released_when_it_does_not_come_back() {
    let place = Place::new(Duration::from_millis(50));
    let hello = place.hello(1, ConnectionKind::Metadata);
    let (mut first, before) = place.try_connect(&hello).unwrap();
    let file = opened(first.ask(create("f")));
    drop(first);
    let limit = Instant::now() + LIMIT;
    while !place.server.as_ref().unwrap().clients(INSTANCE).is_empty() {
        assert!(Instant::now() < limit, "the session does not end");
        std::thread::yield_now();
    }
    let (mut second, after) = place.try_connect(&hello).unwrap();
    assert_ne!(before.incarnation, after.incarnation);
    let size = MetadataRequest::Size { handle: file.handle };
    assert_eq!(second.ask(size), Reply::Failed { error: FsError::BadHandle });
}

#[test]
fn goodbye_releases_at_once_and_a_file_without_a_name_goes_with_its_last_opener() {
    let place = Place::new(LONG);
    let (mut first, mut second) = (place.metadata(1), place.metadata(2));
    let space = |connection: &mut Connection| match connection.ask(MetadataRequest::Statfs) {
        Reply::Space { space } => space.blocks_free,
        other => panic!("{other:?}"),
    };
    let before = space(&mut second);
    let file = opened(first.ask(create("f")));
    let write = MetadataRequest::WriteInline { handle: file.handle, offset: 0 };
    assert_eq!(first.ask_with(write, &vec![7; 1 << 20]).0, Reply::Size { bytes: 1 << 20 });
    assert_eq!(second.ask(unlink("f")), Reply::Done);
    assert!(space(&mut second) <= before - 256);
    assert_eq!(first.ask(MetadataRequest::Goodbye), Reply::Done);
    assert_eq!(space(&mut second), before);
}

#[test]
fn references_are_counted_by_session() {
    let place = Place::new(LONG);
    let (mut first, mut second) = (place.metadata(1), place.metadata(2));
    assert!(matches!(first.ask(mkdir("d")), Reply::Attr { .. }));
    let lookup = || MetadataRequest::Lookup { who: me(), parent: Ino::ROOT, name: name("d") };
    let Reply::Attr { attr } = second.ask(lookup()) else { panic!("it is there") };
    // More than it has: the other's are its own.
    let items = vec![Forgotten { ino: attr.ino, count: 1000 }];
    assert_eq!(second.ask(MetadataRequest::Forget { items: items.clone() }), Reply::Done);
    assert_eq!(second.ask(MetadataRequest::Forget { items }), Reply::Done);
    assert!(matches!(first.ask(MetadataRequest::GetAttr { ino: attr.ino }), Reply::Attr { .. }));
    // What was given back may not be named any more: its number may have been guessed.
    let stale = Reply::Failed { error: FsError::Stale };
    assert_eq!(second.ask(MetadataRequest::GetAttr { ino: attr.ino }), stale);
    let inside = MetadataRequest::Lookup { who: me(), parent: attr.ino, name: name("x") };
    assert_eq!(second.ask(inside), stale);
}

#[test]
fn a_listing_comes_in_parts_with_attributes() {
    let place = Place::new(LONG);
    let mut connection = place.metadata(1);
    for number in 0..50 {
        assert!(matches!(connection.ask(mkdir(&format!("directory {number}"))), Reply::Attr { .. }));
    }
    let Reply::Directory { handle } = connection.ask(MetadataRequest::OpenDir { who: me(), ino: Ino::ROOT })
    else {
        panic!("a directory")
    };
    let (mut cookie, mut names, mut parts) = (0, Vec::new(), 0);
    loop {
        let request = MetadataRequest::ReadDir { handle, cookie, with_attributes: true, most: 1500 };
        let (reply, bulk) = connection.ask_with(request, &[]);
        let Reply::Listing { is_end } = reply else { panic!("{reply:?}") };
        assert!(bulk.len() <= 1500);
        for entry in Entry::all(&bulk).unwrap() {
            cookie = entry.next_cookie;
            if let Some(attr) = entry.attr {
                assert_eq!(attr.ino, entry.ino);
                names.push(entry.name);
            }
        }
        parts += 1;
        if is_end {
            break;
        }
    }
    names.sort();
    names.dedup();
    assert!(names.len() == 50 && parts > 3, "{} names in {parts} parts", names.len());
    assert_eq!(connection.ask(MetadataRequest::CloseDir { handle }), Reply::Done);
    let gone = MetadataRequest::ReadDir { handle, cookie: 0, with_attributes: false, most: 100 };
    assert_eq!(connection.ask(gone), Reply::Failed { error: FsError::BadHandle });
}
