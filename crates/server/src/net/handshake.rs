//! How a connection comes in: the server's side of [`forebay_wire::message::Handshake`].
//!
//! Until the client has proved that it knows the secret nothing is remembered of it and nothing but small frames is read,
//! and all of it has to come within [`Door::time`], however busily the client sends. The proof of the server comes with the terms.

use super::frame::{FrameError, FrameLimits, Inbox, send};
use super::home::{Home, JoinError, Terms};
use super::hosted::{Found, Hosted, NotMade, Register, Unknown};
use super::session::Session;
use super::stream::{Hurried, Stream};
use forebay_wire::message::{ConnectionKind, Handshake, RefusalReason, Role, SessionId, VERSION, VERSIONS};
use forebay_wire::proof::Transcript;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connection that is in.
pub(crate) struct Admitted {
    pub(crate) hosted: Arc<Hosted>,
    pub(crate) role: Role,
    pub(crate) session: SessionId,
    pub(crate) part: Part,
}

/// What the connection is for.
pub(crate) enum Part {
    Data,
    Metadata(Member),
    Callback(Member),
}

/// A connection of a session. The session is left when it is dropped.
pub(crate) struct Member {
    pub(crate) home: Arc<Home>,
    pub(crate) session: Arc<Session>,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.home.leave(&self.session);
    }
}

/// Who is let in, and on what terms.
pub(crate) struct Door<'a> {
    pub(crate) register: &'a Register,
    pub(crate) boot: u64,
    pub(crate) terms: Terms,
    /// There are as many connections as there may be.
    pub(crate) is_full: bool,
    /// How long a client may take to prove who it is.
    pub(crate) time: Duration,
}

struct Refusal {
    reason: RefusalReason,
    text: String,
}

enum Failure {
    Refused(Refusal),
    /// There is nobody to tell.
    Gone,
}

impl<E: Into<FrameError>> From<E> for Failure {
    fn from(error: E) -> Failure {
        match error.into() {
            FrameError::Decode(error) => refused(RefusalReason::Malformed, error),
            FrameError::Connection(_) => Failure::Gone,
        }
    }
}

fn refused(reason: RefusalReason, text: impl ToString) -> Failure {
    Failure::Refused(Refusal { reason, text: text.to_string() })
}

struct Hello {
    versions: (u8, u8),
    instance: String,
    namespace: String,
    role: Role,
    kind: ConnectionKind,
    session: SessionId,
    node: String,
    nonce: [u8; 32],
}

impl Door<'_> {
    /// Lets a connection in, or tells it why not; `None`: it is not in.
    pub(crate) fn admit(&self, stream: &mut Stream, inbox: &mut Inbox) -> Option<Admitted> {
        let until = Instant::now() + self.time;
        match self.shake_hands(&mut Hurried { stream, until }, inbox) {
            Ok(admitted) => stream.set_read_timeout(None).ok().map(|()| admitted),
            Err(Failure::Refused(Refusal { reason, text })) => {
                // It may be gone already; then there is nobody to tell.
                let _ = say(stream, &Handshake::Refused { reason, text });
                None
            }
            Err(Failure::Gone) => None,
        }
    }

    fn shake_hands(&self, stream: &mut Hurried<'_>, inbox: &mut Inbox) -> Result<Admitted, Failure> {
        let hello = hear_hello(stream, inbox)?;
        if self.is_full {
            return Err(refused(RefusalReason::TooManyConnections, RefusalReason::TooManyConnections));
        }
        let (min, max) = hello.versions;
        if min > VERSION || max < *VERSIONS.start() {
            let text = format!("version {VERSION} is spoken here, {min} to {max} there");
            return Err(refused(RefusalReason::WrongVersion, text));
        }
        let found = self.find(&hello)?;
        let server_nonce = random::<32>()?;
        say(stream.stream, &Handshake::Challenge { version: VERSION, nonce: server_nonce, boot: self.boot })?;
        let transcript = Transcript {
            version: VERSION,
            instance: &hello.instance,
            namespace: &hello.namespace,
            role: hello.role,
            kind: hello.kind,
            session: hello.session,
            client_nonce: hello.nonce,
            server_nonce,
            boot: self.boot,
        };
        let secret = match hello.role {
            Role::Client => &found.secrets().token,
            Role::Peer => &found.secrets().seal,
        };
        let Handshake::Proof { mac } = hear(stream, inbox)? else {
            return Err(refused(RefusalReason::Malformed, "a proof was expected"));
        };
        if !transcript.is_client(secret, &mac) {
            return Err(refused(RefusalReason::BadProof, RefusalReason::BadProof));
        }
        let hosted = self.hosted(&hello, &found)?;
        let part = self.join(&hello, &hosted)?;
        let incarnation = match &part {
            Part::Data => 0,
            Part::Metadata(member) | Part::Callback(member) => member.session.number.0,
        };
        let namespace = &hosted.namespace;
        let welcome = Handshake::Welcome {
            mac: transcript.server(secret),
            grace_ms: u32::try_from(self.terms.grace.as_millis()).unwrap_or(u32::MAX),
            incarnation,
            servers: namespace.servers,
            position: namespace.position,
            max_file_size: namespace.max_file_size,
            direct_writes: namespace.direct_writes,
        };
        say(stream.stream, &welcome)?;
        Ok(Admitted { role: hello.role, session: hello.session, part, hosted })
    }

    fn find(&self, hello: &Hello) -> Result<Found, Failure> {
        let Hello { instance, namespace, .. } = hello;
        self.register.get(instance, namespace).map_err(|unknown| match unknown {
            Unknown::Instance => {
                refused(RefusalReason::UnknownInstance, format!("no instance {instance} is served here"))
            }
            Unknown::Namespace => unknown_namespace(instance, namespace),
            Unknown::Awaited => {
                let text = format!(
                    "instance {instance} is being opened here, its namespace {namespace} is not served yet"
                );
                refused(RefusalReason::ShuttingDown, text)
            }
        })
    }

    /// What was found, made if need be: the stranger is none any more.
    fn hosted(&self, hello: &Hello, found: &Found) -> Result<Arc<Hosted>, Failure> {
        let Hello { instance, namespace, .. } = hello;
        let offer = match found {
            Found::Served(hosted) => return Ok(hosted.clone()),
            Found::Offered(offer) => offer,
        };
        self.register.make(offer, instance, namespace, self.terms).map_err(|error| match error {
            NotMade::Unknown => unknown_namespace(instance, namespace),
            NotMade::Over => refused(RefusalReason::ShuttingDown, RefusalReason::ShuttingDown),
            NotMade::Failed(why) => {
                let text = format!("namespace {namespace} of instance {instance} cannot be made: {why}");
                refused(RefusalReason::UnknownNamespace, text)
            }
        })
    }

    /// Joins the session, where the connection is one of a session.
    fn join(&self, hello: &Hello, hosted: &Hosted) -> Result<Part, Failure> {
        if hello.kind == ConnectionKind::Data {
            return Ok(Part::Data);
        }
        let not_home = || {
            let text = format!("the metadata of {} is at another server", hello.namespace);
            refused(RefusalReason::NotHome, text)
        };
        // Servers ask each other for content only.
        let home = hosted.home.as_ref().filter(|_| hello.role == Role::Client).ok_or_else(not_home)?;
        let session = home.join(hello.session, &hello.node).map_err(|error| match error {
            JoinError::TooMany => refused(RefusalReason::TooManySessions, RefusalReason::TooManySessions),
            JoinError::TooManyConnections => {
                refused(RefusalReason::TooManyConnections, "the client has too many connections")
            }
            JoinError::Closed => refused(RefusalReason::ShuttingDown, RefusalReason::ShuttingDown),
            JoinError::NotWrittenDown(error) => refused(RefusalReason::TooManySessions, error),
        })?;
        let member = Member { home: home.clone(), session };
        Ok(match hello.kind {
            ConnectionKind::Callback => Part::Callback(member),
            ConnectionKind::Metadata | ConnectionKind::Data => Part::Metadata(member),
        })
    }
}

fn unknown_namespace(instance: &str, namespace: &str) -> Failure {
    refused(RefusalReason::UnknownNamespace, format!("instance {instance} has no namespace {namespace} here"))
}

fn hear_hello(stream: &mut Hurried<'_>, inbox: &mut Inbox) -> Result<Hello, Failure> {
    match hear(stream, inbox)? {
        Handshake::Hello {
            version_min,
            version_max,
            instance,
            namespace,
            role,
            kind,
            session,
            node,
            nonce,
        } => {
            let versions = (version_min, version_max);
            Ok(Hello { versions, instance, namespace, role, kind, session, node, nonce })
        }
        _ => Err(refused(RefusalReason::Malformed, "a hello was expected")),
    }
}

fn hear(stream: &mut Hurried<'_>, inbox: &mut Inbox) -> Result<Handshake, Failure> {
    let header = inbox.receive(stream, FrameLimits::STRANGER)?;
    let header = header.ok_or_else(|| FrameError::Connection(io::ErrorKind::UnexpectedEof.into()))?;
    Ok(Handshake::decode(header.kind, inbox.body())?)
}

fn say(stream: &mut Stream, message: &Handshake) -> io::Result<()> {
    send(stream, message.kind(), 0, |body| message.encode(body), &[])
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
