//! The server: its sockets, its connections and what it serves.
//!
//! Threads: one that takes connections in, one that ends sessions whose time is over, and one for each connection, which
//! reads a request, carries it out and writes the answer. [`Server::stop`] ends all of them and waits; so does dropping the
//! server.

use super::callback;
use super::frame::Inbox;
use super::handshake::{Admitted, Door, Part, random};
use super::home::Terms;
use super::hosted::{HostError, Hosted, HostedNamespace, Maker, Register, Secrets};
use super::listener::{ListenError, Listener};
use super::serve;
use super::session::Session;
use super::stream::{Origin, Stream};
use crate::boot::Boot;
use crate::locks::LockLimits;
use forebay_awake::Awake;
use forebay_wire::boot;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections that are told that there are too many, at a time. More are closed without a word.
const REFUSED_MAX: usize = 64;
/// Of all connections so many parts may be of strangers who come from one place, and so many are kept for others than those who
/// have the most: nobody can lock everybody else out.
const STRANGERS_PART: usize = 16;
const KEPT_PART: usize = 4;
/// Connections that anybody may have, however few there may be.
const LEAST_OF_ORIGIN: usize = 16;
/// Sessions whose time is over are looked for at least so often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How a server is to run.
#[derive(Clone, Debug)]
pub struct NetConfig {
    /// Where to listen for TCP connections. Port 0: any that is free.
    pub tcp: Vec<SocketAddr>,
    /// Where to listen for connections of the same machine.
    pub unix: Option<PathBuf>,
    /// How long a session lives after its last connection is gone, and how long the sessions of before are awaited after
    /// a start.
    pub grace: Duration,
    /// Connections at a time.
    pub connections_max: usize,
    /// How long a client may take to prove who it is.
    pub handshake_time: Duration,
    /// Limits of locks of each namespace.
    pub locks: LockLimits,
    /// Instances that it is going to serve: [`Server::awaits`].
    pub awaited: Vec<String>,
    /// Keeps the machine's processors awake while there are many requests.
    pub awake: Awake,
}

impl Default for NetConfig {
    fn default() -> NetConfig {
        NetConfig {
            tcp: Vec::new(),
            unix: None,
            grace: Duration::from_secs(30),
            connections_max: 4096,
            handshake_time: Duration::from_secs(10),
            locks: LockLimits::default(),
            awaited: Vec::new(),
            awake: Awake::default(),
        }
    }
}

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A socket could not be had.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The system refused something else.
    #[error("cannot start the server: {0}")]
    System(#[from] io::Error),
}

/// A client of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientInfo {
    /// The namespace that it is attached to.
    pub namespace: String,
    /// Name of its machine.
    pub node: String,
    /// Files that it has open.
    pub open_files: usize,
    /// It has a connection; if not, it is given up after the grace time.
    pub is_connected: bool,
}

#[derive(Default)]
struct Connections {
    open: HashMap<u64, OpenConnection>,
    last: u64,
    /// Of those who have any.
    origins: HashMap<Origin, OfOrigin>,
}

struct OpenConnection {
    stream: Stream,
    instance: Option<Arc<Hosted>>,
    origin: Origin,
}

/// Connections from one place.
#[derive(Clone, Copy, Debug, Default)]
struct OfOrigin {
    open: usize,
    /// Those that have not proved anything yet.
    strangers: usize,
}

impl Connections {
    fn of(&self, origin: Origin) -> OfOrigin {
        self.origins.get(&origin).copied().unwrap_or_default()
    }

    fn add(&mut self, stream: Stream, origin: Origin) -> u64 {
        self.last += 1;
        let counted = self.origins.entry(origin).or_default();
        (counted.open, counted.strangers) = (counted.open + 1, counted.strangers + 1);
        self.open.insert(self.last, OpenConnection { stream, instance: None, origin });
        self.last
    }

    /// A stranger is none any more: it proved who it is.
    fn admit(&mut self, number: u64, hosted: &Arc<Hosted>) {
        let Some(connection) = self.open.get_mut(&number) else { return };
        if connection.instance.replace(hosted.clone()).is_none()
            && let Some(counted) = self.origins.get_mut(&connection.origin)
        {
            counted.strangers -= 1;
        }
    }

    fn remove(&mut self, number: u64) {
        let Some(connection) = self.open.remove(&number) else { return };
        let Some(counted) = self.origins.get_mut(&connection.origin) else { return };
        counted.open -= 1;
        counted.strangers -= usize::from(connection.instance.is_none());
        if counted.open == 0 {
            self.origins.remove(&connection.origin);
        }
    }
}

struct Inner {
    config: NetConfig,
    boot: u64,
    register: Register,
    listener: Listener,
    connections: Mutex<Connections>,
    /// A connection ended, or it is time to stop.
    changed: Condvar,
    is_stopping: AtomicBool,
}

/// See the module.
pub struct Server {
    inner: Arc<Inner>,
    threads: Vec<JoinHandle<()>>,
}

/// A number of this start of the machine. Where the kernel does not say one, each process counts as a start: too many are told
/// that something may be lost, and nobody too few.
fn memory() -> io::Result<u64> {
    Boot::present().map(Boot::number).or_else(|_| random().map(u64::from_ne_bytes))
}

impl Server {
    /// Listens. Serves nothing until something is added.
    pub fn start(config: NetConfig) -> Result<Server, StartError> {
        let listener = Listener::bind(&config.tcp, config.unix.as_deref())?;
        let inner = Arc::new(Inner {
            boot: boot::number(memory()?, u64::from_ne_bytes(random()?)),
            register: Register::awaiting(&config.awaited),
            config,
            listener,
            connections: Mutex::default(),
            changed: Condvar::new(),
            is_stopping: AtomicBool::new(false),
        });
        let mut server = Server { inner: inner.clone(), threads: Vec::new() };
        let accepting = inner.clone();
        server.spawn("accept", move || accepting.listener.run(|stream| take_in(&accepting, stream)))?;
        server.spawn("sessions", move || inner.end_sessions())?;
        Ok(server)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.threads.push(std::thread::Builder::new().name(name.to_owned()).spawn(work)?);
        Ok(())
    }

    /// The TCP addresses, with the ports that they really have.
    pub fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        self.inner.listener.addresses()
    }

    /// Serves a namespace of an instance from now on.
    pub fn add(&self, instance: &str, secrets: Secrets, namespace: HostedNamespace) -> Result<(), HostError> {
        self.inner.register.add(instance, Hosted::open(secrets, namespace, self.inner.terms())?)
    }

    /// Is going to serve all of an instance: who asks for what is not there yet is told to ask again, until
    /// [`Server::is_complete`].
    pub fn awaits(&self, instance: &str) {
        self.inner.register.awaits(instance);
    }

    /// Serves all of an instance that it is going to serve for now, or none of it: what is not there does not come by itself.
    pub fn is_complete(&self, instance: &str) {
        self.inner.register.is_complete(instance);
    }

    /// Makes namespaces of an instance from now on when somebody names them who knows its secret.
    pub fn offer(&self, instance: &str, secrets: Secrets, make: Box<Maker>) -> Result<(), HostError> {
        self.inner.register.offer(instance, secrets, make)
    }

    /// Serves an instance no more. Its connections end; what its clients held is released, and they are awaited when it is
    /// served again. `false`: it was not served.
    pub fn remove(&self, instance: &str) -> bool {
        let removed = self.inner.register.remove(instance);
        self.inner.close(&removed);
        !removed.is_empty()
    }

    /// Answers nobody who asks for names or attributes of an instance, from now on: clients ask again when it is served
    /// anew. To be called before what it needs to answer is taken away, such as the other servers; then [`Server::remove`].
    pub fn answer_nobody(&self, instance: &str) {
        self.inner
            .register
            .of(instance)
            .iter()
            .filter_map(|hosted| hosted.home.as_ref())
            .for_each(|home| home.answer_nobody());
    }

    /// The clients of an instance.
    pub fn clients(&self, instance: &str) -> Vec<ClientInfo> {
        let hosted = self.inner.register.of(instance).into_iter();
        let homes = hosted.filter_map(|hosted| Some((hosted.namespace.name.clone(), hosted.home.clone()?)));
        let info = |namespace: &str, session: &Session, is_connected| ClientInfo {
            namespace: namespace.to_owned(),
            node: session.node.clone(),
            open_files: session.opened().len(),
            is_connected,
        };
        homes
            .flat_map(|(namespace, home)| {
                let clients = home.clients().into_iter();
                clients.map(move |(session, is_connected)| info(&namespace, &session, is_connected))
            })
            .collect()
    }

    /// Ends everything and waits for it. The instances can be closed afterwards.
    pub fn stop(self) {
        // Dropping does it.
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.inner.is_stopping.store(true, SeqCst);
        self.inner.listener.stop();
        self.inner.notify();
        for thread in self.threads.drain(..) {
            // A panic of a thread was reported by it.
            let _ = thread.join();
        }
        // Taken out, so that nothing of them is held by a thread that is about to end.
        let served = self.inner.register.clear();
        served.iter().filter_map(|hosted| hosted.home.as_ref()).for_each(|home| home.close());
        let mut connections = self.inner.connections();
        connections.open.values().for_each(|connection| connection.stream.shut_down());
        while !connections.open.is_empty() {
            connections = self.inner.changed.wait(connections).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Inner {
    fn terms(&self) -> Terms {
        Terms { grace: self.config.grace, locks: self.config.locks }
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        let _connections = self.connections();
        self.changed.notify_all();
    }

    /// Ends all that clients have of these namespaces, and waits until none of their requests is under way.
    fn close(&self, removed: &[Arc<Hosted>]) {
        for home in removed.iter().filter_map(|hosted| hosted.home.as_ref()) {
            home.close();
        }
        let concerned = |connection: &OpenConnection| {
            let instance = connection.instance.as_ref();
            instance.is_some_and(|hosted| removed.iter().any(|removed| Arc::ptr_eq(hosted, removed)))
        };
        let mut connections = self.connections();
        connections.open.values().filter(|open| concerned(open)).for_each(|open| open.stream.shut_down());
        while connections.open.values().any(concerned) {
            connections = self.changed.wait(connections).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn end_sessions(&self) {
        while !self.is_stopping.load(SeqCst) {
            let homes = self.register.all().into_iter().filter_map(|hosted| hosted.home.clone());
            let next = homes.filter_map(|home| home.end_overdue()).min();
            let left = next.map_or(LOOK_EVERY, |next| next.saturating_duration_since(Instant::now()));
            let connections = self.connections();
            if !self.is_stopping.load(SeqCst) {
                let left = left.min(LOOK_EVERY);
                drop(self.changed.wait_timeout(connections, left).unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    fn serve(&self, number: u64, mut stream: Stream, is_full: bool) {
        let mut inbox = Inbox::default();
        let (boot, terms) = (self.boot, self.terms());
        let time = self.config.handshake_time;
        let door = Door { register: &self.register, boot, terms, is_full, time };
        let Some(admitted) = door.admit(&mut stream, &mut inbox) else { return };
        if !self.belongs(number, &admitted.hosted) {
            return;
        }
        let Admitted { hosted, role, session, part } = admitted;
        let line = serve::Line { stream: &mut stream, inbox: &mut inbox, awake: &self.config.awake };
        match part {
            Part::Data => serve::data(line, &hosted, role, session),
            Part::Metadata(member) => serve::metadata(line, &member, &hosted),
            Part::Callback(member) => callback::serve(&mut stream, &mut inbox, &member.session),
        }
    }

    /// Notes what a connection is for; `false`: that is not served any more.
    fn belongs(&self, number: u64, hosted: &Arc<Hosted>) -> bool {
        let mut connections = self.connections();
        connections.admit(number, hosted);
        self.register.all().iter().any(|served| Arc::ptr_eq(served, hosted))
    }
}

/// A connection that is open, until it is dropped.
struct Opened {
    inner: Arc<Inner>,
    number: u64,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.inner.connections().remove(self.number);
        self.inner.changed.notify_all();
    }
}

fn take_in(inner: &Arc<Inner>, stream: Stream) {
    // What cannot be set up, or has no descriptor or thread left, is closed without a word; clients come again.
    let Ok(second) = stream.prepare().and_then(|()| stream.try_clone()) else { return };
    let Ok(origin) = stream.origin() else { return };
    let mut connections = inner.connections();
    let (count, here) = (connections.open.len(), connections.of(origin));
    let most = inner.config.connections_max;
    if count >= most + REFUSED_MAX || here.strangers >= (most / STRANGERS_PART).max(LEAST_OF_ORIGIN) {
        return;
    }
    let number = connections.add(second, origin);
    drop(connections);
    let is_full = count >= most || here.open >= (most - most / KEPT_PART).max(LEAST_OF_ORIGIN);
    let opened = Opened { inner: inner.clone(), number };
    let serve = move || opened.inner.serve(number, stream, is_full);
    let _ = std::thread::Builder::new().name("connection".to_owned()).spawn(serve);
}
