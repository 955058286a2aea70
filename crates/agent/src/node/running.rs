//! Which process serves with a state directory, and where it is reached.
//!
//! `<state>/lock` is held by flock(2) as long as the process lives, however it ends, and contains its id; whoever gets the
//! lock knows that no process lives. `<state>/server.json` has the addresses, with the ports that they really have; it is
//! written when the server is ready and removed when it ends. One that was left behind by a killed process is removed by the next.

use super::NodeError;
use crate::atomic_file;
use crate::process::lifelock;
use serde::{Deserialize, Serialize};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const LOCK: &str = "lock";
const RECORD: &str = "server.json";

/// What `server.json` says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Whereabouts {
    /// The process.
    pub pid: u32,
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
    /// Unix socket that it listens at.
    pub socket: Option<PathBuf>,
}

/// This process serves; see the module.
#[derive(Debug)]
pub(super) struct Running {
    state: PathBuf,
    _lock: File,
}

impl Running {
    /// Claims a state directory, which is made when it is not there.
    pub(super) fn claim(state: &Path) -> Result<Running, NodeError> {
        let failed = |path: &Path, source| NodeError::State { path: path.to_owned(), source };
        match DirBuilder::new().mode(0o700).create(state) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(state, error)),
            _ => {}
        }
        let path = state.join(LOCK);
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW);
        let mut lock = options.open(&path).map_err(|error| failed(&path, error))?;
        if !lifelock::lock_patiently(&path, &lock)? {
            let mut pid = String::new();
            let _ = Read::by_ref(&mut lock).take(32).read_to_string(&mut pid);
            return Err(NodeError::Serves { state: state.to_owned(), pid: pid.trim().to_owned() });
        }
        let written = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        written.map_err(|error| failed(&path, error))?;
        let running = Running { state: state.to_owned(), _lock: lock };
        running.withdraw();
        Ok(running)
    }

    /// Says where the server is reached.
    pub(super) fn publish(&self, whereabouts: &Whereabouts) -> Result<(), NodeError> {
        let text = serde_json::to_vec(whereabouts).map_err(|error| NodeError::State {
            path: self.state.join(RECORD),
            source: io::Error::other(error),
        })?;
        Ok(atomic_file::write(&self.state.join(RECORD), &text)?)
    }

    fn withdraw(&self) {
        // It says nothing that anybody relies on: whoever reads it has to connect, and sees then.
        let _ = std::fs::remove_file(self.state.join(RECORD));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.withdraw();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_serves_and_says_where() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        let running = Running::claim(&state).unwrap();
        let whereabouts =
            Whereabouts { pid: 7, addresses: vec!["10.0.0.1:7070".parse().unwrap()], socket: None };
        running.publish(&whereabouts).unwrap();
        let text = std::fs::read(state.join(RECORD)).unwrap();
        assert_eq!(serde_json::from_slice::<Whereabouts>(&text).unwrap(), whereabouts);
        let error = Running::claim(&state).unwrap_err();
        let own = std::process::id().to_string();
        assert!(matches!(&error, NodeError::Serves { pid, .. } if *pid == own), "{error}");
        drop(running);
        assert!(!state.join(RECORD).exists());
        Running::claim(&state).unwrap();
    }

    #[test]
    fn what_a_killed_process_left_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join(RECORD), "old").unwrap();
        let _running = Running::claim(directory.path()).unwrap();
        assert!(!directory.path().join(RECORD).exists());
    }
}
