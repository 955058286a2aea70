//! The one-liners of site scripts and tools, run with the real `grep`, `awk` and `sed` on what `dwstat` prints for a
//! registry with several jobs and a persistent instance. Also the command's own edges: no registry, bad arguments.

use forebay_controller::process::ProcessId;
use forebay_controller::registry::Registry;
use forebay_controller::request::*;
use forebay_model::allocate::Strategy;
use forebay_model::capacity::Capacity;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::{Bytes, GIB, MIB};
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const DWSTAT: &str = env!("CARGO_BIN_EXE_dwstat");
const ME: ProcessId = ProcessId { pid: 1, start_ticks: 1, boot: 1 };

struct Machine {
    state: TempDir,
    registry: Registry,
}

impl Machine {
    /// Three nodes of four granules of 20 GiB.
    fn new() -> Machine {
        let state = tempfile::tempdir().unwrap();
        let registry = Registry::open(&state.path().join("registry.sqlite")).unwrap();
        let node = |number: usize| NodeOffer {
            name: format!("local{number}"),
            directory: format!("/disks/{number}").into(),
            capacity: Bytes(80 * GIB),
            granularity: Bytes(16 * MIB),
            online: true,
            drain: number == 2,
        };
        let nodes = (0..3).map(node).collect();
        let granularity = Bytes(20 * GIB);
        registry.offer(&[PoolOffer { name: "wlm_pool".into(), granularity, default: true, nodes }]).unwrap();
        Machine { state, registry }
    }

    /// Sets a job up and gives its token.
    fn job(&self) -> String {
        let request = JobRequest {
            token: None,
            creator: "CLI".into(),
            owner_uid: 1000,
            client_nodes: 1,
            owner: ME,
            allocation: Some(space(40 * GIB)),
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
        };
        self.registry.setup_job(&request, 1_700_000_000).unwrap().token
    }

    /// Runs a line of shell with `dwstat` in its path.
    fn shell(&self, line: &str, variables: &[(&str, &str)]) -> String {
        let bin = Path::new(DWSTAT).parent().unwrap();
        let path = std::env::join_paths(
            [bin.to_owned()].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
        );
        let out = Command::new("bash")
            .args(["-o", "pipefail", "-c", line])
            .env("PATH", path.unwrap())
            .env("FOREBAY_STATE_DIR", self.state.path())
            .env("TZ", "UTC")
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap().trim_end().to_owned()
    }
}

fn space(bytes: u64) -> AllocationRequest {
    let mode = AccessMode::Striped;
    AllocationRequest {
        capacity: Capacity::Bytes(Bytes(bytes)),
        pool: None,
        strategy: Strategy::Bandwidth,
        kind: ConfigurationType::Scratch,
        access: vec![AccessRequest { mode, max_file_size: None, max_files: None, client_cache: false }],
        write_window: None,
    }
}

#[test]
fn scripts_find_their_session_instance_and_fragments() {
    let machine = Machine::new();
    let tokens = [machine.job(), machine.job(), machine.job()];
    let mut seen = vec![];
    for token in &tokens {
        let of = |line: &str, variables: &[(&str, &str)]| machine.shell(line, variables);
        let session = of("dwstat sessions | grep $SLURM_JOBID | awk '{print $1}'", &[("SLURM_JOBID", token)]);
        let instance = of("dwstat instances | grep $sessID | awk '{print $1}'", &[("sessID", &session)]);
        let nodes = of("dwstat instances | grep $sessID | awk '{print $5}'", &[("sessID", &session)]);
        let fragments =
            of("dwstat fragments | grep ${instID} | awk '{print $4, $5}'", &[("instID", &instance)]);
        let configuration = of(
            "dwstat configurations | awk -v sess=$dwsessid '{if ($3 == sess) print $1}'",
            &[("dwsessid", &session)],
        );
        for one in [&session, &instance, &nodes, &configuration] {
            assert!(one.parse::<u64>().is_ok(), "one number is expected: {one:?}");
        }
        assert_eq!(nodes, "2");
        assert_eq!(fragments, "20GiB local0\n20GiB local1");
        seen.push((session, configuration));
    }
    seen.dedup();
    assert_eq!(seen.len(), 3);
}

#[test]
fn tools_find_pools_nodes_and_persistent_instances() {
    let machine = Machine::new();
    machine.job();
    let count = "dwstat most | { grep $name || true; } | { grep public || true; } | wc -l";
    assert_eq!(machine.shell(count, &[("name", "alpha")]), "0");
    let request = PersistentRequest {
        name: "alpha".into(),
        creator: "CLI".into(),
        owner_uid: 1000,
        owner: ME,
        allocation: space(GIB),
    };
    machine.registry.create_persistent(&request, 1_700_000_000).unwrap();
    assert_eq!(machine.shell(count, &[("name", "alpha")]), "1");
    assert_eq!(
        machine.shell("dwstat most | sed -n 2p", &[]).split_whitespace().collect::<Vec<_>>(),
        ["wlm_pool", "bytes", "160GiB", "100GiB", "20GiB"]
    );
    assert_eq!(machine.shell("dwstat most | sed -n 2p | awk '{print $5}'", &[]), "20GiB");
    assert_eq!(machine.shell("out=($(dwstat -b)); gran=${out[9]}; echo $gran", &[]), "21474836480");
    assert_eq!(machine.shell("dwstat nodes | wc -l", &[]), "4");
    assert_eq!(machine.shell(r#"dwstat nodes | awk '{if($3!="online") print $0}' | wc -l"#, &[]), "0");
    assert_eq!(machine.shell("dwstat nodes | grep drain | tail -n +2 | awk '{print $1}'", &[]), "local2");
}

#[test]
fn sections_of_all_are_known_by_their_first_word() {
    let machine = Machine::new();
    machine.job();
    let heads = "dwstat all | awk 'NR == 1 || blank {print $1} {blank = /^$/}' | xargs";
    assert_eq!(machine.shell(heads, &[]), "pool sess inst conf reg frag ns node did");
}

fn dwstat(state: &Path, args: &[&str]) -> Output {
    Command::new(DWSTAT).args(args).env("FOREBAY_STATE_DIR", state).env("TZ", "UTC").output().unwrap()
}

#[test]
fn where_nothing_was_recorded_it_says_so_and_makes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let state = place.path().join("never/made");
    let out = dwstat(&state, &[]);
    assert_eq!((out.status.code(), out.stdout.as_slice()), (Some(0), b"no pools\n".as_slice()));
    let told = String::from_utf8(out.stderr).unwrap();
    assert!(told.starts_with("dwstat: nothing is recorded in ") && told.lines().count() == 1, "{told}");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn refusals_have_their_statuses() {
    let machine = Machine::new();
    let usage = dwstat(machine.state.path(), &["instance"]);
    assert_eq!((usage.status.code(), usage.stdout.len()), (Some(2), 0));
    assert!(String::from_utf8(usage.stderr).unwrap().starts_with("dwstat: there is no object \"instance\";"));
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("registry.sqlite"), "notes, not a database".repeat(99)).unwrap();
    let foreign = dwstat(place.path(), &[]);
    assert_eq!(foreign.status.code(), Some(1));
    assert!(String::from_utf8(foreign.stderr).unwrap().contains("is not a forebay registry"));
    let relative = dwstat(machine.state.path(), &["--state-dir", "here"]);
    assert_eq!(relative.status.code(), Some(1));
    let help = dwstat(machine.state.path(), &["--help"]);
    assert!(help.status.success() && help.stdout.starts_with(b"usage: dwstat"));
}

#[test]
fn a_reader_that_stops_reading_is_no_failure() {
    let machine = Machine::new();
    for _ in 0..3 {
        machine.job();
    }
    let first = machine.shell("for i in 1 2 3 4 5 6 7 8; do dwstat all | head -n 1; done | sort -u", &[]);
    assert!(first.starts_with("    pool units"), "{first}");
}
