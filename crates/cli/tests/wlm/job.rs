//! A job's life, call by call, as Slurm 22.05 was seen to make them.

use crate::place::{GRANULE, Place, assert_failed, await_it, done};
use serde_json::{Value, json};

const SCRIPT: &[u8] = b"#!/bin/bash\n#DW jobdw type=scratch capacity=40MB access_mode=striped,private pool=wlm_pool\n#DW stage_in type=file source=/pfs/in destination=$DW_JOB_STRIPED/in\n#DW stage_out type=file source=$DW_JOB_STRIPED/out destination=/pfs/out\nsrun true\n\0";

fn json_of(place: &Place, verb: &str) -> Value {
    let said = place.wlm(verb);
    assert_eq!(said.status, 0, "{said:?}");
    assert!(!said.text.contains('\''));
    serde_json::from_str(&said.text).unwrap()
}

fn setup_line(job: &str, token: &str) -> String {
    format!(
        "setup --token {token} --caller SLURM --user 5001 --groupid 5001 --capacity wlm_pool:48MiB --job {job}"
    )
}

#[test]
fn a_job_from_submission_to_the_end() {
    let place = Place::new();
    let _agents = place.agents(2, 2);
    let job = place.file("script", SCRIPT);
    let pool = json!({"id": "wlm_pool", "units": "bytes", "granularity": GRANULE, "quantity": 8, "free": 8});
    assert_eq!(json_of(&place, "pools"), json!({"pools": [pool]}));
    assert_eq!(json_of(&place, "show_sessions"), json!({"sessions": []}));

    assert_eq!(place.wlm(&format!("job_process --job {job}")), done());
    assert_eq!(place.wlm(&setup_line(&job, "7")), done());
    assert_eq!(place.wlm(&setup_line(&job, "7")), done(), "the same again");
    assert_eq!(place.wlm(&format!("data_in --token 7 --job {job}")), done());
    let size = place.wlm("real_size --token 7");
    assert_eq!((size.status, size.text.as_str()), (0, "{\"units\":\"bytes\",\"capacity\":50331648}\n"));

    let sessions = json_of(&place, "show_sessions");
    let session = &sessions["sessions"][0];
    assert_eq!((&session["token"], &session["owner"]), (&json!("7"), &json!(5001)));
    assert!(session["created"].as_i64().unwrap() > 1_600_000_000);
    let instances = json_of(&place, "show_instances");
    let instance = &instances["instances"][0];
    assert_eq!(instance["capacity"]["bytes"], json!(3 * GRANULE));
    assert_eq!(instance["links"]["session"], session["id"]);
    assert_eq!(json_of(&place, "show_configurations")["configurations"].as_array().unwrap().len(), 2);
    assert_eq!(json_of(&place, "pools")["pools"][0]["free"], json!(5));

    let pathfile = place.path("path");
    let line = format!("paths --job {job} --token 7 --pathfile {}", pathfile.display());
    assert_eq!(place.wlm(&line), done());
    let mut variables: Vec<String> =
        std::fs::read_to_string(&pathfile).unwrap().lines().map(String::from).collect();
    variables.sort();
    let root = "/var/opt/cray/dws/mounts/batch";
    let expected = [
        format!("DW_JOB_PRIVATE={root}/7_private_scratch/"),
        format!("DW_JOB_STRIPED={root}/7_striped_scratch/"),
    ];
    assert_eq!(variables, expected);

    let nodes = place.file("client_nids", b"c1\nc2\n");
    assert_eq!(place.wlm(&format!("pre_run --token 7 --job {job} --nodehostnamefile {nodes}")), done());
    assert_eq!(place.client().snapshot().unwrap().activations.iter().map(|one| one.nodes).sum::<u64>(), 4);
    for verb in ["post_run", "post_run", "data_out", "data_out", "teardown"] {
        assert_eq!(place.wlm(&format!("{verb} --token 7 --job {job}")), done(), "{verb}");
    }
    assert_eq!(place.free(), 8);
    assert_failed(&place.wlm(&format!("teardown --token 7 --job {job}")), &["token not found"]);
    assert_failed(&place.wlm(&format!("teardown --token 7 --job {job} --hurry")), &["token not found"]);
    let log = place.log();
    assert!(log.contains("setup --token 7") && log.contains("failed: token not found"), "{log}");
}

#[test]
fn a_session_is_listed_from_the_first_moment_and_calls_may_be_killed_and_repeated() {
    let place = Place::new();
    drop(place.agents(1, 1));
    let job = place.file("script", SCRIPT);
    let setup = place.wlm_child(&setup_line(&job, "8"));
    let is_listed = || json_of(&place, "show_sessions")["sessions"][0]["token"] == json!("8");
    await_it("the session is listed", is_listed);
    setup.kill();
    assert!(is_listed());
    let mut setup = place.wlm_child(&setup_line(&job, "8"));
    let nodes = place.file("client_nids", b"c1\n");
    let pre_run = place.wlm_child(&format!("pre_run --token 8 --job {job} --nodehostnamefile {nodes}"));
    assert!(setup.is_running());
    let _agents = place.agents(1, 1);
    assert_eq!(setup.wait(), done());
    assert_eq!(pre_run.wait(), done());
    let teardowns = [0, 1].map(|_| place.wlm_child("teardown --token 8 --hurry"));
    for teardown in teardowns {
        let said = teardown.wait();
        assert!(said == done() || said.text.contains("token not found"), "{said:?}");
    }
    assert_eq!(place.free(), 4);
}

#[test]
fn a_job_without_space_of_its_own() {
    let place = Place::new();
    let _agents = place.agents(1, 1);
    let job = place.file(
        "script",
        b"#!/bin/bash\n#BB create_persistent name=a capacity=1G access=striped type=scratch\n\0",
    );
    let line = format!(
        "setup --token 9 --caller SLURM --user 5001 --groupid 5001 --capacity wlm_pool:0 --job {job} --nodehostnamefile /nowhere"
    );
    assert_eq!(place.wlm(&line), done());
    for verb in ["data_in", "post_run", "data_out", "teardown"] {
        assert_eq!(place.wlm(&format!("{verb} --token 9 --job {job}")), done(), "{verb}");
    }
}

/// Slurm replaces symbols in a file in its memory, which `setup` gets instead of the script.
#[test]
fn symbols_are_those_that_slurm_put_in() {
    let place = Place::new();
    let _agents = place.agents(1, 1);
    let directives = "#DW jobdw type=scratch capacity=40MB access_mode=striped";
    let stage = |pfs: &str| format!("#DW stage_in type=file source={pfs} destination=$DW_JOB_STRIPED/in");
    let written =
        place.file("script", format!("#!/bin/bash\n{directives}\n{}\n\0", stage("/pfs/%u/%j")).as_bytes());
    assert_eq!(place.wlm(&format!("job_process --job {written}")), done());
    place.file("replaced", format!("#!/bin/sh\n{directives}\n{}", stage("/pfs/ann/100%")).as_bytes());
    let replaced = std::fs::File::open(place.path("replaced")).unwrap();
    use std::os::fd::AsRawFd;
    let path = format!("/proc/{}/fd/{}", std::process::id(), replaced.as_raw_fd());
    assert_eq!(place.wlm(&setup_line(&path, "10")), done());
    assert_eq!(place.client().stages().unwrap()[0].pfs, b"/pfs/ann/100%");
}
