//! Ending an instance process that nobody is attached to.
//!
//! First by asking, so that it unmounts and closes its fragments; if it does not answer, by killing it, after which its
//! mounts are dead and are removed like those of any killed process. The caller holds the gate.

use super::connection::Connection;
use super::log_tail::LogTail;
use super::{lifelock, socket};
use crate::error::AgentError;
use crate::state_directory::{StateDirectory, remove_file};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Wait for the end of a process that said it would end, or was killed.
const END_WAIT: Duration = Duration::from_secs(30);
/// Pause between two looks at a process whose id is not known yet.
const PAUSE: Duration = Duration::from_millis(5);

/// Makes sure that no process of the instance lives, and removes its socket.
pub(crate) fn end(state: &StateDirectory) -> Result<(), AgentError> {
    if lifelock::living(state)?.is_some() {
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
    let begin = Instant::now();
    while begin.elapsed() < END_WAIT {
        let Some(living) = lifelock::living(state)? else { return Ok(true) };
        match living.pid.and_then(handle) {
            Some(process) => wait_for_exit(&process, END_WAIT.saturating_sub(begin.elapsed())),
            None => std::thread::sleep(PAUSE),
        }
    }
    Ok(lifelock::living(state)?.is_none())
}

fn kill(state: &StateDirectory) -> Result<(), AgentError> {
    let Some(living) = lifelock::living(state)? else { return Ok(()) };
    let process = living.pid.and_then(handle);
    // The handle was taken before this look: if the process still lives, the handle is its own.
    if let (Some(process), true) = (&process, living.still(state)?) {
        let _ = rustix::process::pidfd_send_signal(process, Signal::KILL);
    }
    if wait_for_end(state)? {
        return Ok(());
    }
    Err(AgentError::ProcessSilent { instance: state.instance(), said: LogTail::of(state), waited: END_WAIT })
}

fn handle(pid: i32) -> Option<OwnedFd> {
    rustix::process::pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// A process handle becomes readable when the process has ended.
fn wait_for_exit(process: &OwnedFd, limit: Duration) {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    let _ = rustix::event::poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit));
}
