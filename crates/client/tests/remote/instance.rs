//! An instance whose servers are started one by one in this process, each behind a proxy.

use super::proxy::Proxy;
use super::support::Shape;
use super::support::nodes::node_spec;
use forebay_client::Volume;
use forebay_client::remote::{Address, Attached, Description, Peers, Timeouts, attach, peers};
use forebay_model::limits::WriteWindow;
use forebay_server::local::NamespaceSpec;
use forebay_server::net::{HostedNamespace, HostedTree, NetConfig, Secrets, ServedData, Server};
use forebay_server::node::{NodeData, NodeInstance};
use forebay_wire::{DataService, Secret};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

pub const INSTANCE: &str = "i7";
pub const NAMESPACE: &str = "c1";

struct Running {
    server: Server,
    node: Arc<NodeInstance>,
    data: Weak<NodeData>,
    peers: Option<Peers>,
}

pub struct Served {
    pub directory: tempfile::TempDir,
    pub shape: Shape,
    pub home: usize,
    pub proxies: Vec<Proxy>,
    pub grace: Duration,
    pub window: Option<WriteWindow>,
    running: Vec<Option<Running>>,
}

pub fn token() -> Secret {
    Secret::new(&[7; 32]).unwrap()
}

pub fn seal() -> Secret {
    Secret::new(&[8; 32]).unwrap()
}

impl Served {
    pub fn new(shape: Shape) -> Served {
        Served::with(shape, 0, Duration::from_secs(30))
    }

    /// One that limits how much is written to each fragment.
    pub fn limited(shape: Shape, window: WriteWindow) -> Served {
        let mut served = Served::new(shape);
        served.window = Some(window);
        (0..served.shape.fragments).for_each(|position| served.restart(position));
        served
    }

    pub fn with(shape: Shape, home: usize, grace: Duration) -> Served {
        let directory = tempfile::tempdir().unwrap();
        let proxies = (0..shape.fragments).map(|_| Proxy::new()).collect();
        let running = (0..shape.fragments).map(|_| None).collect();
        let mut served = Served { directory, shape, home, proxies, grace, window: None, running };
        (0..served.shape.fragments).for_each(|position| served.start(position));
        served
    }

    pub fn socket(&self, position: usize) -> PathBuf {
        self.directory.path().join(format!("socket{position}"))
    }

    /// How the instance is described to who has this secret.
    pub fn description(&self, secret: Secret) -> Description {
        let address = |proxy: &Proxy| Address { tcp: proxy.address.to_string(), unix: None };
        Description {
            instance: INSTANCE.into(),
            namespace: NAMESPACE.into(),
            servers: self.proxies.iter().map(address).collect(),
            home: self.home as u32,
            secret,
            timeouts: Timeouts { unreachable: Duration::from_secs(60), ..Timeouts::default() },
            direct: false,
        }
    }

    /// The same over the Unix sockets.
    pub fn local_description(&self, direct: bool) -> Description {
        let mut description = Description { direct, ..self.description(token()) };
        for (position, address) in description.servers.iter_mut().enumerate() {
            address.unix = Some(self.socket(position));
        }
        description
    }

    pub fn start(&mut self, position: usize) {
        let node = NodeInstance::open(&node_spec(self.directory.path(), &self.shape, position)).unwrap();
        if let Some(window) = self.window {
            node.limit_writes(window).unwrap();
        }
        let config = NetConfig {
            tcp: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            unix: Some(self.socket(position)),
            grace: self.grace,
            ..NetConfig::default()
        };
        let server = Server::start(config).unwrap();
        let own = node.data(NAMESPACE).unwrap();
        let weak = Arc::downgrade(&own);
        let data = ServedData::new(own);
        let (tree, peers) = if position == self.home {
            let peers = peers(&self.description(seal())).unwrap();
            let mut all = peers.data.clone();
            all[position] = data.clone() as Arc<dyn DataService>;
            let spec = NamespaceSpec {
                name: NAMESPACE.into(),
                layout: self.shape.layout,
                limits: self.shape.limits,
            };
            let metadata = node.tree(&spec, all.clone()).unwrap();
            let sessions = Some(self.directory.path().join("sessions"));
            (Some(HostedTree { metadata, data: all, max_files: None, sessions }), Some(peers))
        } else {
            (None, None)
        };
        let namespace = HostedNamespace {
            name: NAMESPACE.into(),
            data,
            tree,
            max_file_size: self.shape.limits.enforced_file_size(),
            position: position as u32,
            servers: self.shape.fragments as u32,
            direct_writes: true,
        };
        server.add(INSTANCE, Secrets { token: token(), seal: seal() }, namespace).unwrap();
        self.proxies[position].lead_to(Some(server.addresses().unwrap()[0]));
        self.running[position] = Some(Running { server, node, data: weak, peers });
    }

    /// Ends a server as SIGTERM does.
    pub fn stop(&mut self, position: usize) {
        self.proxies[position].lead_to(None);
        if let Some(Running { server, node, data, peers }) = self.running[position].take() {
            server.answer_nobody(INSTANCE);
            if let Some(peers) = &peers {
                peers.close();
            }
            server.stop();
            drop(peers);
            // The threads of connections let go of it as the last thing they do.
            let begun = Instant::now();
            while data.strong_count() > 0 {
                assert!(
                    begun.elapsed() < Duration::from_secs(10),
                    "somebody still holds the data of {position}"
                );
                std::thread::sleep(Duration::from_millis(1));
            }
            node.close().expect("nothing holds the fragment");
        }
    }

    /// Waits until the home has written a client down.
    pub fn await_session(&self) {
        let begun = Instant::now();
        let listed = || std::fs::read_to_string(self.directory.path().join("sessions")).unwrap_or_default();
        while listed().lines().count() < 2 {
            assert!(begun.elapsed() < Duration::from_secs(30), "nobody is written down");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub fn restart(&mut self, position: usize) {
        self.stop(position);
        self.proxies[position].cut();
        self.start(position);
    }

    pub fn attach(&self) -> Attached {
        attach(&self.description(token())).unwrap()
    }
}

pub fn volume(attached: &Attached) -> Volume {
    Volume::new(attached.metadata.clone(), attached.data.clone()).with_locks(attached.locks.clone())
}

impl Drop for Served {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            (0..self.running.len()).for_each(|position| self.stop(position));
        }
    }
}
