//! A change whose answer was lost with its server is asked for again in the server's next life: it is made once.
//!
//! Each test makes a change, starts the server anew, lets another client change what it can, and asks for the first change
//! again. The server cannot tell this from an answer that was never sent.

use crate::client::{Answer, Connection};
use crate::place::*;
use forebay_wire::message::*;
use forebay_wire::{Attr, FallocateMode, FsError, Ino, OpenFlags, RenameMode, SetAttr, XattrMode};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(30);
const SLOT: u16 = 7;
/// `FALLOC_FL_ZERO_RANGE` and `FALLOC_FL_KEEP_SIZE`.
const ZERO_KEEPING_SIZE: u32 = 0x11;
const EXCLUSIVE: OpenFlags = OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE);

/// A client over several lives of its server.
struct Client {
    number: u8,
    connection: Connection,
    /// Requests that were asked for in the slot.
    asked: u64,
    open: Vec<(Opened, &'static str)>,
}

impl Client {
    fn new(place: &Place, number: u8) -> Client {
        let connection = place.metadata(number);
        Client { number, connection, asked: 0, open: Vec::new() }
    }

    fn ask_with(&mut self, request: MetadataRequest, bulk: &[u8]) -> Answer {
        self.asked += 1;
        self.connection.send_once(request, Once { slot: SLOT, sequence: self.asked }, false, bulk);
        self.connection.answer().unwrap()
    }

    fn ask(&mut self, request: MetadataRequest) -> Reply {
        self.ask_with(request, &[]).0
    }

    fn create(&mut self, text: &'static str) -> Opened {
        let Reply::Opened { opened } = self.ask(create(text, EXCLUSIVE)) else {
            panic!("{text} is not made")
        };
        self.open.push((opened, text));
        opened
    }

    /// The server has another life: what was held is claimed.
    fn come_back(&mut self, place: &Place) {
        self.connection = place.metadata(self.number);
        let claim = |(opened, text): &(Opened, &str)| Claim {
            ino: opened.attr.ino,
            generation: opened.attr.generation,
            count: 1,
            place: Some((Ino::ROOT, name(text))),
        };
        let items = self.open.iter().map(claim).collect();
        assert_eq!(self.connection.ask(MetadataRequest::Reclaim { items }), Reply::Claimed { gone: vec![] });
        for (opened, _) in &self.open {
            let (ino, flags) = (opened.attr.ino, OpenFlags::READ_WRITE);
            let open = MetadataRequest::Open { who: me(), ino, flags, reclaim: Some(opened.handle) };
            assert!(matches!(self.connection.ask(open), Reply::Opened { .. }));
        }
        assert_eq!(self.connection.ask(MetadataRequest::ReclaimDone), Reply::Done);
    }

    /// Asks for the last request of the slot again.
    fn again_with(&mut self, request: MetadataRequest, bulk: &[u8]) -> Answer {
        self.connection.send_once(request, Once { slot: SLOT, sequence: self.asked }, true, bulk);
        self.connection.answer().unwrap()
    }

    fn again(&mut self, request: MetadataRequest) -> Reply {
        self.again_with(request, &[]).0
    }

    fn content(&mut self, handle: u64) -> Vec<u8> {
        self.connection.ask_with(MetadataRequest::ReadInline { handle, offset: 0, length: 1 << 16 }, &[]).1
    }

    fn lookup(&mut self, text: &str) -> Result<Attr, FsError> {
        match self.connection.ask(MetadataRequest::Lookup { who: me(), parent: Ino::ROOT, name: name(text) })
        {
            Reply::Attr { attr } => Ok(attr),
            Reply::Failed { error } => Err(error),
            other => panic!("{other:?}"),
        }
    }
}

fn create(text: &str, flags: OpenFlags) -> MetadataRequest {
    MetadataRequest::Create { who: me(), parent: Ino::ROOT, name: name(text), mode: 0o100_644, flags }
}

fn mkdir(text: &str) -> MetadataRequest {
    MetadataRequest::Mkdir { who: me(), parent: Ino::ROOT, name: name(text), mode: 0o755 }
}

fn unlink(text: &str) -> MetadataRequest {
    MetadataRequest::Unlink { who: me(), parent: Ino::ROOT, name: name(text) }
}

fn rename(from: &str, to: &str, mode: RenameMode) -> MetadataRequest {
    let (from, to) = ((Ino::ROOT, name(from)), (Ino::ROOT, name(to)));
    // A client need not know what it moves.
    MetadataRequest::Rename { who: me(), from, to, mode, expected: None }
}

/// Starts the server anew; the first client is back, and another one came.
fn next_life(place: &mut Place, first: &mut Client) -> Client {
    place.stop();
    place.start();
    first.come_back(place);
    Client::new(place, 2)
}

fn ino_of(reply: &Reply) -> Ino {
    match reply {
        Reply::Attr { attr } => attr.ino,
        Reply::Opened { opened } => opened.attr.ino,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_append_is_there_once_and_where_it_was() {
    let mut place = Place::new(LONG);
    let mut first = Client::new(&place, 1);
    let handle = first.create("f").handle;
    let append = || MetadataRequest::AppendInline { handle };
    assert_eq!(first.ask_with(append(), b"one").0, Reply::Appended { offset: 0, bytes: 3 });
    assert_eq!(first.ask_with(append(), b"two").0, Reply::Appended { offset: 3, bytes: 3 });
    next_life(&mut place, &mut first);
    assert_eq!(first.again_with(append(), b"two").0, Reply::Appended { offset: 3, bytes: 3 });
    assert_eq!(first.content(handle), b"onetwo");
}

/// Else an append to a file of which a power cut took the end left a hole for up to a second more.
#[test]
fn what_was_reserved_in_an_earlier_life_is_kept_as_long_as_somebody_is_awaited_and_no_longer() {
    let mut place = Place::new(LONG);
    let (mut first, mut other) = (Client::new(&place, 1), Client::new(&place, 2));
    let Opened { attr, handle, .. } = first.create("f");
    let reserve = |handle, length| MetadataRequest::Reserve { handle, length };
    assert_eq!(first.ask(reserve(handle, 100)), Reply::Size { bytes: 0 });
    place.stop();
    place.start();
    first.come_back(&place);
    let close = |handle| MetadataRequest::Close { items: vec![Closed { handle, wrote: false }] };
    let mut reserve_anew = |handle| {
        assert_eq!(first.connection.ask(close(handle)), Reply::Done);
        let flags = OpenFlags::READ_WRITE;
        let open = MetadataRequest::Open { who: me(), ino: attr.ino, flags, reclaim: None };
        let Reply::Opened { opened } = first.connection.ask(open) else { panic!() };
        (opened.handle, first.ask(reserve(opened.handle, 10)))
    };
    let (handle, start) = reserve_anew(handle);
    assert_eq!(start, Reply::Size { bytes: 100 }, "the other one may write there");
    other.come_back(&place);
    assert_eq!(reserve_anew(handle).1, Reply::Size { bytes: 0 }, "nobody has it open, or had");
}

#[test]
fn what_was_made_is_ours_and_what_was_there_is_not() {
    let mut place = Place::new(LONG);
    let makers: [(&str, MetadataRequest); 6] = [
        ("file", create("file", EXCLUSIVE)),
        ("common", create("common", OpenFlags::READ_WRITE)),
        ("directory", mkdir("directory")),
        (
            "symlink",
            MetadataRequest::Symlink {
                who: me(),
                parent: Ino::ROOT,
                name: name("symlink"),
                target: Target::new(b"there").unwrap(),
            },
        ),
        (
            "fifo",
            MetadataRequest::Mknod {
                who: me(),
                parent: Ino::ROOT,
                name: name("fifo"),
                mode: 0o010_600,
                rdev: 0,
            },
        ),
        (
            "node",
            MetadataRequest::Mknod {
                who: me(),
                parent: Ino::ROOT,
                name: name("node"),
                mode: 0o100_000,
                rdev: 0,
            },
        ),
    ];
    for (text, request) in makers {
        let mut first = Client::new(&place, 1);
        let made = ino_of(&first.ask(request.clone()));
        next_life(&mut place, &mut first);
        assert_eq!(ino_of(&first.again(request.clone())), made, "{text} was made");
        // The next request of the slot was never carried out: it is no repetition of anything.
        first.asked += 1;
        assert_eq!(first.again(request), Reply::Failed { error: FsError::Exists }, "{text} was there");
        assert_eq!(first.connection.ask(MetadataRequest::Goodbye), Reply::Done);
    }
}

#[test]
fn what_was_made_and_taken_by_another_is_not_made_again() {
    let mut place = Place::new(LONG);
    let mut first = Client::new(&place, 1);
    assert!(matches!(first.ask(mkdir("d")), Reply::Attr { .. }));
    let mut other = next_life(&mut place, &mut first);
    assert_eq!(
        other.ask(MetadataRequest::Rmdir { who: me(), parent: Ino::ROOT, name: name("d") }),
        Reply::Done
    );
    assert_eq!(first.again(mkdir("d")), Reply::Failed { error: FsError::Stale });
    assert_eq!(first.lookup("d"), Err(FsError::NotFound));
}

#[test]
fn a_link_is_made_once() {
    let mut place = Place::new(LONG);
    let mut first = Client::new(&place, 1);
    let ino = first.create("f").attr.ino;
    let link = MetadataRequest::Link { who: me(), ino, parent: Ino::ROOT, name: name("g") };
    assert_eq!(ino_of(&first.ask(link.clone())), ino);
    next_life(&mut place, &mut first);
    assert_eq!(ino_of(&first.again(link.clone())), ino);
    first.asked += 1;
    assert_eq!(first.again(link), Reply::Failed { error: FsError::Exists });
}

#[test]
fn a_removal_removes_nothing_that_came_after() {
    let mut place = Place::new(LONG);
    for (make, remove) in [
        (create("x", EXCLUSIVE), unlink("x")),
        (mkdir("x"), MetadataRequest::Rmdir { who: me(), parent: Ino::ROOT, name: name("x") }),
    ] {
        let mut first = Client::new(&place, 1);
        first.ask(make.clone());
        assert_eq!(first.ask(remove.clone()), Reply::Done);
        let mut other = next_life(&mut place, &mut first);
        let new = ino_of(&other.ask(make));
        assert_eq!(first.again(remove.clone()), Reply::Done);
        assert_eq!(other.lookup("x").map(|attr| attr.ino), Ok(new), "what the other made is there");
        assert_eq!(other.ask(remove.clone()), Reply::Done);
        first.asked += 1;
        assert_eq!(first.again(remove), Reply::Failed { error: FsError::NotFound }, "never asked for before");
        assert_eq!(first.connection.ask(MetadataRequest::Goodbye), Reply::Done);
        assert_eq!(other.connection.ask(MetadataRequest::Goodbye), Reply::Done);
    }
}

#[test]
fn names_are_moved_and_exchanged_once() {
    let mut place = Place::new(LONG);
    let mut first = Client::new(&place, 1);
    let [one, two] = ["a", "b"].map(|text| ino_of(&first.ask(create(text, EXCLUSIVE))));
    for mode in [RenameMode::Exchange, RenameMode::Replace, RenameMode::NoReplace] {
        let request = match mode {
            RenameMode::NoReplace => rename("b", "c", mode),
            _ => rename("a", "b", mode),
        };
        assert_eq!(first.ask(request.clone()), Reply::Done, "{mode:?}");
        let before = ["a", "b", "c"].map(|text| first.lookup(text).map(|attr| attr.ino));
        let mut other = next_life(&mut place, &mut first);
        assert_eq!(first.again(request), Reply::Done, "{mode:?} again");
        assert_eq!(["a", "b", "c"].map(|text| first.lookup(text).map(|attr| attr.ino)), before);
        assert_eq!(other.connection.ask(MetadataRequest::Goodbye), Reply::Done);
    }
    // Exchanged, then the one that is `a` replaced the other, then it went to `c`.
    assert_eq!(first.lookup("c").map(|attr| attr.ino), Ok(two));
    assert_ne!(one, two);
}

#[test]
fn attributes_are_set_and_removed_once() {
    let mut place = Place::new(LONG);
    let mut first = Client::new(&place, 1);
    let ino = first.create("f").attr.ino;
    let attribute = AttributeName::new(b"user.a").unwrap();
    let set = |value: &[u8], mode| MetadataRequest::SetXattr {
        who: me(),
        ino,
        name: attribute.clone(),
        value: AttributeValue::new(value).unwrap(),
        mode,
    };
    let remove = || MetadataRequest::RemoveXattr { who: me(), ino, name: attribute.clone() };
    let exists = Reply::Failed { error: FsError::Exists };
    assert_eq!(first.ask(set(b"1", XattrMode::Create)), Reply::Done);
    next_life(&mut place, &mut first);
    assert_eq!(first.again(set(b"1", XattrMode::Create)), Reply::Done);
    assert_eq!(first.ask(set(b"1", XattrMode::Create)), exists);
    next_life(&mut place, &mut first);
    assert_eq!(first.again(set(b"1", XattrMode::Create)), exists, "it was refused, and is again");
    assert_eq!(first.ask(set(b"2", XattrMode::Replace)), Reply::Done);
    next_life(&mut place, &mut first);
    assert_eq!(first.connection.ask(remove()), Reply::Done);
    assert_eq!(first.again(set(b"2", XattrMode::Replace)), Reply::Done, "though it was removed since");
    assert_eq!(first.connection.ask(set(b"3", XattrMode::Any)), Reply::Done);
    assert_eq!(first.ask(remove()), Reply::Done);
    next_life(&mut place, &mut first);
    assert_eq!(first.again(remove()), Reply::Done);
    first.asked += 1;
    assert_eq!(first.again(remove()), Reply::Failed { error: FsError::NoAttribute });
}

#[test]
fn content_is_cut_and_written_once() {
    let mut place = Place::new(LONG);
    let mut first = Client::new(&place, 1);
    let opened = first.create("f");
    let (ino, handle) = (opened.attr.ino, opened.handle);
    let cut = |size| MetadataRequest::SetAttr {
        who: me(),
        ino,
        handle: Some(handle),
        change: SetAttr { size: Some(size), ..SetAttr::default() },
    };
    let write = |offset| MetadataRequest::WriteInline { handle, offset };
    first.ask_with(write(0), b"before");
    assert!(matches!(first.ask(cut(0)), Reply::Attr { .. }));
    next_life(&mut place, &mut first);
    assert_eq!(first.connection.ask_with(write(0), b"after").0, Reply::Size { bytes: 5 });
    let Reply::Attr { attr } = first.again(cut(0)) else { panic!() };
    assert_eq!((attr.size, first.content(handle)), (5, b"after".to_vec()), "it is not cut again");
    assert_eq!(first.ask_with(write(0), b"AF").0, Reply::Size { bytes: 2 });
    next_life(&mut place, &mut first);
    assert_eq!(first.connection.ask_with(write(0), b"af").0, Reply::Size { bytes: 2 });
    assert_eq!(first.again_with(write(0), b"AF").0, Reply::Size { bytes: 2 });
    assert_eq!(first.content(handle), b"after");
    let punch = MetadataRequest::FallocateInline {
        handle,
        offset: 0,
        length: 2,
        mode: FallocateMode(ZERO_KEEPING_SIZE),
    };
    assert_eq!(first.ask(punch.clone()), Reply::Done);
    next_life(&mut place, &mut first);
    assert_eq!(first.connection.ask_with(write(0), b"af").0, Reply::Size { bytes: 2 });
    assert_eq!(first.again(punch), Reply::Done);
    assert_eq!(first.content(handle), b"after");
}

#[test]
fn what_is_kept_for_sessions_has_a_size_and_goes_with_them() {
    let mut place = Place::new(LONG);
    let deeds = place.socket().with_file_name("sessions.deeds");
    let sizes = || {
        let entries = std::fs::read_dir(&deeds).unwrap().map(|entry| entry.unwrap());
        let mut sizes: Vec<_> = entries.map(|entry| entry.metadata().unwrap().len()).collect();
        sizes.sort_unstable();
        sizes
    };
    let empty = sizes();
    assert_eq!(empty.len(), 1);
    let mut first = Client::new(&place, 1);
    let begun = sizes();
    assert_eq!(begun.len(), 2);
    for number in 0..200 {
        let text = format!("{:0200}", number);
        first.connection.send_once(
            create(&text, EXCLUSIVE),
            Once { slot: number % 64, sequence: 1 << 60 | u64::from(number) },
            false,
            &[],
        );
        assert!(matches!(first.connection.answer().unwrap().0, Reply::Opened { .. }));
    }
    assert_eq!(sizes(), begun);
    assert!(begun.iter().sum::<u64>() <= 128 << 10, "{begun:?}");
    first.open.clear();
    next_life(&mut place, &mut first);
    assert_eq!(sizes().len(), 3, "the first is awaited, and another one came");
    assert_eq!(first.connection.ask(MetadataRequest::Goodbye), Reply::Done);
    while sizes().len() > 2 {
        std::thread::yield_now();
    }
    // A file that belongs to no session goes with the next start.
    std::fs::write(deeds.join("0123"), b"").unwrap();
    place.stop();
    place.start();
    assert!(!deeds.join("0123").exists());
}
