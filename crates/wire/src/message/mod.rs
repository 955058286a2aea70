//! What clients and servers say to each other over a connection: frames, and the messages in them.
//!
//! A frame is a [`Header`], the fields of one message, and the bytes that the message carries along. Kinds of messages:
//! `0x00..` [`Handshake`], `0x01..` [`MetadataRequest`], `0x02..` [`DataRequest`], `0x03..` [`CallbackRequest`], `0x80..`
//! [`Reply`]. One request is under way on a connection, and its reply follows.
//!
//! What always holds: decoding never panics, allocates no more than the limits say, and accepts exactly what encoding
//! makes. Bytes that are no message are a [`DecodeError`]; after any but [`DecodeError::UnknownKind`] the connection
//! cannot go on. Pure: any thread. The bytes of version 1 are kept in `tests/golden/version1.txt`.

mod account;
mod callback;
mod codec;
mod data;
mod failure;
mod handshake;
mod header;
mod listing;
mod metadata;
mod record;
mod reply;
#[cfg(test)]
mod tests;
mod values;

pub use account::{FragmentAccount, Moved, TrafficAccount, WindowAccount};
pub use callback::{CallbackRequest, Changed};
pub use codec::{
    ATTRIBUTE_NAME_MAX, ATTRIBUTE_VALUE_MAX, AttributeName, AttributeValue, Bytes, DecodeError, Field, Item,
    NAME_MAX, Name, PATH_MAX, Reader, TEXT_MAX, Target,
};
pub use data::DataRequest;
pub use handshake::{ConnectionKind, Handshake, RefusalReason, Role};
pub use header::{BODY_MAX, BULK_MAX, Flags, HEADER_BYTES, Header, MAGIC, VERSION, VERSIONS};
pub use listing::Entry;
pub use metadata::{Claim, Closed, Forgotten, MetadataCall, MetadataRequest, Once, SLOTS_MAX};
pub use reply::{Gone, Opened, Reply, Status};
pub use values::{Credentials, GROUPS_MAX, Group, Piece, SPANS_MAX, SessionId};
