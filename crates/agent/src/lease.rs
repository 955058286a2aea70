//! Who uses an instance: file locks that a killed process loses by itself.
//!
//! Three kinds of files in the instance's state directory, all locked with flock(2):
//!
//! - `gate`, exclusive: held while the instance is made, attached, mounted, unmounted, detached, cleaned or removed, so
//!   that only one process changes it at a time. Never held while a script runs or data is staged.
//! - `lease`, shared: held by every attachment for all its life. Who gets it exclusively knows that nobody is attached.
//! - `mounted-c<id>`, shared: held by every attachment that has mounted that configuration.
//!
//! Order: the gate is always taken first. A lock is never handed to a child: all descriptors are close-on-exec.

use crate::error::AgentError;
use forebay_model::ids::{ConfigurationId, InstanceId};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long to wait for another process that works on the same instance. Unmounting may have to write back gigabytes.
const GATE_WAIT: Duration = Duration::from_secs(300);
/// First and longest pause between two looks at the gate.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// The right to change an instance. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Gate {
    _file: File,
}

/// A shared lock that says "in use".
#[derive(Debug)]
pub(crate) struct Lease {
    file: File,
    path: PathBuf,
}

impl Gate {
    /// Waits for the gate of an existing state directory; `None` if there is no such directory (any more).
    pub fn enter(directory: &Path, instance: InstanceId) -> Result<Option<Gate>, AgentError> {
        let begin = Instant::now();
        let mut pause = PAUSE.0;
        loop {
            let Some(file) = open(&directory.join("gate"))? else { return Ok(None) };
            if try_lock(&file, FlockOperation::NonBlockingLockExclusive, directory)? {
                // The directory may have been removed while we waited: then the file we hold has no name any more.
                if file.metadata().map_err(|e| AgentError::system("look at", directory, e))?.nlink() > 0 {
                    return Ok(Some(Gate { _file: file }));
                }
                continue;
            }
            if begin.elapsed() > GATE_WAIT {
                return Err(AgentError::Locked {
                    instance,
                    holders: holders(&file),
                    waited: begin.elapsed(),
                });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// As [`Gate::enter`], without waiting: `Some(None)` is "there, but held by another process".
    pub fn try_enter(directory: &Path) -> Result<Option<Option<Gate>>, AgentError> {
        let Some(file) = open(&directory.join("gate"))? else { return Ok(None) };
        let taken = try_lock(&file, FlockOperation::NonBlockingLockExclusive, directory)?;
        Ok(Some(taken.then_some(Gate { _file: file })))
    }
}

impl Lease {
    /// A share in the use of the instance. The caller holds the gate.
    pub fn share(directory: &Path) -> Result<Lease, AgentError> {
        Lease::lock_shared(directory.join("lease"))
    }

    /// A share in the mount of a configuration. The caller holds the gate.
    pub fn share_mount(directory: &Path, configuration: ConfigurationId) -> Result<Lease, AgentError> {
        Lease::lock_shared(directory.join(format!("mounted-c{configuration}")))
    }

    fn lock_shared(path: PathBuf) -> Result<Lease, AgentError> {
        let gone = || AgentError::system("lock", &path, std::io::Error::from(std::io::ErrorKind::NotFound));
        let file = open(&path)?.ok_or_else(gone)?;
        rustix::fs::flock(&file, FlockOperation::LockShared)
            .map_err(|e| AgentError::system("lock", &path, e))?;
        Ok(Lease { file, path })
    }

    /// Gives the share back and tells whether it was the last one. The caller holds the gate, so that the answer stays
    /// true until it acts on it.
    pub fn give_back(self) -> Result<bool, AgentError> {
        // flock cannot upgrade without letting go for a moment; under the gate nobody can come in between.
        try_lock(&self.file, FlockOperation::NonBlockingLockExclusive, &self.path)
    }
}

/// Nobody is attached: the lock is held until this is dropped.
#[derive(Debug)]
pub(crate) struct Unused {
    _file: File,
}

impl Unused {
    /// Makes sure that nobody is attached. The caller holds the gate.
    pub fn prove(directory: &Path, instance: InstanceId) -> Result<Unused, AgentError> {
        let path = directory.join("lease");
        let Some(file) = open(&path)? else {
            return Err(AgentError::UnknownInstance { instance, directory: directory.to_owned() });
        };
        if try_lock(&file, FlockOperation::NonBlockingLockExclusive, &path)? {
            return Ok(Unused { _file: file });
        }
        Err(AgentError::InUse { instance, holders: holders(&file) })
    }
}

/// Opens a lock file, making it if need be; `None` if its directory does not exist.
fn open(path: &Path) -> Result<Option<File>, AgentError> {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(path);
    match opened {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(AgentError::system("open lock file", path, error)),
    }
}

fn try_lock(file: &File, operation: FlockOperation, path: &Path) -> Result<bool, AgentError> {
    loop {
        match rustix::fs::flock(file, operation) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(error) => return Err(AgentError::system("lock", path, error)),
        }
    }
}

/// Processes that hold locks on a file, as far as `/proc/locks` shows them.
fn holders(file: &File) -> Vec<u32> {
    let (Ok(meta), Ok(table)) = (file.metadata(), std::fs::read_to_string("/proc/locks")) else {
        return Vec::new();
    };
    let device = meta.dev();
    let id = format!("{:02x}:{:02x}:{}", rustix::fs::major(device), rustix::fs::minor(device), meta.ino());
    holders_in(&table, &id)
}

/// A line is `1: FLOCK  ADVISORY  READ 1234 fe:00:5678 0 EOF`; waiting ones have `->` after the number.
fn holders_in(table: &str, id: &str) -> Vec<u32> {
    let mut pids: Vec<u32> = table
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let holds = words.len() >= 6 && words[1] == "FLOCK" && words[5] == id;
            if holds { words[4].parse().ok() } else { None }
        })
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_share_is_told_so() {
        let dir = tempfile::tempdir().unwrap();
        let first = Lease::share(dir.path()).unwrap();
        let second = Lease::share(dir.path()).unwrap();
        let refused = Unused::prove(dir.path(), InstanceId(1)).unwrap_err();
        assert!(
            matches!(refused, AgentError::InUse { ref holders, .. } if holders == &[std::process::id()]),
            "{refused}"
        );
        assert!(!first.give_back().unwrap());
        assert!(second.give_back().unwrap());
        Unused::prove(dir.path(), InstanceId(1)).unwrap();
    }

    #[test]
    fn a_gate_without_its_directory_is_no_gate() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Gate::enter(&dir.path().join("gone"), InstanceId(1)).unwrap().is_none());
        let gate = Gate::enter(dir.path(), InstanceId(1)).unwrap();
        assert!(matches!(Gate::try_enter(dir.path()).unwrap(), Some(None)));
        drop(gate);
        assert!(matches!(Gate::try_enter(dir.path()).unwrap(), Some(Some(_))));
    }

    #[test]
    fn waiting_processes_are_not_holders() {
        let table = "1: FLOCK  ADVISORY  READ 11 fe:00:77 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 12 fe:00:77 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 13 fe:00:77 0 EOF\n3: FLOCK  ADVISORY  WRITE 14 fe:00:78 0 EOF\n";
        assert_eq!(holders_in(table, "fe:00:77"), [11]);
    }
}
