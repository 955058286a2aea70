//! The ways in which users ask Slurm for a burst buffer, and what they are shown.

mod site;

use forebay_testkit::slurm::{ALICE, BOB, ROOT, Site};
use site::{
    AWAIT_FILE, STRIPED, awaits_file, completes, ends, fails, finish, is_cancelled, is_told, shell, signal,
    site, submit,
};

/// The first line of a buffer as a directive.
const DIRECTIVE: &str = "#DW jobdw type=scratch access_mode=striped capacity=50MB";

#[test]
fn a_directive_may_stand_in_an_option() {
    let site = site();
    let sees = "df -B1M --output=size $DW_JOB_STRIPED | tail -1 | tr -d \" \"";
    let said = shell(&site, &ALICE, &format!("srun -Q -N2 --bb='{DIRECTIVE}' bash -c '{sees}'"));
    assert_eq!(said, "48\n48\n");
    let plain = format!("#!/bin/bash\n{sees}\n");
    assert_eq!(completes(&site, &ALICE, &format!("-N1 --bb='{DIRECTIVE}'"), &plain), "48\n");
    shell(
        &site,
        &ALICE,
        &format!(
            "printf '{DIRECTIVE}\\n#DW stage_out type=file source=$DW_JOB_STRIPED/f destination={}/f\\n' > bbf",
            site.home(&ALICE).display()
        ),
    );
    completes(&site, &ALICE, "-N1 --bbf=bbf", "#!/bin/bash\necho result > $DW_JOB_STRIPED/f\n");
    assert_eq!(shell(&site, &ALICE, "cat f"), "result\n");
    let wrong = DIRECTIVE.replace("striped", "sideways");
    let refused = site.shell(&ALICE, &format!("srun -N1 --bb='{wrong}' true")).unwrap_err().to_string();
    assert!(refused.contains("unknown value: `sideways`; expected striped or private"), "{refused}");
    finish(site);
}

#[test]
fn the_components_of_a_heterogeneous_job_have_buffers_of_their_own() {
    let site = site();
    completes(
        &site,
        &ALICE,
        "-N0",
        "#!/bin/sh\n#BB create_persistent name=common capacity=32MiB access_mode=striped type=scratch\n",
    );
    // As the documentation says it.
    let script = r#"#!/bin/bash
#SBATCH -N1
#DW jobdw type=scratch access_mode=striped capacity=50MB
#DW persistentdw name=common
#SBATCH hetjob
#SBATCH -N2
#DW jobdw type=scratch access_mode=striped capacity=100MB
#DW persistentdw name=common
set -eu
second() { echo ${1/${SLURM_JOB_ID}_/${SLURM_JOB_ID_HET_GROUP_1}_}; }
own=$(second $DW_JOB_STRIPED) common=$(second $DW_PERSISTENT_STRIPED_common)
srun --het-group=0 bash -c 'df -B1M --output=size $DW_JOB_STRIPED | tail -1; echo 0 > $DW_PERSISTENT_STRIPED_common/0'
srun --het-group=1 bash -c "cd $own; echo own > \$SLURM_PROCID; df -B1M --output=size . | tail -1; cat $common/0"
srun --het-group=1 -n1 -N1 ls $own
"#;
    let job = submit(&site, &ALICE, "", script);
    let output = ends(&site, &ALICE, job, "COMPLETED");
    let words: Vec<&str> = output.split_whitespace().collect();
    assert_eq!((words[0], &words[5..]), ("48", &["0", "1"][..]), "{output}");
    let mut second = words[1..5].to_vec();
    second.sort();
    assert_eq!(second, ["0", "0", "96", "96"], "{output}");
    let said = shell(
        &site,
        &BOB,
        "srun -Q -N1 --bb='capacity=50M access=striped type=scratch' : -N1 --bb='capacity=70M access=striped type=scratch' true; echo ran",
    );
    assert_eq!(said, "ran\n");
    completes(&site, &ALICE, "-N0", "#!/bin/sh\n#BB destroy_persistent name=common\n");
    finish(site);
}

#[test]
fn a_symbol_that_slurm_would_leave_as_it_is_is_refused() {
    let site = site();
    let stage = |symbol: &str| {
        let home = site.home(&ALICE);
        let line = format!(
            "#DW stage_out type=file source=$DW_JOB_STRIPED/f destination={}/f.{symbol}\nset -eu\n",
            home.display()
        );
        STRIPED.replace("set -eu\n", &line) + "echo $SLURM_ARRAY_TASK_ID > $DW_JOB_STRIPED/f\n"
    };
    let refused = site.submit(&ALICE, "-N1 --array=11-12", &stage("%b")).unwrap_err().to_string();
    assert!(refused.contains("unknown symbol: `%b`; expected one of"), "{refused}");
    let array = submit(&site, &ALICE, "-N1 --array=11-12", &stage("%A.%a"));
    let over = || Ok(shell(&site, &ALICE, &format!("squeue -h -j {array} | wc -l")).trim() == "0");
    site.await_slurm("the end of the array", over).unwrap();
    assert_eq!(
        shell(&site, &ALICE, &format!("cat f.{array}.11 f.{array}.12; ls f.* | wc -l")),
        "11\n12\n2\n"
    );
    finish(site);
}

#[test]
fn a_job_that_is_sent_back_while_it_runs_begins_with_an_empty_buffer() {
    let site = site();
    let home = site.home(&ALICE);
    let script = format!(
        "{STRIPED}{AWAIT_FILE}ls -A $DW_JOB_STRIPED\necho old > $DW_JOB_STRIPED/old\n\
         touch {0}/started.$SLURM_RESTART_COUNT\nawait {0}/go\n",
        home.display()
    );
    let job = submit(&site, &ALICE, "-N2 --requeue", &script.replace("set -eu", "set -e"));
    awaits_file(&site, &ALICE, "started.");
    shell(&site, &ALICE, &format!("scontrol requeue {job}"));
    is_told(&site, job, &["BeginTime"]);
    // Slurm begins again after two minutes; an operator need not wait.
    shell(&site, &ROOT, &format!("scontrol update jobid={job} starttime=now"));
    awaits_file(&site, &ALICE, "started.1");
    signal(&site, &ALICE, "go");
    assert_eq!(ends(&site, &ALICE, job, "COMPLETED"), "");
    finish(site);
}

/// The words of a table's line, or of a `key=value` text.
fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_job_is_shown_as_the_courses_of_the_first_burst_buffers_show_it() {
    let site = site();
    let create = "#!/bin/sh\n#BB create_persistent name=my_persistent_reservation capacity=30MB access_mode=striped type=scratch\n";
    completes(&site, &BOB, "-N1", create);
    let holder = submit(
        &site,
        &ALICE,
        "-N1 -t 5 -J scratch",
        &format!("{STRIPED}{AWAIT_FILE}touch $HOME/started\nawait $HOME/go\n"),
    );
    awaits_file(&site, &ALICE, "started");
    let large = STRIPED.replace("100MB", "3GiB");
    let (waiting, _) = fails(&site, &ALICE, "-N1 -t 5 -J scratch", &large, &["BurstBufferResources"]);
    let queue = shell(&site, &ALICE, &format!("squeue -u alice -j {waiting}"));
    let line = words(queue.lines().last().unwrap_or_default());
    assert_eq!(
        line,
        [&waiting.to_string(), "batch", "scratch", "alice", "PD", "0:00", "1", "(BurstBufferResources)"],
        "{queue}"
    );
    let queue = shell(&site, &ALICE, &format!("squeue -l -j {waiting}"));
    let line = words(queue.lines().last().unwrap_or_default());
    assert_eq!(
        line,
        [
            &waiting.to_string(),
            "batch",
            "scratch",
            "alice",
            "PENDING",
            "0:00",
            "5:00",
            "1",
            "(BurstBufferResources)"
        ],
        "{queue}"
    );
    assert_shown(&site, &holder.to_string());
    is_cancelled(&site, &ALICE, waiting);
    signal(&site, &ALICE, "go");
    ends(&site, &ALICE, holder, "COMPLETED");
    completes(&site, &BOB, "-N1", "#!/bin/sh\n#BB destroy_persistent name=my_persistent_reservation\n");
    finish(site);
}

/// `scontrol show burst` line by line, as any user sees it.
fn assert_shown(site: &Site, job: &str) {
    let text = shell(site, &ALICE, "scontrol show burst");
    let lines: Vec<Vec<String>> = text.lines().map(words).collect();
    let has = |wanted: &[&str]| {
        let found = lines.iter().any(|line| wanted.iter().all(|word| line.iter().any(|own| own == word)));
        assert!(found, "no line with {wanted:?} in\n{text}");
    };
    has(&[
        "Name=datawarp",
        "DefaultPool=default",
        "Granularity=16MiB",
        "TotalSpace=2GiB",
        "FreeSpace=1920MiB",
        "UsedSpace=128MiB",
    ]);
    has(&["Flags=EnablePersistent"]);
    has(&["StageInTimeout=86400", "StageOutTimeout=86400", "ValidateTimeout=5", "OtherTimeout=300"]);
    has(&["Allocated", "Buffers:"]);
    has(&[&format!("JobID={job}"), "Pool=default", "Size=96MiB", "State=staged-in", "UserID=alice(20001)"]);
    has(&[
        "Name=my_persistent_reservation",
        "Pool=default",
        "Size=32MiB",
        "State=allocated",
        "UserID=bob(20002)",
    ]);
    has(&["Per", "User", "Buffer", "Use:"]);
    has(&["UserID=alice(20001)", "Used=96MiB"]);
    has(&["UserID=bob(20002)", "Used=32MiB"]);
}

#[test]
fn an_error_of_staging_is_in_the_queue_as_slurm_shows_it() {
    let site = site();
    let stage = "#DW stage_in type=file source=/nowhere/forburst destination=$DW_JOB_STRIPED/x\nset -eu\n";
    let (job, held) = fails(
        &site,
        &ALICE,
        "-N1",
        &STRIPED.replace("set -eu\n", stage),
        &["dws_data_in", "/nowhere/forburst"],
    );
    assert_eq!(held.state(), "PENDING", "{}", held.text());
    let queue = shell(&site, &ALICE, "squeue -h -o '%i %t %r'");
    assert!(queue.starts_with(&format!("{job} PD burst_buffer/datawarp: dws_data_in: ")), "{queue}");
    assert!(queue.lines().count() == 1 && queue.contains("/nowhere/forburst"), "{queue}");
    is_cancelled(&site, &ALICE, job);
    finish(site);
}
