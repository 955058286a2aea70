//! Content, and who may have it.

use crate::client::{Connection, Hello};
use crate::place::*;
use forebay_wire::message::*;
use forebay_wire::proof::Secret;
use forebay_wire::ticket::{Rights, Ticket, TicketKey};
use forebay_wire::{FileId, FsError, SeekWhat};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(30);
const FILE: FileId = FileId(0x1234);
const SUBSTRIPES: u32 = 3;

fn ticket(rights: Rights, client: u8) -> Ticket {
    TicketKey::new(&Secret::new(SEAL).unwrap(), NAMESPACE).issue(rights, FILE, SessionId([client; 16]))
}

fn peer(place: &Place) -> Connection {
    let hello = place.hello(8, ConnectionKind::Data);
    place.try_connect(&Hello { role: Role::Peer, secret: SEAL.to_vec(), ..hello }).unwrap().0
}

fn write(ticket: Ticket, pieces: Vec<Piece>) -> DataRequest {
    DataRequest::Write { file: FILE, substripes: SUBSTRIPES, ticket, pieces }
}

fn read(ticket: Ticket, pieces: Vec<Piece>) -> DataRequest {
    DataRequest::Read { file: FILE, substripes: SUBSTRIPES, ticket, pieces }
}

fn piece(substripe: u32, offset: u64, length: u32) -> Piece {
    Piece { substripe, offset, length }
}

fn failed(error: FsError) -> (Reply, Vec<u8>) {
    (Reply::Failed { error }, Vec::new())
}

#[test]
fn pieces_are_written_and_read_back() {
    let place = Place::new(LONG);
    let mut data = place.connect(1, ConnectionKind::Data);
    let rights = ticket(Rights::ReadWrite, 1);
    let pieces = vec![piece(2, 1000, 5), piece(0, 0, 3)];
    assert_eq!(data.ask_data(write(rights, pieces.clone()), b"helloyou").0, Reply::Size { bytes: 8 });
    let back = data.ask_data(read(rights, pieces), &[]);
    assert_eq!(back, (Reply::Read { is_whole: true }, b"helloyou".to_vec()));
    // Beyond the end and where nothing was written there are zeros.
    let far = data.ask_data(read(rights, vec![piece(2, 998, 10), piece(1, 0, 2)]), &[]);
    assert_eq!(far, (Reply::Read { is_whole: false }, b"\0\0hello\0\0\0\0\0".to_vec()));
    let seek = DataRequest::Seek {
        file: FILE,
        substripes: SUBSTRIPES,
        ticket: rights,
        substripe: 2,
        offset: 1005,
        what: SeekWhat::Data,
    };
    assert_eq!(data.ask_data(seek, &[]).0, Reply::Offset { offset: None });
    let sync = DataRequest::SyncShare { file: FILE, substripes: SUBSTRIPES, ticket: rights, data_only: true };
    assert_eq!(data.ask_data(sync, &[]).0, Reply::Done);
    let big: Vec<u8> = (0..1u32 << 20).flat_map(u32::to_le_bytes).collect();
    let whole = vec![piece(1, 0, big.len() as u32)];
    assert_eq!(data.ask_data(write(rights, whole.clone()), &big).0, Reply::Size { bytes: 4 << 20 });
    assert!(data.ask_data(read(rights, whole), &[]).1 == big);
}

#[test]
fn without_a_good_ticket_there_is_nothing() {
    let place = Place::new(LONG);
    let mut data = place.connect(1, ConnectionKind::Data);
    let one = vec![piece(0, 0, 1)];
    let good = ticket(Rights::ReadWrite, 1);
    assert_eq!(data.ask_data(write(good, one.clone()), b"x").0, Reply::Size { bytes: 1 });
    let others = ticket(Rights::ReadWrite, 2);
    assert_eq!(data.ask_data(read(others, one.clone()), &[]), failed(FsError::AccessDenied));
    assert_eq!(data.ask_data(read(Ticket([0; 32]), one.clone()), &[]), failed(FsError::AccessDenied));
    let reads = ticket(Rights::Read, 1);
    assert_eq!(data.ask_data(read(reads, one.clone()), &[]).1, b"x");
    assert_eq!(data.ask_data(write(reads, one.clone()), b"y"), failed(FsError::AccessDenied));
    let cut = DataRequest::Cut { file: FILE, substripes: SUBSTRIPES, substripe: 0, length: 0 };
    assert_eq!(data.ask_data(cut, &[]), failed(FsError::AccessDenied));
    // What makes no sense is refused and changes nothing.
    let nonsense = [
        write(good, vec![piece(0, 0, 2)]),
        write(good, vec![piece(SUBSTRIPES, 0, 1)]),
        write(good, vec![piece(0, i64::MAX as u64, 1)]),
        DataRequest::Write { file: FILE, substripes: 1, ticket: good, pieces: one.clone() },
    ];
    for request in nonsense {
        assert!(matches!(data.ask_data(request, b"z").0, Reply::Failed { .. }));
    }
    assert_eq!(data.ask_data(read(good, one), &[]).1, b"x");
}

#[test]
fn peers_cut_and_remove_and_the_space_comes_back() {
    let place = Place::new(LONG);
    let mut data = place.connect(1, ConnectionKind::Data);
    let mut peer = peer(&place);
    let free = |peer: &mut Connection| match peer.ask_data(DataRequest::Space, &[]).0 {
        Reply::FragmentSpace { space } => space.free,
        other => panic!("{other:?}"),
    };
    let before = free(&mut peer);
    let rights = ticket(Rights::ReadWrite, 1);
    let megabyte = vec![piece(1, 0, 1 << 20)];
    data.ask_data(write(rights, megabyte), &vec![1; 1 << 20]);
    assert_eq!(free(&mut peer), before - (1 << 20));
    let extents = DataRequest::Extents { file: FILE, substripes: SUBSTRIPES };
    let Reply::Extents { extents } = peer.ask_data(extents, &[]).0 else { panic!() };
    assert_eq!(extents.iter().map(|extent| extent.length).collect::<Vec<_>>(), [0, 1 << 20, 0]);
    let cut = DataRequest::Cut { file: FILE, substripes: SUBSTRIPES, substripe: 1, length: 8192 };
    assert_eq!(peer.ask_data(cut, &[]).0, Reply::Done);
    assert_eq!(free(&mut peer), before - 8192);
    let Reply::Substripes { files, next: None } = peer.ask_data(DataRequest::List { cookie: 0 }, &[]).0
    else {
        panic!()
    };
    assert_eq!((files[0].file, files[0].substripe, files[0].extent.length), (FILE, 1, 8192));
    assert_eq!(files.len(), 1);
    let remove = DataRequest::Remove { file: FILE, substripes: SUBSTRIPES };
    assert_eq!(peer.ask_data(remove, &[]).0, Reply::Done);
    assert_eq!(free(&mut peer), before);
}
