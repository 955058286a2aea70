//! The servers of one instance: the product's own, each in a simulated process over a real directory.

use crate::machine::{self, Process, Seen};
use forebay_client::remote::{Address, Description, Peers, Timeouts, peers};
use forebay_model::layout::LayoutChoice;
use forebay_server::check::{self, Finding};
use forebay_server::local::{Limits, NamespaceSpec, SpaceRule};
use forebay_server::net::{HostedNamespace, HostedTree, NetConfig, Secrets, ServedData, Server};
use forebay_server::node::{NodeInstance, NodeSpec, Tree};
use forebay_wire::{DataService, FsError, Secret};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

const INSTANCE: &str = "i7";
const WORD: &str = "5eed";
const NAMESPACE: &str = "c1";
const PORT: u16 = 7000;
/// So small that everything crosses stripes.
pub const STRIPE_BYTES: u64 = 4096;
/// How long a session lives without a connection.
const GRACE: Duration = Duration::from_secs(20);
/// Pause between two tries to look through the other servers.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);
/// How long a stopping server waits for the last of its threads.
const LET_GO_WITHIN: Duration = Duration::from_secs(10);

/// What a server says when it serves, and when it has ended as it was told to.
pub const SERVES: &str = "serves";
pub const STOPPED: &str = "stopped";

#[derive(Default)]
struct Word {
    is_stop: Mutex<bool>,
    said: Condvar,
}

struct Running {
    process: Process,
    word: Arc<Word>,
}

/// See the module.
pub struct Site {
    directory: PathBuf,
    home: usize,
    servers: Vec<Option<Running>>,
}

fn token() -> Secret {
    Secret::new(&[7; 32]).expect("long enough")
}

fn seal() -> Secret {
    Secret::new(&[8; 32]).expect("long enough")
}

/// What every process knows of the instance.
#[derive(Clone)]
pub struct Map {
    directory: PathBuf,
    servers: usize,
    home: usize,
}

impl Map {
    fn address(position: usize) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, position as u8 + 1], PORT))
    }

    fn root(&self, position: usize) -> PathBuf {
        self.directory.join(format!("node{position}"))
    }

    /// How many servers there are.
    pub fn servers(&self) -> usize {
        self.servers
    }

    /// How the instance is described to its clients.
    pub fn description(&self) -> Description {
        self.described(token())
    }

    fn described(&self, secret: Secret) -> Description {
        let address = |position| Address { tcp: Map::address(position).to_string(), unix: None };
        Description {
            instance: INSTANCE.into(),
            namespace: NAMESPACE.into(),
            servers: (0..self.servers).map(address).collect(),
            home: self.home as u32,
            secret,
            timeouts: Timeouts { attach: Duration::from_secs(300), ..Timeouts::default() },
            direct: false,
        }
    }

    /// The main function of a server.
    fn serve(&self, position: usize, word: &Word, process: impl Fn(&str)) {
        let root = self.root(position).join("fragment");
        let (own, servers) = (position as u32, self.servers as u32);
        let node = NodeSpec { root, instance: WORD.into(), space: SpaceRule::Hard, position: own, servers };
        let node = NodeInstance::open(&node).expect("the fragment is opened");
        let tcp = vec![Map::address(position)];
        let awaited = vec![INSTANCE.to_owned()];
        let config = NetConfig { tcp, grace: GRACE, awaited, ..NetConfig::default() };
        let server = Server::start(config).expect("a server");
        let own_data = node.data(NAMESPACE).expect("data");
        let kept = Arc::downgrade(&own_data);
        let data = ServedData::new(own_data);
        let (tree, peers) = self.tree(position, &node, &data);
        let is_over = Arc::<AtomicBool>::default();
        let sweeper = tree.as_ref().map(|tree| sweep(tree.metadata.clone(), is_over.clone()));
        let namespace = HostedNamespace {
            name: NAMESPACE.into(),
            data,
            tree,
            max_file_size: i64::MAX as u64,
            position: own,
            servers,
            direct_writes: false,
        };
        server.add(INSTANCE, Secrets { token: token(), seal: seal() }, namespace).expect("it is served");
        server.is_complete(INSTANCE);
        process(SERVES);
        let mut is_stop = word.is_stop.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_stop {
            is_stop = word.said.wait(is_stop).unwrap_or_else(PoisonError::into_inner);
        }
        drop(is_stop);
        server.answer_nobody(INSTANCE);
        is_over.store(true, SeqCst);
        if let Some(peers) = &peers {
            peers.close();
        }
        if let Some(sweeper) = sweeper {
            sweeper.join().expect("the sweeper ends");
        }
        server.stop();
        drop(peers);
        let begun = std::time::Instant::now();
        while kept.strong_count() > 0 {
            assert!(begun.elapsed() < LET_GO_WITHIN, "somebody still holds the data of server {position}");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Where there is no space for its counters the next open walks.
        let closed = node.close();
        assert!(matches!(closed, Ok(()) | Err(FsError::NoSpace)), "the fragment is closed: {closed:?}");
        process(STOPPED);
    }

    fn tree(
        &self,
        position: usize,
        node: &NodeInstance,
        data: &Arc<ServedData>,
    ) -> (Option<HostedTree>, Option<Peers>) {
        if position != self.home {
            return (None, None);
        }
        let peers = peers(&self.described(seal())).expect("peers");
        let mut all = peers.data.clone();
        all[position] = data.clone() as Arc<dyn DataService>;
        let layout = LayoutChoice { stripe_size: Some(STRIPE_BYTES), ..LayoutChoice::default() };
        let spec = NamespaceSpec { name: NAMESPACE.into(), layout, limits: Limits::default() };
        let metadata = node.tree(&spec, all.clone()).expect("a tree");
        let sessions = Some(self.root(position).join("sessions"));
        (Some(HostedTree { metadata, data: all, max_files: None, sessions }), Some(peers))
    }
}

/// Looks through what other servers hold of files without a name, as `forebay serve` does.
fn sweep(tree: Arc<Tree>, is_over: Arc<AtomicBool>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        while tree.sweep().is_err() && !is_over.load(SeqCst) {
            std::thread::sleep(SWEEP_PAUSE);
        }
    })
}

impl Site {
    /// An instance without a server yet.
    pub fn new(directory: &Path, servers: usize, home: usize) -> Site {
        let site =
            Site { directory: directory.to_owned(), home, servers: (0..servers).map(|_| None).collect() };
        for position in 0..servers {
            std::fs::create_dir_all(site.map().root(position).join("fragment")).expect("a directory");
        }
        site
    }

    pub fn map(&self) -> Map {
        Map { directory: self.directory.clone(), servers: self.servers.len(), home: self.home }
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Starts a server that does not run.
    pub fn start(&mut self, position: usize) {
        assert!(self.servers[position].is_none(), "server {position} runs");
        let (map, word) = (self.map(), Arc::<Word>::default());
        let heard = word.clone();
        let process = machine::start(&format!("server{position}"), move || {
            let process = machine::own_process();
            map.serve(position, &heard, |said| machine::tell(Seen::Said(process, said.to_owned())));
        });
        machine::set_mortal(process);
        self.servers[position] = Some(Running { process, word });
    }

    pub fn is_running(&self, position: usize) -> bool {
        self.servers[position].is_some()
    }

    /// Which server a process is.
    pub fn position(&self, process: Process) -> Option<usize> {
        self.servers
            .iter()
            .position(|running| running.as_ref().is_some_and(|running| running.process == process))
    }

    /// Tells a server to end; it says when it has.
    pub fn ask_to_stop(&mut self, position: usize) {
        if let Some(running) = &self.servers[position] {
            *running.word.is_stop.lock().unwrap_or_else(PoisonError::into_inner) = true;
            running.word.said.notify_all();
        }
    }

    /// It was killed by a fault, or has ended: what it had open is closed.
    pub fn is_gone(&mut self, position: usize) {
        self.servers[position] = None;
        machine::bury(&self.map().root(position));
    }

    /// Kills a server.
    pub fn kill(&mut self, position: usize) {
        if let Some(running) = self.servers[position].take() {
            machine::kill(running.process, &self.map().root(position));
        }
    }

    /// The disks lose what was not synced when the power goes.
    pub fn have_disks(&self) {
        for position in 0..self.servers.len() {
            let kept = self.directory.join(format!("kept{position}"));
            std::fs::create_dir(&kept).expect("a directory");
            machine::add_disk(&self.map().root(position), &kept);
        }
    }

    /// A server's power was cut by a fault.
    pub fn lost_power(&mut self, position: usize) {
        self.servers[position] = None;
        machine::lose_power(&self.map().root(position));
    }

    /// The power of a server's machine goes.
    pub fn crash(&mut self, position: usize) {
        if let Some(running) = self.servers[position].take() {
            machine::crash(running.process, &self.map().root(position));
        }
    }

    /// The disk of a server fails after so many calls, at so many, and not any more when it is started anew.
    pub fn fail_disk(&self, position: usize, after: u64, count: u64) {
        machine::fail_disk(self.servers[position].as_ref().expect("it runs").process, after, count);
    }

    /// The disk of a server that serves may be full.
    pub fn may_be_full(&self, process: Process) {
        machine::may_be_full(process);
    }

    /// Checks all fragments as `forebay fsck` does; no server runs. Returns what is wrong.
    pub fn check(&self) -> Vec<Finding> {
        let map = self.map();
        let part =
            |position| check::Part { position: position as u32, root: map.root(position).join("fragment") };
        let instance = check::Instance {
            servers: map.servers as u32,
            parts: (0..map.servers).map(part).collect(),
            namespaces: vec![(NAMESPACE.into(), map.home as u32)],
        };
        let mut found = Vec::new();
        check::check(&instance, check::Mode::Look, &mut |finding| {
            if !finding.is_harmless() {
                found.push(finding.clone());
            }
        })
        .expect("the fragments can be checked");
        found
    }
}
