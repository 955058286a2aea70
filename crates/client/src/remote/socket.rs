//! A stream to a server: TCP, or a Unix socket on the same machine.
//!
//! The system wakes who reads a Unix socket also when what he has sent is taken out at the other end, as there is room for more
//! then: for each question he would wake twice, the first time for nothing. Who polls for input is woken for that only, so
//! the beginning of an answer is waited for by a poll. TCP tells of room only who has found none.

use super::description::Address;
use super::error::ConnectError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recv, recvmsg, sockopt};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
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
    Unix {
        stream: UnixStream,
        /// How long a poll waits; `None`: for ever.
        patience: Mutex<Option<Timespec>>,
    },
}

impl Socket {
    /// Connects: to the Unix socket if there is one here, over TCP otherwise.
    pub(crate) fn connect(to: &Address, within: Duration) -> Result<Socket, ConnectError> {
        if let Some(path) = &to.unix
            && let Ok(stream) = UnixStream::connect(path)
        {
            return Ok(Socket::unix(stream));
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

    fn unix(stream: UnixStream) -> Socket {
        Socket::Unix { stream, patience: Mutex::new(None) }
    }

    /// Reading and writing fail after this time; `None`: never.
    pub(crate) fn set_patience(&self, time: Option<Duration>) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => {
                stream.set_read_timeout(time)?;
                stream.set_write_timeout(time)
            }
            Socket::Unix { stream, patience } => {
                let limit = time.map(Timespec::try_from).transpose();
                let limit = limit.map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
                *patience.lock().unwrap_or_else(PoisonError::into_inner) = limit;
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
            Socket::Unix { stream, .. } => stream.shutdown(Shutdown::Both),
        };
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix { stream, .. } => stream.as_fd(),
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
                Socket::Unix { stream, .. } => (&mut &*stream).write_vectored(parts),
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

    /// Waits until there is something to read, an end or an error: what of these it is says the reading. See the module.
    fn await_input(&self) -> io::Result<()> {
        let Socket::Unix { stream, patience } = self else { return Ok(()) };
        let limit = *patience.lock().unwrap_or_else(PoisonError::into_inner);
        match poll(&mut [PollFd::new(stream, PollFlags::IN)], limit.as_ref())? {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            _ => Ok(()),
        }
    }

    /// Waits for bytes and reads some; the end is an error.
    pub(crate) fn read_some(&self, buffer: &mut [u8]) -> io::Result<usize> {
        retry(|| self.await_input())?;
        read_again(|| match self {
            Socket::Tcp(stream) => (&mut &*stream).read(buffer),
            Socket::Unix { stream, .. } => (&mut &*stream).read(buffer),
        })
    }

    /// Fills all parts.
    pub(crate) fn read_all(&self, mut parts: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        IoSliceMut::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            let read = read_again(|| match self {
                Socket::Tcp(stream) => (&mut &*stream).read_vectored(parts),
                Socket::Unix { stream, .. } => (&mut &*stream).read_vectored(parts),
            })?;
            IoSliceMut::advance_slices(&mut parts, read);
        }
        Ok(())
    }

    /// Waits for bytes and reads some, and the descriptors that come with them.
    pub(crate) fn read_with_descriptors(
        &self,
        buffer: &mut [u8],
        into: &mut Vec<OwnedFd>,
    ) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        retry(|| self.await_input())?;
        read_again(|| {
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
}

/// Reads, and again as long as a signal interrupts it; the end is an error.
fn read_again(read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    match retry(read)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        count => Ok(count),
    }
}

/// Does it again as long as a signal interrupts it.
fn retry<T>(mut operation: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match operation() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::gettid;
    use std::sync::mpsc::channel;

    const ROUNDS: u64 = 20;

    /// Waits until a thread of this process sleeps.
    fn until_asleep(thread: i32) {
        let state = || std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
        while !state().rsplit_once(") ").unwrap().1.starts_with('S') {
            std::thread::yield_now();
        }
    }

    /// How often the calling thread has gone to sleep.
    fn sleeps() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        count.trim().parse().unwrap()
    }

    /// The system tells who waits at a Unix socket also when what he sent was taken.
    #[test]
    fn who_waits_for_an_answer_is_not_woken_by_the_taking_of_the_question() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let socket = Socket::unix(here);
        let (say, said) = channel();
        std::thread::scope(|scope| {
            let asking = scope.spawn(move || {
                say.send(gettid().as_raw_nonzero().get()).unwrap();
                let before = sleeps();
                for _ in 0..ROUNDS {
                    socket.write_all(&mut [IoSlice::new(b"?")]).unwrap();
                    assert_eq!(socket.read_some(&mut [0; 8]).unwrap(), 1);
                }
                sleeps() - before
            });
            let thread = said.recv().unwrap();
            for _ in 0..ROUNDS {
                until_asleep(thread);
                there.read_exact(&mut [0; 1]).unwrap();
                until_asleep(thread);
                there.write_all(b"!").unwrap();
            }
            let sleeps = asking.join().unwrap();
            assert!(sleeps < ROUNDS * 3 / 2, "{sleeps} for {ROUNDS} answers");
        });
    }

    #[test]
    fn patience_ends_at_a_unix_socket_too() {
        let (here, _there) = UnixStream::pair().unwrap();
        let socket = Socket::unix(here);
        socket.set_patience(Some(Duration::from_millis(20))).unwrap();
        let mut descriptors = Vec::new();
        for read in
            [socket.read_some(&mut [0; 8]), socket.read_with_descriptors(&mut [0; 8], &mut descriptors)]
        {
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    }
}
