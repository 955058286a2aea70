//! How fast the controller is as the cluster grows: a start from the registry, what dwstat reads, an allocation, the
//! setup of an instance on eight servers, and what the process holds in memory.
//!
//! usage: cargo run --release --package forebay-controller --example controller_speed [-- NODES INSTANCES]
//!
//! The registry is filled by the core itself; then a controller in a process of its own is started on it and asked over
//! its Unix socket. Its agents only pretend to work. Prints one line for each size; needs root, because agents are root.

use forebay_controller::client::{Address, Client, Heard, Orders};
use forebay_controller::cluster::effect::Work;
use forebay_controller::cluster::event::Registering;
use forebay_controller::cluster::request::{Setup, Space};
use forebay_controller::cluster::view::Shown;
use forebay_controller::cluster::*;
use forebay_controller::request::AccessRequest;
use forebay_controller::service::{Config, REGISTRY_FILE, Rows, Service, SqliteRows};
use forebay_model::allocate::Strategy;
use forebay_model::capacity::Capacity;
use forebay_model::ids::SessionId;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::{Bytes, GIB};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CONFIG: &str = "FOREBAY_BENCH_CONTROLLER";
const SIZES: [(u64, u64); 4] = [(10, 100), (100, 1_000), (300, 3_000), (1_000, 10_000)];
const FRAGMENTS: u64 = 8;
const SERVERS: u64 = 8;
const ROUNDS: usize = 20;

fn main() {
    if let Some(file) = std::env::var_os(CONFIG) {
        let service = Service::start(&Config::read(Path::new(&file)).unwrap()).unwrap();
        println!("ready");
        return service.wait().unwrap();
    }
    let numbers: Vec<u64> = std::env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    println!(
        "{:>6} {:>9} {:>8} {:>9} {:>11} {:>13} {:>11} {:>11} {:>9} {:>8}",
        "nodes",
        "instances",
        "rows",
        "start ms",
        "pools ms",
        "instances ms",
        "all ms",
        "allocate ms",
        "setup ms",
        "RSS MiB"
    );
    match numbers[..] {
        [nodes, instances] => measure(nodes, instances),
        _ => SIZES.iter().for_each(|(nodes, instances)| measure(*nodes, *instances)),
    }
}

fn config(directory: &Path) -> String {
    let at = |name: &str| directory.join(name).display().to_string();
    format!(
        "socket = '{}'\nstate = '{}'\nlost_after_s = 3600\n\
         [[pool]]\nname = 'wlm_pool'\ngranularity = '1GiB'\n[[pool]]\nname = 'live'\ngranularity = '1GiB'\n",
        at("c.sock"),
        at("state")
    )
}

/// Fills a registry; how many rows it has.
fn fill(directory: &Path, config: &Config, (nodes, instances): (u64, u64)) -> usize {
    let mut state = State::new(config.settings()).unwrap();
    let per_node = (instances * FRAGMENTS).div_ceil(nodes) + 64;
    let mut take = |event| step(&mut state, event);
    take(Event::Tick { now: 1 });
    for number in 0..nodes {
        let message = AgentMessage::Register(Registering {
            pool: Some("wlm_pool".into()),
            capacity: Bytes(per_node * GIB),
            address: Some(format!("nid{number:05}:4041")),
            ..Registering::default()
        });
        take(Event::Agent { node: format!("nid{number:05}"), incarnation: 1, message });
    }
    for number in 1..=instances {
        let (id, caller) = (RequestId(number), Caller { uid: 0 });
        step(&mut state, Event::Request { id, caller, request: setup(number, "wlm_pool") });
        loop {
            let first = state.tables().tasks.values().next().cloned();
            let Some(task) = first else { break };
            let message = AgentMessage::Done { task: task.id, copied: None };
            step(&mut state, Event::Agent { node: task.node, incarnation: 1, message });
        }
    }
    std::fs::create_dir(directory.join("state")).unwrap();
    let mut rows = SqliteRows::open(&directory.join("state").join(REGISTRY_FILE), &config.registry).unwrap();
    let all = state.tables().rows();
    rows.store(&all.iter().cloned().map(row::Change::Put).collect::<Vec<_>>()).unwrap();
    all.len()
}

fn setup(number: u64, pool: &str) -> Request {
    Request::Setup(Setup {
        token: number.to_string(),
        creator: "SLURM".into(),
        owner: 1000 + (number % 50) as u32,
        group: 100,
        space: Some(space(pool)),
        attach: Vec::new(),
        stages: Vec::new(),
        swap: false,
    })
}

fn space(pool: &str) -> Space {
    let mode = AccessMode::Striped;
    Space {
        capacity: Capacity::Bytes(Bytes(FRAGMENTS * GIB)),
        pool: Some(pool.into()),
        strategy: Strategy::Bandwidth,
        kind: ConfigurationType::Scratch,
        access: vec![AccessRequest { mode, max_file_size: None, max_files: None, client_cache: false }],
        write_window: None,
        policies: None,
    }
}

/// The controller; ended when dropped.
struct Running(Child);

impl Running {
    fn start(file: &Path) -> Running {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(CONFIG, file)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready");
        Running(child)
    }

    fn resident_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn measure(nodes: u64, instances: u64) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("controller.toml");
    let text = config(directory.path());
    std::fs::write(&file, &text).unwrap();
    let parsed = Config::parse(&text, &file).unwrap();
    let rows = fill(directory.path(), &parsed, (nodes, instances));
    let client = Client::open(Address::Unix(directory.path().join("c.sock")));
    let start = Instant::now();
    let running = Running::start(&file);
    client.look(&[Shown::Pools]).unwrap();
    let start_ms = start.elapsed().as_secs_f64() * 1e3;
    let pools = median(ROUNDS, || drop(client.look(&[Shown::Pools]).unwrap()));
    let seen = client.look(&[Shown::Instances]).unwrap().instances.len() as u64;
    assert_eq!(seen, instances);
    let some = median(ROUNDS, || drop(client.look(&[Shown::Instances]).unwrap()));
    let all = median(5, || drop(client.snapshot().unwrap()));
    let allocate = allocation(&client);
    let setup = live_setup(&client, instances);
    println!(
        "{nodes:>6} {instances:>9} {rows:>8} {start_ms:>9.0} {pools:>11.2} {some:>13.1} {all:>11.1} {allocate:>11.2} {setup:>9.1} {:>8.0}",
        running.resident_mib()
    );
}

/// Milliseconds that something takes in the middle.
fn median(rounds: usize, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Space for an instance is dealt and stored; no agent is waited for.
fn allocation(client: &Client) -> f64 {
    let session = Request::CreateSession {
        token: "bench".into(),
        owner: 0,
        group: 0,
        hosts: Vec::new(),
        creator: None,
    };
    let Answer::Accepted { id, .. } = client.ask(&session).unwrap() else { panic!("no session") };
    let mut number = 0;
    median(ROUNDS, || {
        number += 1;
        let (session, label) = (SessionId(id), format!("b{number}"));
        client.ask(&Request::CreateInstance { session, label, space: space("wlm_pool") }).unwrap();
    })
}

/// A job's space on eight servers from setup to teardown; the time of setup.
fn live_setup(client: &Client, instances: u64) -> f64 {
    let ends = Arc::new(AtomicBool::new(false));
    let agents: Vec<_> = (0..SERVERS)
        .map(|number| {
            let (client, ends) = (client.clone(), Arc::clone(&ends));
            std::thread::spawn(move || pretend(&client, &format!("live{number}"), &ends))
        })
        .collect();
    let quantity = || client.look(&[Shown::Pools]).unwrap().pools.iter().map(|p| p.quantity.0).min();
    while quantity() != Some(SERVERS * 64) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut times = Vec::new();
    for number in instances + 1..=instances + ROUNDS as u64 {
        let start = Instant::now();
        client.ask(&setup(number, "live")).unwrap();
        times.push(start.elapsed().as_secs_f64() * 1e3);
        client.ask(&Request::Teardown { token: number.to_string(), hurry: false }).unwrap();
    }
    ends.store(true, Ordering::Relaxed);
    agents.into_iter().for_each(|agent| agent.join().unwrap());
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// An agent without a disk.
fn pretend(client: &Client, node: &str, ends: &AtomicBool) {
    let register = AgentMessage::Register(Registering {
        pool: Some("live".into()),
        capacity: Bytes(64 * GIB),
        address: Some(format!("{node}:4041")),
        ..Registering::default()
    });
    assert_eq!(client.tell(node, 1, &register), Ok(Heard::Yes));
    let mut known = 0;
    while !ends.load(Ordering::Relaxed) {
        let Ok(Orders::List(list)) = client.orders(node, 1, known, Duration::from_secs(1)) else { continue };
        known = list.number;
        for order in &list.orders {
            assert!(!matches!(order.work, Work::Stage { .. } | Work::Mount { .. }));
            client.tell(node, 1, &AgentMessage::Done { task: order.task, copied: None }).unwrap();
        }
    }
}
