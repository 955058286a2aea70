//! `<state directory>/process`: which process serves the instance, and whether it lives.
//!
//! The process holds an exclusive flock(2) on the file from its start to its end, however it ends, and its id is the
//! file's content. Whoever gets the lock knows that no process lives.

use crate::error::AgentError;
use crate::state_directory::StateDirectory;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// The lock of the living process. Held until dropped.
#[derive(Debug)]
pub(crate) struct LifeLock {
    _file: File,
}

fn path(state: &StateDirectory) -> PathBuf {
    state.path().join("process")
}

fn open(state: &StateDirectory) -> Result<File, AgentError> {
    let path = path(state);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options.open(&path).map_err(|error| AgentError::system("open", path, error))
}

fn lock(state: &StateDirectory, file: &File) -> Result<bool, AgentError> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(AgentError::system("lock", path(state), error)),
    }
}

impl LifeLock {
    /// Makes this process the instance's process; `None` if another one lives.
    pub fn take(state: &StateDirectory) -> Result<Option<LifeLock>, AgentError> {
        let mut file = open(state)?;
        if !lock(state, &file)? {
            return Ok(None);
        }
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        written.map_err(|error| AgentError::system("write", path(state), error))?;
        Ok(Some(LifeLock { _file: file }))
    }
}

/// The process that lives; `None` if none does.
pub(crate) fn living(state: &StateDirectory) -> Result<Option<Living>, AgentError> {
    let mut file = open(state)?;
    if lock(state, &file)? {
        return Ok(None);
    }
    let mut text = String::new();
    let read = Read::by_ref(&mut file).take(32).read_to_string(&mut text);
    read.map_err(|error| AgentError::system("read", path(state), error))?;
    Ok(Some(Living { pid: text.trim().parse().ok(), file }))
}

/// A process that lived a moment ago.
#[derive(Debug)]
pub(crate) struct Living {
    /// Its id; `None` if it has not written it yet.
    pub pid: Option<i32>,
    file: File,
}

impl Living {
    /// Whether it still lives, so that its id is not another process's by now.
    pub fn still(&self, state: &StateDirectory) -> Result<bool, AgentError> {
        let gone = lock(state, &self.file)?;
        if gone {
            let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        }
        Ok(!gone)
    }
}
