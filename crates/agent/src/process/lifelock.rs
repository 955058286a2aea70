//! Which process does a piece of work, and whether it lives: a file, for instance `<state directory>/process`.
//!
//! The process holds an exclusive flock(2) on the file from its start to its end, however it ends, and its id is the
//! file's content. Whoever gets the lock knows that no process lives. Who does not get it does not know yet that one lives:
//! whoever looks holds the lock for a moment, and when his process starts another one at that moment, that has a copy of
//! it until it runs its program. So a lock counts for a life when the process in the file lives, or if it stays.

use crate::error::AgentError;
use crate::state_directory::StateDirectory;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Pause between two looks at a process whose id is not known yet, and between two tries to get the lock.
const PAUSE: Duration = Duration::from_millis(5);
/// Tries to get the lock: whoever looks whether a process lives holds it for a moment.
const TRIES: u32 = 40;

/// The lock of the living process. Held until dropped.
#[derive(Debug)]
pub(crate) struct LifeLock {
    _file: File,
}

/// The file of an instance's process.
pub(crate) fn path(state: &StateDirectory) -> PathBuf {
    state.path().join("process")
}

fn open(path: &Path) -> Result<File, AgentError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options.open(path).map_err(|error| AgentError::system("open", path, error))
}

fn lock(path: &Path, file: &File) -> Result<bool, AgentError> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(AgentError::system("lock", path, error)),
    }
}

/// Gets the lock unless a process holds it for good.
pub(crate) fn lock_patiently(path: &Path, file: &File) -> Result<bool, AgentError> {
    for _ in 1..TRIES {
        if lock(path, file)? {
            return Ok(true);
        }
        std::thread::sleep(PAUSE);
    }
    lock(path, file)
}

impl LifeLock {
    /// Makes this process the one that does it; `None` if another one lives.
    pub fn take(path: &Path) -> Result<Option<LifeLock>, AgentError> {
        let mut file = open(path)?;
        if !lock_patiently(path, &file)? {
            return Ok(None);
        }
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(|error| AgentError::system("write", path, error))?;
        Ok(Some(LifeLock { _file: file }))
    }
}

/// The process that lives; `None` if none does.
pub(crate) fn living(path: &Path) -> Result<Option<Living>, AgentError> {
    let mut file = open(path)?;
    let mut pid = None;
    for _ in 0..TRIES {
        if lock(path, &file)? {
            return Ok(None);
        }
        pid = written_id(path, &mut file)?;
        if pid.and_then(handle).is_some_and(|process| !has_ended(&process)) {
            break;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(Some(Living { pid, file, path: path.to_owned() }))
}

fn written_id(path: &Path, file: &mut File) -> Result<Option<i32>, AgentError> {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| Read::by_ref(file).take(32).read_to_string(&mut text));
    read.map_err(|error| AgentError::system("read", path, error))?;
    Ok(text.trim().parse().ok())
}

/// A process that lived a moment ago.
#[derive(Debug)]
pub(crate) struct Living {
    /// Its id; `None` if it has not written it yet.
    pub pid: Option<i32>,
    file: File,
    path: PathBuf,
}

impl Living {
    /// Whether it still lives, so that its id is not another process's by now.
    pub fn still(&self) -> Result<bool, AgentError> {
        let gone = lock(&self.path, &self.file)?;
        if gone {
            let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        }
        Ok(!gone)
    }
}

/// Whether a process lives that does anything. One that was killed lives on as long as a thread of it is in a call that the kernel does
/// not end, and its first thread, which began it, has ended by then.
pub(crate) fn is_at_work(path: &Path) -> Result<bool, AgentError> {
    let Some(living) = living(path)? else { return Ok(false) };
    // It has just begun.
    let Some(pid) = living.pid else { return Ok(true) };
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    Ok(stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X'])))
}

/// Sends the process a signal, if one lives.
pub(crate) fn signal(path: &Path, signal: Signal) -> Result<(), AgentError> {
    let Some(living) = living(path)? else { return Ok(()) };
    let process = living.pid.and_then(handle);
    // The handle was taken before this look: if the process still lives, the handle is its own.
    if let (Some(process), true) = (&process, living.still()?) {
        let _ = rustix::process::pidfd_send_signal(process, signal);
    }
    Ok(())
}

/// Waits until no process lives; false if it takes too long.
pub(crate) fn wait_for_end(path: &Path, limit: Duration) -> Result<bool, AgentError> {
    let begin = Instant::now();
    while begin.elapsed() < limit {
        let Some(living) = living(path)? else { return Ok(true) };
        match living.pid.and_then(handle) {
            Some(process) => wait_for_exit(&process, limit.saturating_sub(begin.elapsed())),
            None => std::thread::sleep(PAUSE),
        }
    }
    Ok(living(path)?.is_none())
}

fn handle(pid: i32) -> Option<OwnedFd> {
    rustix::process::pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// A process handle becomes readable when the process has ended.
fn wait_for_exit(process: &OwnedFd, limit: Duration) {
    let limit = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: i64::from(limit.subsec_nanos()) };
    let _ = rustix::event::poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit));
}

fn has_ended(process: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_a_dead_process_left_to_a_copy_is_no_life() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("process");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        std::fs::write(&path, format!("{}\n", child.id())).unwrap();
        let held = open(&path).unwrap();
        assert!(lock(&path, &held).unwrap());
        let letting_go = std::thread::spawn(move || {
            std::thread::sleep(PAUSE * 4);
            drop(held);
        });
        assert!(living(&path).unwrap().is_none());
        letting_go.join().unwrap();
        let own = LifeLock::take(&path).unwrap().unwrap();
        assert_eq!(living(&path).unwrap().unwrap().pid, Some(std::process::id() as i32));
        drop(own);
        assert!(living(&path).unwrap().is_none());
    }

    /// As one that a thread of it keeps is: its lock is held, and its first thread has ended.
    #[test]
    fn who_was_killed_and_has_not_ended_is_not_at_work() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("process");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        wait_for_exit(&handle(child.id() as i32).unwrap(), Duration::from_secs(60));
        std::fs::write(&path, format!("{}\n", child.id())).unwrap();
        let held = open(&path).unwrap();
        assert!(lock(&path, &held).unwrap());
        assert!(!is_at_work(&path).unwrap());
        child.wait().unwrap();
        assert!(!is_at_work(&path).unwrap(), "nobody has the number");
        drop(held);
        let own = LifeLock::take(&path).unwrap().unwrap();
        assert!(is_at_work(&path).unwrap());
        drop(own);
        assert!(!is_at_work(&path).unwrap());
    }
}
