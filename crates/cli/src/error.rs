//! Why a command failed, and the exit status that says so.
//!
//! Errors of the layers below pass through unchanged; this is where they meet the user.

use crate::config::ConfigError;
use crate::exit::Exit;
use crate::job::plan::Refused;
use crate::offer::Unusable;
use crate::state_dir::StateDirError;
use forebay_agent::AgentError;
use forebay_agent::daemon::DaemonError;
use forebay_agent::node::NodeError;
use forebay_controller::client::{AddressError, ClientError};
use forebay_controller::custody::CustodyError;
use forebay_controller::error::{OfferError, OfferedError, RegistryError, SetupError};
use forebay_controller::service::{ConfigError as ConfigRefused, ServiceError, StoreError};
use forebay_model::capacity::format::{SizeStyle, format_size};
use forebay_model::units::Bytes;
use forebay_wire::FsError;
use std::io;
use std::path::PathBuf;

/// A command that could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// No state directory.
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    /// The configuration is refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration of the controller is refused.
    #[error(transparent)]
    ControllerConfig(#[from] ConfigRefused),
    /// Others could change or read what a daemon relies on.
    #[error(transparent)]
    Custody(#[from] CustodyError),
    /// The controller cannot start, or cannot go on.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The registry cannot be used.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The pools as configured do not fit what is in the registry.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// The request cannot be satisfied; `advice` says how to change it.
    #[error("{source}{}", advice.as_deref().map(|advice| format!("\n{advice}")).unwrap_or_default())]
    Setup {
        /// Why.
        source: SetupError,
        /// What to do on this machine.
        advice: Option<String>,
    },
    /// No storage node can be used.
    #[error("{}", lines(.0))]
    NoNode(Vec<Unusable>),
    /// The agent could not do it.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The agent of a node cannot go on.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// It is not known where the controller is.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The controller said no, or nothing.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The controller told an accounting that is none.
    #[error("the controller tells an accounting that this version does not understand: {0}")]
    Account(serde_json::Error),
    /// A file of a server or of a mount is refused, or what it describes cannot be served.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The file system said no.
    #[error("cannot {operation}: {}", explained(source))]
    FileSystem {
        /// What was tried.
        operation: String,
        /// Why not.
        source: FsError,
    },
    /// A file cannot be read or written.
    #[error("cannot {operation} {path:?}: {source}")]
    File {
        /// Verb.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The script's directives are refused; the text has every finding with its line.
    #[error("{0}")]
    Directives(String),
    /// Directives that one machine cannot carry out.
    #[error("{script:?} asks for what one machine cannot do:\n{}", lines(refused))]
    Refused {
        /// The script.
        script: PathBuf,
        /// All of them.
        refused: Vec<Refused>,
    },
    /// A word of the command line is wrong.
    #[error("{option}: {problem}")]
    Option {
        /// Which one.
        option: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A job that was named does not exist.
    #[error("there is no job {token}; {}", if known.is_empty() { "nothing is to be recovered".to_string() } else { format!("known are {}", known.join(", ")) })]
    UnknownJob {
        /// What was named.
        token: String,
        /// What there is.
        known: Vec<String>,
    },
    /// A job that was named is being run by a living process.
    #[error("job {token} is running: process {pid} carries it; end it with kill {pid} first")]
    JobRuns {
        /// The job.
        token: String,
        /// The process.
        pid: u32,
    },
    /// Standard output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(io::Error),
    /// The working directory was removed.
    #[error("the working directory is gone ({0}): change to one that exists")]
    WorkingDirectory(io::Error),
    /// The script cannot be read.
    #[error("cannot read the script {path:?}: {source}")]
    Script {
        /// As it was named.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What is to be run as a script is none.
    #[error(
        "{0:?} is a program and not a script: write a script that starts it, or give it to forebay shell --bb REQUEST -- {0:?}"
    )]
    Program(PathBuf),
    /// Signals cannot be taken over.
    #[error("cannot install the signal handlers: {0}")]
    Signals(io::Error),
}

impl CommandError {
    /// A failed file operation.
    pub fn file(operation: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> CommandError {
        let path = path.into();
        move |source| CommandError::File { operation, path, source }
    }

    /// A failed operation of the file system.
    pub fn file_system(operation: String) -> impl FnOnce(FsError) -> CommandError {
        move |source| CommandError::FileSystem { operation, source }
    }

    /// The status of the command.
    pub fn exit(&self) -> Exit {
        match self {
            CommandError::StateDir(_)
            | CommandError::Script { .. }
            | CommandError::Program(_)
            | CommandError::WorkingDirectory(_)
            | CommandError::Option { .. }
            | CommandError::UnknownJob { .. }
            | CommandError::JobRuns { .. } => Exit::Usage,
            CommandError::Node(NodeError::NotOurs { .. } | NodeError::InUse { .. }) => Exit::Unavailable,
            CommandError::Node(error) if error.is_about_input() => Exit::Configuration,
            CommandError::Node(
                NodeError::Serves { .. } | NodeError::Attach { .. } | NodeError::Status { .. },
            ) => Exit::Unavailable,
            CommandError::Node(
                NodeError::Fragment { .. } | NodeError::Start(_) | NodeError::Host(_) | NodeError::Mount(_),
            ) => Exit::SetUp,
            CommandError::Config(_)
            | CommandError::ControllerConfig(_)
            | CommandError::Custody(_)
            | CommandError::Service(ServiceError::Store(StoreError::Custody(_)))
            | CommandError::Agent(AgentError::Custody(_))
            | CommandError::Daemon(DaemonError::Agent(AgentError::Custody(_)))
            | CommandError::Address(_)
            | CommandError::Offer(OfferError::Invalid(_)) => Exit::Configuration,
            CommandError::Service(
                ServiceError::Listen { .. }
                | ServiceError::Munge(_)
                | ServiceError::Store(StoreError::InUse { .. }),
            ) => Exit::Unavailable,
            CommandError::Service(ServiceError::Restore(_)) => Exit::Configuration,
            CommandError::Directives(_) | CommandError::Refused { .. } => Exit::Directives,
            CommandError::Setup { source: SetupError::Registry(_), .. } => Exit::Software,
            CommandError::Setup { .. } | CommandError::NoNode(_) | CommandError::Offer(_) => {
                Exit::Unavailable
            }
            CommandError::Daemon(DaemonError::Runs { .. }) => Exit::Unavailable,
            CommandError::Agent(_) | CommandError::Daemon(_) => Exit::SetUp,
            CommandError::FileSystem { source: FsError::Busy, .. } | CommandError::Client(_) => {
                Exit::Unavailable
            }
            CommandError::Registry(_)
            | CommandError::Service(_)
            | CommandError::FileSystem { .. }
            | CommandError::File { .. }
            | CommandError::Output(_)
            | CommandError::Account(_)
            | CommandError::Node(_)
            | CommandError::Signals(_) => Exit::Software,
        }
    }
}

impl CommandError {
    /// An allocation that was refused, or that the pools as configured cannot take. `default_pool` is the one that requests
    /// without a pool go to.
    pub fn refused(error: OfferedError, default_pool: &str) -> CommandError {
        match error {
            OfferedError::Offer(error) => error.into(),
            OfferedError::Setup(source) => {
                let advice = advice(&source, default_pool);
                CommandError::Setup { source, advice }
            }
        }
    }
}

/// What to do about a request that cannot be satisfied on one machine.
fn advice(source: &SetupError, default_pool: &str) -> Option<String> {
    match source {
        SetupError::NoSpace { pool, free, granularity, .. } => {
            let free = free.0.saturating_mul(granularity.0);
            let lower = match free >> 20 {
                0 => String::new(),
                fitting => {
                    format!("Lower capacity= in the script, or override it: --capacity {fitting}MiB; ")
                }
            };
            let free = format_size(Bytes(free), SizeStyle::Binary);
            Some(format!(
                "free in {pool}: {free}. {lower}more disks: --pool-dir DIR; what holds space: dwstat most"
            ))
        }
        SetupError::UnknownPool { .. } => Some(format!(
            "remove pool= from the directive, use pool={default_pool}, or configure the pool (docs/running.md)"
        )),
        SetupError::UnknownPersistent { .. } => Some(
            "make it with `#BB create_persistent` in an earlier job or with forebay create-persistent".into(),
        ),
        _ => None,
    }
}

impl From<SetupError> for CommandError {
    fn from(source: SetupError) -> CommandError {
        CommandError::Setup { source, advice: None }
    }
}

/// What the file system calls busy is, for whom starts a command, a process that serves already.
fn explained(error: &FsError) -> String {
    match error {
        FsError::Busy => "a process serves it now; end that first".into(),
        other => other.to_string(),
    }
}

fn lines<T: std::fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join("\n")
}
