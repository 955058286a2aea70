//! Why an order was not carried out. The text goes to the user of the job, in one sentence.

use super::tail::Tail;
use crate::error::AgentError;
use crate::node::NodeError;
use forebay_controller::client::ClientError;
use forebay_model::ids::{FragmentId, InstanceId};
use std::path::PathBuf;
use std::time::Duration;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// A step of the agent.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A file, a server or a mount.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The node gives no space.
    #[error("this node gives no space: the configuration of its agent has no [storage]")]
    NoStorage,
    /// What stands in the way is not ours.
    #[error("{path:?} {problem}: nothing was changed there; move it away")]
    Foreign {
        /// What.
        path: PathBuf,
        /// Whose it is, or what it is.
        problem: String,
    },
    /// The disk is not the one that it should be.
    #[error("{path:?} {problem}")]
    WrongDisk {
        /// The directory for fragments.
        path: PathBuf,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The fragment is not on this node.
    #[error("fragment {fragment} is not on this node: {path:?} holds no record of it")]
    NotHere {
        /// The fragment.
        fragment: FragmentId,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// There is a record of a fragment, but not its content.
    #[error(
        "the content of fragment {fragment} is gone from {path:?}: what was written to it is lost; destroy its instance"
    )]
    Lost {
        /// The fragment.
        fragment: FragmentId,
        /// Where it was.
        path: PathBuf,
    },
    /// A fragment's server has no address.
    #[error(
        "the agent of node {node} names no address of its file server: start it with a [storage] that has one"
    )]
    NoAddress {
        /// The node.
        node: String,
    },
    /// The order makes no sense here.
    #[error("the order cannot be carried out: {problem}")]
    BadOrder {
        /// Why not.
        problem: String,
    },
    /// A process ended before it was ready.
    #[error("{what} ended before it was ready; {said}")]
    Ended {
        /// Which.
        what: String,
        /// Its last words.
        said: Tail,
    },
    /// A process did not get ready, or did not end.
    #[error("{what} took longer than {} s; {said}", waited.as_secs())]
    Silent {
        /// Which, and what it was to do.
        what: String,
        /// How long it was waited for.
        waited: Duration,
        /// Its last words.
        said: Tail,
    },
    /// The controller does not say the secrets of an instance.
    #[error("the secrets of instance {instance} cannot be had: {source}")]
    NoSecrets {
        /// The instance.
        instance: InstanceId,
        /// Why.
        source: ClientError,
    },
    /// The file server said no.
    #[error("the file server of this node cannot {request}: {reason}")]
    Refused {
        /// What it was asked.
        request: String,
        /// Its answer.
        reason: String,
    },
    /// A staging failed.
    #[error("{text}")]
    Stage {
        /// Which file, why, and what to do.
        text: String,
    },
    /// It was broken off.
    #[error("it was broken off")]
    Cancelled,
}

impl TaskError {
    /// It may go better another time without anybody doing anything.
    pub fn may_go_better(&self) -> bool {
        match self {
            TaskError::Agent(error) => !matches!(
                error,
                AgentError::ForeignDirectory { .. }
                    | AgentError::ForeignVolume { .. }
                    | AgentError::CannotReserve { .. }
            ),
            TaskError::Node(error) => !error.is_about_input(),
            TaskError::Ended { .. }
            | TaskError::Silent { .. }
            | TaskError::Refused { .. }
            | TaskError::NoAddress { .. }
            | TaskError::NoSecrets { .. }
            | TaskError::WrongDisk { .. }
            | TaskError::Cancelled => true,
            TaskError::NoStorage
            | TaskError::Foreign { .. }
            | TaskError::NotHere { .. }
            | TaskError::Lost { .. }
            | TaskError::BadOrder { .. }
            | TaskError::Stage { .. } => false,
        }
    }

    /// In one line.
    pub fn sentence(&self) -> String {
        self.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
