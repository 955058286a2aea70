//! What Slurm's own tests of burst buffers do, as they do it: what is shown, buffers made, used and destroyed in one script
//! and over several, and requests that have to be refused, with a text where Slurm leaves one to us.

mod site;

use forebay_testkit::slurm::{ALICE, BOB, ROOT, Site, User};
use site::{
    STRIPED, at_home, awaits_file, cancel, completes, ends, finish, is_told, shell, signal, site, submit,
};

/// What Slurm says of every refusal.
const INVALID: &str = "Burst Buffer request invalid";
const JOBDW: &str = "#DW jobdw type=scratch access_mode=striped capacity=50MB";

fn said(site: &Site, user: &User, command: &str) -> String {
    site.shell(user, command).unwrap_or_else(|error| error.to_string())
}

/// The words of the first line that a command prints.
fn heading(site: &Site, user: &User, command: &str) -> Vec<String> {
    let text = shell(site, user, command);
    text.lines().next().unwrap_or_default().split_whitespace().map(String::from).collect()
}

#[test]
fn what_cannot_be_carried_out_is_refused_when_it_is_submitted() {
    let site = site();
    let refused = |lines: &str, expected: &str| {
        let answer = site.submit(&ALICE, "-N1", &format!("#!/bin/bash\n{lines}\necho ran\n"));
        let Err(error) = answer else { panic!("accepted: {lines}") };
        let text = error.to_string();
        assert!(text.contains(INVALID) && text.contains(expected), "{lines}: {text}");
    };
    // Slurm judges these itself, without a word.
    for lines in [
        "#DW jobdw type=scratch access_mode=striped",
        "#DW jobdw type=scratch access_mode=striped capacity=0",
        "#DW jobdw type=scratch access_mode=striped capacity=50MB pool=nowhere",
        "#DW stage_in type=file source=/a destination=$DW_JOB_STRIPED/a",
        "#DW create_persistent name=a capacity=50MB access=striped type=scratch",
        "#DW frobnicate name=a",
        "#DW jobdw type=scratch access_mode=striped \\\n#BB capacity=50MB",
        "#BB create_persistent capacity=50MB access=striped type=scratch",
        "#BB create_persistent name=1a capacity=50MB access=striped type=scratch",
        "#BB create_persistent name=a access=striped type=scratch",
        "#BB destroy_persistent",
    ] {
        refused(lines, "");
    }
    refused("#DW jobdw access_mode=striped capacity=50MB", "line 2: missing key in: `jobdw`; expected type=");
    refused("#DW jobdw type=scratch capacity=50MB", "missing key in: `jobdw`; expected access_mode=");
    refused(&format!("{JOBDW}\n{JOBDW}"), "line 3: directive given twice: `jobdw`");
    refused("#DW swap 1GiB", "line 2: swap on compute nodes is not offered");
    refused(&format!("{JOBDW} colour=red"), "line 2: unknown key: `colour`");
    let stage = format!("{JOBDW}\n#DW stage_in type=file source=relative destination=$DW_JOB_STRIPED/a");
    refused(&stage, "line 3: ");
    refused("#DW jobdw type=cache access_mode=striped pfs=/tmp capacity=50MB", "line 2: ");
    let root = site.submit(&ROOT, "-N1", STRIPED).unwrap_err().to_string();
    assert!(root.contains("User root can not allocate burst buffers"), "{root}");
    finish(site);
}

#[test]
fn a_size_that_slurm_misreads_in_an_option_is_refused() {
    let site = site();
    for command in
        ["srun -Q -N1 --bb='BB' true", "salloc -Q -N1 --bb='BB' true", "sbatch -N1 --bb='BB' --wrap true"]
    {
        let with = |bb: &str| said(&site, &ALICE, &command.replace("BB", bb));
        for bb in ["capacity=50M,access=striped,type=scratch", "capacity=50 access=striped type=scratch"] {
            let text = with(bb);
            assert!(text.contains("the capacity is 50 bytes") && text.contains(INVALID), "{bb}: {text}");
        }
        let text = with("capacity=50M");
        assert!(text.contains("missing key in: `jobdw`; expected type=") && text.contains(INVALID), "{text}");
        for bb in [
            "access=striped type=scratch capacity=0",
            "pool=nowhere capacity=50M access=striped type=scratch",
        ] {
            assert!(with(bb).contains(INVALID), "{bb}");
        }
    }
    // The order of the keys does not matter, and a size in bytes that can be meant is one.
    let sees = "df -B1M --output=size $DW_JOB_STRIPED | tail -1 | tr -d \" \"";
    for (bb, size) in [
        ("type=scratch access=striped capacity=50M", "64\n"),
        ("type=scratch access_mode=striped capacity=100MiB", "112\n"),
        ("capacity=50000000 access=striped type=scratch", "48\n"),
    ] {
        assert_eq!(shell(&site, &ALICE, &format!("srun -Q -N1 --bb='{bb}' bash -c '{sees}'")), size, "{bb}");
    }
    // A buffer that is made by a script may be of bytes: Slurm's own tests ask for 48 of them.
    completes(
        &site,
        &ALICE,
        "-N1",
        "#!/bin/sh\n#BB create_persistent name=small capacity=48 access=striped type=scratch\n",
    );
    assert_eq!(site.burst().unwrap().size_of("small"), Some("16MiB"));
    completes(&site, &ALICE, "-N1", "#!/bin/sh\n#BB destroy_persistent name=small hurry\n");
    finish(site);
}

#[test]
fn scontrol_shows_what_is_there_to_everybody() {
    let site = site();
    let pools = ["pool", "units", "quantity", "free", "gran"];
    for command in ["scontrol show bbstat", "scontrol show dwstat", "scontrol show dwstat pools", "dwstat"] {
        assert_eq!(heading(&site, &BOB, command), pools, "{command}");
    }
    assert_eq!(shell(&site, &BOB, "scontrol show dwstat sessions").trim(), "no sessions");
    let none = shell(&site, &BOB, "scontrol show dwstat configurations");
    assert_eq!(none.trim(), "no scratch, cache, swap configurations");
    let script = format!(
        "{STRIPED}touch $HOME/runs\nfor i in $(seq 600); do [ -e $HOME/go ] && exit; sleep 0.1; done\nexit 7\n"
    );
    let job = submit(&site, &ALICE, "-N1", &script);
    awaits_file(&site, &ALICE, "runs");
    let sessions = ["sess", "state", "token", "creator", "owner", "created", "expiration", "nodes"];
    assert_eq!(heading(&site, &BOB, "scontrol show dwstat sessions"), sessions);
    let configurations = ["conf", "state", "inst", "type", "activs"];
    assert_eq!(heading(&site, &BOB, "scontrol show dwstat configurations"), configurations);
    let row = shell(&site, &BOB, &format!("scontrol show dwstat sessions | awk '$3 == {job}'"));
    assert!(row.contains(" CA--- ") && row.contains(" SLURM "), "{row}");
    // Bob sees nothing of it by himself.
    assert_eq!(shell(&site, &BOB, "dwstat sessions").trim(), "no sessions");
    let burst = shell(&site, &ALICE, "scontrol show burst");
    for part in [
        "Name=datawarp DefaultPool=default Granularity=16MiB TotalSpace=2GiB FreeSpace=",
        &format!("JobID={job} CreateTime="),
        " Pool=default Size=96MiB State=staged-in UserID=alice(",
        "Per User Buffer Use:",
        " Used=96MiB",
    ] {
        assert!(burst.contains(part), "{part}: {burst}");
    }
    signal(&site, &ALICE, "go");
    ends(&site, &ALICE, job, "COMPLETED");
    finish(site);
}

#[test]
fn owners_see_what_was_written_to_their_buffers() {
    let site = site();
    let script = "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped(MFC=100),private capacity=100MB write_window_multiplier=3\n\
         #DW stage_in type=file source=INPUT destination=$DW_JOB_STRIPED/input\n\
         set -eu\nsrun -N2 -n2 bash -c 'head -c 4000000 /dev/zero > $DW_JOB_PRIVATE/own'\n\
         head -c 3000000 /dev/zero > $DW_JOB_STRIPED/a; cat $DW_JOB_STRIPED/a $DW_JOB_STRIPED/a > $DW_JOB_STRIPED/b\n\
         sync $DW_JOB_STRIPED/b; sleep 2; forebay status --json $SLURM_JOB_ID > $HOME/told.json\n\
         forebay status $SLURM_JOB_ID\ntouch $HOME/runs\nfor i in $(seq 600); do [ -e $HOME/go ] && exit; sleep 0.1; done\n";
    let input = at_home(&site, &ALICE, "input").display().to_string();
    shell(&site, &ALICE, "head -c 5000000 /dev/urandom > input");
    let job = submit(&site, &ALICE, "-N2", &script.replace("INPUT", &input));
    awaits_file(&site, &ALICE, "runs");
    let told: serde_json::Value = serde_json::from_str(&shell(&site, &ALICE, "cat told.json")).unwrap();
    let namespaces = told["namespaces"].as_array().unwrap();
    let written: Vec<u64> = namespaces.iter().map(|one| one["bytes_written"].as_u64().unwrap()).collect();
    assert_eq!(written, [9_000_000, 4_000_000, 4_000_000], "{told}");
    assert_eq!(
        (&namespaces[0]["files_created"], &namespaces[0]["files_create_threshold"]),
        (&3.into(), &100.into())
    );
    let staged = |of: &serde_json::Value| {
        (of["stage_bytes_written"].as_u64().unwrap(), of["stage_bytes_read"].as_u64().unwrap())
    };
    assert_eq!(staged(&namespaces[0]), (5_000_000, 0), "{told}");
    assert_eq!(staged(&namespaces[1]), (0, 0), "{told}");
    let fragments = told["fragments"].as_array().unwrap();
    assert_eq!(
        (fragments.len() as u64, &told["namespace_count"]),
        (told["server_count"].as_u64().unwrap(), &3.into())
    );
    let sum = |key: &str| fragments.iter().map(|one| one[key].as_u64().unwrap()).sum::<u64>();
    assert!(sum("bytes_written") >= 17_000_000 && sum("write_moving_avg") >= 17_000_000, "{told}");
    assert_eq!(sum("write_limit"), 3 * (96 << 20), "{told}");
    assert_eq!(sum("files_created"), 5, "{told}");
    let refused = said(&site, &BOB, &format!("forebay status {job}"));
    assert!(refused.contains("neither a job of yours"), "{refused}");
    signal(&site, &ALICE, "go");
    let output = ends(&site, &ALICE, job, "COMPLETED");
    assert!(output.contains("instance") && output.contains("write window"), "{output}");
    finish(site);
}

#[test]
fn one_script_may_make_use_stage_and_another_destroy() {
    let site = site();
    let home = site.home(&ALICE);
    let home = home.display();
    shell(&site, &ALICE, "echo input > input; mkdir -p tree/a; echo deep > tree/a/b");
    let script = format!(
        "#!/bin/bash\n#SBATCH -N2\n\
         #BB create_persistent name=first capacity=32MiB access=striped type=scratch\n\
         #BB create_persistent name=second capacity=32MiB access_mode=striped type=scratch\n\
         {JOBDW}\n#DW persistentdw name=first\n#DW persistentdw name=second\n\
         #DW stage_in type=file source={home}/input destination=$DW_JOB_STRIPED/input\n\
         #DW stage_in type=directory source={home}/tree destination=$DW_PERSISTENT_STRIPED_first/tree\n\
         #DW stage_out type=file source=$DW_JOB_STRIPED/result destination={home}/result\n\
         set -eu\ncat $DW_JOB_STRIPED/input $DW_PERSISTENT_STRIPED_first/tree/a/b\n\
         echo result > $DW_JOB_STRIPED/result\necho kept > $DW_PERSISTENT_STRIPED_second/kept\n"
    );
    assert_eq!(completes(&site, &ALICE, "", &script), "input\ndeep\n");
    assert_eq!(shell(&site, &ALICE, "cat result"), "result\n");
    // Every task of an array finds what the job left.
    let array = "#!/bin/bash\n#DW persistentdw name=second\ncat $DW_PERSISTENT_STRIPED_second/kept > $HOME/kept.$SLURM_ARRAY_TASK_ID\n";
    submit(&site, &ALICE, "-N1 --array=1-3", array);
    for task in 1..=3 {
        awaits_file(&site, &ALICE, &format!("kept.{task}"));
    }
    // The name is taken: the job waits with that as the reason.
    let again = "#!/bin/sh\n#BB create_persistent name=first capacity=64MiB access=striped type=scratch\n";
    let job = submit(&site, &BOB, "-N1", again);
    is_told(&site, job, &["Burst_buffer_create_persistent_error"]);
    cancel(&site, &BOB, "", job);
    completes(
        &site,
        &ALICE,
        "-N1",
        "#!/bin/sh\n#BB destroy_persistent name=first\n#BB destroy_persistent name=second hurry\n",
    );
    let burst = site.burst().unwrap();
    assert_eq!((burst.size_of("first"), burst.size_of("second")), (None, None));
    // One that is not there is no failure: Slurm would ask for it for ever.
    completes(&site, &ALICE, "-N1", "#!/bin/sh\n#BB destroy_persistent name=first\n");
    // A job that wants it waits until somebody makes it.
    let waits = submit(&site, &BOB, "-N1", "#!/bin/bash\n#DW persistentdw name=later\necho found\n");
    is_told(&site, waits, &["BurstBufferResources"]);
    completes(
        &site,
        &ALICE,
        "-N1",
        "#!/bin/sh\n#BB create_persistent name=later capacity=32MiB access=striped type=scratch\n",
    );
    assert_eq!(ends(&site, &BOB, waits, "COMPLETED"), "found\n");
    completes(&site, &ALICE, "-N1", "#!/bin/sh\n#BB destroy_persistent name=later\n");
    finish(site);
}
