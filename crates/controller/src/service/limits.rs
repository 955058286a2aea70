//! How much the service lets itself be used: sizes, times, and numbers of things at once.
//!
//! Strangers are stopped before anything is read of their bodies; ordinary users share one budget of memory, daemons and
//! operators another one, so that no user can stand in the way of the workload manager.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Longest request line with headers, about: what is read at once may be twice as long. A credential is most of it.
pub const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Most headers.
pub const MAX_HEADERS: usize = 64;
/// The head of a request has to come within this time; an idle connection is closed after it.
pub const HEAD_TIME: Duration = Duration::from_secs(10);
/// The body has to come within this time.
pub const BODY_TIME: Duration = Duration::from_secs(20);
/// Something of an answer has to be taken within this time.
pub const TAKE_TIME: Duration = Duration::from_secs(20);
/// Largest body of an ordinary user.
pub const MAX_USER_BODY: usize = 256 * 1024;
/// Largest body of the workload manager, an agent or an operator: a job with the most stagings of long paths, or a node
/// with the most fragments.
pub const MAX_BODY: usize = 64 << 20;
/// Bodies of ordinary users that are read at a time.
pub const USER_BODIES: usize = 8 << 20;
/// Bodies of the others.
pub const BODIES: usize = 128 << 20;
/// Connections of ordinary users over the Unix socket, if there are files enough.
const MAX_LOCAL: usize = 8192;
/// Connections over TCP, if there are files enough: a poll of each node and more.
const MAX_REMOTE: usize = 100_000;
/// Connections of one ordinary user over the Unix socket.
pub const MAX_LOCAL_OF_USER: usize = 64;
/// Connections from one address.
pub const MAX_FROM_ADDRESS: usize = 4096;
/// Requests of one ordinary user at a time.
pub const MAX_REQUESTS_OF_USER: usize = 64;
/// Credentials that are looked at at a time.
pub const MUNGE_THREADS: usize = 16;
/// Instances whose file servers are asked for their accounting at the same time.
pub const ACCOUNT_THREADS: usize = 4;
/// Figures are made for so many scrapers at a time: they prove nothing.
pub const MAX_SCRAPES: usize = 4;

/// Counts things of the same kind at once.
#[derive(Clone, Debug)]
pub struct Counted<K: Eq + Hash> {
    counts: Arc<Mutex<HashMap<K, usize>>>,
    limit: usize,
}

/// One counted thing.
#[derive(Debug)]
pub struct Place<K: Eq + Hash> {
    of: Counted<K>,
    key: Option<K>,
}

impl<K: Eq + Hash + Clone> Counted<K> {
    /// At most so many for each key.
    pub fn new(limit: usize) -> Counted<K> {
        Counted { counts: Arc::default(), limit }
    }

    /// A place, if one is free.
    pub fn enter(&self, key: K) -> Option<Place<K>> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key.clone()).or_insert(0);
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(Place { of: self.clone(), key: Some(key) })
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let Some(key) = self.key.take() else { return };
        let mut counts = self.of.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&key);
            }
        }
    }
}

/// All that is counted.
pub struct Limits {
    /// Connections of an ordinary user over the Unix socket.
    pub local: Counted<u32>,
    /// Connections from an address.
    pub remote: Counted<IpAddr>,
    /// Requests of an ordinary user.
    pub requests: Counted<u32>,
    /// Bytes of bodies of ordinary users.
    pub user_bodies: Arc<Semaphore>,
    /// Bytes of the other bodies.
    pub bodies: Arc<Semaphore>,
    /// Looks at credentials.
    pub credentials: Semaphore,
    /// Scrapes of figures.
    pub scrapes: Semaphore,
    /// Questions for accounting.
    pub accounts: Semaphore,
}

impl Limits {
    /// Nothing is used yet.
    pub fn new() -> Limits {
        Limits {
            local: Counted::new(MAX_LOCAL_OF_USER),
            remote: Counted::new(MAX_FROM_ADDRESS),
            requests: Counted::new(MAX_REQUESTS_OF_USER),
            user_bodies: Arc::new(Semaphore::new(USER_BODIES)),
            bodies: Arc::new(Semaphore::new(BODIES)),
            credentials: Semaphore::new(MUNGE_THREADS),
            scrapes: Semaphore::new(MAX_SCRAPES),
            accounts: Semaphore::new(ACCOUNT_THREADS),
        }
    }
}

/// Connections that there may be at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Of ordinary users over the Unix socket. The workload manager and operators always get in.
    pub local: usize,
    /// Over TCP.
    pub remote: usize,
}

/// Every connection is a file: takes as many as the system lets this process have, and deals them. A quarter is left for
/// the registry, the workload manager and operators, so that nobody can lock them out.
pub fn deal_open_files() -> Room {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    // A refusal leaves what there is.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    deal(usize::try_from(files).unwrap_or(usize::MAX))
}

fn deal(files: usize) -> Room {
    Room { local: MAX_LOCAL.min(files / 4), remote: MAX_REMOTE.min(files / 2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_files_are_always_left() {
        for files in [256, 1024, 65_536, 1 << 20] {
            let room = deal(files);
            assert!(room.local > 0 && room.remote > 0 && room.local + room.remote <= files * 3 / 4);
        }
    }

    #[test]
    fn places_are_limited_by_key_and_given_back() {
        let counted = Counted::new(2);
        let first = counted.enter(7).unwrap();
        let _second = counted.enter(7).unwrap();
        assert!(counted.enter(7).is_none());
        assert!(counted.enter(8).is_some());
        drop(first);
        assert!(counted.enter(7).is_some());
    }
}
