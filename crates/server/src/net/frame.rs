//! Frames on a stream: one in, one out.
//!
//! What comes in is held to limits before anything is allocated for it: small ones until the client has proved who it is.
//! A request is read with one call where it is small: what has come already, also of requests that follow, waits in
//! the inbox. The buffers of a connection are kept from request to request, but no more than [`KEPT_BYTES`] of each.

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

/// Read by one call, in bytes: a small request, or several.
const READ_AHEAD: usize = 8 << 10;

/// The last frame that came.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// What has come and was not taken yet: the bytes from `taken` to `filled`.
    ahead: Box<[u8; READ_AHEAD]>,
    taken: usize,
    filled: usize,
    body: Vec<u8>,
    bulk: Vec<u8>,
    body_len: usize,
    bulk_len: usize,
}

impl Default for Inbox {
    fn default() -> Inbox {
        let (body, bulk) = (Vec::new(), Vec::new());
        Inbox { ahead: Box::new([0; _]), taken: 0, filled: 0, body, bulk, body_len: 0, bulk_len: 0 }
    }
}

impl Inbox {
    /// Waits for a frame; `None` when the other side ended the connection between two.
    pub(crate) fn receive(
        &mut self,
        stream: &mut impl Read,
        limits: FrameLimits,
    ) -> Result<Option<Header>, FrameError> {
        if !self.read_ahead(stream)? {
            return Ok(None);
        }
        let header = Header::decode(self.next_header().expect("read ahead"))?;
        check("a body", header.body, limits.body)?;
        check("what a frame carries", header.bulk, limits.bulk)?;
        (self.body_len, self.bulk_len) = (header.body as usize, header.bulk as usize);
        self.taken += HEADER_BYTES;
        for (into, length) in [(&mut self.body, self.body_len), (&mut self.bulk, self.bulk_len)] {
            let into = room(into, length);
            let here = &self.ahead[self.taken..self.filled];
            let here = &here[..here.len().min(length)];
            into[..here.len()].copy_from_slice(here);
            self.taken += here.len();
            stream.read_exact(&mut into[here.len()..])?;
        }
        Ok(Some(header))
    }

    /// The header of the next frame, if it has come.
    fn next_header(&self) -> Option<&[u8; HEADER_BYTES]> {
        self.ahead[self.taken..self.filled].first_chunk()
    }

    /// Nothing can be said of the next frame before more comes.
    pub(crate) fn lacks_header(&self) -> bool {
        self.next_header().is_none()
    }

    /// The next frame is here already: it can be answered before anybody waits.
    pub(crate) fn has_next(&self) -> bool {
        let Some(Ok(header)) = self.next_header().map(Header::decode) else { return false };
        let length = header.body as usize + header.bulk as usize;
        self.filled - self.taken - HEADER_BYTES >= length
    }

    /// Reads until a header is there; `false` when the connection ended before its first byte.
    fn read_ahead(&mut self, stream: &mut impl Read) -> io::Result<bool> {
        self.ahead.copy_within(self.taken..self.filled, 0);
        (self.taken, self.filled) = (0, self.filled - self.taken);
        while self.filled < HEADER_BYTES {
            match stream.read(&mut self.ahead[self.filled..]) {
                Ok(0) if self.filled == 0 => return Ok(false),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
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
    let mut frame = Vec::new();
    put(&mut frame, kind, request, encode, bulk.len());
    stream.write_parts(&[&frame, bulk])
}

/// Adds a message to others that are sent together; what it carries has to follow.
pub(crate) fn put(to: &mut Vec<u8>, kind: u16, request: u64, encode: impl FnOnce(&mut Vec<u8>), bulk: usize) {
    let at = to.len();
    to.extend([0; HEADER_BYTES]);
    encode(to);
    let body = to.len() - at - HEADER_BYTES;
    to[at..at + HEADER_BYTES].copy_from_slice(&header(kind, request, body, bulk));
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
