//! What is refused, and that slurmctld survives how it is told.

use crate::place::{Place, Said, assert_failed};

#[test]
fn scripts_that_slurm_would_misread_are_refused_at_submission_and_at_setup() {
    let place = Place::new();
    let _agents = place.agents(1, 0);
    let rest = "access_mode=striped type=scratch";
    let scripts = [
        (format!("#DW jobdw capacity=1.5GiB {rest}"), "line 2: size with a fraction"),
        (format!("#DW jobdw capacity=10QB {rest}"), "line 2: unknown unit"),
        (format!("#DW jobdw capacity=10 GiB {rest}"), "line 2: "),
        (format!("#DW jobdw capacity=2N {rest}"), "line 2: Slurm takes the capacity 2N"),
        (format!("#DW jobdw capacity=10MiB\t{rest}"), "line 2: there is a tab"),
        ("#DW swap 3GiB".to_owned(), "line 2: swap"),
        ("#DW jobdw capacity=1GiB access_mode=striped type=cache pfs=/lus".to_owned(), "line 2: type=cache"),
    ];
    for (line, expected) in scripts {
        let job = place.file("script", format!("#!/bin/bash\n{line}\n\0").as_bytes());
        assert_failed(&place.wlm(&format!("job_process --job {job}")), &["refused", expected]);
        let setup = format!("setup --token 7 -c SLURM -u 5001 -g 5001 -C wlm_pool:16MiB --job {job}");
        assert_failed(&place.wlm(&setup), &["refused", expected]);
    }
    assert_eq!(place.free(), 4);
    assert_eq!(place.client().snapshot().unwrap().sessions.len(), 0);
}

#[test]
fn the_words_of_a_call_are_never_more_than_words() {
    let place = Place::new();
    let _agents = place.agents(1, 0);
    let calls: &[&[&str]] = &[
        &[
            "--function",
            "setup",
            "--token",
            "$(touch /tmp/x);`id`|&",
            "-c",
            "S",
            "-u",
            "1",
            "-g",
            "1",
            "-C",
            "p:0",
            "-j",
            "/dev/null",
        ],
        &["--function", "teardown", "--token", "7\n--hurry"],
        &["--function", "data_in", "--token", "../../7"],
        &["--function", "create_persistent", "-c", "CLI", "-t", "a/../b", "-u", "0", "-C", "wlm_pool:1"],
        &[
            "--function",
            "create_persistent",
            "-c",
            "CLI",
            "-t",
            "a' OR 'a'='a",
            "-u",
            "0",
            "-C",
            "wlm_pool:1",
        ],
        &["--function", "nosuch; rm -rf /"],
        &["--function", "setup"],
        &["teardown"],
        &[],
    ];
    for words in calls {
        let output = place.wlm_command("").args(*words).output().unwrap();
        assert_eq!(output.stderr, b"");
        let said =
            Said { status: output.status.code().unwrap(), text: String::from_utf8(output.stdout).unwrap() };
        assert_failed(&said, &[]);
        assert!(!said.text.contains(['\n', '\'']), "{said:?}");
    }
    assert!(place.wlm("real_size").text.starts_with("real_size needs --token"));
    assert!(place.wlm("real_sizes").text.starts_with("invalid function"));
    assert_eq!(place.client().snapshot().unwrap().sessions.len(), 0);
}

#[test]
fn paths_with_metacharacters_are_paths() {
    let place = Place::new();
    let _agents = place.agents(1, 1);
    let canary = place.path("canary");
    let script = "#!/bin/bash\n#DW jobdw type=scratch access_mode=striped capacity=16MiB\n";
    let name = "a b;touch canary;$(touch canary)`touch canary`|'\"&>canary";
    let job = place.file(name, script.as_bytes());
    let (paths, hosts) = (place.path("p;touch canary"), place.file("$(touch canary)", b"c1\n"));
    let paths = paths.to_str().unwrap();
    let setup =
        ["setup", "-t", "7", "-c", "SLURM", "-u", "5001", "-g", "5001", "-C", "wlm_pool:16MiB", "-j", &job];
    let calls: [&[&str]; 4] = [
        &setup,
        &["paths", "-t", "7", "-p", paths],
        &["pre_run", "-t", "7", "--nodehostnamefile", &hosts],
        &["teardown", "-t", "7", "--hurry", "-j", &job],
    ];
    for words in calls {
        let mut command = place.wlm_command("--function");
        let output = command.args(words).current_dir(place.path("")).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {output:?}");
    }
    assert!(std::fs::read_to_string(paths).unwrap().starts_with("DW_JOB_STRIPED="));
    assert!(!canary.exists());
}

#[test]
fn users_may_not_do_what_slurm_does_and_are_told_so() {
    let place = Place::new();
    let _agents = place.agents(1, 0);
    let line = "--function create_persistent -c CLI -t mine -u 5001 -C wlm_pool:1";
    let output = place.command_of(5001, "dw_wlm_cli", line).output().unwrap();
    let said =
        Said { status: output.status.code().unwrap(), text: String::from_utf8(output.stdout).unwrap() };
    assert_failed(&said, &["uid 5001 may not ask for create_persistent"]);
}
