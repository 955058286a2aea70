//! Answers as HTTP: bodies, statuses, refusals, and what the log gets of them.

use crate::cluster::Refusal;
use crate::cluster::view::Shown;
use crate::munge::MungeError;
use crate::protocol::{BadRequest, MUNGE_SCHEME};
use crate::registry::Snapshot;
use http_body_util::{Channel, Either, Full};
use hyper::body::Bytes;
use hyper::{Response, StatusCode, header};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Value, json};
use std::convert::Infallible;

/// A body: known as a whole, or told bit by bit.
pub(super) type Body = Either<Full<Bytes>, Channel<Bytes, Infallible>>;

/// Why a request is not carried out.
#[derive(Debug)]
pub(super) struct Problem {
    pub status: StatusCode,
    pub body: Value,
    /// The header that goes with the status.
    pub header: Option<(header::HeaderName, String)>,
}

impl Problem {
    /// Of a kind, with a sentence.
    pub fn new(status: StatusCode, kind: &str, text: impl std::fmt::Display) -> Problem {
        let header =
            (status == StatusCode::UNAUTHORIZED).then(|| (header::WWW_AUTHENTICATE, MUNGE_SCHEME.to_owned()));
        Problem { status, body: json!({ "refusal": kind, "text": text.to_string() }), header }
    }

    /// The sentence.
    pub fn text(&self) -> &str {
        self.body["text"].as_str().unwrap_or_default()
    }
}

impl From<super::driver::Ended> for Problem {
    fn from(_: super::driver::Ended) -> Problem {
        let text = "the controller is ending: try again in a moment";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, crate::client::ENDING, text)
    }
}

impl From<BadRequest> for Problem {
    fn from(bad: BadRequest) -> Problem {
        let mut allow = None;
        let (status, kind) = match &bad {
            BadRequest::NoPath { .. } => (StatusCode::NOT_FOUND, "no_path"),
            BadRequest::NoMethod { allowed, .. } => {
                allow = Some((header::ALLOW, allowed.clone()));
                (StatusCode::METHOD_NOT_ALLOWED, "no_method")
            }
            BadRequest::Parameter { .. } | BadRequest::Body { .. } => {
                (StatusCode::BAD_REQUEST, "bad_request")
            }
        };
        Problem { header: allow, ..Problem::new(status, kind, bad) }
    }
}

impl From<MungeError> for Problem {
    fn from(error: MungeError) -> Problem {
        let status = match error {
            MungeError::NoDaemon { .. } | MungeError::NoLibrary { .. } => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::UNAUTHORIZED,
        };
        Problem::new(status, "credential", error)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let mut body = serde_json::to_value(&refusal).unwrap_or_else(|_| json!({}));
        body["text"] = refusal.to_string().into();
        Problem { status: status_of(&refusal), body, header: None }
    }
}

fn status_of(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::NoToken { .. }
        | Refusal::NoObject { .. }
        | Refusal::NoPool { .. }
        | Refusal::NoPersistent { .. } => StatusCode::NOT_FOUND,
        Refusal::NotYours { .. } | Refusal::NotAllowed { .. } | Refusal::ByHand { .. } => {
            StatusCode::FORBIDDEN
        }
        Refusal::BadName { .. } | Refusal::Invalid { .. } | Refusal::NotOffered { .. } => {
            StatusCode::UNPROCESSABLE_ENTITY
        }
        Refusal::TooMany { .. } => StatusCode::TOO_MANY_REQUESTS,
        Refusal::UnknownNodes { .. }
        | Refusal::Exists { .. }
        | Refusal::NoSpace { .. }
        | Refusal::OverShare { .. }
        | Refusal::InUse { .. }
        | Refusal::NotIntact { .. }
        | Refusal::TornDown { .. }
        | Refusal::ResultsPending { .. }
        | Refusal::NodeLost { .. }
        | Refusal::Failed { .. }
        | Refusal::StageFailed { .. }
        | Refusal::NodeOnline { .. } => StatusCode::CONFLICT,
    }
}

/// An answer with this text.
pub(super) fn text(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::new(text.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    response
}

/// An answer that is this value.
pub(super) fn json_of(value: &impl Serialize) -> Response<Body> {
    json_text(serde_json::to_vec(value))
}

/// An answer that is this JSON.
pub(super) fn json_text(written: serde_json::Result<Vec<u8>>) -> Response<Body> {
    match written {
        Ok(body) => text(StatusCode::OK, "application/json", body),
        Err(error) => problem(&Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "defect", error)),
    }
}

/// An answer without a body.
pub(super) fn nothing() -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::new(Bytes::new())));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// The answer for something that is not carried out.
pub(super) fn problem(problem: &Problem) -> Response<Body> {
    let mut response = text(problem.status, "application/json", problem.body.to_string());
    if let Some((name, value)) = &problem.header
        && let Ok(value) = header::HeaderValue::from_str(value)
    {
        response.headers_mut().insert(name, value);
    }
    response
}

/// Some tables of a snapshot; an empty one is there too.
pub(super) struct Tables<'a>(pub &'a Snapshot, pub &'a [Shown]);

impl Serialize for Tables<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Tables(seen, tables) = self;
        let mut map = serializer.serialize_map(Some(tables.len()))?;
        for table in *tables {
            let name = table.name();
            match table {
                Shown::Pools => map.serialize_entry(name, &seen.pools)?,
                Shown::Nodes => map.serialize_entry(name, &seen.nodes)?,
                Shown::Sessions => map.serialize_entry(name, &seen.sessions)?,
                Shown::Instances => map.serialize_entry(name, &seen.instances)?,
                Shown::Configurations => map.serialize_entry(name, &seen.configurations)?,
                Shown::Fragments => map.serialize_entry(name, &seen.fragments)?,
                Shown::Namespaces => map.serialize_entry(name, &seen.namespaces)?,
                Shown::Registrations => map.serialize_entry(name, &seen.registrations)?,
                Shown::Activations => map.serialize_entry(name, &seen.activations)?,
            }
        }
        map.end()
    }
}

/// Writes one line to the journal: who, and what was refused or went wrong. Whatever is in the text, it stays one line.
pub(super) fn log(uid: Option<u32>, text: &str) {
    use std::io::Write;
    let calm: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let who = uid.map(|uid| format!("uid {uid}: ")).unwrap_or_default();
    // Nobody reads the log: nothing to do about it.
    drop(writeln!(std::io::stderr().lock(), "forebay controller: {who}{calm}"));
}
