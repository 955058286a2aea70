//! Nodes of a cluster as directories of this machine. Nothing is left behind, however a test ends.

use crate::{leaks, roles};
use forebay_agent::daemon::{
    AgentConfig, Holding, InstanceSecrets, NewFragment, Node, Serving, StageSpace, StorageConfig, StorageKind,
};
use forebay_controller::cluster::effect::{FileLayout, Part, Target, Use};
use forebay_controller::request::AccessRequest;
use forebay_model::ids::*;
use forebay_model::limits::InstancePolicies;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::{Bytes, MIB};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering::SeqCst};
use std::time::Duration;

pub const INSTANCE: InstanceId = InstanceId(42);
pub const STRIPED: ConfigurationId = ConfigurationId(7);
pub const PRIVATE: ConfigurationId = ConfigurationId(8);
/// Owner of every instance, and her group; the system knows neither.
pub const OWNER: (u32, u32) = (54_321, 54_322);
pub const SIZE: u64 = 64 * MIB;
/// Numbers of the nodes that give space.
pub const STORAGE: [u64; 2] = [0, 1];

/// The kind of fragments that an agent makes if nothing else is said.
pub const IMAGE: StorageKind = StorageKind::Image { overcommit: false };

/// The fragment of a node, of the owner of these tests.
pub fn part(instance: InstanceId, number: u64, bytes: Bytes) -> NewFragment {
    NewFragment { fragment: fragment(instance, number), instance, bytes, owner: OWNER.0 }
}

pub struct Scene {
    root: PathBuf,
    owned: bool,
    kind: StorageKind,
}

impl Scene {
    pub fn new(kind: StorageKind) -> Scene {
        let root = tempfile::Builder::new().prefix("agent-node-").tempdir().unwrap();
        let root = root.keep().canonicalize().unwrap();
        std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o755)).unwrap();
        for node in STORAGE {
            std::fs::create_dir_all(root.join(format!("disk{node}"))).unwrap();
        }
        write_ports(&root);
        let kind_word = if kind == IMAGE { "image" } else { "directory" };
        std::fs::write(root.join("kind"), kind_word).unwrap();
        Scene { root, owned: true, kind }
    }

    /// The same place, from another process.
    pub fn visit(root: &Path) -> Scene {
        let is_image = std::fs::read_to_string(root.join("kind")).unwrap() == "image";
        let kind = if is_image { IMAGE } else { StorageKind::Directory };
        Scene { root: root.to_owned(), owned: false, kind }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn disk(&self, number: u64) -> PathBuf {
        self.path(&format!("disk{number}"))
    }

    fn address(&self, number: u64) -> String {
        let ports = std::fs::read_to_string(self.path("ports")).unwrap();
        format!("127.0.0.1:{}", ports.split(' ').nth(number as usize).unwrap())
    }

    /// From now on the file servers of all nodes listen on other ports.
    pub fn move_servers(&self) {
        write_ports(&self.root);
    }

    fn socket(&self, number: u64) -> PathBuf {
        self.path(&format!("run{number}/server"))
    }

    pub fn config(&self, number: u64) -> AgentConfig {
        let storage = STORAGE.contains(&number).then(|| StorageConfig {
            pool: "pool".into(),
            directory: self.disk(number),
            kind: self.kind.clone(),
            capacity: Bytes(1 << 40),
            granularity: Bytes(MIB),
            listen: self.address(number).parse().unwrap(),
            address: self.address(number).parse().unwrap(),
            socket: self.socket(number),
            grace: Duration::from_secs(30),
        });
        AgentConfig {
            node: format!("node{number}"),
            controller: None,
            registry: "test".into(),
            state: self.path(&format!("state{number}")),
            keep_awake: Default::default(),
            io_uring: Default::default(),
            holders: Holding::Kill,
            storage,
        }
    }

    /// An agent's node; those of [`STORAGE`] give space.
    pub fn node(&self, number: u64) -> Node {
        self.node_with(self.config(number))
    }

    pub fn node_with(&self, config: AgentConfig) -> Node {
        Node::open(config).unwrap().with_program(roles::program(&self.root))
    }

    pub fn parts(&self, instance: InstanceId) -> Vec<Part> {
        let part = |number: &u64| Part {
            fragment: fragment(instance, *number),
            node: format!("node{number}"),
            address: Some(self.address(*number)),
            socket: Some(self.socket(*number).to_str().unwrap().into()),
        };
        STORAGE.iter().map(part).collect()
    }

    /// Makes an instance over all storage nodes and has it served.
    pub fn set_up(&self, instance: InstanceId) {
        for number in STORAGE {
            let node = self.node(number);
            node.make_fragment(&part(instance, number, Bytes(SIZE))).unwrap();
        }
        STORAGE.iter().for_each(|number| self.serve(instance, *number));
    }

    /// Has a killed file server started again, as an agent does at each of its rounds: one round takes a server for living whose lock
    /// is held for a moment by a process that another thread of this one is about to start.
    pub fn serve_again(&self, number: u64) {
        let state = self.path(&format!("state{number}"));
        wait_within(Duration::from_secs(30), "a file server lives again", || {
            self.node(number).keep_serving().unwrap();
            !leaks::with(&state, "file-server").is_empty()
        });
    }

    pub fn serve(&self, instance: InstanceId, number: u64) {
        let (parts, uses) = (self.parts(instance), uses());
        self.node(number).serve(&serving(instance, number, (&parts, &uses)), &secrets(instance)).unwrap();
    }

    /// Removes what [`Scene::set_up`] made.
    pub fn tear_down(&self, instance: InstanceId) {
        for number in STORAGE {
            self.node(number).remove_fragment(fragment(instance, number)).unwrap();
        }
    }

    /// What a node has written down of the instances that it serves, in order.
    pub fn of_instances(&self, number: u64) -> Vec<String> {
        let directory = std::fs::read_dir(self.path(&format!("state{number}/instances"))).unwrap();
        let mut names: Vec<String> =
            directory.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    /// What all clients share.
    pub fn striped(&self, instance: InstanceId) -> Target {
        Target {
            configuration: STRIPED,
            instance,
            access: access(AccessMode::Striped),
            namespace: NamespaceId(1),
            metadata: fragment(instance, 1),
            fragments: self.parts(instance),
            layout: FileLayout { stripe_bytes: Bytes(MIB), substripes: 1 },
        }
    }

    /// An instance as stagings name it.
    pub fn space(&self, instance: InstanceId, persistent: Option<&str>) -> StageSpace {
        let (target, token) = (self.striped(instance), secrets(instance).token);
        StageSpace { persistent: persistent.map(Into::into), target, token }
    }

    /// What one client has for itself.
    pub fn private(&self, instance: InstanceId, namespace: u64) -> Target {
        Target {
            configuration: PRIVATE,
            access: access(AccessMode::Private),
            namespace: NamespaceId(namespace),
            metadata: fragment(instance, namespace % 2),
            ..self.striped(instance)
        }
    }

    pub fn mount_point(&self, name: &str) -> String {
        self.path("mnt/batch").join(name).to_str().unwrap().to_owned()
    }

    /// Nothing of the instances is left: no process but file servers, no mount, no file on a disk.
    pub fn assert_disks_are_empty(&self) {
        for number in STORAGE {
            let mut left = leaks::files(&self.disk(number));
            left.retain(|file| !file.ends_with("forebay.json"));
            assert!(left.is_empty(), "{left:?}");
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if !self.owned {
            return;
        }
        // A process that is just being started may start another one.
        for _ in 0..20 {
            leaks::end_all(&self.root);
            if leaks::of(&self.root).is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        if let Err(error) = std::fs::remove_dir_all(&self.root) {
            eprintln!("{:?} could not be removed: {error}", self.root);
        }
    }
}

fn write_ports(root: &Path) {
    let ports: Vec<String> = STORAGE.iter().map(|_| free_port().to_string()).collect();
    std::fs::write(root.join("ports"), ports.join(" ")).unwrap();
}

/// A port that nobody has, and nobody is given while the test runs: below those of connections that go out, and another
/// one for each call and each process.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let base = 10_000 + (std::process::id() % 200) as u16 * 100;
    loop {
        let port = base + NEXT.fetch_add(1, SeqCst);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

pub fn fragment(instance: InstanceId, number: u64) -> FragmentId {
    FragmentId(instance.0 * 10 + number)
}

/// How an instance is served by a node, as [`OWNER`]'s and without limits.
pub fn serving<'a>(
    instance: InstanceId,
    number: u64,
    (fragments, configurations): (&'a [Part], &'a [Use]),
) -> Serving<'a> {
    Serving {
        fragment: fragment(instance, number),
        instance,
        owner: OWNER.0,
        group: OWNER.1,
        fragments,
        configurations,
        write_window: None,
        policies: InstancePolicies::default(),
    }
}

pub fn access(mode: AccessMode) -> AccessRequest {
    AccessRequest { mode, max_file_size: None, max_files: None, client_cache: false }
}

pub fn uses() -> Vec<Use> {
    let one = |configuration, mode, home| Use {
        configuration,
        kind: ConfigurationType::Scratch,
        access: access(mode),
        home,
        layout: FileLayout { stripe_bytes: Bytes(MIB), substripes: 1 },
    };
    vec![one(STRIPED, AccessMode::Striped, Some(1)), one(PRIVATE, AccessMode::Private, None)]
}

pub fn secrets(instance: InstanceId) -> InstanceSecrets {
    InstanceSecrets { token: format!("{:064x}", instance.0), seal: format!("{:064x}", instance.0 + 1) }
}

/// Not the token of any instance.
pub fn wrong_token() -> String {
    "9".repeat(64)
}

/// Waits until something is so.
pub fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    wait_within(Duration::from_secs(30), what, is_so);
}

/// The same for what takes long on a machine whose disks are busy.
pub fn wait_within(limit: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < limit, "waited for too long: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
