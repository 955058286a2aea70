//! One connection: its handshake, and one request at a time with its reply. Used by one thread at a time.
//!
//! A small reply is read with one call: header, fields and the first bytes that it carries go to a buffer here; the rest
//! of what it carries goes straight to where it is wanted. Whatever fails in the middle, the connection is of no use any
//! more: what is on the way is not known.

use super::error::ConnectError;
use super::held::Life;
use super::session::{Session, random};
use super::socket::Socket;
use forebay_wire::message::{
    ConnectionKind, DecodeError, Field, Flags, HEADER_BYTES, Handshake, Header, MetadataRequest, Once, Reply,
    VERSIONS,
};
use forebay_wire::proof::Transcript;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Read by one call, in bytes: a page of content with what stands before it.
const READ_AHEAD: usize = 8 << 10;
/// How long a server may take for an answer of the handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The connection failed; the request may have been carried out.
    #[error("the connection failed: {0}")]
    Connection(#[from] io::Error),
    /// What came is no reply to it. Asking again would not help.
    #[error("the server is not understood: {0}")]
    Protocol(#[from] DecodeError),
}

/// What the server said when it let the connection in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) boot: u64,
    pub(crate) incarnation: u64,
    pub(crate) servers: u32,
    pub(crate) position: u32,
    pub(crate) max_file_size: u64,
}

impl Terms {
    pub(crate) fn life(&self) -> Life {
        Life { boot: self.boot, incarnation: self.incarnation }
    }
}

/// Where what a reply carries goes.
pub(crate) enum Sink<'a, 'b> {
    /// Nothing may come.
    Nothing,
    /// All of it, whatever the length.
    Vec(&'a mut Vec<u8>),
    /// Exactly so much, or nothing at all if the request failed.
    Parts(&'a mut [IoSliceMut<'b>]),
    /// Nothing but descriptors.
    Descriptors(&'a mut Vec<OwnedFd>),
}

/// See the module.
pub(crate) struct Connection {
    socket: Arc<Socket>,
    pub(crate) terms: Terms,
    last_request: u64,
    /// What has come and was not taken yet: the bytes from `taken` to `filled`.
    buffer: Box<[u8; READ_AHEAD]>,
    taken: usize,
    filled: usize,
    /// Body of what was read last.
    body: Vec<u8>,
    /// For what is sent before the fields of a request.
    head: Vec<u8>,
}

/// A request with what is sent in the same message.
pub(crate) struct Train<'a> {
    /// Carried out first, and not answered.
    pub(crate) before: Option<&'a MetadataRequest>,
    pub(crate) kind: u16,
    pub(crate) flags: Flags,
    pub(crate) body: &'a [u8],
    pub(crate) carried: &'a [&'a [u8]],
    /// Asked afterwards.
    pub(crate) then: &'a [MetadataRequest],
    /// The number of the first of those, if they have numbers.
    pub(crate) numbers: Once,
}

impl Connection {
    /// Connects to a server of the session's instance.
    pub(crate) fn open(
        session: &Session,
        server: u32,
        kind: ConnectionKind,
    ) -> Result<Connection, ConnectError> {
        let address = session.server(server);
        let patience = session.timeouts().connect;
        let socket = session.adopt(Socket::connect(&address, patience)?);
        let terms = Terms { boot: 0, incarnation: 0, servers: 0, position: 0, max_file_size: 0 };
        let mut connection = Connection {
            socket,
            terms,
            last_request: 0,
            buffer: Box::new([0; READ_AHEAD]),
            taken: 0,
            filled: 0,
            body: Vec::new(),
            head: Vec::new(),
        };
        let unreachable = |source| ConnectError::Unreachable { address: address.tcp.clone(), source };
        connection.socket.set_patience(Some(HANDSHAKE_TIME.min(patience * 2))).map_err(unreachable)?;
        connection.terms = connection.shake_hands(session, &address.tcp, kind)?;
        connection.socket.set_patience(None).map_err(unreachable)?;
        Ok(connection)
    }

    fn shake_hands(
        &mut self,
        session: &Session,
        address: &str,
        kind: ConnectionKind,
    ) -> Result<Terms, ConnectError> {
        let description = &session.description;
        let unreachable = |source| ConnectError::Unreachable { address: address.to_owned(), source };
        let client_nonce = random().map_err(unreachable)?;
        let hello = Handshake::Hello {
            version_min: *VERSIONS.start(),
            version_max: *VERSIONS.end(),
            instance: description.instance.clone(),
            namespace: description.namespace.clone(),
            role: session.role,
            kind,
            session: session.id,
            node: session.node.clone(),
            nonce: client_nonce,
        };
        let answer = self.say(&hello, address)?;
        let Handshake::Challenge { version, nonce: server_nonce, boot } = answer else {
            return Err(out_of_turn(answer, address, "Challenge"));
        };
        if !VERSIONS.contains(&version) {
            let source = DecodeError::Version { found: version };
            return Err(ConnectError::Protocol { address: address.to_owned(), source });
        }
        let transcript = Transcript {
            version,
            instance: &description.instance,
            namespace: &description.namespace,
            role: session.role,
            kind,
            session: session.id,
            client_nonce,
            server_nonce,
            boot,
        };
        let answer = self.say(&Handshake::Proof { mac: transcript.client(&description.secret) }, address)?;
        match answer {
            Handshake::Welcome { mac, .. } if !transcript.is_server(&description.secret, &mac) => {
                Err(ConnectError::NotTheServer { address: address.to_owned() })
            }
            Handshake::Welcome { incarnation, servers, position, max_file_size, .. } => {
                Ok(Terms { boot, incarnation, servers, position, max_file_size })
            }
            answer => Err(out_of_turn(answer, address, "Welcome")),
        }
    }

    fn say(&mut self, message: &Handshake, address: &str) -> Result<Handshake, ConnectError> {
        let mut body = Vec::new();
        message.encode(&mut body);
        let header = self.header(message.kind(), Flags::default(), &body, &[]);
        let answer = self.write(&header, &body, &[], &[]).map_err(Broken::from);
        let answer = answer.and_then(|()| self.receive(&mut Sink::Nothing));
        let answer = answer.and_then(|header| Ok(Handshake::decode(header.kind, &self.body)?));
        answer.map_err(|broken| match broken {
            Broken::Connection(source) => ConnectError::Unreachable { address: address.to_owned(), source },
            Broken::Protocol(source) => ConnectError::Protocol { address: address.to_owned(), source },
        })
    }

    /// Nobody has ended it, as far as is known here. What is sent on one that was ended is not carried out.
    pub(crate) fn is_alive(&self) -> bool {
        self.socket.is_silent()
    }

    /// Sends a request and waits for its reply.
    pub(crate) fn ask(
        &mut self,
        kind: u16,
        flags: Flags,
        body: &[u8],
        carried: &[&[u8]],
        sink: &mut Sink<'_, '_>,
    ) -> Result<Reply, Broken> {
        let numbers = Once { slot: 0, sequence: 0 };
        let train = Train { before: None, kind, flags, body, carried, then: &[], numbers };
        self.ask_train(&train, sink).map(|(reply, _)| reply)
    }

    /// The same with nothing carried, waiting no longer than this; `false`: it was not heard, and the connection is of no more use.
    pub(crate) fn asks_within(&mut self, kind: u16, body: &[u8], within: Duration) -> bool {
        self.socket.set_patience(Some(within)).is_ok()
            && self.ask(kind, Flags::default(), body, &[], &mut Sink::Nothing).is_ok()
            && self.socket.set_patience(None).is_ok()
    }

    /// Sends a request with what goes before and after it as one message, and waits for the replies: to those afterwards as
    /// many as come, in order.
    pub(crate) fn ask_train(
        &mut self,
        train: &Train<'_>,
        sink: &mut Sink<'_, '_>,
    ) -> Result<(Reply, Vec<Reply>), Broken> {
        let mut head = std::mem::take(&mut self.head);
        head.clear();
        if let Some(request) = train.before {
            self.put(&mut head, Flags { one_way: true, ..Flags::default() }, request, None);
        }
        let header = self.header(train.kind, train.flags, train.body, train.carried);
        let number = self.last_request;
        head.extend_from_slice(&header);
        let (mut tail, mut numbers) = (Vec::new(), train.numbers);
        for request in train.then {
            self.put(&mut tail, Flags::default(), request, Some(numbers));
            numbers.sequence += 1;
        }
        let sent = self.write(&head, train.body, train.carried, &tail);
        self.head = head;
        sent?;
        let reply = self.reply(number, sink)?;
        let mut others = Vec::with_capacity(train.then.len());
        if !matches!(reply, Reply::Malformed { .. }) {
            for (number, _) in (number + 1..).zip(train.then) {
                match self.reply(number, &mut Sink::Nothing) {
                    Ok(other) => others.push(other),
                    // What comes next is not known. The replies so far are good all the same.
                    Err(_) => {
                        self.socket.shut_down();
                        return Ok((reply, others));
                    }
                }
            }
        }
        match self.filled - self.taken {
            0 => Ok((reply, others)),
            bytes => Err(DecodeError::Trailing { bytes }.into()),
        }
    }

    /// Sends a request; its reply is to be read before anything else is sent.
    pub(crate) fn send(&mut self, kind: u16, body: &[u8]) -> io::Result<u64> {
        let header = self.header(kind, Flags::default(), body, &[]);
        self.write(&header, body, &[], &[])?;
        Ok(self.last_request)
    }

    /// Waits for the reply to what was sent; it carries nothing.
    pub(crate) fn end(&mut self, number: u64) -> Result<Reply, Broken> {
        let reply = self.reply(number, &mut Sink::Nothing)?;
        match self.filled - self.taken {
            0 => Ok(reply),
            bytes => Err(DecodeError::Trailing { bytes }.into()),
        }
    }

    fn reply(&mut self, to: u64, sink: &mut Sink<'_, '_>) -> Result<Reply, Broken> {
        let header = self.receive(sink)?;
        let reply = Reply::decode(header.kind, &self.body)?;
        if header.request != to && !matches!(reply, Reply::Malformed { .. }) {
            return Err(DecodeError::Impossible { what: "the number of a reply" }.into());
        }
        Ok(reply)
    }

    /// Adds a whole frame of its own; with a number, if it is to have one.
    fn put(&mut self, to: &mut Vec<u8>, flags: Flags, request: &MetadataRequest, number: Option<Once>) {
        let at = to.len();
        to.extend([0; HEADER_BYTES]);
        if let Some(number) = number.filter(|_| MetadataRequest::is_once(request.kind())) {
            number.put(to);
        }
        request.encode(to);
        let header = self.header(request.kind(), flags, &to[at + HEADER_BYTES..], &[]);
        to[at..at + HEADER_BYTES].copy_from_slice(&header);
    }

    /// The header of the next request.
    fn header(&mut self, kind: u16, flags: Flags, body: &[u8], carried: &[&[u8]]) -> [u8; HEADER_BYTES] {
        self.last_request += 1;
        let bulk = carried.iter().map(|part| part.len()).sum::<usize>() as u32;
        Header { flags, kind, body: body.len() as u32, bulk, request: self.last_request }.encode()
    }

    fn write(&self, head: &[u8], body: &[u8], carried: &[&[u8]], tail: &[u8]) -> io::Result<()> {
        if let [] | [_] = carried {
            let carried = carried.first().copied().unwrap_or_default();
            return self.socket.write_all(&mut [head, body, carried, tail].map(IoSlice::new));
        }
        let mut parts = vec![IoSlice::new(head), IoSlice::new(body)];
        parts.extend(carried.iter().map(|part| IoSlice::new(part)));
        parts.push(IoSlice::new(tail));
        self.socket.write_all(&mut parts)
    }

    /// Reads a frame: its body to `self.body`, what it carries to the sink. What has come of the next one is kept.
    fn receive(&mut self, sink: &mut Sink<'_, '_>) -> Result<Header, Broken> {
        self.buffer.copy_within(self.taken..self.filled, 0);
        (self.taken, self.filled) = (0, self.filled - self.taken);
        while self.filled < HEADER_BYTES {
            self.filled += self.read_some(self.filled, sink)?;
        }
        let header = self.buffer.first_chunk().expect("the buffer is longer than a header");
        let header = Header::decode(header)?;
        let (body, bulk) = (header.body as usize, header.bulk as usize);
        let ahead = &self.buffer[HEADER_BYTES..self.filled];
        let (here, ahead) = ahead.split_at(ahead.len().min(body));
        self.body.clear();
        self.body.extend_from_slice(here);
        self.body.resize(body, 0);
        self.socket.read_all(&mut [IoSliceMut::new(&mut self.body[here.len()..])])?;
        let carried = &ahead[..ahead.len().min(bulk)];
        self.taken = HEADER_BYTES + here.len() + carried.len();
        fill(sink, &self.socket, carried, bulk)?;
        Ok(header)
    }

    fn read_some(&mut self, filled: usize, sink: &mut Sink<'_, '_>) -> io::Result<usize> {
        match sink {
            Sink::Descriptors(into) => self.socket.read_with_descriptors(&mut self.buffer[filled..], into),
            _ => self.socket.read_some(&mut self.buffer[filled..]),
        }
    }

    /// Waits for a request of the server: its kind and number; the body is [`Connection::request_body`].
    pub(crate) fn hear(&mut self) -> Result<Header, Broken> {
        self.receive(&mut Sink::Nothing)
    }

    /// Body of what was heard last.
    pub(crate) fn request_body(&self) -> &[u8] {
        &self.body
    }

    /// Answers a request of the server.
    pub(crate) fn answer(&mut self, to: &Header, reply: &Reply) -> io::Result<()> {
        let mut body = Vec::new();
        reply.encode(&mut body);
        let header = Header {
            flags: Flags::default(),
            kind: reply.kind(),
            body: body.len() as u32,
            bulk: 0,
            request: to.request,
        };
        self.write(&header.encode(), &body, &[], &[])
    }
}

/// Puts what a frame carries where it belongs: the part that is here already, and the rest from the socket.
fn fill(sink: &mut Sink<'_, '_>, socket: &Socket, here: &[u8], bulk: usize) -> Result<(), Broken> {
    match sink {
        _ if bulk == 0 => Ok(()),
        Sink::Nothing | Sink::Descriptors(_) => Err(DecodeError::Trailing { bytes: bulk }.into()),
        Sink::Vec(vec) => {
            vec.clear();
            vec.extend_from_slice(here);
            vec.resize(bulk, 0);
            Ok(socket.read_all(&mut [IoSliceMut::new(&mut vec[here.len()..])])?)
        }
        Sink::Parts(parts) => {
            let room: usize = parts.iter().map(|part| part.len()).sum();
            if room != bulk {
                let what = "the length of what was read";
                return Err(DecodeError::Impossible { what }.into());
            }
            let mut here = here;
            let mut rest = Vec::with_capacity(parts.len());
            for part in parts.iter_mut() {
                let copied = here.len().min(part.len());
                part[..copied].copy_from_slice(&here[..copied]);
                here = &here[copied..];
                if copied < part.len() {
                    rest.push(IoSliceMut::new(&mut part[copied..]));
                }
            }
            Ok(socket.read_all(&mut rest)?)
        }
    }
}

fn out_of_turn(answer: Handshake, address: &str, expected: &'static str) -> ConnectError {
    let address = address.to_owned();
    match answer {
        Handshake::Refused { reason, text } => ConnectError::Refused { address, reason, text },
        other => ConnectError::OutOfTurn { address, said: other.name(), expected },
    }
}
