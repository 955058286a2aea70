//! Jobs that do not end as their users hoped: their space comes back, and what was written is not lost silently.

mod site;

use forebay_testkit::cluster::HostId;
use forebay_testkit::slurm::{ALICE, BOB, ROOT, Site, User};
use site::{
    AWAIT_FILE, IN_THE_MIDDLE_BYTES, MANY, STRIPED, at_home, awaits, awaits_file, cancel, completes, ends,
    fails, finish, is_cancelled, shell, signal, site, submit,
};
use std::fs;

/// A job that writes a result, says so, and goes on until it is told to end.
fn writes_and_waits(site: &Site, user: &User, name: &str) -> String {
    let home = site.home(user);
    let home = home.display();
    format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=100MB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/result destination={home}/{name}.result\n\
         set -eu\n{AWAIT_FILE}seq 100000 > $DW_JOB_STRIPED/result\ntouch {home}/{name}.started\nawait {home}/{name}.go\n"
    )
}

/// The result of such a job is at home, all of it.
fn assert_result(site: &Site, user: &User, name: &str) {
    shell(site, user, &format!("seq 100000 | cmp - {name}.result"));
}

#[test]
fn a_job_that_fails_has_its_results_at_home() {
    let site = site();
    let script = format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=100MB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/f destination={}/f\necho partial > $DW_JOB_STRIPED/f\nexit 3\n",
        site.home(&BOB).display()
    );
    let job = submit(&site, &BOB, "-N1", &script);
    ends(&site, &BOB, job, "FAILED");
    assert_eq!(site.job(job).unwrap().field("ExitCode"), "3:0");
    assert_eq!(fs::read_to_string(at_home(&site, &BOB, "f")).unwrap(), "partial\n");
    finish(site);
}

#[test]
fn a_job_can_be_cancelled_while_it_waits_and_while_it_runs() {
    let site = site();
    // Waits for space that will never be there.
    let enormous = STRIPED.replace("100MB", "100TB");
    let (never, _) = fails(&site, &BOB, "-N1", &enormous, &["BurstBufferResources"]);
    is_cancelled(&site, &BOB, never);

    let running = submit(&site, &ALICE, "-N4 --exclusive", &writes_and_waits(&site, &ALICE, "one"));
    awaits_file(&site, &ALICE, "one.started");
    // Has its space, and waits for nodes.
    let staged = submit(&site, &BOB, "-N1", STRIPED);
    awaits(&site, staged, "being staged in", |job| job.buffer_state() == "staged-in");
    is_cancelled(&site, &BOB, staged);

    is_cancelled(&site, &ALICE, running);
    assert_result(&site, &ALICE, "one");
    finish(site);
}

#[test]
fn in_a_hurry_nothing_is_brought_home() {
    let site = site();
    let job = submit(&site, &ALICE, "-N2", &writes_and_waits(&site, &ALICE, "one"));
    awaits_file(&site, &ALICE, "one.started");
    cancel(&site, &ALICE, "--hurry", job);
    ends(&site, &ALICE, job, "CANCELLED");
    site.await_empty().unwrap();
    assert!(!at_home(&site, &ALICE, "one.result").exists());
    finish(site);
}

#[test]
fn a_job_over_its_time_has_its_results_at_home() {
    let site = site();
    let job = submit(&site, &ALICE, "-N1 -t 10", &writes_and_waits(&site, &ALICE, "one"));
    awaits_file(&site, &ALICE, "one.started");
    // Limits have a granularity of a minute; an end in the past counts at the next look, which is every 30 s.
    shell(&site, &ROOT, &format!("scontrol update jobid={job} endtime=now"));
    ends(&site, &ALICE, job, "TIMEOUT");
    assert_result(&site, &ALICE, "one");
    finish(site);
}

#[test]
fn what_cannot_be_staged_in_holds_the_job_with_a_reason_that_can_be_read() {
    let site = site();
    shell(&site, &ALICE, "echo secret > secret; chmod 600 secret; mkdir -m 755 open; chmod 755 .");
    let stage = |source: &str| {
        format!(
            "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=100MB\n\
             #DW stage_in type=file source={source} destination=$DW_JOB_STRIPED/x\ncat $DW_JOB_STRIPED/x\n"
        )
    };
    for (user, name) in [(&ALICE, "not-there"), (&BOB, "secret")] {
        let source = at_home(&site, &ALICE, name).display().to_string();
        let (job, _) = fails(&site, user, "-N1", &stage(&source), &["data_in", name]);
        is_cancelled(&site, user, job);
    }
    finish(site);
}

#[test]
fn what_cannot_be_staged_out_is_kept_until_its_owner_gives_it_up() {
    let site = site();
    let home = site.home(&ALICE);
    shell(&site, &ALICE, "mkdir full");
    let script = format!(
        "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=100MB\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/f destination={}/full/f\n\
         echo result > $DW_JOB_STRIPED/f\nchmod 500 $HOME/full\n",
        home.display()
    );
    let (job, stuck) = fails(&site, &ALICE, "-N1", &script, &["data_out", "full"]);
    assert_eq!(stuck.state(), "STAGE_OUT", "{}", stuck.text());
    // The nodes are not held for that.
    completes(&site, &BOB, "-N4", STRIPED);
    let sessions = site.ask_plugin("show_sessions").unwrap();
    assert!(sessions.contains(&format!("\"{job}\"")), "{sessions}");
    cancel(&site, &ALICE, "--hurry", job);
    ends(&site, &ALICE, job, "COMPLETED");
    finish(site);
}

#[test]
fn a_node_that_cannot_mount_sends_the_job_back() {
    let site = site();
    let node = HostId::Client(3);
    site.shell_on(node, &ROOT, "mount -t tmpfs -o ro none /var/opt").unwrap();
    let script = format!("{STRIPED}echo ran > $DW_JOB_STRIPED/x\ncat $DW_JOB_STRIPED/x\n");
    let (job, _) = fails(&site, &ALICE, "-N1 -w client3", &script, &["pre_run"]);
    let back = awaits(&site, job, "its return", |job| job.state() == "PENDING");
    let why = back.field("SystemComment");
    assert!(why.contains("client3") && why.contains("Read-only file system"), "{}", back.text());
    site.await_empty().unwrap();
    site.shell_on(node, &ROOT, "umount /var/opt").unwrap();
    completes(&site, &BOB, "-N1 -w client3", STRIPED);
    // Slurm tries again after two minutes; an operator need not wait.
    shell(&site, &ROOT, &format!("scontrol update jobid={job} starttime=now"));
    assert_eq!(ends(&site, &ALICE, job, "COMPLETED"), "ran\n");
    finish(site);
}

#[test]
fn what_nobody_can_give_is_refused_when_it_is_asked_for() {
    let site = site();
    for wrong in ["capacity=1.5GiB", "capacity=10QB", "capacity=2N", "capacity=10GiB access_mode=sideways"] {
        let script = STRIPED.replace("capacity=100MB", wrong);
        let refused = site.submit(&ALICE, "-N1", &script).unwrap_err().to_string();
        assert!(refused.contains("Burst Buffer request invalid"), "{wrong}: {refused}");
    }
    let unknown =
        site.submit(&ALICE, "-N1", &STRIPED.replace("capacity", "pool=nowhere capacity")).unwrap_err();
    assert!(unknown.to_string().contains("Burst Buffer request invalid"), "{unknown}");
    signal(&site, &ALICE, "done");
    finish(site);
}

#[test]
fn a_job_can_be_cancelled_while_files_are_copied() {
    let site = site();
    let home = site.home(&ALICE);
    let home = home.display();
    shell(&site, &ALICE, MANY);
    let large = STRIPED.replace("100MB", "500MB");
    let stage_in =
        format!("#DW stage_in type=directory source={home}/many destination=$DW_JOB_STRIPED/many\nset -eu\n");
    let job = submit(&site, &ALICE, "-N1", &large.replace("set -eu\n", &stage_in));
    site.pause_staging(IN_THE_MIDDLE_BYTES).unwrap();
    is_cancelled(&site, &ALICE, job);
    site.await_empty().unwrap();

    let stage_out = format!(
        "#DW stage_out type=directory source=$DW_JOB_STRIPED/many destination={home}/back\nset -eu\n"
    );
    let script = format!("{}cp -r {home}/many $DW_JOB_STRIPED\n", large.replace("set -eu\n", &stage_out));
    let job = submit(&site, &ALICE, "-N1", &script);
    site.pause_staging(IN_THE_MIDDLE_BYTES).unwrap();
    cancel(&site, &ALICE, "--hurry", job);
    ends(&site, &ALICE, job, "COMPLETED");
    finish(site);
}
