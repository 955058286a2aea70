//! A completed change is seen by all: who may show something is told before it changes.

use crate::client::Connection;
use crate::place::*;
use forebay_wire::message::*;
use forebay_wire::{Attr, Ino, OpenFlags, RenameMode, SetAttr};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(30);
/// Less than a kernel is given to take up an answer, by a server that counts whole milliseconds.
const TAKEN_UP: Duration = Duration::from_millis(99);

fn lookup(connection: &mut Connection, text: &str) -> Attr {
    match connection.ask(MetadataRequest::Lookup { who: me(), parent: Ino::ROOT, name: name(text) }) {
        Reply::Attr { attr } => attr,
        other => panic!("{other:?}"),
    }
}

/// Looks a name up until the answer may be kept: the server notices a callback connection a moment after it was let in.
fn granted(connection: &mut Connection, text: &str) -> Attr {
    granted_for(connection, text, 1000)
}

fn granted_for(connection: &mut Connection, text: &str, valid_ms: u32) -> Attr {
    let limit = Instant::now() + LONG;
    loop {
        let attr = lookup(connection, text);
        if attr.valid_ms > 0 {
            assert_eq!(attr.valid_ms, valid_ms);
            return attr;
        }
        assert!(Instant::now() < limit, "nothing is granted");
        std::thread::yield_now();
    }
}

/// Waits until what was granted just now for so long is over: nothing but a clock says it.
fn until_over(valid_ms: u32) {
    std::thread::sleep(Duration::from_millis(valid_ms.into()));
}

fn chmod(ino: Ino, mode: u32) -> MetadataRequest {
    let change = SetAttr { mode: Some(mode), ..SetAttr::default() };
    MetadataRequest::SetAttr { who: me(), ino, handle: None, change }
}

/// A namespace with a directory `d` that was made long enough ago for everybody to be granted it.
fn place_with_directory() -> Place {
    let mut place = Place::new(LONG);
    let made = place.metadata(9).ask(MetadataRequest::Mkdir {
        who: me(),
        parent: Ino::ROOT,
        name: name("d"),
        mode: 0o755,
    });
    assert!(matches!(made, Reply::Attr { .. }));
    // A server that was started since remembers no change.
    place.stop();
    std::fs::remove_file(place.socket().with_file_name("sessions")).unwrap();
    place.start();
    place
}

#[test]
fn a_change_waits_until_those_who_may_show_the_old_have_answered() {
    let place = place_with_directory();
    let (mut shows, mut told) = (place.metadata(1), place.callback(1));
    let mut changes = place.metadata(2);
    lookup(&mut changes, "d");
    let attr = granted(&mut shows, "d");
    let _others = place.callback(2);
    let answered = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| {
            let reply = changes.ask(chmod(attr.ino, 0o700));
            (reply, answered.load(SeqCst))
        });
        let (number, message) = told.hear().unwrap();
        assert_eq!(message, CallbackRequest::Invalidate { items: vec![Changed::Attributes(attr.ino)] });
        // It is not made yet.
        let Reply::Attr { attr: now } = shows.ask(MetadataRequest::GetAttr { ino: attr.ino }) else {
            panic!()
        };
        assert_eq!((now.mode, now.valid_ms), (0o755, 0));
        answered.store(true, SeqCst);
        told.say_done(number);
        let (reply, was_answered) = changing.join().unwrap();
        assert!(matches!(reply, Reply::Attr { attr } if attr.mode == 0o700) && was_answered);
    });
    // Shortly after a change by somebody else nothing is granted; who made it goes on.
    assert_eq!(lookup(&mut shows, "d").valid_ms, 0);
    assert_eq!(granted(&mut changes, "d").mode, 0o700);
}

#[test]
fn a_client_that_does_not_answer_delays_a_change_by_its_grant_only() {
    let place = place_with_directory();
    let (mut shows, _silent) = (place.metadata(1), place.callback(1));
    let mut changes = place.metadata(2);
    lookup(&mut changes, "d");
    let attr = granted(&mut shows, "d");
    let asked = Instant::now();
    assert!(matches!(changes.ask(chmod(attr.ino, 0o700)), Reply::Attr { .. }));
    let waited = asked.elapsed();
    assert!(waited < Duration::from_secs(10), "{waited:?}");
    assert!(
        waited > Duration::from_millis(900),
        "it was made while the other could show the old: {waited:?}"
    );
}

#[test]
fn names_are_told_to_those_who_looked_into_the_directory() {
    let place = place_with_directory();
    let (mut shows, mut told) = (place.metadata(1), place.callback(1));
    let mut changes = place.metadata(2);
    granted(&mut shows, "d");
    std::thread::scope(|scope| {
        let changing = scope
            .spawn(|| changes.ask(MetadataRequest::Rmdir { who: me(), parent: Ino::ROOT, name: name("d") }));
        let (number, message) = told.hear().unwrap();
        let CallbackRequest::Invalidate { items } = message else { panic!("{message:?}") };
        assert!(items.contains(&Changed::Entry(Ino::ROOT, name("d"))), "{items:?}");
        assert!(items.contains(&Changed::Attributes(Ino::ROOT)), "{items:?}");
        told.say_done(number);
        assert_eq!(changing.join().unwrap(), Reply::Done);
    });
}

#[test]
fn a_file_that_another_writes_is_granted_to_nobody_else() {
    let place = Place::new(LONG);
    let (mut writes, mut looks) = (place.metadata(1), place.metadata(2));
    let _told = (place.callback(1), place.callback(2));
    let flags = OpenFlags::READ_WRITE;
    let create =
        MetadataRequest::Create { who: me(), parent: Ino::ROOT, name: name("f"), mode: 0o100_644, flags };
    let Reply::Opened { opened } = writes.ask(create) else { panic!() };
    assert_eq!(lookup(&mut looks, "f").valid_ms, 0);
    let Reply::Attr { attr } = writes.ask(MetadataRequest::GetAttr { ino: opened.attr.ino }) else {
        panic!()
    };
    assert_eq!(attr.valid_ms, 1000, "nobody else writes it");
}

#[test]
fn who_loses_the_callback_connection_is_told_on_the_next() {
    let place = place_with_directory();
    let (mut shows, mut told) = (place.metadata(1), place.callback(1));
    let mut changes = place.metadata(2);
    lookup(&mut changes, "d");
    let attr = granted(&mut shows, "d");
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| changes.ask(chmod(attr.ino, 0o700)));
        let (_, message) = told.hear().unwrap();
        let mut next = place.callback(1);
        let (number, again) = next.hear().unwrap();
        assert_eq!(again, message);
        next.say_done(number);
        assert!(matches!(changing.join().unwrap(), Reply::Attr { .. }));
    });
    assert!(told.hear().is_none(), "the old connection ended");
}

#[test]
fn who_cannot_be_told_is_granted_nothing() {
    let place = place_with_directory();
    let mut shows = place.metadata(1);
    assert_eq!(lookup(&mut shows, "d").valid_ms, 0);
    let told = place.callback(1);
    granted_for(&mut shows, "d", 5000);
    drop(told);
    while lookup(&mut shows, "d").valid_ms > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn what_was_granted_before_a_start_is_not_changed_unseen() {
    let mut place = place_with_directory();
    let (mut shows, _told, mut other) = (place.metadata(1), place.callback(1), place.metadata(2));
    lookup(&mut other, "d");
    let attr = granted(&mut shows, "d");
    let answered = Instant::now();
    place.stop();
    place.start();
    let mut changes = place.metadata(2);
    let ino = lookup(&mut changes, "d").ino;
    assert!(matches!(changes.ask(chmod(ino, 0o700)), Reply::Attr { .. }));
    let waited = answered.elapsed();
    assert!(
        waited >= Duration::from_millis(attr.valid_ms.into()),
        "it was made while the other could show the old: {waited:?}"
    );
}

#[test]
fn who_is_back_after_a_start_is_told_of_changes() {
    let mut place = place_with_directory();
    let (mut shows, told, mut other) = (place.metadata(1), place.callback(1), place.metadata(2));
    lookup(&mut other, "d");
    granted(&mut shows, "d");
    drop(told);
    place.stop();
    place.start();
    let (_shows, mut told, mut changes) = (place.metadata(1), place.callback(1), place.metadata(2));
    let ino = lookup(&mut changes, "d").ino;
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| changes.ask(chmod(ino, 0o700)));
        let (number, message) = told.hear().unwrap();
        assert_eq!(message, CallbackRequest::Invalidate { items: vec![Changed::Attributes(ino)] });
        told.say_done(number);
        assert!(matches!(changing.join().unwrap(), Reply::Attr { .. }));
    });
}

#[test]
fn nothing_is_granted_until_all_are_back_who_may_be_writing() {
    let mut place = place_with_directory();
    let (mut writes, mut looks) = (place.metadata(1), place.metadata(2));
    lookup(&mut writes, "d");
    lookup(&mut looks, "d");
    place.stop();
    place.start();
    let (mut looks, _told) = (place.metadata(2), place.callback(2));
    assert_eq!(looks.ask(MetadataRequest::ReclaimDone), Reply::Done);
    for _ in 0..1000 {
        assert_eq!(lookup(&mut looks, "d").valid_ms, 0, "somebody is awaited");
    }
    let mut writes = place.metadata(1);
    assert_eq!(writes.ask(MetadataRequest::ReclaimDone), Reply::Done);
    granted(&mut looks, "d");
}

#[test]
fn who_was_there_before_a_start_is_granted_only_what_his_kernel_has_had_time_to_take_up() {
    let mut place = place_with_directory();
    lookup(&mut place.metadata(1), "d");
    place.stop();
    place.start();
    let (mut looks, _told) = (place.metadata(1), place.callback(1));
    assert_eq!(looks.ask(MetadataRequest::ReclaimDone), Reply::Done);
    // Told of a change before, it would lose the answer.
    let first = Instant::now();
    let root = |looks: &mut Connection| match looks.ask(MetadataRequest::GetAttr { ino: Ino::ROOT }) {
        Reply::Attr { attr } => attr.valid_ms,
        other => panic!("{other:?}"),
    };
    while root(&mut looks) == 0 {
        assert!(first.elapsed() < LONG, "never granted again");
    }
    assert!(first.elapsed() >= TAKEN_UP, "granted after {:?}", first.elapsed());
}

#[test]
fn what_a_client_was_granted_while_it_was_alone_is_not_changed_unseen() {
    let place = place_with_directory();
    let (mut shows, mut told) = (place.metadata(1), place.callback(1));
    let attr = granted_for(&mut shows, "d", 5000);
    let mut changes = place.metadata(2);
    lookup(&mut changes, "d");
    // Now it is not alone any more, and is granted less. When that is over it may show the name all the same.
    let less = granted(&mut shows, "d");
    assert_eq!(less.ino, attr.ino);
    until_over(less.valid_ms);
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| {
            let removed = MetadataRequest::Rmdir { who: me(), parent: Ino::ROOT, name: name("d") };
            changes.ask(removed)
        });
        let (number, message) = told.hear().unwrap();
        let CallbackRequest::Invalidate { items } = message else { panic!("{message:?}") };
        assert!(items.contains(&Changed::Entry(Ino::ROOT, name("d"))), "{items:?}");
        told.say_done(number);
        assert_eq!(changing.join().unwrap(), Reply::Done);
    });
}

fn renaming(from: &str, to: &str) -> MetadataRequest {
    let place = |text| (Ino::ROOT, name(text));
    MetadataRequest::Rename {
        who: me(),
        from: place(from),
        to: place(to),
        mode: RenameMode::Replace,
        expected: None,
    }
}

fn mkdir(connection: &mut Connection, text: &str) -> Attr {
    match connection.ask(MetadataRequest::Mkdir {
        who: me(),
        parent: Ino::ROOT,
        name: name(text),
        mode: 0o755,
    }) {
        Reply::Attr { attr } => attr,
        other => panic!("{other:?}"),
    }
}

/// A kernel that changes a name of a directory cannot forget another one meanwhile: were both told of each other's names, both
/// would wait for the end of a grant, each time. One of them was alone when it made its name, and is told once that it is not.
#[test]
fn who_renames_where_others_do_is_not_told_of_their_names() {
    let place = Place::new(LONG);
    let (mut one, mut other) = (place.metadata(1), place.metadata(2));
    let told = [place.callback(1), place.callback(2)];
    mkdir(&mut one, "a");
    mkdir(&mut other, "b");
    for (from, to) in [("", "."), (".", ""), ("", "."), (".", "")] {
        assert_eq!(one.ask(renaming(&format!("a{from}"), &format!("a{to}"))), Reply::Done);
        assert_eq!(other.ask(renaming(&format!("b{from}"), &format!("b{to}"))), Reply::Done);
    }
    // Its end ends what is said.
    drop((one, other, place));
    let names = told.map(|connection| names_told(connection).len());
    assert!(names.iter().sum::<usize>() <= 1, "{names:?}");
}

/// All names that were announced over a connection, until its end.
fn names_told(mut connection: Connection) -> Vec<Changed> {
    let heard = std::iter::from_fn(|| connection.hear());
    let items = heard.flat_map(|(_, message)| match message {
        CallbackRequest::Invalidate { items } => items,
        _ => Vec::new(),
    });
    items.filter(|item| matches!(item, Changed::Entry(..))).collect()
}

#[test]
fn who_was_told_of_a_directory_is_told_of_its_names_still() {
    let place = place_with_directory();
    let (mut shows, mut told) = (place.metadata(1), place.callback(1));
    let mut changes = place.metadata(2);
    lookup(&mut changes, "d");
    granted(&mut shows, "d");
    std::thread::scope(|scope| {
        let removed = MetadataRequest::Rmdir { who: me(), parent: Ino::ROOT, name: name("d") };
        let changing = scope.spawn(|| (changes.ask(chmod(Ino::ROOT, 0o711)), changes.ask(removed)));
        let (number, message) = told.hear().unwrap();
        assert_eq!(message, CallbackRequest::Invalidate { items: vec![Changed::Attributes(Ino::ROOT)] });
        told.say_done(number);
        let (number, message) = told.hear().unwrap();
        let CallbackRequest::Invalidate { items } = message else { panic!("{message:?}") };
        assert!(items.contains(&Changed::Entry(Ino::ROOT, name("d"))), "{items:?}");
        told.say_done(number);
        assert_eq!(changing.join().unwrap().1, Reply::Done);
    });
}

/// Both hold the lock of the directory that the other one's notice needs; who comes second cannot be waited for by the first.
#[test]
fn two_that_move_known_directories_at_once_do_not_wait_for_each_other() {
    let place = Place::new(LONG);
    let (mut one, mut other) = (place.metadata(1), place.metadata(2));
    let (mut told, _silent) = (place.callback(2), place.callback(1));
    let mut granted_ms = 0;
    for text in ["a", "b"] {
        granted_ms = granted_ms.max(mkdir(&mut one, text).valid_ms);
        granted_ms = granted_ms.max(lookup(&mut other, text).valid_ms);
    }
    until_over(granted_ms);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| one.ask(renaming("a", "a.")));
        let (number, _) = told.hear().unwrap();
        assert_eq!(other.ask(renaming("b", "b.")), Reply::Done);
        // Had it waited, it would have done so for longer than the first one does.
        assert!(!first.is_finished(), "it waited for who waits for it");
        told.say_done(number);
        assert_eq!(first.join().unwrap(), Reply::Done);
    });
}
