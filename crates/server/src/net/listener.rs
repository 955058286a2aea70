//! The sockets that clients come to.
//!
//! One thread waits on all of them and on a word to stop; each connection gets a thread of its own. A socket of the file
//! system that a killed server left behind is replaced; one that somebody answers on is not.

use super::stream::Stream;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// After a failed accept (no descriptors are left, usually) the next is tried so much later.
const RETRY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Anybody on the machine may knock; the handshake decides.
const SOCKET_MODE: u32 = 0o666;

/// Why a server could not listen.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {at}: {cause}")]
pub struct ListenError {
    /// Where.
    pub at: String,
    /// Why.
    pub cause: io::Error,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Listener {
    tcp: Vec<TcpListener>,
    unix: Option<(UnixListener, PathBuf)>,
    stop: OwnedFd,
}

impl Listener {
    pub(crate) fn bind(tcp: &[SocketAddr], unix: Option<&Path>) -> Result<Listener, ListenError> {
        let stop = eventfd(0, EventfdFlags::CLOEXEC);
        let stop = stop.map_err(|errno| ListenError { at: "an eventfd".to_owned(), cause: errno.into() })?;
        let mut listener = Listener { tcp: Vec::new(), unix: None, stop };
        for address in tcp {
            let failed = |cause| ListenError { at: address.to_string(), cause };
            let socket = TcpListener::bind(address).map_err(failed)?;
            socket.set_nonblocking(true).map_err(failed)?;
            listener.tcp.push(socket);
        }
        if let Some(path) = unix {
            let failed = |cause| ListenError { at: path.display().to_string(), cause };
            let socket = bind_unix(path).map_err(failed)?;
            socket.set_nonblocking(true).map_err(failed)?;
            listener.unix = Some((socket, path.to_owned()));
        }
        Ok(listener)
    }

    /// The addresses of the TCP sockets, with the ports that they really have.
    pub(crate) fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.tcp.iter().map(TcpListener::local_addr).collect()
    }

    /// Hands every new connection on, until [`Listener::stop`].
    pub(crate) fn run(&self, mut take: impl FnMut(Stream)) {
        loop {
            match self.accept(&mut take) {
                Ok(true) => {}
                Ok(false) => return,
                // Connections that ended before they began are no reason to wait; want of descriptors or memory is.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    if self.is_stopped(Some(&RETRY)) {
                        return;
                    }
                }
            }
        }
    }

    /// Ends [`Listener::run`].
    pub(crate) fn stop(&self) {
        // An eventfd takes this write unless its count is full, and then it is readable anyway.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
    }

    /// Waits for connections and takes one from each socket that has any; `false` when it is time to stop.
    fn accept(&self, take: &mut impl FnMut(Stream)) -> io::Result<bool> {
        let mut waited = vec![PollFd::new(&self.stop, PollFlags::IN)];
        waited.extend(self.tcp.iter().map(|socket| PollFd::new(socket, PollFlags::IN)));
        waited.extend(self.unix.iter().map(|(socket, _)| PollFd::new(socket, PollFlags::IN)));
        match poll(&mut waited, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if !waited[0].revents().is_empty() {
            return Ok(false);
        }
        for socket in &self.tcp {
            if let Some((stream, _)) = if_any(socket.accept())? {
                stream.set_nonblocking(false)?;
                take(Stream::Tcp(stream));
            }
        }
        if let Some((socket, _)) = &self.unix
            && let Some((stream, _)) = if_any(socket.accept())?
        {
            stream.set_nonblocking(false)?;
            take(Stream::Unix(stream));
        }
        Ok(true)
    }

    fn is_stopped(&self, within: Option<&Timespec>) -> bool {
        let mut waited = [PollFd::new(&self.stop, PollFlags::IN)];
        poll(&mut waited, within).is_ok_and(|ready| ready > 0)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some((_, path)) = &self.unix {
            // It is ours: whoever binds the path finds us listening before this.
            let _ = std::fs::remove_file(path);
        }
    }
}

fn if_any<T>(accepted: io::Result<T>) -> io::Result<Option<T>> {
    match accepted {
        Ok(accepted) => Ok(Some(accepted)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let socket = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && nobody_answers(path) => {
            std::fs::remove_file(path)?;
            UnixListener::bind(path)?
        }
        bound => bound?,
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(SOCKET_MODE))?;
    Ok(socket)
}

/// It is a socket, and the process that made it is gone. (Connecting to anything else is refused in the same way.)
fn nobody_answers(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket());
    is_socket
        && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn loopback() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    #[test]
    fn both_kinds_of_connections_are_taken_until_it_is_stopped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let listener = Listener::bind(&[loopback()], Some(&path)).unwrap();
        let address = listener.addresses().unwrap()[0];
        let (taken, takes) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| listener.run(|stream| taken.send(stream).unwrap()));
            let _one = std::net::TcpStream::connect(address).unwrap();
            assert!(!takes.recv().unwrap().carries_descriptors());
            let _other = UnixStream::connect(&path).unwrap();
            let stream = takes.recv().unwrap();
            assert!(stream.carries_descriptors());
            stream.prepare().unwrap();
            assert!(!rustix::fs::fcntl_getfl(stream.as_fd()).unwrap().contains(rustix::fs::OFlags::NONBLOCK));
            listener.stop();
        });
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_that_was_left_behind_is_replaced_and_a_living_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        // As a killed process leaves it: a closed socket whose name is still there.
        drop(UnixListener::bind(&path).unwrap());
        let living = Listener::bind(&[], Some(&path)).unwrap();
        assert!(Listener::bind(&[], Some(&path)).is_err());
        assert!(path.exists());
        drop(living);
        std::fs::write(&path, "not a socket").unwrap();
        assert!(Listener::bind(&[], Some(&path)).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"not a socket");
    }
}
