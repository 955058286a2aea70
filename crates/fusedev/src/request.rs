//! From the bytes of a request to its typed form. Pure: borrows names and data from the message, checks every bound, and
//! never panics, whatever the bytes are.
//!
//! A message with an operation that nobody here knows decodes to [`Operation::Unknown`], which is answered ENOSYS: newer
//! kernels ask newer questions and take that for an answer. A message that is damaged is an error.

mod decode;
pub(crate) mod glance;
mod operation;

pub use operation::{
    Copy, Create, Fallocate, Forgets, Getattr, Ioctl, Lock, LockKind, LockRange, MakeNode, NewTime, Open,
    Operation, Poll, Read, Readdir, Release, Rename, Seek, Setattr, Setxattr, Statx, Write,
};

use crate::abi::IN_HEADER_BYTES;
use crate::cursor::{Cursor, Taken};
use crate::flags::Features;

/// Who asks, and about what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Number of the request, which INTERRUPT names; never used twice.
    pub unique: u64,
    /// The object it is about, 0 where there is none.
    pub node: u64,
    /// User of the asking process (the file system user id).
    pub uid: u32,
    /// Group of the asking process.
    pub gid: u32,
    /// The asking thread's process id; 0 when the process is in another pid namespace or the kernel asks for itself.
    pub pid: u32,
}

/// A request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request<'a> {
    /// Who asks, and about what.
    pub context: Context,
    /// What is asked.
    pub operation: Operation<'a>,
}

/// A message that is none. The kernel does not send such; the number of the request is given as far as it could be read,
/// so that it can be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Not even a header.
    #[error("a message of {length} bytes is shorter than the header of a request")]
    NoHeader {
        /// Bytes of the message.
        length: usize,
    },
    /// The header names another length than was read.
    #[error("request {unique} (operation {opcode}) says it has {said} bytes and has {length}")]
    Length {
        /// The request.
        unique: u64,
        /// Its operation.
        opcode: u32,
        /// The header's word.
        said: u32,
        /// Bytes of the message.
        length: usize,
    },
    /// The message ends within its fixed part, a name or the data.
    #[error("request {unique} (operation {opcode}) ends too early")]
    Body {
        /// The request.
        unique: u64,
        /// Its operation.
        opcode: u32,
    },
}

impl DecodeError {
    /// The request to refuse.
    pub fn unique(&self) -> Option<u64> {
        match self {
            DecodeError::NoHeader { .. } => None,
            DecodeError::Length { unique, .. } | DecodeError::Body { unique, .. } => Some(*unique),
        }
    }
}

struct Header {
    length: u32,
    opcode: u32,
    context: Context,
    extension_words: u16,
}

fn header(cursor: &mut Cursor<'_>) -> Taken<Header> {
    let (length, opcode) = (cursor.u32()?, cursor.u32()?);
    let (unique, node) = (cursor.u64()?, cursor.u64()?);
    let (uid, gid, pid) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
    let extension_words = cursor.u16()?;
    cursor.skip(2)?;
    Ok(Header { length, opcode, context: Context { unique, node, uid, gid, pid }, extension_words })
}

/// Decodes one message; `agreed` are the features both sides took at the start.
pub fn decode(message: &[u8], agreed: Features) -> Result<Request<'_>, DecodeError> {
    let length = message.len();
    let header = header(&mut Cursor::new(message)).map_err(|_| DecodeError::NoHeader { length })?;
    let (unique, opcode) = (header.context.unique, header.opcode);
    if header.length as usize != length {
        return Err(DecodeError::Length { unique, opcode, said: header.length, length });
    }
    body(&header, message.get(IN_HEADER_BYTES..).unwrap_or_default(), Cursor::new, agreed)
}

/// Decodes a message whose header, fixed part and rest are apart, as io_uring brings it.
pub(crate) fn decode_parts<'a>(
    header_bytes: &[u8],
    fixed: &'a [u8],
    rest: &'a [u8],
    agreed: Features,
) -> Result<Request<'a>, DecodeError> {
    let no_header = |_| DecodeError::NoHeader { length: header_bytes.len() };
    let header = header(&mut Cursor::new(header_bytes)).map_err(no_header)?;
    body(&header, rest, |rest| Cursor::apart(fixed, rest), agreed)
}

/// Extensions, which nobody here asked for, are at the end.
fn body<'a>(
    header: &Header,
    bytes: &'a [u8],
    cursor: impl FnOnce(&'a [u8]) -> Cursor<'a>,
    agreed: Features,
) -> Result<Request<'a>, DecodeError> {
    let (unique, opcode) = (header.context.unique, header.opcode);
    let end = bytes.len().checked_sub(usize::from(header.extension_words) * 8);
    let body = end.and_then(|end| bytes.get(..end));
    let operation = body.and_then(|body| decode::operation(opcode, cursor(body), agreed).ok());
    match operation {
        Some(operation) => Ok(Request { context: header.context, operation }),
        None => Err(DecodeError::Body { unique, opcode }),
    }
}

#[cfg(test)]
mod tests;
