//! A namespace whose servers are elsewhere: [`attach`] gives the services that a [`crate::Volume`] works with.
//!
//! ```text
//! Volume ─┬─ RemoteMetadata, RemoteStub, RemoteDirectory, RemoteLocks ── Home ── Link ── connections to the home server
//!         └─ RemoteData, RemoteShare ─────────────────────────────────────────── Link ── connections to each server
//! ```
//! Operations may be called from any thread and run in it, including what is sent and received. Two more threads belong
//! to an attachment: one listens to the server ([`callback`]), one tells it now and then which references were given
//! back.
//!
//! A server that is not there is waited for ([`link`]); one that was started anew is told what is held there ([`home`]).
//! A killed client leaves nothing: its session ends by itself.

mod ahead;
mod asked;
mod callback;
mod connection;
mod credentials;
mod data;
mod description;
mod direct;
mod directory;
mod entrusted;
mod error;
mod fresh;
mod held;
mod home;
mod known;
mod lacking;
mod link;
mod locks;
mod metadata;
mod recent;
#[cfg(test)]
mod samples;
mod session;
mod showings;
mod socket;
mod standby;
mod stub;
mod tickets;
mod unsynced;
mod validity;
mod waiting;
mod word;

pub use callback::Notices;
pub use description::{Address, Description, Timeouts};
pub use error::{AttachError, ConnectError};

use callback::Observer;
use connection::Terms;
use data::RemoteData;
use forebay_wire::message::{ConnectionKind, MetadataRequest, Reply, Role, Status};
use forebay_wire::{DataService, LockService, MetadataService, Moved};
use home::{Home, Rejoining};
use link::{Ask, Link};
use locks::RemoteLocks;
use metadata::RemoteMetadata;
use session::Session;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections for names and attributes.
const METADATA_LANES: u16 = 16;
/// Connections for content to each server.
const DATA_LANES: u16 = 8;
/// How often the server is told of references that were given back, and of directories that stood by.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// Pause between attempts to attach.
const ATTACH_PAUSE: Duration = Duration::from_millis(50);

/// A namespace that is attached. Dropped, or closed: what its services are asked fails as unreachable from then on.
pub struct Attached {
    /// Names and attributes.
    pub metadata: Arc<dyn MetadataService>,
    /// Content, in the order of the servers.
    pub data: Vec<Arc<dyn DataService>>,
    /// Locks.
    pub locks: Arc<dyn LockService>,
    home: Arc<Home>,
    observer: Arc<Observer>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The data services of an instance, for its metadata servers. Dropped, or closed, as [`Attached`].
pub struct Peers {
    /// In the order of the servers.
    pub data: Vec<Arc<dyn DataService>>,
    session: Arc<Session>,
}

/// Attaches a namespace. The home has to be there; other servers are looked for when they are needed.
pub fn attach(description: &Description) -> Result<Attached, AttachError> {
    let servers = description.servers.len();
    if description.home as usize >= servers {
        return Err(AttachError::Home { home: description.home, described: servers });
    }
    let session = Session::new(description.clone(), Role::Client)?;
    let held = Arc::default();
    let (tickets, waiting, entrusted) = (Arc::default(), Arc::default(), Arc::default());
    let link = Link::new(session.clone(), description.home, ConnectionKind::Metadata, METADATA_LANES);
    link.set_rejoin(Arc::new(Rejoining {
        held: Arc::clone(&held),
        tickets: Arc::clone(&tickets),
        waiting: Arc::clone(&waiting),
        entrusted: Arc::clone(&entrusted),
        sequence: Mutex::new(0),
    }));
    let terms = first_connection(&link, &session)?;
    check(description, &terms)?;
    let home = Arc::new(Home {
        session: session.clone(),
        link,
        held,
        tickets: Arc::clone(&tickets),
        lacking: Default::default(),
        ahead: Default::default(),
        validity: Default::default(),
        recent: Default::default(),
        fresh: Default::default(),
        known: Default::default(),
        showings: Default::default(),
        standby: Default::default(),
        groups: Default::default(),
        waiting,
        entrusted,
        max_file_size: terms.max_file_size,
    });
    let observer = Arc::<Observer>::default();
    let attached = Attached {
        metadata: Arc::new(RemoteMetadata::new(home.clone())),
        data: data(&session, Some(&tickets)),
        locks: Arc::new(RemoteLocks::new(home.clone())),
        home: home.clone(),
        observer: observer.clone(),
        threads: Mutex::default(),
    };
    let listening = home.clone();
    attached.spawn("callbacks", move || callback::listen(&listening, &observer))?;
    attached.spawn("references", move || {
        while !home.session.is_closed() {
            home.session.pause(TELL_EVERY);
            home.tell_forgotten();
            directory::close_overdue(&home);
        }
    })?;
    Ok(attached)
}

/// The data services of an instance for one of its metadata servers; the description's secret is the seal. No server
/// has to be there yet.
pub fn peers(description: &Description) -> Result<Peers, AttachError> {
    let session = Session::new(description.clone(), Role::Peer)?;
    Ok(Peers { data: data(&session, None), session })
}

fn data(session: &Arc<Session>, tickets: Option<&Arc<tickets::Tickets>>) -> Vec<Arc<dyn DataService>> {
    let service = |(server, address): (u32, &Address)| {
        let link = Link::new(session.clone(), server, ConnectionKind::Data, DATA_LANES);
        let direct = session.description.direct && tickets.is_some() && address.unix.is_some();
        Arc::new(RemoteData::new(link, tickets.cloned(), direct)) as Arc<dyn DataService>
    };
    (0..).zip(&session.description.servers).map(service).collect()
}

/// Finds the home, for as long as attaching may take; its connection is the first one of the link.
fn first_connection(link: &Link, session: &Session) -> Result<Terms, ConnectError> {
    let until = Instant::now() + session.timeouts().attach;
    loop {
        match link.connect() {
            Ok(connection) => {
                let terms = connection.terms;
                link.adopt(connection);
                return Ok(terms);
            }
            Err(error) if error.is_transient() && Instant::now() < until => session.pause(ATTACH_PAUSE),
            Err(error) => return Err(error),
        }
    }
}

fn check(description: &Description, terms: &Terms) -> Result<(), AttachError> {
    let described = description.servers.len();
    if terms.servers as usize != described {
        return Err(AttachError::Servers { described, servers: terms.servers });
    }
    if terms.position != description.home {
        let address = description.servers[description.home as usize].tcp.clone();
        let (described, position) = (description.home, terms.position);
        return Err(AttachError::Position { address, described, position });
    }
    Ok(())
}

impl Attached {
    fn spawn(&self, name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work)?;
        self.threads.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// Says who is to be told of changes that others make. Until then nobody is.
    pub fn set_notices(&self, notices: Arc<dyn Notices>) {
        self.observer.set(notices);
    }

    /// From now on the servers are looked for there, in their order: connections that are made from here on go there. `false`: it
    /// is another number of servers, and nothing was done.
    pub fn move_servers(&self, servers: Vec<Address>) -> bool {
        self.home.session.move_servers(servers)
    }

    /// Limits and accounting of the namespace.
    pub fn status(&self) -> forebay_wire::Result<Status> {
        match self.home.ask(&MetadataRequest::Status)? {
            Reply::Status { status } => Ok(status),
            _ => Err(link::NOT_UNDERSTOOD),
        }
    }

    /// The last report of what was read and written, if the server is there: see [`crate::Volume::report`].
    pub fn report_at_the_end(&self, moved: Moved) {
        let within = self.home.session.timeouts().closing;
        self.home.link.ask_in_passing(Ask::Metadata(&MetadataRequest::Report { moved }), within);
    }

    /// Says goodbye, if the server is there, and ends all connections. Operations that wait for a server fail. Takes no
    /// longer than the description says for it.
    pub fn close(&self) {
        if !self.home.session.is_closed() {
            let within = self.home.session.timeouts().closing;
            self.home.link.ask_in_passing(Ask::Metadata(&MetadataRequest::Goodbye), within);
        }
        self.home.session.close();
        self.home.waiting.close();
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
        for thread in threads {
            // One that panicked has nothing more to do either.
            let _ = thread.join();
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.close();
    }
}

impl Peers {
    /// Ends all connections; operations that wait for a server fail.
    pub fn close(&self) {
        self.session.close();
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.close();
    }
}
