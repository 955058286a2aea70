//! What copies a job's files killed in the middle of a copy: the copy is finished or begun again, and every byte arrives.
//!
//! The process that copies is stopped once it has moved a part of the files, so that what is killed then is killed in the
//! middle, on a fast machine and on a slow one.

mod site;

use forebay_testkit::cluster::HostId;
use forebay_testkit::slurm::{ALICE, JobId, Paused, Service, Site};
use site::{IN_THE_MIDDLE_BYTES, MANY, awaits, ends, finish, shell, site, submit};

/// How many there are, with the one that the job makes.
const FILES: usize = 1201;

/// A job whose input and results are those files. It makes one more.
fn script(site: &Site) -> String {
    let home = site.home(&ALICE);
    let home = home.display();
    format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=200MB\n\
         #DW stage_in type=directory source={home}/many destination=$DW_JOB_STRIPED/many\n\
         #DW stage_out type=directory source=$DW_JOB_STRIPED/many destination={home}/back\n\
         set -eu\ndiff -r {home}/many $DW_JOB_STRIPED/many\nseq 100000 > $DW_JOB_STRIPED/many/new\n"
    )
}

/// Runs the job with something happening in the middle of both of its copies.
fn copies_outlive(what: impl Fn(&mut Site, Paused)) {
    let mut site = site();
    shell(&site, &ALICE, MANY);
    let job = submit(&site, &ALICE, "-N1", &script(&site));
    interrupt(&mut site, job, "staging-in", &what);
    awaits(&site, job, "its start", |job| {
        !matches!(job.buffer_state(), "staging-in" | "staged-in" | "pre-run")
    });
    interrupt(&mut site, job, "staging-out", &what);
    ends(&site, &ALICE, job, "COMPLETED");
    let back = shell(
        &site,
        &ALICE,
        "seq 100000 | cmp - back/new; rm back/new; diff -r many back; find many -type f | wc -l",
    );
    assert_eq!(back.trim(), (FILES - 1).to_string());
    finish(site);
}

fn interrupt(site: &mut Site, job: JobId, state: &str, what: &impl Fn(&mut Site, Paused)) {
    awaits(site, job, state, |job| job.buffer_state() == state);
    let paused = site.pause_staging(IN_THE_MIDDLE_BYTES).unwrap_or_else(|error| panic!("{error}"));
    if state == "staging-out" {
        let come: usize =
            shell(site, &ALICE, "find back -type f 2> /dev/null | wc -l || true").trim().parse().unwrap();
        assert!(come < FILES, "all {come} files had arrived: this is not the middle");
    }
    what(site, paused);
}

fn killed_and_started(site: &mut Site, host: HostId, service: Service) {
    site.kill(host, service).unwrap();
    site.start(host, service).unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_copy_outlives_the_controller() {
    copies_outlive(|site, paused| {
        killed_and_started(site, HostId::Control, Service::Controller);
        site.resume(paused).unwrap();
    });
}

#[test]
fn a_copy_outlives_its_agent() {
    copies_outlive(|site, paused| {
        killed_and_started(site, paused.host, Service::Agent);
        site.resume(paused).unwrap();
    });
}

#[test]
fn a_copy_outlives_the_file_servers() {
    copies_outlive(|site, paused| {
        for server in 0..2 {
            site.kill_processes(HostId::Server(server), "agent-worker file-server").unwrap();
        }
        site.resume(paused).unwrap();
    });
}

#[test]
fn a_copy_whose_process_is_killed_is_begun_again() {
    copies_outlive(|site, paused| site.kill_paused(paused).unwrap());
}

#[test]
fn a_copy_outlives_its_process_and_its_agent_together() {
    copies_outlive(|site, paused| {
        site.kill(paused.host, Service::Agent).unwrap();
        site.kill_paused(paused).unwrap();
        site.start(paused.host, Service::Agent).unwrap_or_else(|error| panic!("{error}"));
    });
}

#[test]
fn a_copy_outlives_the_crash_of_its_node() {
    copies_outlive(|site, paused| {
        site.crash(paused.host).unwrap();
        site.boot(paused.host).unwrap_or_else(|error| panic!("{error}"));
    });
}

#[test]
fn a_copy_outlives_munge() {
    copies_outlive(|site, paused| {
        for host in [paused.host, HostId::Control] {
            site.kill(host, Service::Munged).unwrap();
        }
        site.resume(paused).unwrap();
        for host in [paused.host, HostId::Control] {
            site.start(host, Service::Munged).unwrap_or_else(|error| panic!("{error}"));
        }
    });
}

#[test]
fn a_copy_goes_on_when_a_file_server_moves() {
    copies_outlive(|site, paused| {
        // On its own node a copy finds the file server by its socket, which stays where it is.
        let other = HostId::Server(if paused.host == HostId::Server(0) { 1 } else { 0 });
        site.kill(other, Service::Agent).unwrap();
        site.kill_processes(other, "agent-worker file-server").unwrap();
        site.move_file_server(other).unwrap_or_else(|error| panic!("{error}"));
        site.start(other, Service::Agent).unwrap_or_else(|error| panic!("{error}"));
        // It may have been ended already: its copy is ordered anew.
        let _ = site.resume(paused);
    });
}
