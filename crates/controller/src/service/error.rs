//! Why the controller does not run.

use super::store::StoreError;
use crate::cluster::RestoreError;
use crate::munge::MungeError;
use std::io;

/// The controller cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The registry or the state directory.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What is in the registry does not fit together, or not to the configuration.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// It is to listen on the network, and cannot find out who asks.
    #[error(transparent)]
    Munge(#[from] MungeError),
    /// It cannot listen there.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// Threads cannot be made.
    #[error("cannot start: {0}")]
    Runtime(io::Error),
    /// A defect.
    #[error("the driver of the controller died of a defect: its text is above; start it again")]
    Panicked,
}
