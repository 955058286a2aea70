//! A server with one instance of one fragment, for tests.

use crate::client::{Connection, Hello, Welcome, connect, tcp};
use forebay_awake::{Awake, Idle};
use forebay_server::local::{Limits, NamespaceSpec};
use forebay_server::net::{HostedNamespace, HostedTree, NetConfig, Secrets, ServedData, Server};
use forebay_server::node::{NodeInstance, NodeSpec, SpaceRule};
use forebay_wire::message::{ConnectionKind, Credentials, Name, RefusalReason, Role, SessionId};
use forebay_wire::proof::Secret;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub const INSTANCE: &str = "i7";
pub const NAMESPACE: &str = "c1";
pub const TOKEN: &[u8; 32] = &[1; 32];
pub const SEAL: &[u8; 32] = &[2; 32];
const CAPACITY: u64 = 64 << 20;

pub struct Place {
    directory: tempfile::TempDir,
    node: Option<Arc<NodeInstance>>,
    pub server: Option<Server>,
    pub address: SocketAddr,
    grace: Duration,
    connections_max: usize,
    handshake_time: Duration,
}

impl Place {
    pub fn new(grace: Duration) -> Place {
        Place::with(grace, 64)
    }

    pub fn with(grace: Duration, connections_max: usize) -> Place {
        Place::with_handshake(grace, connections_max, NetConfig::default().handshake_time)
    }

    pub fn with_handshake(grace: Duration, connections_max: usize, handshake_time: Duration) -> Place {
        let directory = tempfile::tempdir().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut place =
            Place { directory, node: None, server: None, address, grace, connections_max, handshake_time };
        place.start();
        place
    }

    /// Stands for the kernel's device by which processors are kept awake.
    pub fn latency(&self) -> PathBuf {
        self.directory.path().join("latency")
    }

    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    /// Starts a server, as after the end of one.
    pub fn start(&mut self) {
        let root = self.directory.path().join("fragment");
        std::fs::create_dir_all(&root).unwrap();
        let space = SpaceRule::Metered(forebay_model::units::Bytes(CAPACITY));
        let spec = NodeSpec { root, instance: "abc".to_owned(), space, position: 0, servers: 1 };
        let node = NodeInstance::open(&spec).unwrap();
        let spec = NamespaceSpec {
            name: NAMESPACE.to_owned(),
            layout: Default::default(),
            limits: Limits::default(),
        };
        let data = ServedData::new(node.data(NAMESPACE).unwrap());
        let tree = node.tree(&spec, vec![data.clone()]).unwrap();
        std::fs::write(self.latency(), "").unwrap();
        let config = NetConfig {
            tcp: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            unix: Some(self.socket()),
            grace: self.grace,
            connections_max: self.connections_max,
            handshake_time: self.handshake_time,
            awake: Awake::new(&Idle::at(&self.latency(), "haltpoll")),
            ..NetConfig::default()
        };
        let server = Server::start(config).unwrap();
        let tree = HostedTree {
            metadata: tree,
            data: vec![data.clone()],
            max_files: None,
            sessions: Some(self.directory.path().join("sessions")),
        };
        let namespace = HostedNamespace {
            name: NAMESPACE.to_owned(),
            data,
            tree: Some(tree),
            max_file_size: 1 << 40,
            position: 0,
            servers: 1,
            direct_writes: false,
        };
        server.add(INSTANCE, secrets(), namespace).unwrap();
        self.address = server.addresses().unwrap()[0];
        self.server = Some(server);
        self.node = Some(node);
    }

    /// Ends the server. The fragment must be free of it then.
    pub fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop();
        }
        if let Some(node) = self.node.take() {
            node.close().expect("nothing holds the fragment");
        }
    }

    pub fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs")
    }

    pub fn node(&self) -> &Arc<NodeInstance> {
        self.node.as_ref().expect("it runs")
    }

    pub fn hello(&self, client: u8, kind: ConnectionKind) -> Hello {
        Hello {
            instance: INSTANCE.to_owned(),
            namespace: NAMESPACE.to_owned(),
            versions: (1, 1),
            role: Role::Client,
            kind,
            session: SessionId([client; 16]),
            secret: TOKEN.to_vec(),
        }
    }

    pub fn try_connect(&self, hello: &Hello) -> Result<(Connection, Welcome), RefusalReason> {
        connect(tcp(self.address), hello)
    }

    pub fn connect(&self, client: u8, kind: ConnectionKind) -> Connection {
        self.try_connect(&self.hello(client, kind)).unwrap().0
    }

    pub fn metadata(&self, client: u8) -> Connection {
        self.connect(client, ConnectionKind::Metadata)
    }

    pub fn callback(&self, client: u8) -> Connection {
        self.connect(client, ConnectionKind::Callback)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

pub fn secrets() -> Secrets {
    Secrets { token: Secret::new(TOKEN).unwrap(), seal: Secret::new(SEAL).unwrap() }
}

pub fn name(name: &str) -> Name {
    Name::new(name.as_ref()).unwrap()
}

pub fn me() -> Credentials {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Credentials { uid, gid, pid: std::process::id(), groups: Vec::new() }
}
