//! Taking a mount of ours away although somebody uses it.
//!
//! Ended are processes that have something open in the mount, or work in it: first asked, then killed. Never this process or
//! the first one. What cannot be ended leaves with its mount ([`super::mounts`] takes it from its path): the path is free, and
//! what is open fails when the process of the mount ends.

use super::config::Holding;
use super::error::TaskError;
use super::worker::note;
use crate::error::AgentError;
use crate::holders::{self, Search};
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
/// So long is looked for processes before those that were found are ended.
const A_WHILE: Duration = Duration::from_millis(500);
/// So long they are looked for and ended at one mount. On a node with ten thousand processes a round takes seconds.
const LIMIT: Duration = Duration::from_secs(60);
/// The first process, which nobody ends.
const INIT: u32 = 1;

/// Ends whoever is seen in the mount until it can be taken away from its path; `true`: it is still there, because somebody uses
/// it who is left, or is not seen.
pub(super) fn unmount(point: &Path, holders: Holding) -> Result<bool, TaskError> {
    if is_idle(point)? {
        return Ok(false);
    }
    if holders == Holding::Leave {
        return Ok(true);
    }
    let mut is_used = true;
    end_all(
        |process| holders::is_in(process, point),
        || {
            is_used = !is_idle(point)?;
            Ok(is_used)
        },
    )?;
    Ok(is_used)
}

/// Ends those of whom `holds` is true: in the first round of looking at all processes they are asked, in later ones killed, as new
/// ones may come while old ones end. It is over when nobody was found in a round of those, when `goes_on` says so, which is asked
/// after each while, or after a limit.
pub(super) fn end_all(
    holds: impl Fn(&Path) -> bool,
    mut goes_on: impl FnMut() -> Result<bool, AgentError>,
) -> Result<(), AgentError> {
    let begin = Instant::now();
    let mut search = Search::new(holds);
    let (mut signal, mut is_anybody) = (Signal::TERM, false);
    while begin.elapsed() < LIMIT {
        let found = search.go_on(A_WHILE);
        is_anybody |= end(&found.processes, signal);
        if !goes_on()? {
            return Ok(());
        }
        if found.is_round {
            if !is_anybody {
                return Ok(());
            }
            (signal, is_anybody) = (Signal::KILL, false);
        }
    }
    note(format_args!(
        "who uses a mount was looked for and ended for {} s, and there are still some",
        LIMIT.as_secs()
    ));
    Ok(())
}

/// Cuts the connection of a mount whose process answers no more. As a rule the kernel has done so when it ended; not if a thread of it waits
/// for those who wait for its answer. Their calls fail now, and they can be ended; before they could not.
pub(super) fn cut(point: &Path) -> Result<(), AgentError> {
    // One that is in use stays, and is cut all the same.
    is_gone_with(UnmountFlags::FORCE, point).map(drop)
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
    is_gone_with(UnmountFlags::empty(), point)
}

fn is_gone_with(flags: UnmountFlags, point: &Path) -> Result<bool, AgentError> {
    match rustix::mount::unmount(point, UnmountFlags::NOFOLLOW | flags) {
        // Gone, by whomever.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(true),
        Err(Errno::BUSY) => Ok(false),
        Err(error) => Err(AgentError::system("unmount", point, error)),
    }
}

/// Sends a signal to processes and waits a while for their ends; `true`: there was somebody to send it to.
fn end(found: &[u32], signal: Signal) -> bool {
    let own = std::process::id();
    let others = found.iter().filter(|pid| **pid != own && **pid != INIT);
    let processes: Vec<OwnedFd> = others.filter_map(|pid| send(*pid, signal)).collect();
    let begin = Instant::now();
    while begin.elapsed() < END_WAIT && !processes.iter().all(has_ended) {
        std::thread::sleep(PAUSE);
    }
    !processes.is_empty()
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
