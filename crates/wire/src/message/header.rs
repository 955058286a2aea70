//! The header of a frame.
//!
//! ```text
//!  0  u16 magic      2  u8 version   3  u8 flags    4  u16 kind   6  u16 reserved
//!  8  u32 body      12  u32 bulk    16  u64 request
//! ```
//! Then `body` bytes, the fields of the message, then `bulk` bytes, what it carries: the data of a read or a write, a
//! listing, the target of a link. The reply to a request has its number.

use super::codec::{DecodeError, Field, Reader};
use std::ops::RangeInclusive;

/// How every frame begins.
pub const MAGIC: u16 = 0xFB57;
/// The version of frames that this program writes.
pub const VERSION: u8 = 1;
/// The versions that it reads.
pub const VERSIONS: RangeInclusive<u8> = 1..=1;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 24;
/// Most bytes of a body. The largest ones are listings of substripe files, and those of a person in 65536 groups.
pub const BODY_MAX: usize = 1 << 20;
/// Most bytes that a frame carries beside its fields.
pub const BULK_MAX: usize = 8 << 20;

const REPEATED: u8 = 1;
const ONE_WAY: u8 = 2;

/// How a frame is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// The request may have been carried out before: the connection was lost without its reply.
    pub repeated: bool,
    /// No reply is wanted.
    pub one_way: bool,
}

/// What a frame begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How it is meant.
    pub flags: Flags,
    /// Which message it is.
    pub kind: u16,
    /// Bytes of its fields.
    pub body: u32,
    /// Bytes that it carries beside them.
    pub bulk: u32,
    /// Number that request and reply have in common.
    pub request: u64,
}

impl Header {
    /// Its bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        MAGIC.put(&mut bytes);
        VERSION.put(&mut bytes);
        ((u8::from(self.flags.repeated) * REPEATED) | (u8::from(self.flags.one_way) * ONE_WAY))
            .put(&mut bytes);
        self.kind.put(&mut bytes);
        0u16.put(&mut bytes);
        self.body.put(&mut bytes);
        self.bulk.put(&mut bytes);
        self.request.put(&mut bytes);
        bytes.try_into().expect("the fields of a header have fixed widths")
    }

    /// The header of these bytes.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, DecodeError> {
        let mut from = Reader::new(bytes);
        let magic = u16::take(&mut from)?;
        if magic != MAGIC {
            return Err(DecodeError::Magic { found: magic });
        }
        let version = u8::take(&mut from)?;
        if !VERSIONS.contains(&version) {
            return Err(DecodeError::Version { found: version });
        }
        let flags = take_flags(&mut from)?;
        let kind = u16::take(&mut from)?;
        match u16::take(&mut from)? {
            0 => {}
            found => return Err(DecodeError::Reserved { what: "the reserved field", found }),
        }
        let body = from.length("a body", BODY_MAX)? as u32;
        let bulk = from.length("what a frame carries", BULK_MAX)? as u32;
        Ok(Header { flags, kind, body, bulk, request: u64::take(&mut from)? })
    }
}

fn take_flags(from: &mut Reader<'_>) -> Result<Flags, DecodeError> {
    let bits = u8::take(from)?;
    if bits & !(REPEATED | ONE_WAY) != 0 {
        return Err(DecodeError::Reserved { what: "a flag", found: u16::from(bits) });
    }
    Ok(Flags { repeated: bits & REPEATED != 0, one_way: bits & ONE_WAY != 0 })
}
