//! An instance that a server serves: its open fragment and its namespaces.
//!
//! Namespaces that clients have for themselves are made when they are first named ([`super::private`]), by the thread of the
//! connection that names them. Lock order: none of the locks here is taken while another is held.

use super::private::private_namespace;
use super::server_config::{InstanceConfig, NamespaceConfig, Owner};
use super::sweeper::Sweeper;
use super::{NodeError, read_secret, remote};
use forebay_client::remote::Peers;
use forebay_server::local::{NamespaceSpec, SpaceRule};
use forebay_server::net::{HostedNamespace, HostedTree, Secrets, ServedData, Server};
use forebay_server::node::{NodeInstance, NodeSpec, Tree};
use forebay_wire::{Caller, DataService, FsError, Ino, MetadataService, SetAttr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Namespaces of clients that are open at a time, of one instance: as many as a job may have nodes.
const PRIVATE_MAX: usize = 65_536;

/// See the module.
pub(super) struct Served {
    secrets: Secrets,
    parts: Mutex<Parts>,
}

struct Parts {
    config: InstanceConfig,
    /// `None` once it has ended.
    node: Option<Arc<NodeInstance>>,
    /// Ways to the other servers, for the names that are kept here.
    peers: Vec<Peers>,
    sweepers: Vec<Sweeper>,
    private: usize,
    is_offered: bool,
}

impl Served {
    /// Opens the fragment and serves. An error leaves nothing behind.
    pub(super) fn begin(server: &Server, config: &InstanceConfig) -> Result<Arc<Served>, NodeError> {
        let secrets =
            Secrets { token: read_secret(&config.token_file)?, seal: read_secret(&config.seal_file)? };
        let none = InstanceConfig { namespaces: Vec::new(), templates: Vec::new(), ..config.clone() };
        let parts = Parts {
            config: none,
            node: Some(open(config)?),
            peers: Vec::new(),
            sweepers: Vec::new(),
            private: 0,
            is_offered: false,
        };
        let served = Arc::new(Served { secrets, parts: Mutex::new(parts) });
        if let Err(error) = served.add(server, config) {
            let _ = served.end(server);
            return Err(error);
        }
        Ok(served)
    }

    /// Adds what is new; `false`: something else is different, and nothing was done.
    pub(super) fn extend(
        self: &Arc<Served>,
        server: &Server,
        config: &InstanceConfig,
    ) -> Result<bool, NodeError> {
        let known = self.parts().config.clone();
        let all = |config: &InstanceConfig| InstanceConfig {
            namespaces: known.namespaces.clone(),
            templates: known.templates.clone(),
            ..config.clone()
        };
        let is_kept = known.namespaces.iter().all(|one| config.namespaces.contains(one))
            && known.templates.iter().all(|one| config.templates.contains(one));
        if all(config) != known || !is_kept {
            return Ok(false);
        }
        self.add(server, config)?;
        Ok(true)
    }

    fn add(self: &Arc<Served>, server: &Server, config: &InstanceConfig) -> Result<(), NodeError> {
        for namespace in &config.namespaces {
            if self.parts().config.namespaces.contains(namespace) {
                continue;
            }
            let hosted = self.hosted(namespace)?;
            server.add(&config.name, self.secrets.clone(), hosted)?;
            self.parts().config.namespaces.push(namespace.clone());
        }
        let mut parts = self.parts();
        parts.config.templates.clone_from(&config.templates);
        let offer = !config.templates.is_empty() && !std::mem::replace(&mut parts.is_offered, true);
        drop(parts);
        if offer {
            let served = Arc::clone(self);
            server.offer(&config.name, self.secrets.clone(), Box::new(move |name| served.private(name)))?;
        }
        Ok(())
    }

    /// A namespace that a client has named.
    fn private(&self, name: &str) -> Option<Result<HostedNamespace, String>> {
        let mut parts = self.parts();
        let namespace = private_namespace(name, &parts.config.templates, parts.config.servers.len() as u32)?;
        if parts.private >= PRIVATE_MAX {
            return Some(Err(format!("the instance has {PRIVATE_MAX} namespaces of clients already")));
        }
        parts.private += 1;
        drop(parts);
        let hosted = self.hosted(&namespace);
        if hosted.is_err() {
            self.parts().private -= 1;
        }
        Some(hosted.map_err(|error| error.to_string()))
    }

    fn hosted(&self, namespace: &NamespaceConfig) -> Result<HostedNamespace, NodeError> {
        let (config, node) = self.open_parts()?;
        let data = node.data(&namespace.spec.name).map_err(|source| failed(&config, source))?;
        let data = ServedData::new(data);
        let is_home = namespace.home == config.position;
        let tree = match is_home {
            true => Some(self.tree(&config, &node, namespace, data.clone())?),
            false => None,
        };
        Ok(HostedNamespace {
            name: namespace.spec.name.clone(),
            data,
            tree,
            max_file_size: namespace.spec.limits.enforced_file_size(),
            position: config.position,
            servers: config.servers.len() as u32,
            direct_writes: config.space == SpaceRule::Hard && config.write_window.is_none(),
        })
    }

    fn tree(
        &self,
        config: &InstanceConfig,
        node: &NodeInstance,
        namespace: &NamespaceConfig,
        own: Arc<dyn DataService>,
    ) -> Result<HostedTree, NodeError> {
        let peers = remote::peers(config, namespace, self.secrets.seal.clone())?;
        let mut data = peers.data.clone();
        data[config.position as usize] = own;
        let tree = node.tree(&namespace.spec, data.clone()).map_err(|source| failed(config, source))?;
        if let Some(owner) = config.owner {
            give(&tree, owner).map_err(|source| failed(config, source))?;
        }
        let sweeper = Sweeper::start(tree.clone()).map_err(|source| NodeError::Thread { source })?;
        let mut parts = self.parts();
        parts.peers.push(peers);
        parts.sweepers.push(sweeper);
        Ok(HostedTree {
            metadata: tree,
            data,
            max_files: namespace.spec.limits.max_files,
            sessions: Some(sessions(config, &namespace.spec)),
        })
    }

    /// Nobody waits for other servers any more. Clients are not answered from before that: what fails by it they ask again
    /// when the instance is served anew.
    pub(super) fn let_go(&self, server: &Server) {
        let name = self.parts().config.name.clone();
        server.answer_nobody(&name);
        self.parts().peers.iter().for_each(Peers::close);
    }

    /// Ends it; an error means that the fragment was not closed cleanly.
    pub(super) fn end(&self, server: &Server) -> Result<(), FsError> {
        self.let_go(server);
        let (name, sweepers) = {
            let mut parts = self.parts();
            (parts.config.name.clone(), std::mem::take(&mut parts.sweepers))
        };
        drop(sweepers);
        server.remove(&name);
        // What was made while the server was being told.
        self.let_go(server);
        let (peers, sweepers, node) = {
            let mut parts = self.parts();
            (std::mem::take(&mut parts.peers), std::mem::take(&mut parts.sweepers), parts.node.take())
        };
        drop((peers, sweepers));
        node.map_or(Ok(()), NodeInstance::close)
    }

    fn open_parts(&self) -> Result<(InstanceConfig, Arc<NodeInstance>), NodeError> {
        let parts = self.parts();
        match &parts.node {
            Some(node) => Ok((parts.config.clone(), Arc::clone(node))),
            None => Err(failed(&parts.config, FsError::Unreachable)),
        }
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A new namespace belongs to whom the server runs as; its owner gets it once, and may change what is his.
fn give(tree: &Tree, owner: Owner) -> Result<(), FsError> {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let is_new = MetadataService::getattr(tree, Ino::ROOT)?.uid == uid;
    if !is_new || owner.uid == uid {
        return Ok(());
    }
    let change = SetAttr { uid: Some(owner.uid), gid: Some(owner.gid), ..SetAttr::default() };
    let me = Caller { uid, gid, pid: std::process::id() };
    MetadataService::setattr(tree, me, Ino::ROOT, None, &change).map(drop)
}

fn open(config: &InstanceConfig) -> Result<Arc<NodeInstance>, NodeError> {
    let spec = NodeSpec {
        root: config.fragment.clone(),
        instance: format!("{:x}", config.id.0),
        space: config.space,
        position: config.position,
        servers: config.servers.len() as u32,
    };
    let instance = NodeInstance::open(&spec).map_err(|source| failed(config, source))?;
    if let Some(window) = config.write_window {
        instance.limit_writes(window).map_err(|source| failed(config, source))?;
    }
    Ok(instance)
}

fn failed(config: &InstanceConfig, source: FsError) -> NodeError {
    NodeError::Fragment { instance: config.name.clone(), path: config.fragment.clone(), source }
}

/// Where the sessions of a namespace are written down.
fn sessions(config: &InstanceConfig, namespace: &NamespaceSpec) -> PathBuf {
    config.fragment.join(format!("sessions-{}", namespace.name))
}
