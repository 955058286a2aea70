//! Why a cluster could not be built or changed.

use super::HostId;
use crate::process::ProcessError;
use crate::wait::NeverHappened;
use std::io;
use std::path::PathBuf;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// More hosts than addresses.
    #[error("{wanted} hosts are wanted, at most {} are possible", super::HOSTS_MAX)]
    TooManyHosts {
        /// How many were asked for.
        wanted: usize,
    },
    /// The kernel refused namespaces.
    #[error("cannot {operation}: {source}; clusters need root and a kernel with namespaces")]
    Namespaces {
        /// What was tried.
        operation: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// A program that was to run in a host did not, or failed: `ip`, `bridge`, `mount`, `mkfs.xfs`.
    #[error(transparent)]
    Tool(#[from] ProcessError),
    /// A file or directory of the cluster.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The host has crashed and was not booted again.
    #[error("{0} is down")]
    Down(HostId),
    /// Something does not go.
    #[error(transparent)]
    Never(#[from] NeverHappened),
}

impl ClusterError {
    pub(super) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> ClusterError {
        let path = path.into();
        move |source| ClusterError::File { path, source }
    }

    pub(super) fn namespaces(operation: &'static str) -> impl FnOnce(io::Error) -> ClusterError {
        move |source| ClusterError::Namespaces { operation, source }
    }
}
