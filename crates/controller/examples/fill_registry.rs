//! Makes the registry of a busy cluster: so many storage nodes, so many jobs that run with eight fragments each.
//!
//! ```text
//! cargo run --release -p forebay-controller --example fill_registry -- STATE_DIRECTORY NODES INSTANCES
//! ```
//!
//! The core takes every job through setup and pre_run as it would under a workload manager, and agents that do what they are told
//! at once; then its rows are written as the service writes them. So a controller that is started on the directory finds what
//! it would have left there itself. For `benches/controller_scale.py`.

use forebay_controller::cluster::event::Registering;
use forebay_controller::cluster::request::{Setup, Space};
use forebay_controller::cluster::row::Change;
use forebay_controller::cluster::*;
use forebay_controller::request::AccessRequest;
use forebay_controller::service::{REGISTRY_FILE, Rows, SqliteRows};
use forebay_model::allocate::Strategy;
use forebay_model::capacity::Capacity;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::{Bytes, GIB};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Name of the registry, of its pool, and the size of a granule: those of the bench's configuration.
const REGISTRY: &str = "scale";
const POOL: &str = "wlm_pool";
/// Granules of a job, each on a node of its own where there are so many.
const GRANULES: u64 = 8;
/// Granules of a node for each of its fragments, so that half of the space stays free.
const SPARE: u64 = 2;
const ROOT: u32 = 0;
/// Jobs begin at moments of their own.
const BETWEEN_JOBS_S: u64 = 7;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [directory, nodes, instances] = &words[..] else {
        return Err("usage: fill_registry STATE_DIRECTORY NODES INSTANCES".into());
    };
    let (nodes, instances): (u64, u64) = (nodes.parse()?, instances.parse()?);
    let state = cluster(nodes, instances)?;
    let directory = PathBuf::from(directory);
    std::fs::create_dir_all(&directory)?;
    let mut rows = SqliteRows::open(&directory.join(REGISTRY_FILE), REGISTRY)?;
    let changes: Vec<Change> = state.tables().rows().into_iter().map(Change::Put).collect();
    rows.store(&changes)?;
    println!("{} rows", changes.len());
    Ok(())
}

fn cluster(nodes: u64, instances: u64) -> Result<State, Box<dyn std::error::Error>> {
    let settings = Settings {
        registry: REGISTRY.into(),
        operators: BTreeSet::new(),
        workload_managers: BTreeSet::new(),
        mount_root: "/mnt/dw".into(),
        policies: Default::default(),
        space_by_hand: forebay_controller::cluster::SpaceByHand::Unlimited,
        pools: vec![(POOL.into(), Bytes(GIB))],
        // No agent is lost while jobs begin.
        lost_after_s: i64::try_from(instances * BETWEEN_JOBS_S)? + limits::LOST_AFTER_S,
        storage_wait_s: limits::STORAGE_WAIT_S,
    };
    let mut state = State::new(settings)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let start = i64::try_from(now.saturating_sub(instances * BETWEEN_JOBS_S))?;
    step(&mut state, Event::Tick { now: start });
    let granules = (instances * GRANULES).div_ceil(nodes) * SPARE + GRANULES;
    for number in 0..nodes {
        let message = AgentMessage::Register(Registering {
            pool: Some(POOL.into()),
            capacity: Bytes(granules * GIB),
            address: Some(format!("nid{number:05}:7070")),
            ..Registering::default()
        });
        step(&mut state, Event::Agent { node: format!("nid{number:05}"), incarnation: 1, message });
    }
    for number in 1..=instances {
        step(&mut state, Event::Tick { now: start + i64::try_from(number * BETWEEN_JOBS_S)? });
        ask(&mut state, number * 2, setup(number));
        work_off(&mut state);
        let host = format!("nid{:05}", number % nodes);
        ask(&mut state, number * 2 + 1, Request::PreRun { token: number.to_string(), hosts: vec![host] });
        work_off(&mut state);
    }
    let mounted = state.tables().activations.len() as u64;
    if mounted == instances { Ok(state) } else { Err(format!("only {mounted} jobs run").into()) }
}

fn setup(number: u64) -> Request {
    let mode = AccessMode::Striped;
    let access = AccessRequest { mode, max_file_size: None, max_files: None, client_cache: false };
    let space = Space {
        capacity: Capacity::Bytes(Bytes(GRANULES * GIB)),
        pool: None,
        strategy: Strategy::Bandwidth,
        kind: ConfigurationType::Scratch,
        access: vec![access],
        write_window: None,
        policies: None,
    };
    Request::Setup(Setup {
        token: number.to_string(),
        creator: "SLURM".into(),
        owner: 1000 + u32::try_from(number % 100).unwrap_or_default(),
        group: 100,
        space: Some(space),
        attach: Vec::new(),
        stages: Vec::new(),
        swap: false,
    })
}

fn ask(state: &mut State, id: u64, request: Request) {
    step(state, Event::Request { id: RequestId(id), caller: Caller { uid: ROOT }, request });
}

/// What agents do who never fail.
fn work_off(state: &mut State) {
    loop {
        let tasks: Vec<_> = state.tables().tasks.values().cloned().collect();
        if tasks.is_empty() {
            return;
        }
        for task in tasks {
            let message = AgentMessage::Done { task: task.id, copied: None };
            step(state, Event::Agent { node: task.node, incarnation: 1, message });
        }
    }
}
