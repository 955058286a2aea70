//! A connection: TCP or a Unix socket, which differ in how they are set up, and how they are waited for.
//!
//! The system wakes who reads a Unix socket also when what he has sent is taken out at the other end, as there is room for more
//! then: for each answer a thread that waits for the next request would wake once for nothing. Who polls for input is woken for that
//! only. TCP tells of room only who has found none.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg, sockopt};
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A peer that takes nothing for so long is given up.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// Silence after which a TCP peer is asked whether it is there, how often, and at what distance.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEPALIVE_COUNT: u32 = 3;

/// Where connections come from, as far as nobody can lie about it: what one of them may have is counted by this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    /// A machine.
    Address(IpAddr),
    /// A user of this machine.
    User(u32),
}

/// See the module.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    /// Sets a new connection up: small requests leave at once, and a dead peer is noticed.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => {
                stream.set_nodelay(true)?;
                sockopt::set_socket_keepalive(stream, true)?;
                sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
                sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
                sockopt::set_tcp_keepcnt(stream, KEEPALIVE_COUNT)?;
                stream.set_write_timeout(Some(WRITE_TIMEOUT))
            }
            Stream::Unix(stream) => stream.set_write_timeout(Some(WRITE_TIMEOUT)),
        }
    }

    /// Who is at the other side.
    pub(crate) fn origin(&self) -> io::Result<Origin> {
        Ok(match self {
            Stream::Tcp(stream) => Origin::Address(stream.peer_addr()?.ip().to_canonical()),
            Stream::Unix(stream) => Origin::User(peer_uid(stream)?),
        })
    }

    /// How long a read waits; `None`: for ever.
    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(timeout),
            Stream::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }

    /// Waits as long as it takes until there is something to read, an end or an error: what of these it is says the reading. See the
    /// module.
    pub(crate) fn await_input(&self) -> io::Result<()> {
        let Stream::Unix(stream) = self else { return Ok(()) };
        loop {
            match poll(&mut [PollFd::new(stream, PollFlags::IN)], None) {
                Err(rustix::io::Errno::INTR) => {}
                polled => return Ok(polled.map(drop)?),
            }
        }
    }

    /// A second handle of the same connection, to shut it down with.
    pub(crate) fn try_clone(&self) -> io::Result<Stream> {
        match self {
            Stream::Tcp(stream) => stream.try_clone().map(Stream::Tcp),
            Stream::Unix(stream) => stream.try_clone().map(Stream::Unix),
        }
    }

    /// Ends the connection: whoever reads or writes it returns.
    pub(crate) fn shut_down(&self) {
        // The other side may have ended it already.
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// Descriptors can be sent over it.
    pub(crate) fn carries_descriptors(&self) -> bool {
        matches!(self, Stream::Unix(_))
    }

    /// Writes all parts, one after the other, with as few system calls as possible.
    pub(crate) fn write_parts(&mut self, parts: &[&[u8]]) -> io::Result<()> {
        let mut slices: Vec<IoSlice<'_>> =
            parts.iter().filter(|part| !part.is_empty()).map(|part| IoSlice::new(part)).collect();
        let mut left = slices.as_mut_slice();
        while !left.is_empty() {
            let written = match self {
                Stream::Tcp(stream) => stream.write_vectored(left),
                Stream::Unix(stream) => stream.write_vectored(left),
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut left, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Stream {
    /// Writes bytes, the first of which carries descriptors.
    pub(crate) fn write_with_descriptors(&mut self, bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
        let descriptors: Vec<BorrowedFd<'_>> = descriptors.iter().map(AsFd::as_fd).collect();
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(descriptors.len()))];
        let written = loop {
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            match sendmsg(self.as_fd(), &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::INTR) => {}
                sent => break sent?,
            }
        };
        self.write_parts(&[&bytes[written..]])
    }
}

/// A connection that is read until a moment, however little comes at a time.
pub(crate) struct Hurried<'a> {
    pub(crate) stream: &'a mut Stream,
    pub(crate) until: Instant,
}

impl Read for Hurried<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer)
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

/// The user at the other end of a Unix socket. Asked for by hand: a process in another namespace of process numbers, as in a
/// container, has the number 0, which `rustix` takes for no answer.
fn peer_uid(stream: &UnixStream) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the option writes at most `length` bytes, which is the size of what it is pointed to.
    let done = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    if done == 0 { Ok(peer.uid) } else { Err(io::Error::last_os_error()) }
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

    #[test]
    fn who_waits_for_a_request_is_not_woken_by_the_taking_of_an_answer() {
        let (mut there, here) = UnixStream::pair().unwrap();
        let mut stream = Stream::Unix(here);
        let (say, said) = channel();
        std::thread::scope(|scope| {
            let answering = scope.spawn(move || {
                say.send(gettid().as_raw_nonzero().get()).unwrap();
                let before = sleeps();
                for _ in 0..ROUNDS {
                    stream.await_input().unwrap();
                    assert_eq!(stream.read(&mut [0; 8]).unwrap(), 1);
                    stream.write_parts(&[b"!"]).unwrap();
                }
                stream.await_input().unwrap();
                assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0, "the end");
                sleeps() - before
            });
            let thread = said.recv().unwrap();
            for _ in 0..ROUNDS {
                until_asleep(thread);
                there.write_all(b"?").unwrap();
                until_asleep(thread);
                there.read_exact(&mut [0; 1]).unwrap();
            }
            until_asleep(thread);
            drop(there);
            let sleeps = answering.join().unwrap();
            assert!(sleeps < ROUNDS * 3 / 2, "{sleeps} for {ROUNDS} requests");
        });
    }
}
