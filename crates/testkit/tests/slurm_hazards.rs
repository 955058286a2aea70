//! What Slurm's own plugin is known to do to a burst buffer, and what a burst buffer can do to slurmctld.

mod site;

use forebay_controller::client::{Address, Client};
use forebay_controller::cluster::Answer;
use forebay_controller::cluster::limits::{MAX_INSTANCES_PER_SESSION, MAX_POOLS, MAX_WORD};
use forebay_controller::cluster::request::{ObjectId, Request, Space};
use forebay_controller::request::AccessRequest;
use forebay_model::allocate::Strategy;
use forebay_model::capacity::Capacity;
use forebay_model::ids::SessionId;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::Bytes;
use forebay_testkit::cluster::HostId;
use forebay_testkit::slurm::{ALICE, BOB, BufferOptions, PoolOptions, ROOT, Service, Site};
use site::{
    AWAIT_FILE, STRIPED, at_home, awaits, awaits_file, cancel, completes, ends, finish, is_cancelled,
    is_told, shell, signal, site, submit,
};
use std::path::Path;

const SLURMCTLD: (HostId, Service) = (HostId::Control, Service::Slurmctld);
const CONTROLLER: (HostId, Service) = (HostId::Control, Service::Controller);

fn responds(site: &Site) -> bool {
    site.shell(&ROOT, "timeout 20 scontrol ping").is_ok_and(|said| said.contains("UP"))
}

#[test]
fn slurmctld_survives_the_absence_of_the_controller() {
    let mut site = site();
    site.kill(CONTROLLER.0, CONTROLLER.1).unwrap();
    for function in ["pools", "show_instances", "show_sessions", "show_configurations"] {
        let asked =
            site.run_on(HostId::Control, &ROOT, &format!("dw_wlm_cli --function {function}")).unwrap();
        assert_eq!(asked.status.code(), Some(1), "{function}: {}", asked.output);
        // Text that no JSON reader takes for anything: a digit, a brace, `t`rue, `n`ull would be the beginning of a value.
        let first = asked.output.chars().next().unwrap_or(' ');
        assert!(
            first.is_ascii_alphabetic() && !asked.output.starts_with("null"),
            "{function}: {}",
            asked.output
        );
        assert!(!asked.output.starts_with("true") && !asked.output.contains('\''), "{}", asked.output);
    }
    // It asks for pools as it starts, and finds the burst buffer down.
    site.kill(SLURMCTLD.0, SLURMCTLD.1).unwrap();
    site.start(SLURMCTLD.0, SLURMCTLD.1).unwrap();
    assert!(responds(&site));
    site.start(CONTROLLER.0, CONTROLLER.1).unwrap();
    completes(&site, &ALICE, "-N1", STRIPED);
    finish(site);
}

#[test]
fn a_controller_that_hangs_does_not_hold_up_slurmctld() {
    let site = site();
    site.signal(CONTROLLER.0, CONTROLLER.1, libc::SIGSTOP).unwrap();
    // Both are answered under slurmctld's locks: well below the five seconds after which it kills the call.
    let job = submit(&site, &ALICE, "-N1", STRIPED);
    assert!(responds(&site));
    shell(&site, &ALICE, "timeout 10 squeue");
    site.signal(CONTROLLER.0, CONTROLLER.1, libc::SIGCONT).unwrap();
    ends(&site, &ALICE, job, "COMPLETED");
    finish(site);
}

#[test]
fn processes_that_outlive_their_job_do_not_hold_the_buffer() {
    let site = site();
    let home = site.home(&ALICE);
    let home = home.display();
    // On cancel, post_run comes at once; the processes have KillWait seconds and use them.
    let script = format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=100MB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/kept destination={home}/kept\n\
         trap '' TERM\ncd $DW_JOB_STRIPED\nseq 1000 > kept\nexec 9> held\ntouch {home}/started\n\
         while :; do echo still >&9; sleep 0.05; done\n"
    );
    let job = submit(&site, &ALICE, "-N1", &script);
    awaits_file(&site, &ALICE, "started");
    is_cancelled(&site, &ALICE, job);
    shell(&site, &ALICE, "seq 1000 | cmp - kept");
    finish(site);
}

#[test]
fn teardown_may_be_repeated_and_come_from_several_sides() {
    let site = site();
    let script = format!("{STRIPED}{AWAIT_FILE}touch $HOME/started\nawait $HOME/go\n");
    let job = submit(&site, &ALICE, "-N1", &script);
    awaits_file(&site, &ALICE, "started");
    let many = format!(
        "for i in 1 2 3 4; do dw_wlm_cli --function teardown --token {job} --job /dev/null --hurry > said.$i & done; wait"
    );
    shell(&site, &ROOT, &many);
    signal(&site, &ALICE, "go");
    // The job went on without its space. Slurm and its user are told, and nothing is called a success.
    is_told(&site, job, &["post_run", &format!("no_session_{job}")]);
    cancel(&site, &ALICE, "--hurry", job);
    awaits(&site, job, "its end", |job| job.is_over());
    let again = site.run_on(
        HostId::Control,
        &ROOT,
        &format!("dw_wlm_cli --function teardown --token {job} --job /dev/null"),
    );
    let again = again.unwrap();
    assert!(again.output.starts_with("token not found"), "{}", again.output);
    assert_eq!(again.status.code(), Some(1));
    finish(site);
}

#[test]
fn symbols_in_directives_and_sizes_after_a_reconfiguration_are_understood() {
    let site = site();
    let script = format!(
        "#!/bin/bash\n#SBATCH -J named\n#DW jobdw type=scratch access_mode=striped capacity=20MiB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/f destination={}/f.%j.%u.%x\n\
         echo $SLURM_JOB_ID > $DW_JOB_STRIPED/f\n",
        site.home(&BOB).display()
    );
    // Until the next poll the plugin believes in a granularity of one byte, and asks for what is no multiple of ours.
    shell(&site, &ROOT, "scontrol reconfigure");
    let job = submit(&site, &BOB, "-N1", &script);
    ends(&site, &BOB, job, "COMPLETED");
    let result = at_home(&site, &BOB, &format!("f.{job}.bob.named"));
    assert_eq!(std::fs::read_to_string(result).unwrap(), format!("{job}\n"));
    finish(site);
}

#[test]
fn a_buffer_is_listed_from_the_first_moment_of_its_setup() {
    let site = site();
    for server in 0..2 {
        site.signal(HostId::Server(server), Service::Agent, libc::SIGSTOP).unwrap();
    }
    let job = submit(&site, &ALICE, "-N1", STRIPED);
    let listed = || Ok(site.ask_plugin("show_sessions")?.contains(&format!("\"{job}\"")));
    site.await_slurm("the session of a job whose setup cannot end", listed).unwrap();
    assert_eq!(site.job(job).unwrap().buffer_state(), "staging-in");
    for server in 0..2 {
        site.signal(HostId::Server(server), Service::Agent, libc::SIGCONT).unwrap();
    }
    ends(&site, &ALICE, job, "COMPLETED");
    finish(site);
}

/// Sessions made by hand with as many instances as one may have: a thousand together.
const CROWDED: usize = 16;

/// The longest name there may be that begins so.
fn longest(begin: &str) -> String {
    format!("{begin}{}", "x".repeat(MAX_WORD - begin.len()))
}

/// As many pools as there may be, with the longest names; the first two have space.
fn many_pools() -> BufferOptions {
    let pool = |number: usize| PoolOptions {
        name: longest(&format!("pool{number}.")),
        granularity: "1MiB".into(),
        node_capacity: "2GiB".into(),
    };
    // Nodes that are stopped for the while of the test are not lost.
    BufferOptions { pools: (0..MAX_POOLS).map(pool).collect(), lost_after_s: 600, ..site::buffer() }
}

/// The id of what was asked for.
fn made(client: &Client, request: &Request) -> u64 {
    match client.ask(request) {
        Ok(Answer::Accepted { id, .. }) => id,
        other => panic!("{other:?}"),
    }
}

fn crowd(client: &Client, number: usize) -> SessionId {
    let token = longest(&format!("session{number}."));
    let (owner, group, hosts) = (BOB.uid, BOB.uid, Vec::new());
    let session = Request::CreateSession { token, owner, group, hosts, creator: Some(longest("creator.")) };
    let session = SessionId(made(client, &session));
    let access = AccessRequest {
        mode: AccessMode::Striped,
        max_file_size: None,
        max_files: None,
        client_cache: false,
    };
    for instance in 0..MAX_INSTANCES_PER_SESSION {
        let label = longest(&format!("instance{instance}."));
        let space = Space {
            capacity: Capacity::Bytes(Bytes(1 << 20)),
            pool: None,
            strategy: Strategy::default(),
            kind: ConfigurationType::Scratch,
            access: vec![access],
            write_window: None,
            policies: None,
        };
        made(client, &Request::CreateInstance { session, label, space });
    }
    session
}

#[test]
fn slurmctld_survives_empty_lists_and_the_longest_ones_there_are() {
    let mut site = site::site_with(many_pools());
    for function in ["show_instances", "show_sessions", "show_configurations"] {
        let empty = site.ask_plugin(function).unwrap();
        assert!(empty.trim_end().ends_with("[]}"), "{function}: {empty}");
    }
    // Nothing of it has to be on disk to be told.
    for server in 0..2 {
        site.signal(HostId::Server(server), Service::Agent, libc::SIGSTOP).unwrap();
    }
    let socket = site.control().seen(Path::new("/run/forebay/controller.sock")).unwrap();
    let client = Client::open(Address::Unix(socket));
    let sessions: Vec<SessionId> = (0..CROWDED).map(|number| crowd(&client, number)).collect();
    let told = site.ask_plugin("show_instances").unwrap();
    assert_eq!(told.matches("\"label\"").count(), CROWDED * MAX_INSTANCES_PER_SESSION);
    assert_eq!(site.ask_plugin("pools").unwrap().matches("granularity").count(), MAX_POOLS);
    // As it starts it takes over every session that is told.
    site.kill(SLURMCTLD.0, SLURMCTLD.1).unwrap();
    site.start(SLURMCTLD.0, SLURMCTLD.1).unwrap();
    assert!(responds(&site));
    let burst = site.burst().unwrap();
    for number in 0..CROWDED {
        let name = longest(&format!("session{number}."));
        assert_eq!(burst.size_of(&name), Some("64MiB"), "{}", burst.text);
    }
    for server in 0..2 {
        site.signal(HostId::Server(server), Service::Agent, libc::SIGCONT).unwrap();
    }
    std::thread::scope(|scope| {
        for session in sessions {
            let remove = Request::Remove { object: ObjectId::Session(session), hurry: true };
            scope.spawn(|| client.ask(&{ remove }).unwrap());
        }
    });
    completes(&site, &ALICE, "-N1", STRIPED);
    assert!(responds(&site));
    finish(site);
}
