//! Why a server does not start or an instance is not mounted, before anything was said on the network.

use crate::error::AgentError;
use crate::holders::Holders;
use forebay_model::ids::InstanceId;
use std::io;
use std::path::PathBuf;

/// See the module. Who can act: whoever wrote the file that is named.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A file cannot be read.
    #[error("cannot read {path:?}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is larger than such a file can be.
    #[error("{path:?} is refused: it is larger than {limit_bytes} bytes")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// What it may be.
        limit_bytes: u64,
    },
    /// Not TOML, an unknown key, a value of the wrong type; the message has line and column.
    #[error("{path:?} is refused:\n{message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, column and what was expected.
        message: String,
    },
    /// A value that cannot be.
    #[error("{path:?} is refused: line {line}: {key} = {value}: {problem}")]
    Value {
        /// The file.
        path: PathBuf,
        /// Where, from 1.
        line: usize,
        /// Its key.
        key: &'static str,
        /// The value.
        value: String,
        /// What was expected.
        problem: String,
    },
    /// A secret that others can read or change.
    #[error(
        "{path:?} is refused: others than its owner may use it (mode {mode:04o}); expected is a file that only its owner \
         can read, as after: chmod 600 {path:?}"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// A secret of somebody else: he could change it.
    #[error("{path:?} is refused: it belongs to user {owner}, expected is {expected}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Who we are.
        expected: u32,
    },
    /// A secret that is none.
    #[error("{path:?} is refused: {problem}")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What it is, and what was expected.
        problem: String,
    },
    /// Configurations of servers of one instance that cannot both be right.
    #[error(
        "{path:?} is refused: it describes instance {instance} otherwise than another configuration does: servers and \
         namespaces have to be the same, positions and fragments different"
    )]
    Disagree {
        /// The later file.
        path: PathBuf,
        /// The instance.
        instance: InstanceId,
    },
    /// Nothing of ours is mounted there.
    #[error(
        "nothing of forebay is mounted at {path:?}{}",
        found.as_deref().map(|kind| format!(", but a file system of type {kind}")).unwrap_or_default()
    )]
    NotOurs {
        /// Where.
        path: PathBuf,
        /// Type of what is mounted there.
        found: Option<String>,
    },
    /// Somebody uses the mount.
    #[error("{path:?} is in use: {holders}; end that, or give --lazy")]
    InUse {
        /// Where.
        path: PathBuf,
        /// By whom.
        holders: Holders,
    },
    /// The system does not unmount.
    #[error("cannot unmount {path:?}: {source}")]
    Unmount {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The mount table cannot be read.
    #[error(transparent)]
    Agent(#[from] AgentError),
}
