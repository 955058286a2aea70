//! Why a namespace could not be attached. Who can act is said by each.

use forebay_wire::message::{DecodeError, RefusalReason};
use std::io;

/// A connection that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nobody answers there; the server may not run, or the network may be down.
    #[error("cannot connect to {address}: {source}")]
    Unreachable {
        /// Where.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The address is none; the description of the instance is wrong.
    #[error("{address} is no address: {source}")]
    BadAddress {
        /// What stands in the description.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The server refused it; its text says why.
    #[error("{address} refuses: {text}")]
    Refused {
        /// Who.
        address: String,
        /// Why.
        reason: RefusalReason,
        /// The same in the server's words.
        text: String,
    },
    /// The server does not know the secret of the instance: it is not the one it should be.
    #[error("{address} could not prove that it belongs to the instance")]
    NotTheServer {
        /// Who.
        address: String,
    },
    /// What answers there is no server of ours, or one that went mad.
    #[error("{address} does not speak the protocol: {source}")]
    Protocol {
        /// Who.
        address: String,
        /// What is wrong.
        source: DecodeError,
    },
    /// What answers there says the wrong thing at the wrong time.
    #[error("{address} says {said} where {expected} was expected")]
    OutOfTurn {
        /// Who.
        address: String,
        /// What it said.
        said: &'static str,
        /// What belongs there.
        expected: &'static str,
    },
}

impl ConnectError {
    /// Trying again later can help.
    pub fn is_transient(&self) -> bool {
        match self {
            ConnectError::Unreachable { .. } => true,
            ConnectError::Refused { reason, .. } => reason.is_transient(),
            _ => false,
        }
    }
}

/// A namespace that could not be attached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// A server cannot be had.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The description does not fit the instance; whoever wrote it can act.
    #[error("the description names {described} servers, the instance has {servers}")]
    Servers {
        /// As many as are described.
        described: usize,
        /// As many as there are.
        servers: u32,
    },
    /// The addresses are in another order than the servers; whoever wrote the description can act.
    #[error("the description says that {address} is server {described}; it is server {position}")]
    Position {
        /// Who.
        address: String,
        /// Where it stands in the description.
        described: u32,
        /// Where it belongs.
        position: u32,
    },
    /// The description has no such server.
    #[error("the home is server {home}, but the description names {described} servers")]
    Home {
        /// The server that is to be the home.
        home: u32,
        /// As many as are described.
        described: usize,
    },
    /// The machine has no random numbers or no threads left.
    #[error("cannot begin: {0}")]
    System(#[from] io::Error),
}
