//! What happens to the cluster's controller, and the agents' side of the conversation.
//!
//! The agents' contract. An agent registers with an incarnation greater than all before, and with what it holds at that
//! moment; it registers whenever it starts and whenever it is asked to. It then gets lists of orders
//! ([`super::effect::List`]). Of two lists the one with the greater number counts, and a list is complete: what is not on
//! it is not wanted any more and is broken off. Of one subject only one order is worked on at a time, in the order of the
//! ids; a new one begins when the old one has ended or was broken off. An order that is on the list after it was done is
//! reported again. All orders can be repeated. So messages may be lost, doubled and overtake each other.

use super::request::{Caller, Request, RequestId};
use super::row::TaskId;
use forebay_model::ids::{ActivationId, FragmentId, InstanceId};
use forebay_model::units::Bytes;
use serde::{Deserialize, Serialize};

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Time passed. Times that go backwards are taken for no time.
    Tick {
        /// Seconds since the epoch.
        now: i64,
    },
    /// An agent says something.
    Agent {
        /// Its node, as authenticated.
        node: String,
        /// Its registration that this belongs to.
        incarnation: u64,
        /// What it says.
        message: AgentMessage,
    },
    /// Somebody asks for something.
    Request {
        /// Names the request.
        id: RequestId,
        /// Who asks.
        caller: Caller,
        /// What is asked.
        request: Request,
    },
    /// The sender of a request does not wait any more. What it asked for goes on.
    RequestGone {
        /// The request.
        id: RequestId,
    },
}

/// What an agent says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum AgentMessage {
    /// It begins a new incarnation.
    Register(Registering),
    /// It lives.
    Heartbeat {
        /// Number of the newest list it has.
        list: u64,
        /// Bytes ever written to its disks.
        bytes_written: Bytes,
    },
    /// An order is carried out.
    Done {
        /// The order.
        task: TaskId,
        /// What a staging did.
        copied: Option<Copied>,
    },
    /// An order failed, or was broken off.
    Failed {
        /// The order.
        task: TaskId,
        /// For the user: what, why, what to do.
        text: String,
        /// It may go better another time.
        again: bool,
    },
}

/// What an agent has and holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registering {
    /// The registry that its fragments belong to; `None` if it never held any.
    pub registry: Option<String>,
    /// The pool that it is configured for; `None` for a compute node.
    pub pool: Option<String>,
    /// Size of its disks.
    pub capacity: Bytes,
    /// Smallest piece of space that it can hand out.
    pub granularity: Bytes,
    /// Bytes ever written to its disks.
    pub bytes_written: Bytes,
    /// Every fragment on its disks.
    pub fragments: Vec<HeldFragment>,
    /// Every activation mounted there.
    pub mounts: Vec<ActivationId>,
    /// `host:port` where its file servers are reached; storage nodes have one.
    #[serde(default)]
    pub address: Option<String>,
    /// Absolute path of their Unix socket, for clients on the same machine.
    #[serde(default)]
    pub socket: Option<String>,
}

/// A fragment on an agent's disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldFragment {
    /// Id.
    pub fragment: FragmentId,
    /// The instance that it was made for.
    pub instance: InstanceId,
    /// Size.
    pub bytes: Bytes,
    /// Its file servers run.
    pub serving: bool,
}

/// What a staging copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copied {
    /// Files.
    pub files: u64,
    /// Bytes.
    pub bytes: Bytes,
    /// Those of the files that an earlier attempt had copied already.
    #[serde(default)]
    pub skipped: u64,
}
