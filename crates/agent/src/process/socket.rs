//! The socket of an instance process: `<state directory>/socket`.
//!
//! Only the owner of the state directory can reach it (directory mode 0700), and the process looks at the user of
//! every peer. The address of a Unix socket has room for 107 bytes only, so it is named through a descriptor of its
//! directory.

use crate::error::AgentError;
use crate::state_directory::{StateDirectory, remove_file};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

const FILE: &str = "socket";

/// The file.
pub(crate) fn path(state: &StateDirectory) -> PathBuf {
    state.path().join(FILE)
}

/// A new listening socket in place of one that a dead process left. The caller holds the gate and knows that no
/// process is alive.
pub(crate) fn listen(state: &StateDirectory) -> Result<UnixListener, AgentError> {
    let path = path(state);
    remove_file(&path)?;
    through_directory(state, |short| UnixListener::bind(short))
        .map_err(|error| AgentError::system("make socket", path, error))
}

/// A connection to a living process.
pub(crate) fn connect(state: &StateDirectory) -> io::Result<UnixStream> {
    through_directory(state, |short| UnixStream::connect(short))
}

fn through_directory<T>(state: &StateDirectory, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let directory = File::open(state.path())?;
    act(&Path::new("/proc/self/fd").join(directory.as_raw_fd().to_string()).join(FILE))
}

/// True if the peer is root or the user this process runs as.
pub(crate) fn peer_is_owner(stream: &UnixStream) -> bool {
    let owner = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid == owner || peer.uid.is_root())
}
