//! Ending an instance process that nobody is attached to.
//!
//! First by asking, so that it unmounts and closes its fragments; if it does not answer, by killing it, after which its
//! mounts are dead and are removed like those of any killed process. The caller holds the gate.

use super::connection::Connection;
use super::log_tail::LogTail;
use super::{lifelock, socket};
use crate::error::AgentError;
use crate::state_directory::{StateDirectory, remove_file};
use rustix::process::Signal;
use std::time::Duration;

/// Wait for the end of a process that said it would end, or was killed.
const END_WAIT: Duration = Duration::from_secs(30);

/// Makes sure that no process of the instance lives, and removes its socket.
pub(crate) fn end(state: &StateDirectory) -> Result<(), AgentError> {
    if lifelock::living(&lifelock::path(state))?.is_some() {
        let asked = Connection::open(state).and_then(|mut connection| connection.end(false));
        let gone = asked.is_ok() && wait_for_end(state)?;
        if !gone {
            kill(state)?;
        }
    }
    remove_file(&socket::path(state))
}

/// Waits until the process is gone; false if it takes too long.
pub(crate) fn wait_for_end(state: &StateDirectory) -> Result<bool, AgentError> {
    lifelock::wait_for_end(&lifelock::path(state), END_WAIT)
}

fn kill(state: &StateDirectory) -> Result<(), AgentError> {
    lifelock::signal(&lifelock::path(state), Signal::KILL)?;
    if wait_for_end(state)? {
        return Ok(());
    }
    Err(AgentError::ProcessSilent { instance: state.instance(), said: LogTail::of(state), waited: END_WAIT })
}
