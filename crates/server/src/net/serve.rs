//! The loop of a connection: a request in, its answer out.
//!
//! What makes no sense is answered `Malformed` and ends the connection; a kind of request that is unknown, or not for this
//! connection, is refused and the connection goes on.

use super::data::Content;
use super::frame::{FrameError, FrameLimits, Inbox, give_back, header, put, send};
use super::handshake::Member;
use super::hosted::Hosted;
use super::requests::Asking;
use super::session::Answer;
use super::slots::Turn;
use super::stream::Stream;
use crate::deeds::{Deed, Past};
use forebay_awake::Awake;
use forebay_wire::message::{
    DataRequest, DecodeError, Header, MetadataCall, MetadataRequest, Reply, Role, SessionId,
};
use std::io;
use std::sync::Arc;

/// Answers that wait for those of requests that came with theirs, in bytes.
const WAITING_MAX: usize = 16 << 10;

/// A connection whose other side has proved who it is.
pub(crate) struct Line<'a> {
    pub(crate) stream: &'a mut Stream,
    pub(crate) inbox: &'a mut Inbox,
    /// Is told of each request.
    pub(crate) awake: &'a Awake,
}

/// The next request; `None`: the connection is over.
fn receive(stream: &mut Stream, inbox: &mut Inbox, awake: &Awake) -> Option<Header> {
    // Else it is answered with what is here, or read to its end.
    if inbox.lacks_header() {
        stream.await_input().ok()?;
    }
    match inbox.receive(stream, FrameLimits::KNOWN) {
        Ok(header) => {
            awake.called();
            header
        }
        Err(FrameError::Connection(_)) => None,
        Err(FrameError::Decode(error)) => {
            // The other side may not listen any more.
            let _ = say(stream, 0, &Reply::Malformed { text: error.to_string() }, &[]);
            None
        }
    }
}

fn say(stream: &mut Stream, request: u64, reply: &Reply, bulk: &[u8]) -> io::Result<()> {
    send(stream, reply.kind(), request, |body| reply.encode(body), bulk)
}

/// Answers what could not be read; `false`: the connection is over.
fn refuse(stream: &mut Stream, header: &Header, error: &DecodeError) -> bool {
    let reply = match error {
        DecodeError::UnknownKind { kind } => Reply::Unsupported { kind: *kind },
        error => Reply::Malformed { text: error.to_string() },
    };
    let said = say(stream, header.request, &reply, &[]).is_ok();
    said && matches!(error, DecodeError::UnknownKind { .. })
}

/// Answers of a connection on their way: those to requests that came together go together.
#[derive(Default)]
struct Answers(Vec<u8>);

impl Answers {
    /// Adds one. What it carries goes at once, and all before it.
    fn add(&mut self, stream: &mut Stream, request: u64, answer: &Answer) -> io::Result<()> {
        let (reply, bulk) = (&answer.reply, answer.bulk());
        put(&mut self.0, reply.kind(), request, |body| reply.encode(body), bulk.len());
        if bulk.is_empty() && self.0.len() < WAITING_MAX { Ok(()) } else { self.send(stream, bulk) }
    }

    fn send(&mut self, stream: &mut Stream, bulk: &[u8]) -> io::Result<()> {
        stream.write_parts(&[&self.0, bulk])?;
        self.0.clear();
        give_back(&mut self.0);
        Ok(())
    }
}

/// Serves a connection for names and attributes.
pub(crate) fn metadata(line: Line<'_>, member: &Member, hosted: &Hosted) {
    let Line { stream, inbox, awake } = line;
    let (mut spare, mut answers) = (Vec::new(), Answers::default());
    loop {
        if !inbox.has_next() && answers.send(stream, &[]).is_err() {
            return;
        }
        let Some(header) = receive(stream, inbox, awake) else { return };
        let call = match MetadataCall::decode(header.kind, inbox.body()) {
            Ok(call) => call,
            Err(error) if answers.send(stream, &[]).is_ok() && refuse(stream, &header, &error) => continue,
            Err(_) => return,
        };
        let is_goodbye = matches!(call.request, MetadataRequest::Goodbye);
        let Some(answer) = answer(member, hosted, &header, call, inbox.bulk(), &mut spare) else { return };
        if !header.flags.one_way && answers.add(stream, header.request, &answer).is_err() {
            return;
        }
        if is_goodbye || matches!(answer.reply, Reply::Malformed { .. }) {
            // The other side may not listen any more.
            let _ = answers.send(stream, &[]);
            return;
        }
        // An answer that is kept in its slot keeps its buffer too.
        if let Some(answer) = Arc::into_inner(answer) {
            spare = answer.into_buffer();
            give_back(&mut spare);
        }
        inbox.done();
    }
}

/// Carries a request out, unless that was done before; `None`: the server ends, and nobody may rely on the answer.
fn answer(
    member: &Member,
    hosted: &Hosted,
    header: &Header,
    call: MetadataCall,
    bulk: &[u8],
    spare: &mut Vec<u8>,
) -> Option<Arc<Answer>> {
    let home = &member.home;
    let session = &*member.session;
    let MetadataCall { once, request } = call;
    let kind = request.kind();
    let asked_at = home.now();
    let asking =
        |is_repeated, begun, deed| Asking { home, hosted, session, asked_at, is_repeated, deed, begun, bulk };
    let answer = match once {
        None => Arc::new(asking(false, None, Deed::UNNOTED).carry_out(request, spare)),
        Some(once) => match member.session.slots.begin(once.slot, once.sequence) {
            Err(error) => Arc::new(Answer::from(Reply::Malformed { text: error.to_string() })),
            Ok(Turn::Made(answer)) => answer,
            Ok(Turn::Make(_)) if home.is_closing() => return None,
            Ok(Turn::Make(making)) => {
                let deed = home.deed(session, once, kind);
                let past = match (&session.deeds, header.flags.repeated) {
                    (_, false) => Past::Never,
                    (Some(deeds), true) => deeds.past(once, kind),
                    (None, true) => Past::Unknown,
                };
                // Where it is not written down whether an earlier server made it, nobody knows but the tree.
                let is_lost = making.is_first && (once.sequence > 1 || session.came_back);
                let spare = &mut Vec::new();
                let answer = match past {
                    Past::Done(values) => asking(false, None, deed).remember(&request, values),
                    Past::Begun(values) => asking(false, Some(values), deed).carry_out(request, spare),
                    Past::Never => asking(false, None, deed).carry_out(request, spare),
                    Past::Unknown => asking(is_lost, None, deed).carry_out(request, spare),
                };
                making.answered(answer)
            }
        },
    };
    (!home.is_closing()).then_some(answer)
}

/// Serves a connection for content.
pub(crate) fn data(line: Line<'_>, hosted: &Hosted, role: Role, session: SessionId) {
    let Line { stream, inbox, awake } = line;
    let mut content = Content::new(hosted, role, session, stream.carries_descriptors());
    while let Some(header) = receive(stream, inbox, awake) {
        let request = match DataRequest::decode(header.kind, inbox.body()) {
            Ok(request) => request,
            Err(error) if refuse(stream, &header, &error) => continue,
            Err(_) => return,
        };
        let reply = content.carry_out(request, inbox.bulk());
        if say_content(stream, &header, &reply, &content).is_err() {
            return;
        }
        content.done();
        inbox.done();
    }
}

fn say_content(stream: &mut Stream, asked: &Header, reply: &Reply, content: &Content<'_>) -> io::Result<()> {
    let mut body = Vec::with_capacity(64);
    reply.encode(&mut body);
    let bulk = content.bulk();
    let header = header(reply.kind(), asked.request, body.len(), bulk.len());
    match content.descriptors() {
        [] => stream.write_parts(&[&header, &body, bulk]),
        descriptors => stream.write_with_descriptors(&[header.as_slice(), &body].concat(), descriptors),
    }
}
