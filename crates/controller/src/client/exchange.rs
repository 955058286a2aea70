//! One request and its answer over one connection of its own: HTTP/1.1 with `Connection: close`.

use super::Address;
use crate::munge::{Munge, MungeError};
use crate::protocol::{MUNGE_SCHEME, Method, digest};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);
/// How long the controller may take to accept what is sent.
const SEND: Duration = Duration::from_secs(30);
/// Largest answer: a snapshot of a large cluster is a tenth of it.
const MAX_RESPONSE: u64 = 1 << 30;
const MAX_HEADERS: usize = 64;
/// A waiting connection is looked after: a machine that lost its power does not say so.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_COUNT: u32 = 3;

/// A request.
pub(super) struct Exchange<'a> {
    pub method: Method,
    pub target: &'a str,
    pub body: &'a [u8],
    /// Longest that nothing may come; `None` for what takes as long as it takes.
    pub limit: Option<Duration>,
}

/// An answer.
pub(super) struct Response {
    pub status: u16,
    /// All that came: an answer may be megabytes, so its body is not taken out.
    received: Vec<u8>,
    body: Range<usize>,
}

impl Response {
    /// The body.
    pub fn body(&self) -> &[u8] {
        &self.received[self.body.clone()]
    }
}

/// Why there is none.
pub(super) enum Fault {
    /// The request was not sent as a whole: nothing was done.
    NotReached(String),
    /// The request was sent, and the answer lost.
    Lost(String),
    /// What came is no answer.
    Nonsense(String),
    /// No credential can be made.
    Munge(MungeError),
}

trait Stream: Read + Write {
    fn set_limit(&self, limit: Option<Duration>) -> io::Result<()>;
}

impl Stream for UnixStream {
    fn set_limit(&self, limit: Option<Duration>) -> io::Result<()> {
        self.set_write_timeout(Some(SEND))?;
        self.set_read_timeout(limit)
    }
}

impl Stream for TcpStream {
    fn set_limit(&self, limit: Option<Duration>) -> io::Result<()> {
        self.set_nodelay(true)?;
        keep_alive(self.as_fd())?;
        self.set_write_timeout(Some(SEND))?;
        self.set_read_timeout(limit)
    }
}

/// Makes the kernel find out when the other side is gone.
pub(crate) fn keep_alive(socket: std::os::fd::BorrowedFd<'_>) -> io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(socket, KEEPALIVE_INTERVAL)?;
    Ok(sockopt::set_tcp_keepcnt(socket, KEEPALIVE_COUNT)?)
}

impl Exchange<'_> {
    /// Sends the request and reads the answer.
    pub fn carry_out(&self, address: &Address, munge: &Munge) -> Result<Response, Fault> {
        let not_reached = |error: io::Error| Fault::NotReached(error.to_string());
        match address {
            Address::Unix(path) => {
                let stream = UnixStream::connect(path).map_err(not_reached)?;
                self.talk(stream, self.head("controller", None))
            }
            Address::Tcp(name) => {
                let stream = connect(name).map_err(not_reached)?;
                let digest = digest(self.method.name(), self.target, self.body);
                let credential = munge.encode(digest.as_bytes(), None).map_err(Fault::Munge)?;
                self.talk(stream, self.head(name, Some(&credential)))
            }
        }
    }

    fn head(&self, host: &str, credential: Option<&str>) -> String {
        let (method, target, length) = (self.method.name(), self.target, self.body.len());
        let proof = credential.map(|credential| format!("Authorization: {MUNGE_SCHEME} {credential}\r\n"));
        let content = match length {
            0 => String::new(),
            _ => format!("Content-Type: application/json\r\nContent-Length: {length}\r\n"),
        };
        let proof = proof.unwrap_or_default();
        format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{proof}{content}\r\n")
    }

    fn talk(&self, mut stream: impl Stream, head: String) -> Result<Response, Fault> {
        let not_reached = |error: io::Error| Fault::NotReached(error.to_string());
        stream.set_limit(self.limit).map_err(not_reached)?;
        let mut message = head.into_bytes();
        message.extend_from_slice(self.body);
        // A controller that refuses early may have answered before it read everything.
        let sent = stream.write_all(&message);
        let mut received = Vec::new();
        let read = stream.take(MAX_RESPONSE).read_to_end(&mut received);
        let parsed = parse(received)?;
        match (parsed, sent, read) {
            (Some(response), _, _) => Ok(response),
            (None, Err(error), _) => Err(Fault::NotReached(error.to_string())),
            (None, _, Err(error)) => Err(Fault::Lost(error.to_string())),
            (None, _, Ok(_)) => Err(Fault::Lost("the connection ended before the answer".into())),
        }
    }
}

fn connect(name: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in name.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The answer in these bytes; `None` when it is not complete.
fn parse(received: Vec<u8>) -> Result<Option<Response>, Fault> {
    let Some((status, start, stated)) = head_of(&received)? else { return Ok(None) };
    if received.len() - start < stated {
        return Ok(None);
    }
    Ok(Some(Response { status, received, body: start..start + stated }))
}

/// The status, where the body begins, and how long it is.
fn head_of(received: &[u8]) -> Result<Option<(u16, usize, usize)>, Fault> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Response::new(&mut headers);
    let length = match head.parse(received).map_err(|error| Fault::Nonsense(error.to_string()))? {
        httparse::Status::Complete(length) => length,
        httparse::Status::Partial => return Ok(None),
    };
    let status = head.code.unwrap_or_default();
    let mut lengths = head.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("content-length"));
    let stated = match lengths.next() {
        None if status == super::NO_CONTENT => 0,
        None => return Err(Fault::Nonsense("an answer without a length".into())),
        Some(header) => {
            let text = std::str::from_utf8(header.value).ok().and_then(|text| text.trim().parse().ok());
            text.ok_or_else(|| Fault::Nonsense("an answer with an odd length".into()))?
        }
    };
    Ok(Some((status, length, stated)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_answers_are_answers() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfour";
        for end in 0..whole.len() {
            assert!(matches!(parse(whole[..end].to_vec()), Ok(None)), "{end}");
        }
        assert!(matches!(parse(whole.to_vec()), Ok(Some(response)) if response.body() == b"four"));
        assert!(matches!(parse(b"SSH-2.0-OpenSSH\r\n\r\n".to_vec()), Err(Fault::Nonsense(_))));
        assert!(matches!(parse(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()), Err(Fault::Nonsense(_))));
    }
}
