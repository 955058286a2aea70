//! The instance process: serves an instance that is not reached directly.
//!
//! ```text
//!  forebay run A --\                        /-- FUSE mount of configuration 1
//!                   Unix socket -- process -+-- FUSE mount of configuration 2
//!  forebay run B --/                        \-- stagings, through the volumes
//! ```
//!
//! The first attachment starts it (the same program with a hidden subcommand, in a session of its own), others join it.
//! It alone has the fragments open. One connection per attachment says that it is needed, one more for each running
//! staging; when the last one closes, because its owner ended or was killed, the process unmounts everything, closes
//! the fragments and ends.
//!
//! - `protocol`: what is said on the socket.
//! - `socket`: how the socket is found and guarded.
//! - `spawn`: starting.
//! - `connection`: the attachment's side.
//! - `server`, `service`: the process's side; [`main()`] is its entry.
//! - `leftover`: ending a process that nobody is attached to.
//! - `lifelock`: who the process is, and that it lives.
//! - `log_tail`: the end of its log, for errors.

pub(crate) mod connection;
pub(crate) mod leftover;
pub(crate) mod lifelock;
mod log_tail;
mod main;
mod protocol;
mod server;
mod service;
mod socket;
pub(crate) mod spawn;

pub use log_tail::LogTail;
pub use main::main;
pub(crate) use protocol::Figures;

use crate::error::AgentError;
use crate::state_directory::StateDirectory;

/// Whether no process lives, so that one has to be started. The caller holds the gate.
pub(crate) fn lifelock_is_free(state: &StateDirectory) -> Result<bool, AgentError> {
    Ok(lifelock::living(&lifelock::path(state))?.is_none())
}
