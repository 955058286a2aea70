//! Frames on a stream: one in, one out.
//!
//! What comes in is held to limits before anything is allocated for it: small ones until the client has proved who it is.
//! The buffers of a connection are kept from request to request, but no more than [`KEPT_BYTES`] of each.

use super::stream::Stream;
use forebay_wire::message::{BODY_MAX, BULK_MAX, DecodeError, Flags, HEADER_BYTES, Header};
use std::io::{self, Read};

/// A buffer longer than this is given back after its request.
const KEPT_BYTES: usize = 2 << 20;

/// Why no frame came, or none went.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Connection(#[from] io::Error),
    /// What came is no frame.
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

/// The most that a frame may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameLimits {
    pub(crate) body: usize,
    pub(crate) bulk: usize,
}

impl FrameLimits {
    /// Before the client has proved who it is.
    pub(crate) const STRANGER: FrameLimits = FrameLimits { body: 8 << 10, bulk: 0 };
    /// Afterwards.
    pub(crate) const KNOWN: FrameLimits = FrameLimits { body: BODY_MAX, bulk: BULK_MAX };
}

/// The last frame that came.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    body: Vec<u8>,
    bulk: Vec<u8>,
    body_len: usize,
    bulk_len: usize,
}

impl Inbox {
    /// Waits for a frame; `None` when the other side ended the connection between two.
    pub(crate) fn receive(
        &mut self,
        stream: &mut Stream,
        limits: FrameLimits,
    ) -> Result<Option<Header>, FrameError> {
        let mut bytes = [0; HEADER_BYTES];
        if !read_first(stream, &mut bytes)? {
            return Ok(None);
        }
        let header = Header::decode(&bytes)?;
        check("a body", header.body, limits.body)?;
        check("what a frame carries", header.bulk, limits.bulk)?;
        (self.body_len, self.bulk_len) = (header.body as usize, header.bulk as usize);
        stream.read_exact(room(&mut self.body, self.body_len))?;
        stream.read_exact(room(&mut self.bulk, self.bulk_len))?;
        Ok(Some(header))
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body[..self.body_len]
    }

    pub(crate) fn bulk(&self) -> &[u8] {
        &self.bulk[..self.bulk_len]
    }

    /// The request was answered.
    pub(crate) fn done(&mut self) {
        (self.body_len, self.bulk_len) = (0, 0);
        give_back(&mut self.body);
        give_back(&mut self.bulk);
    }
}

/// Gives a buffer back that is too long to be kept.
pub(crate) fn give_back(buffer: &mut Vec<u8>) {
    if buffer.len() > KEPT_BYTES {
        *buffer = Vec::new();
    }
}

/// The first bytes of a buffer, which is made longer if it is too short. They hold whatever was there.
pub(crate) fn room(buffer: &mut Vec<u8>, length: usize) -> &mut [u8] {
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
    &mut buffer[..length]
}

/// Sends a message with what it carries.
pub(crate) fn send(
    stream: &mut Stream,
    kind: u16,
    request: u64,
    encode: impl FnOnce(&mut Vec<u8>),
    bulk: &[u8],
) -> io::Result<()> {
    let mut body = Vec::new();
    encode(&mut body);
    let header = header(kind, request, body.len(), bulk.len());
    stream.write_parts(&[&header, &body, bulk])
}

/// The header of a frame that is sent.
pub(crate) fn header(kind: u16, request: u64, body: usize, bulk: usize) -> [u8; HEADER_BYTES] {
    debug_assert!(body <= BODY_MAX && bulk <= BULK_MAX, "an answer over the limits");
    Header { flags: Flags::default(), kind, body: body as u32, bulk: bulk as u32, request }.encode()
}

fn check(what: &'static str, length: u32, most: usize) -> Result<(), DecodeError> {
    if length as usize <= most {
        return Ok(());
    }
    Err(DecodeError::TooLong { what, length: u64::from(length), most: most as u64 })
}

/// Fills the buffer; `false` when the connection ended before its first byte.
fn read_first(stream: &mut Stream, buffer: &mut [u8]) -> io::Result<bool> {
    let mut done = 0;
    while done < buffer.len() {
        match stream.read(&mut buffer[done..]) {
            Ok(0) if done == 0 => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}
