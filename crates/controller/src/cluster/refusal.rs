//! Why the cluster's controller refuses a request, or tells that it failed.
//!
//! The texts end in `scontrol show job`, `squeue` and terminals: one sentence with what was found and what to do. They
//! hold no apostrophe and no line break, since Slurm rewrites apostrophes in what it reads and shows one line.

use super::effect::ObjectKind;
use super::limits::MAX_WORD;
use forebay_model::allocate::AllocationError;
use forebay_model::capacity::format::exact;
use forebay_model::units::Bytes;
use serde::{Deserialize, Serialize, Serializer};

/// A refusal or failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(tag = "refusal", rename_all = "snake_case")]
pub enum Refusal {
    /// No such session. Slurm takes this text for success of a teardown.
    #[error("token not found: there is no session {token}")]
    NoToken {
        /// The token.
        token: String,
    },
    /// No such object.
    #[error("there is no {} {id}", kind.name())]
    NoObject {
        /// Which table.
        kind: ObjectKind,
        /// The id.
        id: u64,
    },
    /// No such pool.
    #[error("there is no pool {name}: the pools are {known}")]
    NoPool {
        /// The name.
        name: String,
        /// Names of pools.
        known: String,
    },
    /// No such persistent instance.
    #[error("there is no persistent instance {name}: create it first, or correct the name")]
    NoPersistent {
        /// The name.
        name: String,
    },
    /// No agent has registered from these nodes.
    #[error("no agent runs on {nodes}: start it there, or use other nodes")]
    UnknownNodes {
        /// Names of some of them.
        nodes: String,
    },
    /// Somebody else's object.
    #[error("uid {uid} may not change {} {id}: it belongs to uid {owner}", kind.name())]
    NotYours {
        /// Who asked.
        uid: u32,
        /// Which table.
        kind: ObjectKind,
        /// The id.
        id: u64,
        /// The owner.
        owner: u32,
    },
    /// Only the workload manager and operators may do that.
    #[error("uid {uid} may not ask for {what}: that is left to {role}")]
    NotAllowed {
        /// Who asked.
        uid: u32,
        /// What was asked for.
        what: String,
        /// Who may.
        role: Role,
    },
    /// Space by hand is left to operators.
    #[error(
        "uid {uid} may not make sessions and space by hand: ask the workload manager for it with #DW or #BB lines, or an operator for space_by_hand in controller.toml"
    )]
    ByHand {
        /// Who asked.
        uid: u32,
    },
    /// More space by hand than a user may have.
    #[error(
        "uid {owner} may have {limit} of space by hand at a time and has {held}, so {asked} more are too much: remove some, or ask the workload manager for it", limit = exact(*.limit), held = exact(*.held), asked = exact(*.asked)
    )]
    OverShare {
        /// The owner.
        owner: u32,
        /// What was asked for, in whole granules.
        asked: Bytes,
        /// What there is already.
        held: Bytes,
        /// What there may be.
        limit: Bytes,
    },
    /// A token that would break something.
    #[error(
        "{token:?} cannot be used as a name: up to {MAX_WORD} letters, digits and . _ - + : @ are allowed, not beginning with a dot{}",
        if *.digit { " or a digit" } else { "" }
    )]
    BadName {
        /// The name.
        token: String,
        /// It may not begin with a digit either.
        digit: bool,
    },
    /// Something else has the token.
    #[error(
        "{token} exists already and is another request of uid {owner}: remove it first, or use another name"
    )]
    Exists {
        /// The token.
        token: String,
        /// Its owner.
        owner: u32,
    },
    /// More than a limit allows.
    #[error("{what}: at most {limit} are allowed")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A request that makes no sense.
    #[error("{what}")]
    Invalid {
        /// What is wrong and what to do.
        what: String,
    },
    /// There is something that this controller does not do.
    #[error("{what} is not offered by this burst buffer: {instead}")]
    NotOffered {
        /// What.
        what: &'static str,
        /// What to do.
        instead: &'static str,
    },
    /// The pool cannot give so much.
    #[error("pool {pool}: {source}")]
    NoSpace {
        /// The pool.
        pool: String,
        /// How much there is.
        #[serde(serialize_with = "as_text")]
        source: AllocationError,
    },
    /// A persistent instance is used.
    #[error("persistent instance {name} is used by {users}: wait until they have ended")]
    InUse {
        /// Its name.
        name: String,
        /// Some of the sessions that use it.
        users: String,
    },
    /// Fragments are lost.
    #[error(
        "instance {label} is not intact: a storage node lost its part, so copy what is left and create it anew"
    )]
    NotIntact {
        /// Label of the instance.
        label: String,
    },
    /// The session was torn down while this waited for it.
    #[error("session {token} was torn down meanwhile")]
    TornDown {
        /// The token.
        token: String,
    },
    /// Results are still there.
    #[error(
        "session {token} keeps its data: {pending} of its stage-outs are not done ({reason}); remove the cause and try again, or tear it down with hurry to give the data up"
    )]
    ResultsPending {
        /// The token.
        token: String,
        /// How many.
        pending: usize,
        /// Why the first one failed.
        reason: String,
    },
    /// A node that is needed does not answer.
    #[error("node {node} does not answer: {what} has to wait for it")]
    NodeLost {
        /// The node.
        node: String,
        /// What was to be done there.
        what: &'static str,
    },
    /// An agent tried and failed.
    #[error("{what} on node {node} failed: {text}")]
    Failed {
        /// What was to be done.
        what: &'static str,
        /// Where.
        node: String,
        /// Why.
        text: String,
    },
    /// A staging failed.
    #[error("{text}")]
    StageFailed {
        /// Which path, why, what to do.
        text: String,
    },
    /// A node that answers cannot be given up.
    #[error("node {node} answers: drain it, stop its agent, and forget it when it is lost")]
    NodeOnline {
        /// The node.
        node: String,
    },
}

/// Who may do a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Operators named in the configuration, and root.
    Operators,
    /// The workload manager, and operators.
    WorkloadManager,
}

impl std::fmt::Display for Role {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Role::Operators => "operators",
            Role::WorkloadManager => "the workload manager and operators",
        })
    }
}

fn as_text<S: Serializer>(source: &AllocationError, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(source)
}
