//! What all connections of one attachment have in common, and how they end.
//!
//! Closing is a flag first: nobody waits for a server any more. Then the sockets are shut down, which wakes those who
//! read them.

use super::description::{Address, Description, Timeouts};
use super::socket::Socket;
use forebay_wire::message::{Role, SessionId};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// See the module.
pub(crate) struct Session {
    pub(crate) description: Description,
    /// Where the servers are now.
    servers: Mutex<Vec<Address>>,
    pub(crate) role: Role,
    pub(crate) id: SessionId,
    /// Name of this machine.
    pub(crate) node: String,
    is_closing: AtomicBool,
    sockets: Mutex<Vec<Weak<Socket>>>,
    closing: Condvar,
}

impl Session {
    pub(crate) fn new(description: Description, role: Role) -> std::io::Result<Arc<Session>> {
        Ok(Arc::new(Session {
            servers: Mutex::new(description.servers.clone()),
            description,
            role,
            id: SessionId(random()?),
            node: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            is_closing: AtomicBool::new(false),
            sockets: Mutex::default(),
            closing: Condvar::new(),
        }))
    }

    pub(crate) fn timeouts(&self) -> &Timeouts {
        &self.description.timeouts
    }

    /// Where a server is now.
    pub(crate) fn server(&self, position: u32) -> Address {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)[position as usize].clone()
    }

    /// From now on servers are looked for there. `false`: it is another number of them, and nothing was done.
    pub(crate) fn move_servers(&self, servers: Vec<Address>) -> bool {
        let mut known = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same_number = servers.len() == known.len();
        if is_same_number {
            *known = servers;
        }
        is_same_number
    }

    fn sockets(&self) -> MutexGuard<'_, Vec<Weak<Socket>>> {
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A socket that is to be shut down when the session closes.
    pub(crate) fn adopt(&self, socket: Socket) -> Arc<Socket> {
        let socket = Arc::new(socket);
        let mut sockets = self.sockets();
        sockets.retain(|socket| socket.strong_count() > 0);
        sockets.push(Arc::downgrade(&socket));
        if self.is_closed() {
            socket.shut_down();
        }
        socket
    }

    /// Nothing new is begun.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closing.load(SeqCst)
    }

    /// Ends all connections and all waiting.
    pub(crate) fn close(&self) {
        let sockets = self.sockets();
        self.is_closing.store(true, SeqCst);
        sockets.iter().filter_map(Weak::upgrade).for_each(|socket| socket.shut_down());
        self.closing.notify_all();
    }

    /// Waits for a time, or until the session closes.
    pub(crate) fn pause(&self, time: Duration) {
        self.pause_unless(time, || false);
    }

    /// Lets those who pause look whether they still have to.
    pub(crate) fn wake(&self) {
        let _sockets = self.sockets();
        self.closing.notify_all();
    }

    /// The same, but no longer than until somebody has called [`Session::wake`] and `is_over`. That may take locks under which
    /// nobody asks anything of the session.
    pub(crate) fn pause_unless(&self, time: Duration, is_over: impl Fn() -> bool) {
        let until = Instant::now() + time;
        let mut sockets = self.sockets();
        while !self.is_closed() && !is_over() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            sockets = self.closing.wait_timeout(sockets, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Bytes that nobody can guess.
pub(crate) fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}
