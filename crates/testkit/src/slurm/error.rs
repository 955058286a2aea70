//! Why a site could not be built or asked.

use super::{JobId, Service};
use crate::cluster::{ClusterError, HostId};
use crate::process::ProcessError;
use crate::wait::NeverHappened;
use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// The hosts, or a program in one of them.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A program on the machine.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A file of the site.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A package that makes this account is not installed.
    #[error(
        "the machine has no user '{name}': install the packages munge and slurm-wlm (scripts/setup.sh test)"
    )]
    NoAccount {
        /// Whose.
        name: &'static str,
    },
    /// A daemon ended, or did not get ready.
    #[error("{service:?} on {host} is not ready: {ended:?}; it said:\n{said}")]
    NotReady {
        /// Where.
        host: HostId,
        /// What.
        service: Service,
        /// How it ended, if it did.
        ended: Option<ExitStatus>,
        /// Its log.
        said: String,
    },
    /// A daemon does not react to a signal.
    #[error("{service:?} on {host} does not end")]
    Immortal {
        /// Where.
        host: HostId,
        /// What.
        service: Service,
    },
    /// A daemon that is to be ended does not run.
    #[error("{service:?} does not run on {host}")]
    NotRunning {
        /// Where.
        host: HostId,
        /// What.
        service: Service,
    },
    /// A job did not get where it was awaited.
    #[error("job {job}: {awaited} did not happen; it is:\n{text}")]
    Job {
        /// Which.
        job: JobId,
        /// What was awaited.
        awaited: String,
        /// `scontrol show job`.
        text: String,
    },
    /// A process that is to be killed is not there.
    #[error("no process on {host} has {words:?} in its command line")]
    NoProcess {
        /// Where.
        host: HostId,
        /// What was looked for.
        words: String,
    },
    /// Something of the burst buffer did not go.
    #[error("still there:\n{left}")]
    Left {
        /// One line for each thing.
        left: String,
    },
    /// A command of Slurm answered in an unknown form.
    #[error("{command} answered {answer:?}")]
    Answer {
        /// Which.
        command: &'static str,
        /// What it said.
        answer: String,
    },
    /// Something did not happen.
    #[error(transparent)]
    Never(#[from] NeverHappened),
}

impl SiteError {
    pub(super) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> SiteError {
        let path = path.into();
        move |source| SiteError::File { path, source }
    }
}
