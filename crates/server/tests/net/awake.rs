//! Many requests keep the machine's processors awake.

use crate::place::*;
use forebay_wire::message::{ConnectionKind, DataRequest, MetadataRequest, Piece, Reply, SessionId};
use forebay_wire::proof::Secret;
use forebay_wire::ticket::{Rights, TicketKey};
use forebay_wire::{FileId, Ino};
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(30);

/// Asks until the kernel was asked for processors that do not sleep.
fn until_awake(place: &Place, mut ask: impl FnMut() -> Reply) {
    let asked = || std::fs::read(place.latency()).unwrap();
    assert!(asked().is_empty());
    let limit = Instant::now() + LONG;
    while asked() != 0_i32.to_ne_bytes() {
        let reply = ask();
        assert!(Instant::now() < limit, "requests are not counted: {reply:?}");
    }
}

#[test]
fn many_requests_for_names_keep_processors_awake() {
    let place = Place::new(LONG);
    let mut connection = place.metadata(1);
    until_awake(&place, || connection.ask(MetadataRequest::GetAttr { ino: Ino::ROOT }));
}

#[test]
fn many_requests_for_content_keep_processors_awake() {
    const FILE: FileId = FileId(7);
    let place = Place::new(LONG);
    let mut connection = place.connect(1, ConnectionKind::Data);
    let key = TicketKey::new(&Secret::new(SEAL).unwrap(), NAMESPACE);
    let ticket = key.issue(Rights::ReadWrite, FILE, SessionId([1; 16]));
    let pieces = vec![Piece { substripe: 0, offset: 0, length: 1 }];
    let write = || DataRequest::Write { file: FILE, substripes: 1, ticket, pieces: pieces.clone() };
    until_awake(&place, || connection.ask_data(write(), b"1").0);
}
