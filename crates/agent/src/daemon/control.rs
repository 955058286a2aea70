//! What the agent tells the file server: one line of JSON each way, over a Unix socket in the server's directory.
//!
//! The socket is for root alone by the directory it is in. A request says only which instance is meant; what it is like is in
//! its file, so that a server that was killed finds everything again by itself.

use super::error::TaskError;
use super::state::State;
use forebay_model::ids::InstanceId;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Longest line.
const LINE_MAX: u64 = 1 << 20;
/// Opening a fragment that was not closed cleanly may take minutes.
const ANSWER_WAIT: Duration = Duration::from_secs(600);
/// What is served is known at once.
const LIST_WAIT: Duration = Duration::from_secs(5);

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// Serve this instance as its file says.
    Serve(InstanceId),
    /// Serve it no more.
    End(InstanceId),
    /// Say what is served.
    List,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    /// It is so.
    Done,
    /// These are served.
    Served(Vec<InstanceId>),
    /// It cannot be.
    Refused(String),
}

/// Asks the file server, which has to live.
pub(super) fn ask(state: &State, request: Request) -> Result<Answer, TaskError> {
    let failed = |error: io::Error| TaskError::Refused {
        request: format!("be asked at {}", state.control().display()),
        reason: error.to_string(),
    };
    let mut stream = UnixStream::connect(state.control()).map_err(failed)?;
    let wait = if request == Request::List { LIST_WAIT } else { ANSWER_WAIT };
    stream.set_read_timeout(Some(wait)).map_err(failed)?;
    send(&mut stream, &request).map_err(failed)?;
    receive(&stream).map_err(failed)
}

/// Writes a line.
pub(super) fn send<T: Serialize>(stream: &mut UnixStream, message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Reads a line.
pub(super) fn receive<T: serde::de::DeserializeOwned>(stream: &UnixStream) -> io::Result<T> {
    let mut line = String::new();
    BufReader::new(stream.take(LINE_MAX)).read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_str(&line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
