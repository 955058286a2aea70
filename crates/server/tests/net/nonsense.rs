//! What a client that knows the token can do wrong: nothing that another one notices.

use crate::client::{Connection, connect, tcp, unix};
use crate::place::*;
use forebay_wire::message::*;
use forebay_wire::{Ino, OpenFlags};
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(30);
const FRAMES: u64 = 1000;

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// Requests that make sense, with numbers that do not.
fn request(random: &mut Random) -> MetadataRequest {
    let numbers = [0, 1, 2, 3, 5, u64::MAX, i64::MAX as u64, 1 << 40];
    let mut number = || numbers[random.below(numbers.len() as u64) as usize];
    let (ino, handle, offset, length) = (Ino(number()), number(), number(), number());
    let mode = number() as u32;
    let flags = OpenFlags(number() as u32);
    let who = me();
    match random.below(17) {
        0 => MetadataRequest::Open { who, ino, flags, reclaim: Some(handle) },
        1 => MetadataRequest::Close { items: vec![Closed { handle, wrote: false }] },
        2 => MetadataRequest::ReadInline { handle, offset, length: length as u32 },
        3 => MetadataRequest::WriteInline { handle, offset },
        4 => MetadataRequest::Reserve { handle, length },
        5 => MetadataRequest::WasWritten { handle, end: offset },
        6 => MetadataRequest::CopyInline { from: handle, offset, to: handle, to_offset: length, length },
        7 => MetadataRequest::ReadDir { handle, cookie: offset, with_attributes: true, most: length as u32 },
        8 => MetadataRequest::OpenDir { who, ino },
        9 => MetadataRequest::Mknod { who, parent: ino, name: name("x"), mode, rdev: 7 },
        10 => MetadataRequest::Create { who, parent: Ino::ROOT, name: name("y"), mode, flags },
        11 => MetadataRequest::Forget { items: vec![Forgotten { ino, count: length }] },
        12 => {
            let place = Some((ino, name("z")));
            let claim = Claim { ino: Ino(handle), generation: offset, count: length, place };
            MetadataRequest::Reclaim { items: vec![claim] }
        }
        13 => MetadataRequest::DropSetId { handle },
        14 => MetadataRequest::SeekInline { handle, offset, what: forebay_wire::SeekWhat::Hole },
        15 => MetadataRequest::GiveUp { handle, start: offset, end: length },
        _ => MetadataRequest::GetAttr { ino },
    }
}

fn works(connection: &mut Connection) {
    assert!(matches!(connection.ask(MetadataRequest::GetAttr { ino: Ino::ROOT }), Reply::Attr { .. }));
}

#[test]
fn numbers_that_make_no_sense_are_answered() {
    let place = Place::new(GRACE);
    let mut good = place.metadata(1);
    let mut bad = place.metadata(2);
    let mut random = Random(7);
    for _ in 0..FRAMES {
        let request = request(&mut random);
        let text = format!("{request:?}");
        // An answer to each: the thread that works on it did not end.
        let (reply, _) = bad.ask_with(request, b"some bytes");
        assert!(!matches!(reply, Reply::Malformed { .. } | Reply::Unsupported { .. }), "{text}: {reply:?}");
    }
    works(&mut bad);
    works(&mut good);
}

#[test]
fn bytes_that_make_no_sense_end_their_connection_only() {
    let place = Place::new(GRACE);
    let mut good = place.metadata(1);
    let kinds = [MetadataRequest::KINDS, DataRequest::KINDS].concat();
    let mut random = Random(11);
    for kind in [ConnectionKind::Metadata, ConnectionKind::Data, ConnectionKind::Callback] {
        let mut bad = place.connect(2, kind);
        for _ in 0..FRAMES / 10 {
            let number = kinds[random.below(kinds.len() as u64) as usize].0;
            let body: Vec<u8> = (0..random.below(80)).map(|_| random.next() as u8).collect();
            bad.send_raw(number, &body, &[]);
            let ended = kind == ConnectionKind::Callback
                || matches!(bad.answer(), None | Some((Reply::Malformed { .. }, _)));
            if ended {
                bad = place.connect(2, kind);
            }
        }
        works(&mut good);
    }
}

/// What has come already is not waited for.
#[test]
fn bytes_that_make_no_sense_and_come_with_a_request_are_refused_at_once() {
    let place = Place::new(GRACE);
    let hello = place.hello(1, ConnectionKind::Metadata);
    let (flags, kind) = (Flags::default(), MetadataRequest::KINDS[0].0);
    let too_long = Header { flags, kind, body: BODY_MAX as u32 + 1, bulk: 0, request: 2 }.encode();
    for bytes in [[0xff; HEADER_BYTES], too_long] {
        for stream in [tcp(place.address), unix(&place.socket())] {
            let mut bad = connect(stream, &hello).unwrap().0;
            bad.send_with(&MetadataRequest::GetAttr { ino: Ino::ROOT }, &bytes);
            assert!(matches!(bad.answer(), Some((Reply::Attr { .. }, _))));
            assert!(bad.is_refused());
        }
    }
}

#[test]
fn an_instance_is_taken_out_and_served_again_while_clients_are_there() {
    let mut place = Place::new(GRACE);
    let mut client = place.metadata(1);
    works(&mut client);
    let hello = place.hello(1, ConnectionKind::Metadata);
    let server = place.server.as_ref().unwrap();
    assert!(server.remove(INSTANCE));
    assert!(!server.remove(INSTANCE));
    assert!(client.answer().is_none());
    assert_eq!(place.try_connect(&hello).err(), Some(RefusalReason::UnknownInstance));
    assert!(place.server.as_ref().unwrap().clients(INSTANCE).is_empty());
    place.stop();
    place.start();
    works(&mut place.metadata(1));
}
