//! A storage node's server: fragments, names and the network put together.
//!
//! Order of events at the start: the state directory is claimed - secrets are read - every fragment is opened, which walks it
//! if it was not closed cleanly - the sockets listen - every namespace is served, with its names where this server is their
//! home - the addresses are published. An error at any point ends what was begun and leaves the fragments as they were.
//! The other servers of an instance need not run yet: what needs them waits.
//!
//! Order of events at the end: ways to other servers are closed, so that nobody waits for them any more - connections end -
//! names are closed - fragments are closed, which spares the next start the walk. A crash at any point means a walk.

use super::running::{Running, Whereabouts};
use super::server_config::{InstanceConfig, NamespaceConfig};
use super::sweeper::Sweeper;
use super::{NodeError, ServerConfig, read_secret, remote};
use forebay_client::remote::Peers;
use forebay_server::local::SpaceRule;
use forebay_server::net::{HostedNamespace, HostedTree, NetConfig, Secrets, ServedData, Server};
use forebay_server::node::{NodeInstance, NodeSpec};
use forebay_wire::{DataService, FsError};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;

/// A server that serves. Dropping it ends it as [`ServerNode::stop`] does, but tells nobody what went wrong.
pub struct ServerNode {
    server: Option<Server>,
    /// Ways to the other servers, for the names that are kept here.
    peers: Vec<Peers>,
    sweepers: Vec<Sweeper>,
    instances: Vec<(String, Arc<NodeInstance>)>,
    whereabouts: Whereabouts,
    running: Running,
}

impl ServerNode {
    /// Opens everything and begins to serve.
    pub fn start(config: &ServerConfig) -> Result<ServerNode, NodeError> {
        forebay_server::local::raise_descriptor_limit().map_err(|source| NodeError::Limits { source })?;
        let running = Running::claim(&config.state)?;
        let secrets = config.instances.iter().map(secrets).collect::<Result<Vec<_>, _>>()?;
        let instances = config.instances.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let server = Server::start(NetConfig {
            tcp: addresses(config)?,
            unix: config.socket.clone(),
            grace: config.grace,
            ..NetConfig::default()
        })?;
        let addresses = server.addresses().map_err(|source| NodeError::Listen { source })?;
        let whereabouts = Whereabouts { pid: std::process::id(), addresses, socket: config.socket.clone() };
        let mut node = ServerNode {
            server: Some(server),
            peers: Vec::new(),
            sweepers: Vec::new(),
            instances,
            whereabouts,
            running,
        };
        for (position, (instance, secrets)) in config.instances.iter().zip(secrets).enumerate() {
            node.serve(position, instance, &secrets)?;
        }
        node.running.publish(&node.whereabouts)?;
        Ok(node)
    }

    /// Where it is reached.
    pub fn whereabouts(&self) -> &Whereabouts {
        &self.whereabouts
    }

    /// Ends it; fragments that could not be closed are named, the next start walks them.
    pub fn stop(mut self) -> Vec<(String, FsError)> {
        self.end()
    }

    fn serve(&mut self, index: usize, instance: &InstanceConfig, secrets: &Secrets) -> Result<(), NodeError> {
        for namespace in &instance.namespaces {
            let data = self.instances[index].1.data(&namespace.spec.name);
            let data = ServedData::new(data.map_err(|source| failed(instance, source))?);
            let is_home = namespace.home == instance.position;
            let tree = match is_home {
                true => Some(self.tree(index, instance, namespace, secrets, data.clone())?),
                false => None,
            };
            let hosted = HostedNamespace {
                name: namespace.spec.name.clone(),
                data,
                tree,
                max_file_size: namespace.spec.limits.max_file_size.map_or(i64::MAX as u64, |bytes| bytes.0),
                position: instance.position,
                servers: instance.servers.len() as u32,
                direct_writes: instance.space == SpaceRule::Hard,
            };
            let server = self.server.as_ref().expect("it is there until the end");
            server.add(&instance.name, secrets.clone(), hosted)?;
        }
        Ok(())
    }

    fn tree(
        &mut self,
        index: usize,
        instance: &InstanceConfig,
        namespace: &NamespaceConfig,
        secrets: &Secrets,
        own: Arc<dyn DataService>,
    ) -> Result<HostedTree, NodeError> {
        let peers = remote::peers(instance, namespace, secrets.seal.clone())?;
        let mut data = peers.data.clone();
        self.peers.push(peers);
        data[instance.position as usize] = own;
        let tree = self.instances[index].1.tree(&namespace.spec, data.clone());
        let tree = tree.map_err(|source| failed(instance, source))?;
        let sweeper = Sweeper::start(tree.clone()).map_err(|source| NodeError::Thread { source })?;
        self.sweepers.push(sweeper);
        Ok(HostedTree {
            metadata: tree,
            data,
            max_files: namespace.spec.limits.max_files,
            sessions: Some(sessions(instance, namespace)),
        })
    }

    fn end(&mut self) -> Vec<(String, FsError)> {
        self.peers.iter().for_each(Peers::close);
        self.sweepers.clear();
        drop(self.server.take());
        self.peers.clear();
        let closed = self.instances.drain(..).map(|(name, instance)| (name, instance.close()));
        closed.filter_map(|(name, closed)| Some((name, closed.err()?))).collect()
    }
}

impl Drop for ServerNode {
    fn drop(&mut self) {
        self.end();
    }
}

fn secrets(instance: &InstanceConfig) -> Result<Secrets, NodeError> {
    Ok(Secrets { token: read_secret(&instance.token_file)?, seal: read_secret(&instance.seal_file)? })
}

fn open(instance: &InstanceConfig) -> Result<(String, Arc<NodeInstance>), NodeError> {
    let spec = NodeSpec {
        root: instance.fragment.clone(),
        instance: format!("{:x}", instance.id.0),
        space: instance.space,
        position: instance.position,
        servers: instance.servers.len() as u32,
    };
    let opened = NodeInstance::open(&spec).map_err(|source| failed(instance, source))?;
    Ok((instance.name.clone(), opened))
}

fn failed(instance: &InstanceConfig, source: FsError) -> NodeError {
    NodeError::Fragment { instance: instance.name.clone(), path: instance.fragment.clone(), source }
}

fn addresses(config: &ServerConfig) -> Result<Vec<SocketAddr>, NodeError> {
    let mut all = Vec::new();
    for endpoint in &config.listen {
        let resolved = (endpoint.host(), endpoint.port()).to_socket_addrs();
        all.extend(resolved.map_err(|source| NodeError::Unresolved { host: endpoint.to_string(), source })?);
    }
    Ok(all)
}

/// Where the sessions of a namespace are written down.
fn sessions(instance: &InstanceConfig, namespace: &NamespaceConfig) -> PathBuf {
    instance.fragment.join(format!("sessions-{}", namespace.spec.name))
}
