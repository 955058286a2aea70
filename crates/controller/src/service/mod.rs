//! The cluster's controller as a running service: the core of [`crate::cluster`] with a registry, a clock and a network.
//!
//! ```text
//!   Unix socket, TCP -> listen -> conversation -> driver (one thread, owns the state) -> store (SQLite)
//!                       limits    who asks         step, then store, then everything else
//! ```
//!
//! One thread, the driver, owns the state and the registry; everybody else sends it commands. Order of events for each
//! command: step, store, answer. A crash before the store leaves nothing of it, a crash after it all of it, and nobody
//! was answered in between. A driver that cannot store ends, all connections with it, and [`Service::wait`] says why:
//! the state in memory may be ahead of the disk then, and only a new start from the registry brings them together.
//!
//! The network runs on an asynchronous runtime that nothing outside of this module sees.

mod account;
mod clock;
pub mod config;
mod conversation;
mod driver;
mod error;
mod events;
mod limits;
mod listen;
mod metrics;
mod patient;
mod respond;
mod secrets;
mod spent;
mod store;

pub use account::{Account, Accountant};
pub use config::{Config, ConfigError};
pub use error::ServiceError;
pub use store::{Rows, SqliteRows, StoreError};

use crate::cluster::{Settings, State};
use crate::munge::Munge;
use conversation::Shared;
use driver::Driver;
use limits::Limits;
use secrets::SecretStore;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Name of the registry in the state directory.
pub const REGISTRY_FILE: &str = "registry.sqlite";
/// How long open connections may go on after the end was asked for.
const LINGER: Duration = Duration::from_millis(500);
/// Threads that speak with clients.
const NETWORK_THREADS: usize = 2;

/// A running controller.
pub struct Service {
    addresses: Vec<SocketAddr>,
    socket: Option<PathBuf>,
    runtime: Option<tokio::runtime::Runtime>,
    driver: Option<std::thread::JoinHandle<Result<(), ServiceError>>>,
    commands: driver::Commands,
    /// One controller at a time has a state directory.
    _lock: std::fs::File,
}

impl Service {
    /// Opens the registry and begins to listen.
    ///
    /// # Errors
    /// [`ServiceError`]; nothing runs then.
    pub fn start(config: &Config) -> Result<Service, ServiceError> {
        Service::start_with(config, None)
    }

    /// The same with somebody who can ask file servers for their accounting.
    ///
    /// # Errors
    /// [`ServiceError`]; nothing runs then.
    pub fn start_with(config: &Config, accountant: Option<Accountant>) -> Result<Service, ServiceError> {
        let lock = store::lock_directory(&config.state)?;
        let secrets = SecretStore::open(&config.state)?;
        let mut rows = SqliteRows::open(&config.state.join(REGISTRY_FILE), &config.registry)?;
        let state = State::restore(config.settings(), rows.load()?)?;
        let munge = Munge::new(config.munge_socket.as_deref());
        if !config.listen.is_empty() {
            munge.check()?;
        }
        Service::run(config, (state, Box::new(rows)), (secrets, munge, accountant), lock)
    }

    fn run(
        config: &Config,
        (state, rows): (State, Box<dyn Rows>),
        (secrets, munge, accountant): (SecretStore, Munge, Option<Accountant>),
        lock: std::fs::File,
    ) -> Result<Service, ServiceError> {
        let settings: Settings = state.settings().clone();
        let (events, commands, receiver) = driver::channels();
        let shared = Arc::new(Shared {
            commands: commands.clone(),
            events: events.clone(),
            settings,
            secrets,
            munge,
            accountant,
            limits: Limits::new(),
            spent: Default::default(),
        });
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(NETWORK_THREADS)
            .max_blocking_threads(limits::MUNGE_THREADS + limits::ACCOUNT_THREADS)
            .thread_name("network")
            .enable_all()
            .build()
            .map_err(ServiceError::Runtime)?;
        let bound = runtime.block_on(listen::bind(config))?;
        let addresses = bound.addresses()?;
        runtime.spawn(listen::accept(bound, shared, limits::deal_open_files()));
        let driver = Driver::new(state, rows, events);
        let driver = std::thread::Builder::new()
            .name("driver".into())
            .spawn(move || driver.run(receiver))
            .map_err(ServiceError::Runtime)?;
        Ok(Service {
            addresses,
            socket: config.socket.clone(),
            runtime: Some(runtime),
            driver: Some(driver),
            commands,
            _lock: lock,
        })
    }

    /// Where it listens on the network.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where it listens on this machine.
    pub fn socket(&self) -> Option<&std::path::Path> {
        self.socket.as_deref()
    }

    /// Something that ends the service from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.commands.clone())
    }

    /// Waits until it ends: when it was told to, or when it cannot go on.
    ///
    /// # Errors
    /// Why it cannot go on.
    pub fn wait(mut self) -> Result<(), ServiceError> {
        let ended = match self.driver.take().map(std::thread::JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err(ServiceError::Panicked),
            None => Ok(()),
        };
        self.close();
        ended
    }

    /// Ends it.
    ///
    /// # Errors
    /// Why it could not go on.
    pub fn stop(self) -> Result<(), ServiceError> {
        self.stopper().stop();
        self.wait()
    }

    fn close(&mut self) {
        self.commands.stop();
        if let Some(driver) = self.driver.take() {
            drop(driver.join());
        }
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(LINGER);
            if let Some(socket) = &self.socket {
                drop(std::fs::remove_file(socket));
            }
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.close();
    }
}

/// Ends a service.
#[derive(Clone)]
pub struct Stopper(driver::Commands);

impl Stopper {
    /// Ends it; what was asked for before is still carried out.
    pub fn stop(&self) {
        self.0.stop();
    }
}
