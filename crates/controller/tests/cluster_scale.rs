//! What a step of the cluster's controller costs as the cluster grows.
//!
//! The test counts what a step stores: it must depend on the request, not on the size of the cluster. The table of times
//! is for people: `cargo test --release --test cluster_scale -- --ignored --nocapture`.

use forebay_controller::cluster::event::Registering;
use forebay_controller::cluster::request::{Setup, Space};
use forebay_controller::cluster::row::{Row, Verb};
use forebay_controller::cluster::*;
use forebay_controller::request::AccessRequest;
use forebay_model::allocate::Strategy;
use forebay_model::capacity::Capacity;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::{Bytes, GIB};
use std::collections::BTreeSet;
use std::time::Instant;

const SLURM: u32 = 500;
const GRANULES_PER_NODE: u64 = 100;

fn settings() -> Settings {
    Settings {
        registry: "scale".into(),
        operators: BTreeSet::new(),
        workload_managers: BTreeSet::from([SLURM]),
        mount_root: "/mnt/dw".into(),
        pools: vec![("wlm_pool".into(), Bytes(GIB))],
        policies: Default::default(),
        space_by_hand: forebay_controller::cluster::SpaceByHand::Unlimited,
        lost_after_s: limits::LOST_AFTER_S,
        storage_wait_s: limits::STORAGE_WAIT_S,
    }
}

fn setup(number: u64) -> Event {
    let access = AccessRequest {
        mode: AccessMode::Striped,
        max_file_size: None,
        max_files: None,
        client_cache: false,
    };
    let space = Space {
        capacity: Capacity::Bytes(Bytes(8 * GIB)),
        pool: None,
        strategy: Strategy::Bandwidth,
        kind: ConfigurationType::Scratch,
        access: vec![access],
        write_window: None,
        policies: None,
    };
    let setup = Setup {
        token: number.to_string(),
        creator: "SLURM".into(),
        owner: 1000,
        group: 100,
        space: Some(space),
        attach: Vec::new(),
        stages: Vec::new(),
        swap: false,
    };
    request(number, Request::Setup(setup))
}

fn request(id: u64, request: Request) -> Event {
    Event::Request { id: RequestId(id), caller: Caller { uid: SLURM }, request }
}

/// A cluster of so many nodes with so many instances of eight fragments, all of them served.
fn cluster(nodes: u64, instances: u64) -> State {
    let mut state = State::new(settings()).unwrap();
    step(&mut state, Event::Tick { now: 1 });
    for number in 0..nodes {
        let message = AgentMessage::Register(Registering {
            pool: Some("wlm_pool".into()),
            capacity: Bytes(GRANULES_PER_NODE * GIB),
            ..Registering::default()
        });
        step(&mut state, Event::Agent { node: format!("nid{number:05}"), incarnation: 1, message });
    }
    for number in 1..=instances {
        step(&mut state, setup(number));
        finish_tasks(&mut state);
    }
    state
}

fn finish_tasks(state: &mut State) {
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

fn stored(effects: &[Effect]) -> usize {
    effects.iter().map(|effect| if let Effect::Store(changes) = effect { changes.len() } else { 0 }).sum()
}

#[test]
fn what_a_setup_stores_does_not_depend_on_the_cluster() {
    let counts: Vec<usize> = [(20, 0), (20, 40), (200, 40)]
        .into_iter()
        .map(|(nodes, instances)| {
            let mut state = cluster(nodes, instances);
            assert_eq!(state.tables().instances.len() as u64, instances);
            stored(&step(&mut state, setup(instances + 1)))
        })
        .collect();
    assert!(counts[0] > 0 && counts.iter().all(|count| *count == counts[0]), "{counts:?}");
}

#[test]
fn one_report_stores_a_few_rows_only() {
    let mut state = cluster(20, 10);
    step(&mut state, setup(11));
    let task = state.tables().tasks.values().find(|task| task.verb == Verb::Make).unwrap().clone();
    let message = AgentMessage::Done { task: task.id, copied: None };
    let effects = step(&mut state, Event::Agent { node: task.node, incarnation: 1, message });
    // The fragment, its old and its new task, the node's list, the counters and the states that show it.
    assert!((1..=10).contains(&stored(&effects)), "{}", stored(&effects));
}

#[test]
#[ignore = "prints times"]
fn times_as_the_cluster_grows() {
    println!(
        "{:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "nodes", "instances", "setup ms", "report us", "view ms", "start ms", "rows"
    );
    for (nodes, instances) in [(10, 100), (100, 1_000), (1_000, 10_000)] {
        let mut state = cluster(nodes, instances);
        let start = Instant::now();
        for number in 1..=20 {
            step(&mut state, setup(instances + number));
        }
        let setup_ms = start.elapsed().as_secs_f64() * 1e3 / 20.0;
        let reports = state.tables().tasks.len().max(1);
        let start = Instant::now();
        finish_tasks(&mut state);
        let report_us = start.elapsed().as_secs_f64() * 1e6 / (2 * reports) as f64;
        let start = Instant::now();
        let seen = view::snapshot(&state, SLURM).instances.len();
        let view_ms = start.elapsed().as_secs_f64() * 1e3;
        assert_eq!(seen as u64, instances + 20);
        let rows: Vec<Row> = state.tables().rows();
        let (count, start) = (rows.len(), Instant::now());
        let again = State::restore(settings(), rows).unwrap();
        let start_ms = start.elapsed().as_secs_f64() * 1e3;
        assert_eq!(again.tables().instances.len(), state.tables().instances.len());
        println!(
            "{nodes:>6} {instances:>9} {setup_ms:>9.2} {report_us:>9.1} {view_ms:>9.1} {start_ms:>9.1} {count:>9}"
        );
    }
}
