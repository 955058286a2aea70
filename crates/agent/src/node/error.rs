//! Why a server does not start or an instance is not mounted, before anything was said on the network.

use crate::error::AgentError;
use crate::holders::Holders;
use forebay_client::remote::AttachError;
use forebay_fuse::{MountError, UnmountError};
use forebay_model::ids::InstanceId;
use forebay_server::net::{HostError, StartError};
use forebay_wire::FsError;
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
    /// An instance does not get more servers, or fewer.
    #[error(
        "{path:?} is refused: it names {servers} servers, which is another number than when the instance was attached"
    )]
    OtherServers {
        /// The file.
        path: PathBuf,
        /// How many it names.
        servers: usize,
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
    /// The directory that says which process serves cannot be used.
    #[error("cannot use {path:?}: {source}")]
    State {
        /// The directory or a file in it.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another process serves with the same state directory.
    #[error("process {pid} serves with {state:?} already")]
    Serves {
        /// The state directory.
        state: PathBuf,
        /// That process.
        pid: String,
    },
    /// The limits of the process cannot be had.
    #[error("cannot raise the number of files that may be open: {source}")]
    Limits {
        /// Why.
        source: FsError,
    },
    /// A fragment cannot be opened.
    #[error(
        "cannot open the fragment {path:?} of instance {instance}: {}",
        match source { FsError::Busy => "another process has it open".to_owned(), other => other.to_string() }
    )]
    Fragment {
        /// The instance.
        instance: String,
        /// Its fragment.
        path: PathBuf,
        /// Why.
        source: FsError,
    },
    /// The name of an address has no number.
    #[error("cannot listen at {host}: {source}")]
    Unresolved {
        /// The address.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// The sockets cannot be asked.
    #[error("cannot find out where the server listens: {source}")]
    Listen {
        /// Why.
        source: io::Error,
    },
    /// The system has no thread left.
    #[error("cannot start a thread: {source}")]
    Thread {
        /// Why.
        source: io::Error,
    },
    /// The server does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A namespace is not served.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The servers are not reached, or refuse.
    #[error("cannot attach {instance}/{namespace}: {source}")]
    Attach {
        /// The instance.
        instance: String,
        /// Its namespace.
        namespace: String,
        /// Why.
        source: AttachError,
    },
    /// The servers do not say how things are.
    #[error("cannot ask for the status of {instance}: {source}")]
    Status {
        /// The instance.
        instance: String,
        /// Why.
        source: FsError,
    },
    /// The kernel does not mount.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The mount did not end well.
    #[error(transparent)]
    Served(#[from] UnmountError),
    /// The mount table cannot be read.
    #[error(transparent)]
    Agent(#[from] AgentError),
}

impl NodeError {
    /// A file that somebody wrote is to be changed.
    pub fn is_about_input(&self) -> bool {
        match self {
            NodeError::Read { .. }
            | NodeError::TooLarge { .. }
            | NodeError::Syntax { .. }
            | NodeError::Value { .. }
            | NodeError::OtherServers { .. }
            | NodeError::Exposed { .. }
            | NodeError::Foreign { .. }
            | NodeError::Unusable { .. }
            | NodeError::Disagree { .. }
            | NodeError::Unresolved { .. } => true,
            NodeError::NotOurs { .. }
            | NodeError::InUse { .. }
            | NodeError::Unmount { .. }
            | NodeError::State { .. }
            | NodeError::Serves { .. }
            | NodeError::Limits { .. }
            | NodeError::Fragment { .. }
            | NodeError::Listen { .. }
            | NodeError::Start(_)
            | NodeError::Thread { .. }
            | NodeError::Host(_)
            | NodeError::Attach { .. }
            | NodeError::Status { .. }
            | NodeError::Mount(_)
            | NodeError::Served(_)
            | NodeError::Agent(_) => false,
        }
    }
}
