//! The site itself: real Slurm comes up, runs jobs of two users on several nodes, survives what the later tests do to it,
//! and leaves nothing behind.

use forebay_testkit::cluster::HostId;
use forebay_testkit::leaks::{self, Namespace};
use forebay_testkit::slurm::{ALICE, BOB, JobId, LIMIT, Options, Service, Site};
use forebay_testkit::wait_until;
use std::path::Path;
use std::process::{Command, Stdio};

/// Prints from each rank of an MPI program, in the order of the ranks.
const HELLO: &str = r#"
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    int rank, size, length;
    char name[MPI_MAX_PROCESSOR_NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(name, &length);
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("%s %d of %d, sum %d\n", name, rank, size, sum);
    return MPI_Finalize();
}
"#;

fn site() -> Site {
    Site::build(&Options::default()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn two_users_run_jobs_on_all_nodes_also_with_mpi() {
    let site = Site::build(&Options::for_mpi()).unwrap_or_else(|error| panic!("{error}"));
    let job = site.submit(&ALICE, "-N4", "#!/bin/sh\nsrun hostname\nid -un\nid -Gn\n").unwrap();
    let other = site.submit(&BOB, "-N1", "#!/bin/sh\nid -un; exit 3\n").unwrap();
    assert_state(&site, job, "COMPLETED");
    let output = site.output(&ALICE, job);
    for node in 0..4 {
        assert!(output.lines().any(|line| line == format!("client{node}")), "{output}");
    }
    assert!(output.ends_with("alice\nalice project\n"), "{output}");
    let failed = site.await_end(other).unwrap();
    assert_eq!((failed.state(), failed.field("ExitCode")), ("FAILED", "3:0"), "{}", failed.text());
    assert_eq!(site.output(&BOB, other), "bob\n");

    site.shell(&ALICE, &format!("cat > hello.c <<'END'{HELLO}END\nmpicc.mpich hello.c -o hello")).unwrap();
    let job = site.submit(&ALICE, "-N4 -n4", "#!/bin/sh\nsrun --mpi=pmi2 ./hello\n").unwrap();
    assert_state(&site, job, "COMPLETED");
    let output = site.output(&ALICE, job);
    for node in 0..4 {
        let wanted = format!("client{node} {node} of 4, sum 6");
        assert!(output.lines().any(|line| line == wanted), "{output}");
    }
    site.finish();
}

fn assert_state(site: &Site, job: JobId, state: &str) {
    let ended = site.await_end(job).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(ended.state(), state, "{}\n{}", ended.text(), site.output(&ALICE, job));
}

#[test]
fn a_job_outlives_the_death_of_slurmctld_and_a_node_that_crashed_comes_back() {
    let mut site = site();
    let script = "#!/bin/sh\ntouch started; while ! test -e go; do sleep 0.1; done; hostname\n";
    let job = site.submit(&ALICE, "-N1 -w client1", script).unwrap();
    let started = site.home(&ALICE).join("started");
    wait_until("the start of the job", LIMIT, || started.exists()).unwrap();
    site.await_saved(job).unwrap();
    site.kill(HostId::Control, Service::Slurmctld).unwrap();
    site.start(HostId::Control, Service::Slurmctld).unwrap();
    site.crash(HostId::Client(0)).unwrap();
    site.boot(HostId::Client(0)).unwrap();
    std::fs::write(site.home(&ALICE).join("go"), "").unwrap();
    assert_state(&site, job, "COMPLETED");
    assert_eq!(site.output(&ALICE, job), "client1\n");
    site.await_nodes().unwrap();
    site.finish();
}

/// Full name of the process below.
const VICTIM: &str = "victim_process";

#[test]
fn a_killed_test_leaves_nothing() {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", VICTIM, "--ignored", "--nocapture"]);
    let mut victim = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut said = std::io::BufReader::new(victim.stdout.take().unwrap());
    let (keeper, directory) = loop {
        let mut line = String::new();
        let read = std::io::BufRead::read_line(&mut said, &mut line).unwrap();
        assert!(read > 0, "the victim ended before it had a site");
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [.., "SITE", root, directory] = words[..] {
            break (root.split('/').nth(2).unwrap().parse().unwrap(), directory.to_owned());
        }
    };
    let own = Namespace::of_process(std::process::id());
    let mut namespaces = Namespace::of_process(keeper);
    namespaces.retain(|name| !own.contains(name));
    assert!(namespaces.len() >= 5 && !leaks::holding(&namespaces).is_empty());
    victim.kill().unwrap();
    victim.wait().unwrap();
    let directory = Path::new(&directory);
    let mut left = Vec::new();
    let gone = wait_until("the end of everything", LIMIT, || {
        left = leaks::holding(&namespaces);
        left.extend(leaks::below(directory));
        left.is_empty() && !directory.exists()
    });
    assert!(gone.is_ok(), "{} exists: {}, {left:?}", directory.display(), directory.exists());
}

#[test]
#[ignore = "the process that another test kills"]
fn victim_process() {
    let site = site();
    let job = site.submit(&ALICE, "-N4", "#!/bin/sh\nsrun sleep 1000\n").unwrap();
    site.await_job(job, "its start", |job| job.state() == "RUNNING").unwrap();
    let root = site.cluster().client(0).seen(Path::new("/")).unwrap();
    // On a line that the harness may have begun.
    println!("SITE {} {}", root.display(), site.directory().display());
    loop {
        std::thread::park();
    }
}
