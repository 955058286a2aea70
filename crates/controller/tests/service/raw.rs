//! Requests as anybody could write them, and users that are somebody else.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// An answer, as far as it came.
#[derive(Debug)]
pub struct Raw {
    pub status: u16,
    /// Status line and headers.
    pub head: String,
    pub body: String,
}

impl Raw {
    /// The word of a refusal.
    pub fn kind(&self) -> String {
        let value: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        value["refusal"].as_str().unwrap_or_default().to_owned()
    }
}

/// Sends these bytes and reads what comes; status 0 is a connection that was closed without an answer.
pub fn exchange(mut stream: impl Read + Write, bytes: &[u8]) -> Raw {
    // What is refused early is not read to its end.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer).into_owned();
    let status = text.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    Raw { status, head: head.to_lowercase(), body: body.to_owned() }
}

pub fn unix(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

pub fn tcp(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// A request with these headers and this body.
pub fn request(method: &str, target: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    format!("{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}{length}\r\n{body}")
        .into_bytes()
}

/// Does something as another user, in a thread that is this user from then on.
pub fn as_user<T: Send>(uid: u32, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let uid = rustix::process::Uid::from_raw(uid);
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            work()
        });
        thread.join().unwrap()
    })
}
