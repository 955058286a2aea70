//! A storage node's server: fragments, names and the network put together.
//!
//! Instances come and go while it runs; one never touches another. Any thread may call.
//!
//! Order of events at the start: the state directory is claimed - the sockets listen - every instance is served - the
//! addresses are published. An error at any point ends what was begun and leaves the fragments as they were.
//!
//! Order of events for an instance ([`super::served`]): its secrets are read - its fragment is opened, which walks it if it
//! was not closed cleanly - every namespace is served, with its names where this server is their home. The other servers
//! of the instance need not run yet: what needs them waits. At its end: ways to other servers are closed, so that nobody waits
//! for them any more - connections end - names are closed - the fragment is closed, which spares the next start the walk. A
//! crash at any point means a walk.

use super::running::{Running, Whereabouts};
use super::served::Served;
use super::server_config::InstanceConfig;
use super::{NodeError, ServerConfig};
use forebay_model::ids::InstanceId;
use forebay_server::net::{NetConfig, Server};
use forebay_wire::FsError;
use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections at a time: dozens for each client node of each instance.
const CONNECTIONS_MAX: usize = 32_768;
/// One connection for so many descriptors that the process may have: it needs two, or three if it is for callbacks, and
/// more than half are left for files.
const DESCRIPTORS_PER_CONNECTION: u64 = 6;
/// With fewer descriptors than this a server is too small for 10,000 open files or 1,000 clients.
const DESCRIPTORS_WANTED: u64 = 20_000;

/// What is done with one instance is done one after the other; instances do not wait for each other.
type Slot = Arc<Mutex<Option<Arc<Served>>>>;

/// A server that serves. Dropping it ends it as [`ServerNode::stop`] does, but tells nobody what went wrong.
pub struct ServerNode {
    server: Server,
    slots: Mutex<BTreeMap<InstanceId, Slot>>,
    whereabouts: Whereabouts,
    running: Running,
    room: Room,
}

/// What the descriptors of the process are enough for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Descriptors.
    pub descriptors: u64,
    /// Connections at a time.
    pub connections: usize,
}

impl Room {
    fn of(descriptors: u64) -> Room {
        let connections =
            usize::try_from(descriptors / DESCRIPTORS_PER_CONNECTION).unwrap_or(CONNECTIONS_MAX);
        Room { descriptors, connections: connections.clamp(1, CONNECTIONS_MAX) }
    }

    /// What the administrator should know, if it is little.
    pub fn complaint(&self) -> Option<String> {
        let Room { descriptors, connections } = self;
        (*descriptors < DESCRIPTORS_WANTED).then(|| {
            format!(
                "this process may have only {descriptors} files open, so {connections} connections are let in; \
                 raise its hard limit of open files to {DESCRIPTORS_WANTED} or more (LimitNOFILE= of its unit, ulimit -Hn)"
            )
        })
    }
}

impl ServerNode {
    /// Opens everything and begins to serve.
    pub fn start(config: &ServerConfig) -> Result<ServerNode, NodeError> {
        let descriptors = forebay_server::local::raise_descriptor_limit();
        let room = Room::of(descriptors.map_err(|source| NodeError::Limits { source })?);
        let running = Running::claim(&config.state)?;
        let server = Server::start(NetConfig {
            tcp: addresses(config)?,
            unix: config.socket.clone(),
            grace: config.grace,
            connections_max: room.connections,
            awake: config.keep_awake.awake(),
            awaited: config.instances.iter().map(|instance| instance.name.clone()).collect(),
            ..NetConfig::default()
        })?;
        let addresses = server.addresses().map_err(|source| NodeError::Listen { source })?;
        let whereabouts = Whereabouts { pid: std::process::id(), addresses, socket: config.socket.clone() };
        let node = ServerNode { server, slots: Mutex::default(), whereabouts, running, room };
        config.instances.iter().try_for_each(|instance| node.serve(instance))?;
        node.running.publish(&node.whereabouts)?;
        Ok(node)
    }

    /// Where it is reached.
    pub fn whereabouts(&self) -> &Whereabouts {
        &self.whereabouts
    }

    /// What its descriptors are enough for.
    pub fn room(&self) -> Room {
        self.room
    }

    /// Serves an instance as described from now on. What is new of one that is served is added; if anything else is
    /// different it is ended and served anew, and its clients wait.
    pub fn serve(&self, instance: &InstanceConfig) -> Result<(), NodeError> {
        self.server.awaits(&instance.name);
        let served = self.serve_awaited(instance);
        self.server.is_complete(&instance.name);
        served
    }

    fn serve_awaited(&self, instance: &InstanceConfig) -> Result<(), NodeError> {
        let slot = Arc::clone(self.slots().entry(instance.id).or_default());
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(served) = slot.as_ref() {
            if served.extend(&self.server, instance)? {
                return Ok(());
            }
            // Not closed cleanly: the next open walks the fragment.
            let _ = slot.take().map(|served| served.end(&self.server));
        }
        *slot = Some(Served::begin(&self.server, instance)?);
        Ok(())
    }

    /// Serves an instance no more. An error: its fragment was not closed cleanly, and its next start walks it. `None`: it
    /// was not served.
    pub fn end(&self, instance: InstanceId) -> Option<Result<(), FsError>> {
        let slot = self.slots().remove(&instance)?;
        let served = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        served.map(|served| served.end(&self.server))
    }

    /// The instances that are served.
    pub fn instances(&self) -> Vec<InstanceId> {
        let slots: Vec<(InstanceId, Slot)> =
            self.slots().iter().map(|(id, slot)| (*id, slot.clone())).collect();
        let is_served = |slot: &Slot| slot.try_lock().is_ok_and(|served| served.is_some());
        slots.iter().filter(|(_, slot)| is_served(slot)).map(|(id, _)| *id).collect()
    }

    /// Ends it; fragments that could not be closed are named, the next start walks them.
    pub fn stop(self) -> Vec<(InstanceId, FsError)> {
        self.end_all()
    }

    /// Serves nothing any more, and names the fragments that could not be closed.
    pub(crate) fn end_all(&self) -> Vec<(InstanceId, FsError)> {
        let slots = std::mem::take(&mut *self.slots());
        let mut served = Vec::new();
        for (id, slot) in slots {
            let taken = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
            served.extend(taken.map(|served| (id, served)));
        }
        // All of them first: instances may need each other's servers no more than their own.
        served.iter().for_each(|(_, served)| served.let_go(&self.server));
        served.into_iter().filter_map(|(id, served)| Some((id, served.end(&self.server).err()?))).collect()
    }

    fn slots(&self) -> MutexGuard<'_, BTreeMap<InstanceId, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ServerNode {
    fn drop(&mut self) {
        self.end_all();
    }
}

fn addresses(config: &ServerConfig) -> Result<Vec<SocketAddr>, NodeError> {
    let mut all = Vec::new();
    for endpoint in &config.listen {
        let resolved = (endpoint.host(), endpoint.port()).to_socket_addrs();
        all.extend(resolved.map_err(|source| NodeError::Unresolved { host: endpoint.to_string(), source })?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_room_is_complained_of_and_much_is_not() {
        let little = Room::of(1024);
        assert_eq!(little.connections, 170);
        let said = little.complaint().unwrap();
        assert!(said.contains("1024 files") && said.contains("170 connections"), "{said}");
        assert_eq!(Room::of(DESCRIPTORS_WANTED).complaint(), None);
        assert_eq!(Room::of(1 << 30).connections, CONNECTIONS_MAX);
        assert_eq!(Room::of(0).connections, 1);
    }
}
