//! Where an instance is, and how a client of it behaves.

use forebay_wire::Secret;
use std::path::PathBuf;
use std::time::Duration;

/// One server of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// `host:port`.
    pub tcp: String,
    /// Its socket for programs of the same machine. It is used where the path exists and somebody answers.
    pub unix: Option<PathBuf>,
}

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection to be made.
    pub connect: Duration,
    /// For a server to be found when a namespace is attached.
    pub attach: Duration,
    /// For an unreachable server to come back: operations wait for it so long, and fail from then on until it is back.
    pub unreachable: Duration,
    /// For saying goodbye.
    pub closing: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(2),
            attach: Duration::from_secs(10),
            unreachable: Duration::from_secs(300),
            closing: Duration::from_secs(1),
        }
    }
}

/// A namespace of an instance, for those who use it.
#[derive(Clone, Debug)]
pub struct Description {
    /// Name of the instance.
    pub instance: String,
    /// Name of the namespace.
    pub namespace: String,
    /// All servers of the instance, in its order.
    pub servers: Vec<Address>,
    /// Which of them has the names and attributes of the namespace.
    pub home: u32,
    /// What proves that one belongs there: the token for clients, the seal for servers.
    pub secret: Secret,
    /// How long things may take.
    pub timeouts: Timeouts,
    /// Content on a server of the same machine is read and written in its files directly, where the server allows it.
    pub direct: bool,
}
