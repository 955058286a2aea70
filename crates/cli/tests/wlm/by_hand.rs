//! `dwcli` and `dwstat` on a cluster, as operators and as ordinary users.

use crate::place::{ANN, BOB, Place, await_it};
use std::io::Write;
use std::process::Stdio;

const ROOT: u32 = 0;

fn accepted(place: &Place, uid: u32, line: &str) -> u64 {
    let (status, text, error) = place.dwcli(uid, line);
    assert_eq!(status, 0, "{line}: {error}");
    let id = text.split("id = ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    assert!(text.contains(" accepted, \""), "{text}");
    id.parse().unwrap_or(0)
}

fn refused(place: &Place, uid: u32, line: &str, expected: &str) {
    let (status, text, error) = place.dwcli(uid, line);
    assert_eq!((status, text.as_str()), (1, ""), "{line}");
    assert!(error.starts_with("dwcli: ") && error.contains(expected), "{line}: {error}");
}

#[test]
fn space_by_hand_with_staging() {
    let place = Place::new();
    let _agents = place.agents(2, 1);
    let line = format!("create session --token mine --owner {ANN} --hosts c1 --creator me");
    // The owner's group is not known here.
    refused(&place, ROOT, &line, "uid 5001 is not known");
    let session = accepted(&place, ROOT, "create session --token mine --hosts c1 --owner 0");
    let line = format!("create instance --label space --capacity 20MiB --session {session} --pool wlm_pool");
    let instance = accepted(&place, ROOT, &line);
    assert_eq!(place.free(), 6);
    let line = format!(
        "create configuration --instance {instance} --type scratch --access-mode private --root-permissions 0755 --group 5"
    );
    accepted(&place, ROOT, &line);
    let configuration = place.client().snapshot().unwrap().configurations[0].id.0;
    let of = format!("--session {session} --configuration {configuration}");
    refused(&place, ROOT, &format!("create activation {of} --mount /a/../b"), "no absolute path");
    let activation = accepted(&place, ROOT, &format!("create activation {of} --mount /scratch/mine"));
    await_it("it is mounted", || place.client().snapshot().unwrap().activations[0].state.actualized);
    assert_eq!(place.client().snapshot().unwrap().activations[0].mount, "/scratch/mine");

    let text = place.dwcli(ROOT, &format!("stage out {of} --backing-path /pfs/out/ --dir /results")).1;
    assert!(text.contains("dwcli stage query --session"), "{text}");
    let eighth = || {
        let table = place.dwcli(ROOT, &format!("stage query {of}")).1;
        table.lines().nth(1).unwrap().split_whitespace().nth(7).unwrap().to_owned()
    };
    await_it("it is staged out", || eighth() == "-");
    refused(&place, ROOT, &format!("stage terminate {of}"), "nothing of configuration");

    assert_eq!(place.dwcli(ROOT, "ls nodes").1, "c1\ns1\ns2\n");
    assert_eq!(place.dwcli(ROOT, "ls pools").1, "wlm_pool\n");
    assert_eq!(place.dwcli(ROOT, "ls sessions").1, format!("{session}\n"));
    accepted(&place, ROOT, &format!("rm activation -i {activation}"));
    accepted(&place, ROOT, &format!("rm session -i {session}"));
    assert_eq!(place.free(), 8);
    refused(&place, ROOT, &format!("rm session -i {session}"), "there is no session");
}

#[test]
fn what_is_not_there_is_not_said_to_have_no_stagings() {
    let place = Place::for_everybody();
    let _agents = place.agents(1, 1);
    let session = accepted(&place, ANN, "create session --token anns");
    accepted(&place, ANN, &format!("create instance --label a --capacity 1MiB --session {session}"));
    let configuration = place.client().snapshot().unwrap().configurations[0].id.0;
    let query = format!("stage query --session {session} --configuration {configuration}");
    assert_eq!(place.dwcli(ANN, &query), (0, "no stagings\n".into(), String::new()));
    refused(&place, BOB, &query, &format!("there is no session {session}"));
    for verb in ["query", "terminate"] {
        let line = format!("stage {verb} --session 999999 --configuration {configuration}");
        refused(&place, ANN, &line, "there is no session 999999: dwcli ls sessions");
        let line = format!("stage {verb} --session {session} --configuration 999999");
        refused(&place, ANN, &line, "there is no configuration 999999: dwcli ls configurations");
    }
}

#[test]
fn words_that_do_not_fit_are_answered_with_those_that_do() {
    let place = Place::for_everybody();
    for (line, expected) in [
        (
            "create pool --name p --granularity 1.5GiB",
            "--granularity: `1.5GiB` has a fraction: write 1536MiB",
        ),
        (
            "create pool --name p --granularity 16QB",
            "`QB` is not a unit: write a whole number and a unit of K KiB",
        ),
        ("rm session -i x", "'x' for '--id <ID>...': a whole number is needed"),
        ("create session --token t --owner ann", "'ann' for '--owner <UID>': a whole number is needed"),
    ] {
        let (status, text, error) = place.dwcli(ROOT, line);
        assert_eq!((status, text.as_str()), (2, ""), "{line}");
        assert!(error.contains(expected), "{line}: {error}");
    }
    let session = accepted(&place, ANN, "create session --token anns");
    accepted(&place, ANN, &format!("rm sessions -i {session}"));
    assert_eq!(place.dwcli(ROOT, "--version").1, format!("dwcli (forebay) {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn users_see_and_change_what_is_theirs() {
    let place = Place::for_everybody();
    let _agents = place.agents(1, 1);
    accepted(&place, ANN, "create session --token anns");
    accepted(&place, BOB, "create session --token bobs");
    let sessions = |uid| place.dwstat(uid, "sessions").1;
    assert!(sessions(ANN).contains("anns") && !sessions(ANN).contains("bobs"));
    assert!(sessions(BOB).contains("bobs") && !sessions(BOB).contains("anns"));
    assert!(sessions(ROOT).contains("anns") && sessions(ROOT).contains("bobs"));
    let anns = place.dwcli(ANN, "ls sessions").1.trim().to_owned();
    refused(&place, BOB, &format!("rm session -i {anns}"), "may not change session");
    refused(
        &place,
        BOB,
        &format!("create instance --label a --capacity 1MiB --session {anns}"),
        "may not change",
    );
    refused(&place, BOB, "create session --token x --hosts c1", "operators");
    refused(&place, BOB, "update node --name s1 --drain", "operators");
    refused(&place, BOB, "create pool --name p --granularity 1MiB", "operators");
    refused(&place, BOB, "rm node --name s1", "operators");
    accepted(&place, ANN, &format!("rm session -i {anns}"));
    assert_eq!(sessions(ANN), "no sessions\n");
}

#[test]
fn space_by_hand_is_left_to_operators_unless_the_controller_is_told_otherwise() {
    let place = Place::new();
    let _agents = place.agents(1, 1);
    refused(&place, ANN, "create session --token mine", "may not make sessions and space by hand");
    let session = accepted(&place, ROOT, "create session --token given --owner 0");
    accepted(&place, ROOT, &format!("create instance --label a --capacity 1MiB --session {session}"));
    assert_eq!(place.free(), 3);

    let place = Place::with("space_by_hand = '40MiB'");
    let _agents = place.agents(1, 1);
    let session = accepted(&place, ANN, "create session --token mine");
    let create = format!("create instance --label a --capacity 20MiB --session {session}");
    accepted(&place, ANN, &create);
    refused(
        &place,
        ANN,
        &create,
        "uid 5001 may have 40MiB of space by hand at a time and has 32MiB, so 32MiB more",
    );
    accepted(&place, ANN, &format!("rm session -i {session}"));
    let session = accepted(&place, ANN, "create session --token mine");
    accepted(&place, ANN, &format!("create instance --label a --capacity 20MiB --session {session}"));
}

#[test]
fn limits_are_changed_by_owners_to_stricter_ones_and_by_operators_to_any() {
    let place = Place::for_everybody();
    let _agents = place.agents(1, 1);
    let session = accepted(&place, ANN, "create session --token mine --creator me");
    let row = place.dwstat(ANN, "sessions").1.lines().nth(1).unwrap().to_owned();
    assert_eq!(row.split_whitespace().nth(3), Some("me"), "{row}");
    let instance =
        accepted(&place, ANN, &format!("create instance --label a --capacity 1MiB --session {session}"));
    let configuration = place.client().snapshot().unwrap().configurations[0].id.0;
    let text = place.dwcli(ANN, &format!("update instance -i {instance} --write-window-multiplier 3")).1;
    let expected = format!(
        "update request for instances entity with id = {instance} accepted, \"dwstat instances\" for status\n"
    );
    assert_eq!(text, expected);
    accepted(
        &place,
        ANN,
        &format!("update configuration -i {configuration} --max-file-size 1GiB --max-files 9"),
    );
    for line in [
        format!("update instance -i {instance} --write-window-multiplier 4"),
        format!("update instance -i {instance} --policy file_size=log"),
        format!("update configuration -i {configuration} --max-files 10"),
    ] {
        refused(&place, ANN, &line, "left to operators");
        refused(&place, BOB, &line, "belongs to uid 5001");
        accepted(&place, ROOT, &line);
    }
    refused(
        &place,
        ROOT,
        &format!("update instance -i {instance} --write-window-length 0"),
        "a write window is 1 to",
    );
}

#[test]
fn a_wrong_command_line_is_told_from_a_refusal() {
    let place = Place::for_everybody();
    let _agents = place.agents(1, 0);
    accepted(&place, ANN, "create session --token anns");
    for line in [
        "create instance --label a --session 1 --capacity 20QB",
        "create pool --name p --granularity lots",
        "stage out --session 1 --configuration 1 --backing-path pfs/ --dir /",
        "create instance --label a --session x --capacity 20MB",
        "create nothing",
        "",
    ] {
        let (status, text, error) = place.dwcli(ANN, line);
        assert_eq!((status, text.as_str()), (2, ""), "{line}: {error}");
        assert!(!error.is_empty(), "{line}");
    }
    refused(&place, ANN, "create instance --label a --session 9 --capacity 20MB", "no session 9");
}

#[test]
fn pools_and_nodes_are_saved_and_restored() {
    let place = Place::new();
    let _agents = place.agents(2, 0);
    accepted(&place, ROOT, "create pool --name other --granularity 32MiB");
    let nodes = place.dwcli(ROOT, "ls nodes").1.replace('\n', " ");
    accepted(&place, ROOT, &format!("update node --name {nodes} --drain"));
    accepted(&place, ROOT, "update node --name s2 --pool other");
    let saved = place.dwcli(ROOT, "config backup").1;
    accepted(&place, ROOT, "update node --name s1 s2 --no-drain");
    accepted(&place, ROOT, "update node --name s2 --pool wlm_pool");
    let restore = |text: &str| {
        let mut command = place.command(env!("CARGO_BIN_EXE_dwcli"), "config restore");
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    assert_eq!(restore(&saved).1, "restored: 3 changes\n");
    assert_eq!(place.dwcli(ROOT, "config backup").1, saved);
    assert_eq!(restore(&saved).1, "restored: 0 changes\n");
    let (status, _, error) = restore("{}");
    assert!(status == Some(1) && error.starts_with("dwcli: this is not what"), "{error}");
    let (status, _, error) = restore(&saved.replace("\"s1\"", "\"s9\""));
    assert!(status == Some(1) && error.contains("no agent has registered from s9"), "{error}");
}

#[test]
fn dwstat_shows_the_cluster_and_nobody_elses_directory() {
    let place = Place::new();
    let _agents = place.agents(1, 1);
    let (status, text, _) = place.dwstat(ANN, "");
    assert_eq!(status, 0);
    assert_eq!(text, "    pool units quantity  free  gran \nwlm_pool bytes    64MiB 64MiB 16MiB \n");
    assert_eq!(place.dwstat(ANN, "nodes").1.lines().count(), 3);
    assert!(place.dwstat(ANN, "most").1.contains("did not find any of [sessions, instances"));
    std::fs::create_dir(place.path("theirs")).unwrap();
    let (status, _, error) = place.dwstat(ANN, &format!("--state-dir {}", place.path("theirs").display()));
    assert!(status == 1 && error.contains("belongs to uid 0"), "{error}");
}
