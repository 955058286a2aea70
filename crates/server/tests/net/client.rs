//! A client that does nothing by itself: it sends what a test says and shows what comes back.

use forebay_wire::message::*;
use forebay_wire::proof::{Secret, Transcript};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub trait Wire: Read + Write + Send {}
impl<T: Read + Write + Send> Wire for T {}

/// What a client says of itself.
#[derive(Clone, Debug)]
pub struct Hello {
    pub instance: String,
    pub namespace: String,
    pub versions: (u8, u8),
    pub role: Role,
    pub kind: ConnectionKind,
    pub session: SessionId,
    pub secret: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct Welcome {
    pub boot: u64,
    pub incarnation: u64,
}

pub struct Connection {
    stream: Box<dyn Wire>,
    requests: u64,
    sequence: u64,
    slot: u16,
}

/// An answer with what it carries.
pub type Answer = (Reply, Vec<u8>);

/// A test that waits longer for a word of the server has failed.
const PATIENCE: Duration = Duration::from_secs(30);

pub fn tcp(address: SocketAddr) -> Box<dyn Wire> {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Box::new(stream)
}

pub fn unix(path: &Path) -> Box<dyn Wire> {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    Box::new(stream)
}

pub fn send(stream: &mut dyn Wire, kind: u16, flags: Flags, request: u64, body: &[u8], bulk: &[u8]) {
    let header = Header { flags, kind, body: body.len() as u32, bulk: bulk.len() as u32, request };
    stream.write_all(&header.encode()).unwrap();
    stream.write_all(body).unwrap();
    stream.write_all(bulk).unwrap();
}

/// The next frame; `None` when the other side ended the connection.
pub fn receive(stream: &mut dyn Wire) -> Option<(Header, Vec<u8>, Vec<u8>)> {
    let mut bytes = [0; HEADER_BYTES];
    if let Err(error) = stream.read_exact(&mut bytes) {
        assert!(error.kind() != std::io::ErrorKind::WouldBlock, "the server says nothing");
        return None;
    }
    let header = Header::decode(&bytes).unwrap();
    let (mut body, mut bulk) = (vec![0; header.body as usize], vec![0; header.bulk as usize]);
    stream.read_exact(&mut body).ok()?;
    stream.read_exact(&mut bulk).ok()?;
    Some((header, body, bulk))
}

fn say(stream: &mut dyn Wire, message: &Handshake) {
    let mut body = Vec::new();
    message.encode(&mut body);
    send(stream, message.kind(), Flags::default(), 0, &body, &[]);
}

fn hear(stream: &mut dyn Wire) -> Handshake {
    let (header, body, _) = receive(stream).expect("a message of the handshake");
    Handshake::decode(header.kind, &body).unwrap()
}

/// Shakes hands; the reason if it was refused.
pub fn connect(mut stream: Box<dyn Wire>, hello: &Hello) -> Result<(Connection, Welcome), RefusalReason> {
    let nonce = [7; 32];
    say(
        &mut *stream,
        &Handshake::Hello {
            version_min: hello.versions.0,
            version_max: hello.versions.1,
            instance: hello.instance.clone(),
            namespace: hello.namespace.clone(),
            role: hello.role,
            kind: hello.kind,
            session: hello.session,
            node: "here".to_owned(),
            nonce,
        },
    );
    let (server_nonce, boot) = match hear(&mut *stream) {
        Handshake::Challenge { nonce, boot, version: VERSION } => (nonce, boot),
        Handshake::Refused { reason, .. } => return Err(reason),
        other => panic!("{other:?}"),
    };
    let transcript = Transcript {
        version: VERSION,
        instance: &hello.instance,
        namespace: &hello.namespace,
        role: hello.role,
        kind: hello.kind,
        session: hello.session,
        client_nonce: nonce,
        server_nonce,
        boot,
    };
    let secret = Secret::new(&hello.secret).unwrap();
    say(&mut *stream, &Handshake::Proof { mac: transcript.client(&secret) });
    match hear(&mut *stream) {
        Handshake::Welcome { mac, incarnation, .. } => {
            assert!(transcript.is_server(&secret, &mac), "the server does not know the secret");
            let connection = Connection { stream, requests: 0, sequence: 0, slot: 0 };
            Ok((connection, Welcome { boot, incarnation }))
        }
        Handshake::Refused { reason, .. } => Err(reason),
        other => panic!("{other:?}"),
    }
}

impl Connection {
    /// Uses another slot than 0.
    pub fn with_slot(mut self, slot: u16) -> Connection {
        self.slot = slot;
        self
    }

    /// Asks, as the next request of the slot.
    pub fn ask(&mut self, request: MetadataRequest) -> Reply {
        self.ask_with(request, &[]).0
    }

    pub fn ask_with(&mut self, request: MetadataRequest, bulk: &[u8]) -> Answer {
        self.sequence += 1;
        let once = Once { slot: self.slot, sequence: self.sequence };
        self.send_once(request, once, false, bulk);
        self.answer().expect("an answer")
    }

    /// Sends a request with this number.
    pub fn send_once(&mut self, request: MetadataRequest, once: Once, repeated: bool, bulk: &[u8]) {
        let is_once = MetadataRequest::is_once(request.kind());
        let call = MetadataCall { once: is_once.then_some(once), request };
        let mut body = Vec::new();
        call.encode(&mut body);
        self.requests += 1;
        let flags = Flags { repeated, one_way: false };
        send(&mut *self.stream, call.request.kind(), flags, self.requests, &body, bulk);
    }

    pub fn answer(&mut self) -> Option<Answer> {
        let (header, body, bulk) = receive(&mut *self.stream)?;
        assert_eq!(header.request, self.requests);
        Some((Reply::decode(header.kind, &body).unwrap(), bulk))
    }

    pub fn ask_data(&mut self, request: DataRequest, bulk: &[u8]) -> Answer {
        let mut body = Vec::new();
        request.encode(&mut body);
        self.send_raw(request.kind(), &body, bulk);
        self.answer().expect("an answer")
    }

    pub fn send_raw(&mut self, kind: u16, body: &[u8], bulk: &[u8]) {
        self.requests += 1;
        send(&mut *self.stream, kind, Flags::default(), self.requests, body, bulk);
    }

    /// Sends a request, and other bytes in the same piece.
    pub fn send_with(&mut self, request: &MetadataRequest, more: &[u8]) {
        let mut body = Vec::new();
        request.encode(&mut body);
        self.requests += 1;
        let (kind, flags, length) = (request.kind(), Flags::default(), body.len() as u32);
        let header = Header { flags, kind, body: length, bulk: 0, request: self.requests };
        self.stream.write_all(&[&header.encode()[..], &body, more].concat()).unwrap();
    }

    /// The server says that it does not understand, and ends the connection.
    pub fn is_refused(&mut self) -> bool {
        let said = receive(&mut *self.stream).map(|(header, body, _)| Reply::decode(header.kind, &body));
        matches!(said, Some(Ok(Reply::Malformed { .. }))) && receive(&mut *self.stream).is_none()
    }

    /// The next message of the server on a callback connection.
    pub fn hear(&mut self) -> Option<(u64, CallbackRequest)> {
        let (header, body, _) = receive(&mut *self.stream)?;
        Some((header.request, CallbackRequest::decode(header.kind, &body).unwrap()))
    }

    /// Answers it.
    pub fn say_done(&mut self, request: u64) {
        send(&mut *self.stream, Reply::Done.kind(), Flags::default(), request, &[], &[]);
    }
}
