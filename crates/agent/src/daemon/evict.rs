//! Taking a mount of ours away although somebody uses it.
//!
//! Ended are processes that have something open in the mount, or work in it: first asked, then killed. Never this process or
//! the first one. What cannot be ended leaves with its mount: the path is free, and what is open fails when the process of the
//! mount ends.

use super::config::Holding;
use super::error::TaskError;
use crate::error::AgentError;
use crate::holders::Holders;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long processes may take to end after they were asked, and after they were killed.
const END_WAIT: Duration = Duration::from_secs(2);
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// Rounds of looking for processes: new ones may come while old ones end, and not all are seen at once.
const ROUNDS: usize = 8;
/// The first process, which nobody ends.
const INIT: u32 = 1;

/// Takes the mount away from its path; `true`: somebody still uses it.
pub(super) fn unmount(point: &Path, holders: Holding) -> Result<bool, TaskError> {
    if is_idle(point)? {
        return Ok(false);
    }
    if holders == Holding::Kill {
        for round in 0..ROUNDS {
            let signal = if round == 0 { Signal::TERM } else { Signal::KILL };
            end(&Holders::of_mount(point).processes, signal);
            if is_idle(point)? {
                return Ok(false);
            }
        }
    }
    detach(point)?;
    Ok(true)
}

/// Takes a mount from its path, whoever uses it.
pub(super) fn detach(point: &Path) -> Result<(), AgentError> {
    match rustix::mount::unmount(point, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH) {
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        Err(error) => Err(AgentError::system("detach the mount at", point, error)),
    }
}

/// Unmounts if nobody uses it.
fn is_idle(point: &Path) -> Result<bool, AgentError> {
    match rustix::mount::unmount(point, UnmountFlags::NOFOLLOW) {
        // Gone, by whomever.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(true),
        Err(Errno::BUSY) => Ok(false),
        Err(error) => Err(AgentError::system("unmount", point, error)),
    }
}

/// Sends a signal to processes and waits a while for their ends.
pub(super) fn end(holders: &[u32], signal: Signal) {
    let own = std::process::id();
    let others = holders.iter().filter(|pid| **pid != own && **pid != INIT);
    let processes: Vec<OwnedFd> = others.filter_map(|pid| send(*pid, signal)).collect();
    let begin = Instant::now();
    while begin.elapsed() < END_WAIT && !processes.iter().all(has_ended) {
        std::thread::sleep(PAUSE);
    }
}

/// The handle was taken after the look, so it could be another process's that was given the number since: within
/// milliseconds, which no system's numbers come round in.
fn send(pid: u32, signal: Signal) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
    rustix::process::pidfd_send_signal(&process, signal).ok()?;
    Some(process)
}

fn has_ended(process: &OwnedFd) -> bool {
    let mut waited = [rustix::event::PollFd::new(process, rustix::event::PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut waited, Some(&now)).is_ok_and(|ready| ready > 0)
}
