//! How a connection begins.
//!
//! ```text
//! client                                server
//! Hello (who, nonce)            ->
//!                               <-      Challenge (nonce, boot)      or Refused
//! Proof (mac)                   ->
//!                               <-      Welcome (mac, terms)         or Refused
//! ```
//! After `Welcome` the connection carries requests of its kind: from the client to the server, on a callback connection
//! from the server to the client. The macs: [`crate::proof`].

use super::record::{messages, tags};
use super::values::SessionId;

/// Who is at the near end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A client of a namespace; it knows the instance's token.
    Client,
    /// A server of the same instance; it knows the instance's seal.
    Peer,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionKind {
    /// Names and attributes: [`super::MetadataRequest`].
    Metadata,
    /// Content: [`super::DataRequest`].
    Data,
    /// The server asks: [`super::CallbackRequest`]. One for a session.
    Callback,
}

/// Why a server does not let a connection in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RefusalReason {
    /// No version of the protocol is common.
    #[error("no common version of the protocol")]
    WrongVersion,
    /// It serves no such instance.
    #[error("no such instance is served here")]
    UnknownInstance,
    /// The instance has no such namespace here.
    #[error("the instance has no such namespace here")]
    UnknownNamespace,
    /// The metadata of the namespace is at another server.
    #[error("the namespace has its metadata at another server")]
    NotHome,
    /// The secret is not the one of the instance.
    #[error("the token is not the one of the instance")]
    BadProof,
    /// The server, or the session, has as many connections as it may.
    #[error("too many connections")]
    TooManyConnections,
    /// The instance has as many sessions as it may.
    #[error("too many clients")]
    TooManySessions,
    /// The server ends, or has not opened yet what is asked for.
    #[error("the server is starting or shutting down")]
    ShuttingDown,
    /// Something that was sent is no message of a handshake.
    #[error("not a message of a handshake")]
    Malformed,
}

impl RefusalReason {
    /// Trying again later can help.
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            RefusalReason::TooManyConnections | RefusalReason::TooManySessions | RefusalReason::ShuttingDown
        )
    }
}

tags!(Role, "role", { Client = 0, Peer = 1, });
tags!(ConnectionKind, "kind of connection", { Metadata = 0, Data = 1, Callback = 2, });
tags!(RefusalReason, "reason of a refusal", {
    WrongVersion = 1,
    UnknownInstance = 2,
    UnknownNamespace = 3,
    NotHome = 4,
    BadProof = 5,
    TooManyConnections = 6,
    TooManySessions = 7,
    ShuttingDown = 8,
    Malformed = 9,
});

messages! {
    /// The messages before a connection is one.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub enum Handshake {
        /// Client: this is who I am and what I want.
        Hello = 0x0001 {
            /// Lowest version of the protocol that it speaks.
            version_min: u8,
            /// Highest.
            version_max: u8,
            /// Name of the instance.
            instance: String,
            /// Name of the namespace.
            namespace: String,
            /// Who.
            role: Role,
            /// What for.
            kind: ConnectionKind,
            /// Which run of the client program.
            session: SessionId,
            /// Name of its machine, for messages.
            node: String,
            /// Random, new for each connection.
            nonce: [u8; 32],
        },
        /// Server: prove it.
        Challenge = 0x0002 {
            /// The version of the protocol to go on with.
            version: u8,
            /// Random, new for each connection.
            nonce: [u8; 32],
            /// Number of the server process: another one is another process, which has forgotten all sessions. It also says whether
            /// its machine's memory is still the same: [`crate::boot`].
            boot: u64,
        },
        /// Client: here.
        Proof = 0x0003 {
            /// Made by [`crate::proof::Transcript::client`].
            mac: [u8; 32],
        },
        /// Server: come in; and this proves that it is me.
        Welcome = 0x0004 {
            /// Made by [`crate::proof::Transcript::server`].
            mac: [u8; 32],
            /// How long the session lives after its last connection is gone, in milliseconds.
            grace_ms: u32,
            /// Which session of the server this is: another number (or another boot) than on an earlier connection says
            /// that the earlier session is over, and what it held is to be claimed again. 0 on data connections.
            incarnation: u64,
            /// Servers of the instance.
            servers: u32,
            /// Which of them this one is.
            position: u32,
            /// Longest file of the namespace in bytes.
            max_file_size: u64,
            /// Whether descriptors for writing may be asked for: the fragment's size is enforced below.
            direct_writes: bool,
        },
        /// Server: no. The connection ends.
        Refused = 0x0005 {
            /// Why.
            reason: RefusalReason,
            /// The same for a reader, with what was asked for.
            text: String,
        },
    }
}
