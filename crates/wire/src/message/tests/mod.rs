//! Every message: its bytes of version 1, there and back, and what becomes of damaged ones.

mod limits;
pub(crate) mod sample;

use super::failure::{PLAIN, code_of, error_of};
use super::{
    CallbackRequest, DataRequest, DecodeError, Entry, Flags, Handshake, Header, MetadataCall,
    MetadataRequest, Once, Reply, SLOTS_MAX,
};
use crate::error::FsError;
use proptest::prelude::*;
use sample::{Sample, Source};
use std::fmt::{Debug, Write};

/// Written once by version 1 and not to be changed: what a version said stays what it meant.
const GOLDEN: &str = include_str!("../../../tests/golden/version1.txt");

/// Any message, whichever way it goes.
#[derive(Clone, Debug, PartialEq)]
enum Message {
    Handshake(Handshake),
    Metadata(MetadataCall),
    Data(DataRequest),
    Callback(CallbackRequest),
    Reply(Reply),
}

fn kinds() -> impl Iterator<Item = (u16, &'static str)> {
    let sets =
        [Handshake::KINDS, MetadataRequest::KINDS, DataRequest::KINDS, CallbackRequest::KINDS, Reply::KINDS];
    sets.into_iter().flatten().copied()
}

fn sample(kind: u16, from: &mut Source) -> Message {
    match kind >> 8 {
        0 => Message::Handshake(Handshake::sample(kind, from)),
        1 => {
            let once = MetadataRequest::is_once(kind)
                .then(|| Once { slot: u16::sample(from) % SLOTS_MAX, sequence: u64::sample(from) });
            Message::Metadata(MetadataCall { once, request: MetadataRequest::sample(kind, from) })
        }
        2 => Message::Data(DataRequest::sample(kind, from)),
        3 => Message::Callback(CallbackRequest::sample(kind, from)),
        _ => Message::Reply(Reply::sample(kind, from)),
    }
}

fn decode(kind: u16, body: &[u8]) -> Result<Message, DecodeError> {
    Ok(match kind >> 8 {
        0 => Message::Handshake(Handshake::decode(kind, body)?),
        1 => Message::Metadata(MetadataCall::decode(kind, body)?),
        2 => Message::Data(DataRequest::decode(kind, body)?),
        3 => Message::Callback(CallbackRequest::decode(kind, body)?),
        _ => Message::Reply(Reply::decode(kind, body)?),
    })
}

fn encode(message: &Message) -> Vec<u8> {
    let mut body = Vec::new();
    match message {
        Message::Handshake(message) => message.encode(&mut body),
        Message::Metadata(message) => message.encode(&mut body),
        Message::Data(message) => message.encode(&mut body),
        Message::Callback(message) => message.encode(&mut body),
        Message::Reply(message) => message.encode(&mut body),
    }
    body
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Three messages of each kind, a header and a listing, as lines of text.
fn golden_now() -> String {
    let mut text = String::new();
    for (kind, name) in kinds() {
        for seed in 1..=3 {
            let message = sample(kind, &mut Source::new(u64::from(kind) << 8 | seed));
            let _ = writeln!(text, "{kind:04x} {name} {seed} {}", hex(&encode(&message)));
        }
    }
    let _ = writeln!(text, "header {}", hex(&header().encode()));
    let _ = writeln!(text, "listing {}", hex(&listing()));
    text
}

fn header() -> Header {
    let flags = Flags { repeated: true, one_way: false };
    Header { flags, kind: 0x0101, body: 0x123, bulk: 0x45_6789, request: 0x0011_2233_4455_6677 }
}

fn entry(from: &mut Source) -> Entry {
    Entry {
        ino: Sample::sample(from),
        kind: Sample::sample(from),
        next_cookie: Sample::sample(from),
        name: Sample::sample(from),
        attr: Sample::sample(from),
    }
}

fn listing() -> Vec<u8> {
    let mut listing = Vec::new();
    let mut from = Source::new(1);
    for _ in 0..4 {
        assert!(entry(&mut from).add_to(&mut listing, usize::MAX));
    }
    listing
}

#[test]
fn the_bytes_of_version_1_are_what_they_were() {
    let now = golden_now();
    for (line, expected) in now.lines().zip(GOLDEN.lines()) {
        assert_eq!(line, expected, "the bytes of version 1 changed: that needs a new version");
    }
    assert_eq!(
        now.lines().count(),
        GOLDEN.lines().count(),
        "a message was added or removed; now it is:\n{now}"
    );
}

#[test]
fn kinds_are_distinct_and_those_done_once_exist() {
    let mut all: Vec<u16> = kinds().map(|(kind, _)| kind).collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count);
    for kind in (0..=u16::MAX).filter(|kind| MetadataRequest::is_once(*kind)) {
        assert!(MetadataRequest::KINDS.iter().any(|(known, _)| *known == kind), "{kind:#06x}");
    }
}

#[test]
fn a_header_comes_back_and_a_damaged_one_does_not() {
    let bytes = header().encode();
    assert_eq!(Header::decode(&bytes), Ok(header()));
    for (at, byte) in [(0, 0), (2, 9), (3, 4), (6, 1), (11, 1), (15, 1)] {
        let mut damaged = bytes;
        damaged[at] = byte;
        assert!(Header::decode(&damaged).is_err(), "byte {at} = {byte}");
    }
}

#[test]
fn a_listing_stops_where_it_is_full_and_has_one_entry_at_least() {
    let mut from = Source::new(5);
    let mut listing = Vec::new();
    let entries: Vec<Entry> = (0..9).map(|_| entry(&mut from)).collect();
    assert!(entries[0].add_to(&mut listing, 1));
    let one = listing.len();
    assert!(!entries[1].add_to(&mut listing, one));
    assert_eq!(listing.len(), one);
    let taken = entries[1..].iter().take_while(|entry| entry.add_to(&mut listing, 400)).count();
    assert_eq!(Entry::all(&listing).as_deref(), Ok(&entries[..=taken]));
    assert!(Entry::all(&listing[..listing.len() - 1]).is_err());
}

#[test]
fn errors_arrive_as_they_were_sent() {
    for error in PLAIN {
        let (code, errno) = code_of(*error);
        assert_eq!(error_of(code, errno), Some(*error));
        assert_eq!(error_of(code, 5), None, "an errno belongs to an error of the host only");
    }
    let host = FsError::Host { operation: "write", errno: 5 };
    let (code, errno) = code_of(host);
    assert_eq!(error_of(code, errno), Some(FsError::Host { operation: "server", errno: 5 }));
    assert_eq!(error_of(999, 0), None);
}

/// What decodes is written again as the very same bytes: one message has one form.
fn is_canonical(kind: u16, body: &[u8]) -> Result<(), TestCaseError> {
    if let Ok(message) = decode(kind, body) {
        prop_assert_eq!(hex(&encode(&message)), hex(body), "{:?}", message);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_message_comes_back(seed: u64) {
        for (kind, name) in kinds() {
            let message = sample(kind, &mut Source::new(seed));
            let body = encode(&message);
            prop_assert_eq!(decode(kind, &body), Ok(message), "{}", name);
        }
    }

    #[test]
    fn a_message_cut_short_or_with_more_behind_it_is_none(seed: u64, cut: prop::sample::Index) {
        for (kind, name) in kinds() {
            let mut body = encode(&sample(kind, &mut Source::new(seed)));
            if !body.is_empty() {
                let short = decode(kind, &body[..cut.index(body.len())]);
                prop_assert!(matches!(short, Err(DecodeError::Short { .. })), "{} {:?}", name, short);
            }
            body.push(0);
            prop_assert_eq!(decode(kind, &body), Err(DecodeError::Trailing { bytes: 1 }), "{}", name);
        }
    }

    #[test]
    fn a_message_with_a_changed_byte_is_none_or_another_in_its_one_form(
        seed: u64, at: prop::sample::Index, byte: u8,
    ) {
        for (kind, _) in kinds() {
            let mut body = encode(&sample(kind, &mut Source::new(seed)));
            if !body.is_empty() {
                let at = at.index(body.len());
                body[at] = byte;
                is_canonical(kind, &body)?;
            }
        }
    }

    #[test]
    fn any_bytes_are_no_message_or_one_in_its_one_form(body in prop::collection::vec(any::<u8>(), 0..200)) {
        for (kind, _) in kinds() {
            is_canonical(kind, &body)?;
        }
        if let Ok(entries) = Entry::all(&body) {
            let mut again = Vec::new();
            prop_assert!(entries.iter().all(|entry| entry.add_to(&mut again, usize::MAX)));
            prop_assert_eq!(again, body);
        }
    }

    #[test]
    fn any_header_is_none_or_one_in_its_one_form(bytes: [u8; 24]) {
        let mut bytes = bytes;
        bytes[..3].copy_from_slice(&[0x57, 0xFB, 1]);
        bytes[3] &= 3;
        if let Ok(header) = Header::decode(&bytes) {
            prop_assert_eq!(header.encode(), bytes);
        }
    }

    #[test]
    fn kinds_that_are_none_are_refused(kind: u16) {
        prop_assume!(kinds().all(|(known, _)| known != kind));
        prop_assert_eq!(decode(kind, &[]), Err(DecodeError::UnknownKind { kind }));
    }
}
