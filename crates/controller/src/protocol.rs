//! How the controller is spoken to: requests as HTTP methods, paths and JSON bodies, and back.
//!
//! Client and service both use this, so each request has one form. Pure; any thread. The forms are described by
//! `docs/openapi.json`, which a test holds against [`ROUTES`] and a sample of everything that is sent.

mod form;
#[cfg(test)]
mod openapi;
mod parse;
mod routes;
pub mod rows;
#[cfg(test)]
mod tests;

pub(crate) use form::escaped;
pub use form::{Form, form_of};
pub use parse::{BadRequest, Parsed, parse};
pub use routes::{Method, Operation, ROUTES, Route};

use crate::cluster::event::AgentMessage;
use serde::{Deserialize, Serialize};

/// Authorization of requests over TCP: this word, a blank, and a MUNGE credential.
pub const MUNGE_SCHEME: &str = "MUNGE";
/// The word for tables as lists of lists, in `form=`.
pub(crate) const ROWS_FORM: &str = "rows";
/// Longest that a poll for orders waits.
pub const MAX_POLL_S: u64 = 30;

/// What an agent says, in the body of a post.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saying {
    /// Its registration.
    pub incarnation: u64,
    /// What it says.
    pub message: AgentMessage,
}

/// What proves that somebody may use an instance.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secrets {
    /// Known to clients and servers of the instance: 64 hexadecimal digits.
    pub token: String,
    /// Known to its servers only: 64 hexadecimal digits. Empty for a node that serves no part of it.
    pub seal: String,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets(..)")
    }
}

/// A refusal as it travels. There may be more members: what the refusal is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The kind, one word.
    pub refusal: String,
    /// One sentence for the user.
    pub text: String,
}

/// The digest that a credential carries, so that it serves for one request only.
pub fn digest(method: &str, target: &str, body: &[u8]) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("forebay 2026 request to the controller");
    for part in [method.as_bytes(), target.as_bytes(), body] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().to_hex().to_string()
}
