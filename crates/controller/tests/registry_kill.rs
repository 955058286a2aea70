//! What the registry has answered is there after the process that asked was killed.

use forebay_controller::process::ProcessId;
use forebay_controller::registry::Registry;
use forebay_controller::request::*;
use forebay_model::allocate::Strategy;
use forebay_model::capacity::Capacity;
use forebay_model::lifecycle::Phase;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::{Bytes, GIB, MIB};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const FILE: &str = "FOREBAY_TEST_REGISTRY";

/// A child that is killed at the latest when the test ends.
struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Writer {
    fn start(file: &Path) -> Writer {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "writer"])
            .env(FILE, file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Writer(child)
    }
}

#[test]
#[ignore = "the process that the other test kills"]
fn writer() {
    let file = std::env::var_os(FILE).expect("started by answers_survive_a_kill only");
    let registry = Registry::open(Path::new(&file)).unwrap();
    let owner = ProcessId::current().unwrap();
    loop {
        let (_, job) = registry.setup_job_on(&[pool()], &request(owner), 0).unwrap();
        let mut out = std::io::stdout();
        writeln!(out, "made {}", job.token).unwrap();
        out.flush().unwrap();
    }
}

#[test]
fn answers_survive_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("registry.sqlite");
    let mut answered: Vec<String> = vec![];
    for kill_after in [1, 2, 5, 9, 14] {
        let mut writer = Writer::start(&file);
        let lines = BufReader::new(writer.0.stdout.take().unwrap()).lines();
        let tokens =
            lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("made ").map(str::to_owned));
        let mut tokens = tokens.peekable();
        answered.extend(tokens.by_ref().take(kill_after));
        writer.0.kill().unwrap();
        // What it had answered before the kill arrived.
        answered.extend(tokens);
        writer.0.wait().unwrap();
        check(&file, &answered);
    }
    assert!(answered.len() >= 31);
}

/// All answered jobs are whole, at most one per kill was recorded without having been answered, all are orphans, and
/// their granules are exactly those that are not free.
fn check(file: &Path, answered: &[String]) {
    let registry = Registry::open(file).unwrap();
    let jobs = registry.jobs().unwrap();
    for token in answered {
        let job = jobs.iter().find(|job| job.token == *token);
        let job = job.unwrap_or_else(|| panic!("job {token} was answered and is lost"));
        assert_eq!((job.phase, job.own.as_ref().unwrap().granules.0), (Phase::Setup, 3));
    }
    assert!(jobs.len() <= answered.len() + 5);
    let alive = |process: ProcessId| process.is_alive().unwrap();
    assert_eq!(registry.orphans(&alive).unwrap().jobs.len(), jobs.len());
    let pool = &registry.snapshot().unwrap().pools[0];
    assert_eq!(pool.quantity.0 - pool.free.0, 3 * jobs.len() as u64);
}

fn pool() -> PoolOffer {
    let node = |number: usize| NodeOffer {
        name: format!("node{number}"),
        directory: "/pool".into(),
        capacity: Bytes(1024 * GIB),
        granularity: Bytes(MIB),
        online: true,
        drain: false,
    };
    let nodes = (0..2).map(node).collect();
    PoolOffer { name: "wlm_pool".into(), granularity: Bytes(16 * MIB), default: true, nodes }
}

fn request(owner: ProcessId) -> JobRequest {
    let mode = AccessMode::Striped;
    let allocation = AllocationRequest {
        capacity: Capacity::Bytes(Bytes(48 * MIB)),
        pool: None,
        strategy: Strategy::Bandwidth,
        kind: ConfigurationType::Scratch,
        access: vec![AccessRequest { mode, max_file_size: None, max_files: None, client_cache: false }],
        write_window: None,
    };
    let script = Script {
        path: "/job.sh".into(),
        args: vec![],
        working_directory: "/".into(),
        submit_directory: "/".into(),
        name: "job.sh".into(),
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
        script,
        keep: false,
    }
}
