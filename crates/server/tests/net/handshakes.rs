//! Who is let in, and what strangers can do.

use crate::client::{Hello, Wire, connect, receive, tcp, unix};
use crate::place::*;
use forebay_server::net::{HostedNamespace, NetConfig, ServedData, Server};
use forebay_wire::message::*;
use std::io::Write;
use std::time::Duration;

const GRACE: Duration = Duration::from_secs(30);

#[test]
fn who_knows_the_token_is_let_in_over_both_kinds_of_sockets() {
    let place = Place::new(GRACE);
    let hello = place.hello(1, ConnectionKind::Metadata);
    let (mut first, welcome) = place.try_connect(&hello).unwrap();
    assert!(matches!(
        first.ask(MetadataRequest::GetAttr { ino: forebay_wire::Ino::ROOT }),
        Reply::Attr { .. }
    ));
    let (mut second, same) = crate::client::connect(unix(&place.socket()), &hello).unwrap();
    assert_eq!(welcome, same, "the same session");
    assert!(matches!(second.ask(MetadataRequest::Counts), Reply::Size { .. }));
    let (_third, other) = place.try_connect(&place.hello(2, ConnectionKind::Metadata)).unwrap();
    assert_ne!(other.incarnation, welcome.incarnation);
    let clients = place.server.as_ref().unwrap().clients(INSTANCE);
    assert_eq!(clients.len(), 2);
    assert!(clients.iter().all(|client| client.node == "here" && client.is_connected));
}

#[test]
fn others_are_told_why_not() {
    let place = Place::new(GRACE);
    let good = place.hello(1, ConnectionKind::Metadata);
    let refused = |hello: Hello| place.try_connect(&hello).err();
    assert_eq!(refused(good.clone()), None);
    let bad = Hello { secret: vec![9; 32], ..good.clone() };
    assert_eq!(refused(bad), Some(RefusalReason::BadProof));
    let seal = Hello { secret: SEAL.to_vec(), ..good.clone() };
    assert_eq!(refused(seal), Some(RefusalReason::BadProof), "the seal is for peers");
    let peer = Hello { role: Role::Peer, kind: ConnectionKind::Data, ..good.clone() };
    assert_eq!(refused(peer), Some(RefusalReason::BadProof), "the token is for clients");
    let peer = Hello { role: Role::Peer, secret: SEAL.to_vec(), ..good.clone() };
    assert_eq!(refused(peer), Some(RefusalReason::NotHome), "peers ask for content only");
    let unknown = Hello { instance: "i8".to_owned(), ..good.clone() };
    assert_eq!(refused(unknown), Some(RefusalReason::UnknownInstance));
    let unknown = Hello { namespace: "c2".to_owned(), ..good.clone() };
    assert_eq!(refused(unknown), Some(RefusalReason::UnknownNamespace));
    let future = Hello { versions: (2, 9), ..good };
    assert_eq!(refused(future), Some(RefusalReason::WrongVersion));
}

/// A namespace that has its names elsewhere.
fn content(place: &Place, name: &str) -> HostedNamespace {
    let data = ServedData::new(place.node().data(name).unwrap());
    let (name, max_file_size) = (name.to_owned(), 1 << 40);
    HostedNamespace { name, data, tree: None, max_file_size, position: 0, servers: 1, direct_writes: false }
}

/// Opening a fragment can take its time, and so can the wait for other servers.
#[test]
fn who_asks_for_what_is_being_opened_is_told_to_ask_again() {
    let config = NetConfig {
        tcp: vec![([127, 0, 0, 1], 0).into()],
        awaited: vec![INSTANCE.to_owned()],
        ..NetConfig::default()
    };
    let server = Server::start(config).unwrap();
    let address = server.addresses().unwrap()[0];
    let place = Place::new(GRACE);
    let good = place.hello(1, ConnectionKind::Metadata);
    let refused = |hello: &Hello| connect(tcp(address), hello).err();
    let other = Hello { instance: "i8".to_owned(), ..good.clone() };
    let part = Hello { namespace: "c2".to_owned(), ..good.clone() };
    assert_eq!(refused(&good), Some(RefusalReason::ShuttingDown));
    assert!(RefusalReason::ShuttingDown.is_transient());
    assert_eq!(refused(&other), Some(RefusalReason::UnknownInstance));
    server.add(INSTANCE, secrets(), content(&place, "c3")).unwrap();
    assert_eq!(refused(&part), Some(RefusalReason::ShuttingDown), "its namespaces are not all there");
    server.is_complete(INSTANCE);
    assert_eq!(refused(&part), Some(RefusalReason::UnknownNamespace));
    server.remove(INSTANCE);
    assert_eq!(refused(&good), Some(RefusalReason::UnknownInstance));
}

#[test]
fn nonsense_ends_the_connection_and_nothing_else() {
    let place = Place::new(GRACE);
    let mut known = place.metadata(1);
    let frame = |kind: u16, body: u32, bulk: u32| {
        Header { flags: Flags::default(), kind, body, bulk, request: 1 }.encode().to_vec()
    };
    let mut wrong = frame(1, 0, 0);
    wrong[0] ^= 1;
    let nonsense =
        [vec![0xff; 100], wrong, frame(1, 100_000, 0), frame(1, 4, 8), frame(0x0101, 0, 0), frame(1, 0, 0)];
    for bytes in nonsense {
        let mut stream = tcp(place.address);
        stream.write_all(&bytes).unwrap();
        stream.write_all(&[0; 16]).unwrap_or(());
        let heard =
            receive(&mut *stream).map(|(header, body, _)| Handshake::decode(header.kind, &body).unwrap());
        let is_refusal =
            matches!(heard, Some(Handshake::Refused { reason: RefusalReason::Malformed, .. }) | None);
        assert!(is_refusal, "{heard:?}");
        is_over(&mut *stream);
    }
    assert!(matches!(known.ask(MetadataRequest::Counts), Reply::Size { .. }));
}

fn is_over(stream: &mut dyn Wire) {
    let mut byte = [0];
    assert!(matches!(stream.read(&mut byte), Ok(0) | Err(_)));
}

#[test]
fn unknown_requests_are_refused_and_malformed_ones_end_the_connection() {
    let place = Place::new(GRACE);
    let mut connection = place.metadata(1);
    connection.send_raw(0x01ff, &[], &[]);
    assert_eq!(connection.answer().unwrap().0, Reply::Unsupported { kind: 0x01ff });
    connection.send_raw(0x0201, &[], &[]);
    assert_eq!(connection.answer().unwrap().0, Reply::Unsupported { kind: 0x0201 }, "a request for content");
    assert!(matches!(connection.ask(MetadataRequest::Counts), Reply::Size { .. }));
    connection.send_raw(0x0103, &[1, 2], &[]);
    assert!(matches!(connection.answer().unwrap().0, Reply::Malformed { .. }));
    assert!(connection.answer().is_none());
}

#[test]
fn there_is_a_limit_on_connections() {
    let place = Place::with(GRACE, 2);
    let _first = place.metadata(1);
    let second = place.metadata(1);
    let hello = place.hello(1, ConnectionKind::Metadata);
    assert_eq!(place.try_connect(&hello).err(), Some(RefusalReason::TooManyConnections));
    drop(second);
    // The server notices the end of a connection a moment later.
    while place.try_connect(&hello).is_err() {
        std::thread::yield_now();
    }
}

#[test]
fn one_client_does_not_take_all_connections() {
    let place = Place::with(GRACE, 200);
    let connections: Vec<_> = (0..128).map(|_| place.metadata(1)).collect();
    let hello = place.hello(1, ConnectionKind::Metadata);
    assert_eq!(place.try_connect(&hello).err(), Some(RefusalReason::TooManyConnections));
    place.metadata(2);
    drop(connections);
}

#[test]
fn who_asks_is_held_to_the_permissions() {
    use forebay_wire::{FsError, Ino, OpenFlags};
    let place = Place::new(GRACE);
    let mut connection = place.metadata(1);
    let other = Credentials { uid: me().uid + 1, gid: me().gid + 1, ..me() };
    let create = |who: Credentials, text: &str| MetadataRequest::Create {
        who,
        parent: Ino::ROOT,
        name: name(text),
        mode: 0o100_600,
        flags: OpenFlags::READ_WRITE,
    };
    let Reply::Opened { opened } = connection.ask(create(me(), "mine")) else { panic!() };
    let denied = Reply::Failed { error: FsError::AccessDenied };
    assert_eq!(connection.ask(create(other.clone(), "theirs")), denied);
    let open = |who: Credentials| MetadataRequest::Open {
        who,
        ino: opened.attr.ino,
        flags: OpenFlags::READ_ONLY,
        reclaim: None,
    };
    assert_eq!(connection.ask(open(other.clone())), denied);
    assert!(matches!(connection.ask(open(me())), Reply::Opened { .. }));
    let unlink = MetadataRequest::Unlink { who: other, parent: Ino::ROOT, name: name("mine") };
    assert_eq!(connection.ask(unlink), denied);
}
