//! slurmctld and munged killed while jobs are in every state: no space is lost, no result is missing.
//!
//! Jobs are held in their states by stopping what would carry them on: the process of a copy, or the agents of the nodes.

mod site;

use forebay_testkit::cluster::HostId;
use forebay_testkit::slurm::{ALICE, BOB, BufferOptions, JobId, ROOT, Service, Site};
use site::{
    AWAIT_FILE, IN_THE_MIDDLE_BYTES, MANY, STRIPED, awaits, awaits_file, buffer, completes, ends, finish,
    shell, signal, site, submit,
};

/// A node whose agent is stopped is not lost within a test.
const LOST_AFTER_S: u64 = 600;
const STORAGE: [HostId; 2] = [HostId::Server(0), HostId::Server(1)];

fn stop_agents(site: &Site, hosts: &[HostId]) {
    hosts.iter().for_each(|host| site.signal(*host, Service::Agent, libc::SIGSTOP).unwrap());
}

fn resume_agents(site: &Site, hosts: &[HostId]) {
    hosts.iter().for_each(|host| site.signal(*host, Service::Agent, libc::SIGCONT).unwrap());
}

fn restart_slurmctld(site: &mut Site) {
    site.kill(HostId::Control, Service::Slurmctld).unwrap();
    site.start(HostId::Control, Service::Slurmctld).unwrap_or_else(|error| panic!("{error}"));
    site.await_answers().unwrap();
}

fn is_in(site: &Site, job: JobId, state: &str) {
    awaits(site, job, state, |job| job.buffer_state() == state);
}

/// A job that copies the many files, in this direction only.
fn copying(site: &Site, direction: &str) -> String {
    let home = site.home(&ALICE);
    let home = home.display();
    let (line, command) = match direction {
        "in" => (
            format!("stage_in type=directory source={home}/many destination=$DW_JOB_STRIPED/many"),
            format!("diff -r {home}/many $DW_JOB_STRIPED/many"),
        ),
        _ => (
            format!("stage_out type=directory source=$DW_JOB_STRIPED/many destination={home}/back"),
            format!("cp -r {home}/many $DW_JOB_STRIPED/many"),
        ),
    };
    STRIPED.replace("100MB", "200MB").replace("set -eu", &format!("#DW {line}\nset -eu")) + &command + "\n"
}

/// A job that runs until it is told not to.
fn waiting(site: &Site, name: &str) -> String {
    let home = site.home(&ALICE);
    let home = home.display();
    format!(
        "{STRIPED}{AWAIT_FILE}echo {name} > $DW_JOB_STRIPED/own\ntouch {home}/{name}.started\nawait {home}/{name}.go\ncat $DW_JOB_STRIPED/own\n"
    )
}

#[test]
fn slurmctld_may_be_killed_while_files_are_copied_in_and_out_and_while_a_job_runs() {
    let mut site = site::site_with(BufferOptions { lost_after_s: LOST_AFTER_S, ..buffer() });
    shell(&site, &ALICE, MANY);
    let goes_in = submit(&site, &ALICE, "-N1", &copying(&site, "in"));
    is_in(&site, goes_in, "staging-in");
    let held_in = site.pause_staging(IN_THE_MIDDLE_BYTES).unwrap();
    let goes_out = submit(&site, &ALICE, "-N1", &copying(&site, "out"));
    is_in(&site, goes_out, "staging-out");
    let held_out = site.pause_staging(IN_THE_MIDDLE_BYTES).unwrap();
    let running = submit(&site, &ALICE, "-N1", &waiting(&site, "running"));
    awaits_file(&site, &ALICE, "running.started");
    site.await_saved(running).unwrap();
    restart_slurmctld(&mut site);
    site.resume(held_out).unwrap();
    // The copy in is given up with its job's buffer, and begun again a minute later.
    let _ = site.resume(held_in);
    signal(&site, &ALICE, "running.go");
    assert_eq!(ends(&site, &ALICE, running, "COMPLETED"), "running\n");
    ends(&site, &ALICE, goes_out, "COMPLETED");
    shell(&site, &ALICE, "diff -r many back");
    ends(&site, &ALICE, goes_in, "COMPLETED");
    finish(site);
}

#[test]
fn slurmctld_may_be_killed_while_buffers_are_made_and_removed() {
    let mut site = site::site_with(BufferOptions { lost_after_s: LOST_AFTER_S, ..buffer() });
    let ending = submit(&site, &ALICE, "-N1", &waiting(&site, "ending"));
    awaits_file(&site, &ALICE, "ending.started");
    stop_agents(&site, &STORAGE);
    signal(&site, &ALICE, "ending.go");
    is_in(&site, ending, "teardown");
    let made = submit(
        &site,
        &BOB,
        "-N1",
        &format!("{STRIPED}echo made > $DW_JOB_STRIPED/x\ncat $DW_JOB_STRIPED/x\n"),
    );
    is_in(&site, made, "staging-in");
    let listed = || Ok(site.ask_plugin("show_sessions")?.contains(&format!("\"{made}\"")));
    site.await_slurm("the session of a job whose setup cannot end", listed).unwrap();
    site.await_saved(made).unwrap();
    restart_slurmctld(&mut site);
    resume_agents(&site, &STORAGE);
    ends(&site, &ALICE, ending, "COMPLETED");
    assert_eq!(ends(&site, &BOB, made, "COMPLETED"), "made\n");
    finish(site);
}

#[test]
fn slurmctld_may_be_killed_while_buffers_are_mounted_and_unmounted() {
    let mut site = site::site_with(BufferOptions { lost_after_s: LOST_AFTER_S, ..buffer() });
    let (leaves, comes) = (HostId::Client(0), HostId::Client(1));
    let ending = submit(&site, &ALICE, "-N1 -w client0", &waiting(&site, "ending"));
    awaits_file(&site, &ALICE, "ending.started");
    stop_agents(&site, &[leaves, comes]);
    signal(&site, &ALICE, "ending.go");
    is_in(&site, ending, "post-run");
    let mounted = submit(&site, &ALICE, "-N1 -w client1", &waiting(&site, "mounted"));
    signal(&site, &ALICE, "mounted.go");
    is_in(&site, mounted, "pre-run");
    site.await_saved(mounted).unwrap();
    restart_slurmctld(&mut site);
    resume_agents(&site, &[leaves, comes]);
    ends(&site, &ALICE, ending, "COMPLETED");
    assert_eq!(ends(&site, &ALICE, mounted, "COMPLETED"), "mounted\n");
    finish(site);
}

#[test]
fn without_munge_commands_say_so_and_jobs_go_on_when_it_is_back() {
    let mut site = site();
    let hosts: Vec<HostId> = site.cluster().hosts().map(|host| host.id()).collect();
    let job = submit(&site, &ALICE, "-N2", &waiting(&site, "running"));
    awaits_file(&site, &ALICE, "running.started");
    for host in &hosts {
        site.kill(*host, Service::Munged).unwrap();
    }
    // Over the network nothing is proven without MUNGE; on the controller's own machine nothing else is needed.
    let said = site.run_on(HostId::Client(0), &ALICE, "timeout 60 dwstat sessions").unwrap();
    assert_eq!(said.status.code(), Some(1), "{}", said.output);
    assert!(said.output.contains("munge"), "{}", said.output);
    assert!(shell(&site, &ALICE, "dwstat sessions").contains(&job.to_string()));
    let said = site.run_on(HostId::Control, &ALICE, "timeout 100 squeue").unwrap();
    assert!(!said.status.success() && said.output.to_lowercase().contains("munge"), "{}", said.output);
    for host in &hosts {
        site.start(*host, Service::Munged).unwrap_or_else(|error| panic!("{error}"));
    }
    shell(&site, &ROOT, "timeout 60 squeue");
    signal(&site, &ALICE, "running.go");
    assert_eq!(ends(&site, &ALICE, job, "COMPLETED"), "running\n");
    completes(&site, &BOB, "-N4", STRIPED);
    finish(site);
}
