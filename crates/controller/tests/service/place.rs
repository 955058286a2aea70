//! A controller of its own for a test, with everything in one directory that all users may enter. The tests of the commands use it too.

use crate::agent::Agent;
use forebay_controller::client::{Address, Client};
use forebay_controller::cluster::request::{Request, Setup, Space, Stage};
use forebay_controller::request::{AccessRequest, StageDirection, StageKind};
use forebay_controller::service::{Config, Service};
use forebay_model::allocate::Strategy;
use forebay_model::capacity::Capacity;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::{Bytes, MIB};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

pub const GRANULE: u64 = 16 * MIB;
/// No answer and no state takes so long.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// The directory and what runs in it.
pub struct Place {
    pub directory: tempfile::TempDir,
    pub config: Config,
    service: Option<Service>,
}

impl Place {
    /// A running controller that listens on a Unix socket only.
    pub fn new() -> Place {
        Place::with("")
    }

    /// The same with more configuration.
    pub fn with(more: &str) -> Place {
        assert!(rustix::process::geteuid().is_root(), "run the tests as root: make test");
        let directory =
            tempfile::Builder::new().permissions(Permissions::from_mode(0o755)).tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        let text = format!(
            "socket = '{}'\nstate = '{}'\noperators = [77]\nworkload_managers = [64030]\n{more}\n\
             [[pool]]\nname = 'wlm_pool'\ngranularity = '16MiB'\n",
            at("controller.sock"),
            at("state"),
        );
        let config = Config::parse(&text, Path::new("test")).unwrap();
        let mut place = Place { directory, config, service: None };
        place.start();
        place
    }

    pub fn start(&mut self) {
        self.service = Some(Service::start(&self.config).unwrap());
    }

    pub fn stop(&mut self) {
        self.service.take().unwrap().stop().unwrap();
    }

    /// A client over the Unix socket: root.
    pub fn client(&self) -> Client {
        Client::open(Address::Unix(self.config.socket.clone().unwrap()))
    }

    /// So many storage nodes of four granules and compute nodes, with agents.
    pub fn agents(&self, storage: usize, compute: usize) -> Vec<Agent> {
        let storage = (1..=storage).map(|n| Agent::start(self.client(), format!("s{n}"), 4 * GRANULE));
        let compute = (1..=compute).map(|n| Agent::start(self.client(), format!("c{n}"), 0));
        let agents: Vec<Agent> = storage.chain(compute).collect();
        await_it("all agents are known", || {
            let nodes = self.client().snapshot().unwrap().nodes;
            nodes.iter().filter(|node| node.online).count() >= agents.len()
        });
        agents
    }

    pub fn free(&self) -> u64 {
        self.client().snapshot().unwrap().pools[0].free.0
    }
}

/// Waits for a condition.
pub fn await_it(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "it never happens that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Three granules for a job of uid 1000, one file in and one out.
pub fn setup(token: &str) -> Request {
    let access = AccessRequest {
        mode: AccessMode::Striped,
        max_file_size: None,
        max_files: None,
        client_cache: false,
    };
    let space = Space {
        capacity: Capacity::Bytes(Bytes(2 * GRANULE + 1)),
        pool: None,
        strategy: Strategy::default(),
        kind: ConfigurationType::Scratch,
        access: vec![access],
        write_window: None,
        policies: None,
    };
    let stage = |direction, name: &str| Stage {
        direction,
        kind: StageKind::File,
        persistent: None,
        pfs: format!("/pfs/{name}").into_bytes(),
        instance_path: name.as_bytes().to_vec(),
        tolerate_errors: false,
    };
    Request::Setup(Setup {
        token: token.into(),
        creator: "SLURM".into(),
        owner: 1000,
        group: 100,
        space: Some(space),
        attach: Vec::new(),
        stages: vec![stage(StageDirection::In, "in"), stage(StageDirection::Out, "out")],
        swap: false,
    })
}

pub fn job(verb: &str, token: &str) -> Request {
    let token = token.to_owned();
    match verb {
        "data_in" => Request::DataIn { token },
        "paths" => Request::Paths { token },
        "real_size" => Request::RealSize { token },
        "post_run" => Request::PostRun { token },
        "data_out" => Request::DataOut { token },
        "teardown" => Request::Teardown { token, hurry: false },
        _ => panic!("{verb}"),
    }
}

pub fn pre_run(token: &str, hosts: &[&str]) -> Request {
    Request::PreRun { token: token.into(), hosts: hosts.iter().map(|host| (*host).to_owned()).collect() }
}
