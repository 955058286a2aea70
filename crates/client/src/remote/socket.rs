//! A stream to a server: TCP, or a Unix socket on the same machine.

use super::description::Address;
use super::error::ConnectError;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recv, recvmsg, sockopt};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// A silent connection is asked after this time whether its other end is there.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(5);
/// How often it is asked.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(2);
/// How often it may stay silent.
const KEEPALIVE_TIMES: u32 = 3;
/// What was sent and not acknowledged for so long ends the connection, in milliseconds.
const ACKNOWLEDGED_WITHIN_MS: u32 = 11_000;
/// Most descriptors of a message that the system passes on.
const DESCRIPTORS_MAX: usize = 253;

/// See the module.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Connects: to the Unix socket if there is one here, over TCP otherwise.
    pub(crate) fn connect(to: &Address, within: Duration) -> Result<Socket, ConnectError> {
        if let Some(path) = &to.unix
            && let Ok(stream) = UnixStream::connect(path)
        {
            return Ok(Socket::Unix(stream));
        }
        let address = || to.tcp.clone();
        let addresses = to.tcp.to_socket_addrs().map_err(|source| match source.kind() {
            io::ErrorKind::InvalidInput => ConnectError::BadAddress { address: address(), source },
            // A name may be known later.
            _ => ConnectError::Unreachable { address: address(), source },
        })?;
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for candidate in addresses {
            match TcpStream::connect_timeout(&candidate, within).and_then(prepared) {
                Ok(stream) => return Ok(Socket::Tcp(stream)),
                Err(error) => last = error,
            }
        }
        Err(ConnectError::Unreachable { address: address(), source: last })
    }

    /// Reading and writing fail after this time; `None`: never.
    pub(crate) fn set_patience(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => {
                stream.set_read_timeout(time)?;
                stream.set_write_timeout(time)
            }
            Socket::Unix(stream) => {
                stream.set_read_timeout(time)?;
                stream.set_write_timeout(time)
            }
        }
    }

    /// Whoever reads or writes it gets an end, now and later.
    pub(crate) fn shut_down(&self) {
        // It may be over already.
        let _ = match self {
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }

    /// Nothing is there to be read, not even the end: nobody has ended it, as far as is known here.
    pub(crate) fn is_silent(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        recv(self.as_fd(), &mut [0; 1], flags) == Err(Errno::AGAIN)
    }

    /// Writes all parts, one after the other.
    pub(crate) fn write_all(&self, mut parts: &mut [IoSlice<'_>]) -> io::Result<()> {
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            let written = match self {
                Socket::Tcp(stream) => (&mut &*stream).write_vectored(parts),
                Socket::Unix(stream) => (&mut &*stream).write_vectored(parts),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut parts, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads some bytes; the end is an error.
    pub(crate) fn read_some(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.retry(|| match self {
            Socket::Tcp(stream) => (&mut &*stream).read(buffer),
            Socket::Unix(stream) => (&mut &*stream).read(buffer),
        })
    }

    /// Fills all parts.
    pub(crate) fn read_all(&self, mut parts: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        IoSliceMut::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            let read = self.retry(|| match self {
                Socket::Tcp(stream) => (&mut &*stream).read_vectored(parts),
                Socket::Unix(stream) => (&mut &*stream).read_vectored(parts),
            })?;
            IoSliceMut::advance_slices(&mut parts, read);
        }
        Ok(())
    }

    /// Reads some bytes and the descriptors that come with them.
    pub(crate) fn read_with_descriptors(
        &self,
        buffer: &mut [u8],
        into: &mut Vec<OwnedFd>,
    ) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        self.retry(|| {
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let parts = &mut [IoSliceMut::new(buffer)];
            let received = recvmsg(self.as_fd(), parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
            for message in control.drain() {
                if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                    into.extend(descriptors);
                }
            }
            Ok(received.bytes)
        })
    }

    fn retry(&self, mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
        loop {
            match read() {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

fn prepared(stream: TcpStream) -> io::Result<TcpStream> {
    sockopt::set_tcp_nodelay(&stream, true)?;
    sockopt::set_socket_keepalive(&stream, true)?;
    sockopt::set_tcp_keepidle(&stream, KEEPALIVE_AFTER)?;
    sockopt::set_tcp_keepintvl(&stream, KEEPALIVE_EVERY)?;
    sockopt::set_tcp_keepcnt(&stream, KEEPALIVE_TIMES)?;
    sockopt::set_tcp_user_timeout(&stream, ACKNOWLEDGED_WITHIN_MS)?;
    Ok(stream)
}
