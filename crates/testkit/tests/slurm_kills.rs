//! Daemons killed and nodes crashed in the middle of jobs: jobs go on or fail with a reason, no space is lost, no result is
//! missing.

mod site;

use forebay_testkit::cluster::HostId;
use forebay_testkit::slurm::{ALICE, ROOT, Service, Site};
use site::{AWAIT_FILE, awaits, awaits_file, completes, ends, finish, shell, signal, site, submit};

/// Attempts after which a mount is given up when no storage node is away.
const ATTEMPTS: usize = 5;

/// A job on two nodes that writes, waits in the middle, reads what it wrote, and writes again.
fn script(site: &Site) -> String {
    let home = site.home(&ALICE);
    let home = home.display();
    format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=100MB\n\
         #DW stage_in type=file source={home}/input destination=$DW_JOB_STRIPED/input\n\
         #DW stage_out type=directory source=$DW_JOB_STRIPED destination={home}/out\n\
         set -eu\n{AWAIT_FILE}cd $DW_JOB_STRIPED\nseq 300000 > first\ntouch {home}/started\nawait {home}/go\n\
         seq 300000 | cmp - first\ncmp input {home}/input\nsrun bash -c 'seq 100000 > second.$SLURM_PROCID'\n"
    )
}

/// All that the job sent home is there.
const RESULTS: &str = "cd out; cmp input ../input; seq 300000 | cmp - first; \
                       for i in 0 1; do seq 100000 | cmp - second.$i; done; [ $(ls | wc -l) = 4 ]";

/// Runs the job with something happening in its middle; all of its results must be at home.
fn outlives(what: impl FnOnce(&mut Site)) {
    let mut site = site();
    shell(&site, &ALICE, "seq 200000 > input");
    let job = submit(&site, &ALICE, "-N2 -n2", &script(&site));
    awaits_file(&site, &ALICE, "started");
    what(&mut site);
    signal(&site, &ALICE, "go");
    ends(&site, &ALICE, job, "COMPLETED");
    shell(&site, &ALICE, RESULTS);
    // The site is as good as before.
    completes(&site, &ALICE, "-N4", site::STRIPED);
    finish(site);
}

fn killed_and_started(site: &mut Site, host: HostId, service: Service) {
    site.kill(host, service).unwrap();
    site.start(host, service).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_job_outlives_the_controller() {
    outlives(|site| killed_and_started(site, HostId::Control, Service::Controller));
}

#[test]
fn a_job_outlives_the_agents() {
    outlives(|site| {
        for host in [HostId::Client(0), HostId::Client(1), HostId::Server(0), HostId::Server(1)] {
            killed_and_started(site, host, Service::Agent);
        }
    });
}

#[test]
fn a_job_outlives_slurmctld() {
    outlives(|site| {
        let jobs = shell(site, &ALICE, "squeue -h -o %i");
        let job = jobs.trim().parse().map(forebay_testkit::slurm::JobId).unwrap();
        site.await_saved(job).unwrap();
        killed_and_started(site, HostId::Control, Service::Slurmctld);
        site.await_answers().unwrap();
    });
}

#[test]
fn a_job_outlives_its_file_servers() {
    outlives(|site| {
        for server in 0..2 {
            site.kill_processes(HostId::Server(server), "agent-worker file-server").unwrap();
        }
    });
}

#[test]
fn a_storage_node_that_crashed_has_its_fragments_when_it_comes_back() {
    outlives(|site| {
        site.crash(HostId::Server(0)).unwrap();
        site.boot(HostId::Server(0)).unwrap_or_else(|error| panic!("{error}"));
    });
}

#[test]
fn a_compute_node_that_crashes_fails_its_job_and_no_other() {
    let mut site = site();
    shell(&site, &ALICE, "seq 200000 > input");
    let lost = submit(&site, &ALICE, "--no-requeue -N2 -n2 -w client[0-1]", &script(&site));
    awaits_file(&site, &ALICE, "started");
    site.crash(HostId::Client(1)).unwrap();
    // Known to Slurm at once, as an administrator would do, and not after SlurmdTimeout.
    shell(&site, &ROOT, "scontrol update nodename=client1 state=down reason=crashed");
    ends(&site, &ALICE, lost, "NODE_FAIL");
    completes(&site, &ALICE, "-N3", site::STRIPED);
    site.boot(HostId::Client(1)).unwrap_or_else(|error| panic!("{error}"));
    site.await_nodes().unwrap();
    completes(&site, &ALICE, "-N4", site::STRIPED);
    finish(site);
}

#[test]
fn a_mount_waits_for_a_storage_node_that_is_being_started() {
    let mut site = site();
    let home = site.home(&ALICE);
    let home = home.display();
    shell(&site, &ALICE, "seq 200000 > input");
    let holds_nodes = format!("#!/bin/bash\n{AWAIT_FILE}touch {home}/held\nawait {home}/free\n");
    let first = submit(&site, &ALICE, "-N4 --exclusive", &holds_nodes);
    awaits_file(&site, &ALICE, "held");
    // It has its space on both storage nodes, and waits for nodes.
    let job = submit(&site, &ALICE, "-N2 -n2", &script(&site));
    awaits(&site, job, "its input", |job| job.buffer_state() == "staged-in");
    let away = HostId::Server(0);
    site.kill(away, Service::Agent).unwrap();
    site.kill_processes(away, "agent-worker file-server").unwrap();
    signal(&site, &ALICE, "free");
    ends(&site, &ALICE, first, "COMPLETED");
    // More failures than a mount has attempts: nothing but the storage node keeps it from being given up.
    let failures = || {
        let said = site.said(HostId::Control, Service::Controller);
        Ok(said.lines().filter(|line| line.contains("client0: Mount of ")).count() > ATTEMPTS)
    };
    site.await_slurm("mounts that fail", failures).unwrap();
    assert_eq!(site.job(job).unwrap().buffer_state(), "pre-run");

    site.start(away, Service::Agent).unwrap_or_else(|error| panic!("{error}"));
    signal(&site, &ALICE, "go");
    ends(&site, &ALICE, job, "COMPLETED");
    shell(&site, &ALICE, RESULTS);
    finish(site);
}
