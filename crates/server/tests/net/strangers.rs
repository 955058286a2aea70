//! Who proves nothing, or has too much, does not stand in the way of others.

use crate::client::{connect, unix};
use crate::place::*;
use forebay_wire::message::*;
use rustix::net::{AddressFamily, SocketType};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const GRACE: Duration = Duration::from_secs(30);
/// No stranger is waited for so long.
const LIMIT: Duration = Duration::from_secs(25);
const CONNECTIONS: usize = 64;

/// As another machine would connect: all of 127/8 is this one.
fn from(address: [u8; 4], to: SocketAddr) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((address, 0))).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

fn is_closed(stream: &mut TcpStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

#[test]
fn who_is_slow_to_prove_who_it_is_is_not_waited_for() {
    let place = Place::with_handshake(GRACE, CONNECTIONS, Duration::from_millis(500));
    let mut silent = from([127, 0, 0, 1], place.address);
    let mut dripping = from([127, 0, 0, 1], place.address);
    let hello = Handshake::KINDS[0].0;
    let header = Header { flags: Flags::default(), kind: hello, body: 8000, bulk: 0, request: 0 };
    dripping.write_all(&header.encode()).unwrap();
    dripping.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let start = Instant::now();
    // Something comes all the time, and never the whole.
    while !is_closed(&mut dripping) {
        assert!(start.elapsed() < LIMIT, "the server waits for ever");
        let _ = dripping.write_all(&[0]);
    }
    assert!(is_closed(&mut silent));
    place.metadata(1);
}

#[test]
fn strangers_do_not_keep_others_out() {
    let place = Place::with_handshake(GRACE, CONNECTIONS, Duration::from_secs(600));
    let strangers: Vec<TcpStream> =
        (0..4 * CONNECTIONS).map(|_| from([127, 0, 0, 1], place.address)).collect();
    let hello = place.hello(1, ConnectionKind::Metadata);
    // Another machine, and a user of this one.
    connect(Box::new(from([127, 0, 0, 2], place.address)), &hello).unwrap();
    connect(unix(&place.socket()), &hello).unwrap();
    drop(strangers);
    // And who was crowded out, as soon as they are gone.
    let start = Instant::now();
    while is_closed_at_once(&place) {
        assert!(start.elapsed() < LIMIT, "the places of strangers are not given back");
    }
}

/// A connection is closed before anything was said.
fn is_closed_at_once(place: &Place) -> bool {
    let mut stream = from([127, 0, 0, 1], place.address);
    stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    is_closed(&mut stream)
}

#[test]
fn one_machine_does_not_take_all_connections() {
    let place = Place::with(GRACE, CONNECTIONS);
    let hello = place.hello(1, ConnectionKind::Data);
    let there = |address| connect(Box::new(from(address, place.address)), &hello);
    let mut mine = Vec::new();
    let refused = loop {
        match there([127, 0, 0, 1]) {
            Ok(connection) => mine.push(connection),
            Err(reason) => break reason,
        }
    };
    assert_eq!((mine.len(), refused), (CONNECTIONS - CONNECTIONS / 4, RefusalReason::TooManyConnections));
    there([127, 0, 0, 2]).unwrap();
    mine.pop();
    while there([127, 0, 0, 1]).is_err() {
        std::thread::yield_now();
    }
}
