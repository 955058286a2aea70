//! Measures what a command pays for its registry: opening it, a job's changes, and reading it.
//!
//! `registry_speed DIRECTORY` makes a registry there and prints medians in microseconds.

use forebay_controller::job::JobState;
use forebay_controller::process::ProcessId;
use forebay_controller::registry::Registry;
use forebay_controller::request::*;
use forebay_model::allocate::Strategy;
use forebay_model::capacity::Capacity;
use forebay_model::lifecycle::Phase;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::{Bytes, GIB, MIB};
use std::error::Error;
use std::path::Path;
use std::time::Instant;

const ROUNDS: usize = 101;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1).ok_or("usage: registry_speed DIRECTORY")?;
    let path = Path::new(&directory).join("registry.sqlite");
    let mut columns: [Vec<u128>; 4] = Default::default();
    for _ in 0..ROUNDS {
        for (column, took) in columns.iter_mut().zip(round(&path)?) {
            column.push(took);
        }
    }
    for (name, column) in ["open", "offer", "job", "read"].iter().zip(&mut columns) {
        column.sort_unstable();
        println!("{name} {} us", column[ROUNDS / 2]);
    }
    Ok(())
}

/// Opening, offering the pool, the ten changes of a job's life, opening for reading and reading everything.
fn round(path: &Path) -> Result<[u128; 4], Box<dyn Error>> {
    let mut marks = vec![Instant::now()];
    let registry = Registry::open(path)?;
    marks.push(Instant::now());
    registry.offer(&[pool()])?;
    marks.push(Instant::now());
    let job = registry.setup_job(&request(ProcessId::current()?), 0)?;
    for phase in Phase::ALL.into_iter().filter(|&phase| phase != Phase::Kept && phase != Phase::Ended) {
        registry.record(job.session, &JobState { phase, ..JobState::new(false) })?;
    }
    registry.finish_teardown(job.session)?;
    drop(registry);
    marks.push(Instant::now());
    Registry::open_for_reading(path)?.ok_or("the registry is gone")?.snapshot()?;
    marks.push(Instant::now());
    let took: Vec<u128> = marks.windows(2).map(|pair| (pair[1] - pair[0]).as_micros()).collect();
    Ok(took.try_into().map_err(|_| "as many marks as columns")?)
}

fn pool() -> PoolOffer {
    let node = NodeOffer {
        name: "local".into(),
        directory: "/pool".into(),
        capacity: Bytes(100 * GIB),
        granularity: Bytes(MIB),
        online: true,
        drain: false,
    };
    PoolOffer { name: "wlm_pool".into(), granularity: Bytes(16 * MIB), default: true, nodes: vec![node] }
}

fn request(owner: ProcessId) -> JobRequest {
    let mode = AccessMode::Striped;
    let allocation = AllocationRequest {
        capacity: Capacity::Bytes(Bytes(GIB)),
        pool: None,
        strategy: Strategy::Bandwidth,
        kind: ConfigurationType::Scratch,
        access: vec![AccessRequest { mode, max_file_size: None, max_files: None, client_cache: false }],
        write_window: None,
    };
    JobRequest {
        token: None,
        creator: "CLI".into(),
        owner_uid: 0,
        client_nodes: 1,
        owner,
        allocation: Some(allocation),
        attach: vec![],
        stages: vec![],
        script: Script {
            path: "/job.sh".into(),
            args: vec![],
            working_directory: "/".into(),
            submit_directory: "/".into(),
            name: "job.sh".into(),
        },
        keep: false,
    }
}
