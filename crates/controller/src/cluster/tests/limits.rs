//! Every limit says itself when it is reached, and stands in the documentation.

use super::*;

fn text_of(answer: Result<Answer, Refusal>) -> String {
    answer.expect_err("nothing was refused").to_string()
}

/// As documents write it: 20,000.
fn written(number: usize) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}

#[test]
fn the_administrators_page_names_every_limit() {
    let page = include_str!("../../../../../docs/slurm.md");
    let section = page.split("\n## Limits\n").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    for (what, limit) in [
        ("sessions of one user at a time", MAX_SESSIONS_PER_OWNER),
        ("sessions at a time", MAX_SESSIONS),
        ("instances of a session", MAX_INSTANCES_PER_SESSION),
        ("configurations of an instance", MAX_CONFIGURATIONS_PER_INSTANCE),
        ("persistent instances that one job uses", MAX_ATTACHED),
        ("client nodes of a job", MAX_HOSTS),
        ("stagings of a job", MAX_STAGES),
        ("nodes", MAX_NODES),
        ("pools", MAX_POOLS),
        ("fragments, and mounts, on one node", MAX_HELD),
        ("calls that wait for one job", MAX_WAITING_PER_SESSION),
        ("calls that wait", MAX_WAITING),
        ("characters of a name", MAX_WORD),
        ("bytes of a path", MAX_PATH_BYTES),
    ] {
        let row = format!("| {what} | {} |", written(limit));
        assert!(section.contains(&row), "docs/slurm.md has no line {row:?}");
    }
}

#[test]
fn a_user_is_told_how_many_sessions_he_may_have() {
    let mut cluster = Cluster::new();
    let session = |number: usize, owner: u32| Request::CreateSession {
        token: format!("s{number}"),
        owner,
        group: 100,
        hosts: Vec::new(),
        creator: None,
    };
    for number in 0..MAX_SESSIONS_PER_OWNER {
        cluster.get(ALICE, session(number, ALICE)).unwrap();
    }
    let refused = text_of(cluster.get(ALICE, session(usize::MAX, ALICE)));
    assert_eq!(refused, "sessions of one owner: at most 20000 are allowed");
    // Neither does the workload manager get around it, nor is anybody else kept out.
    let setup = Setup { stages: Vec::new(), ..job("1", ALICE) };
    assert_eq!(text_of(cluster.slurm(Request::Setup(setup))), refused);
    cluster.get(BOB, session(usize::MAX, BOB)).unwrap();
}

#[test]
fn who_asks_for_too_much_is_told_how_much_there_may_be() {
    let mut cluster = Cluster::new();
    let stages = vec![stage(StageDirection::In); MAX_STAGES + 1];
    let setup = |token: &str| Setup { stages: Vec::new(), ..job(token, ALICE) };
    let many = Request::Setup(Setup { stages, ..job("1", ALICE) });
    assert_eq!(text_of(cluster.slurm(many)), "stagings of one job: at most 10000 are allowed");
    let attach = (0..=MAX_ATTACHED).map(|number| format!("p{number}")).collect();
    let many = Request::Setup(Setup { attach, ..setup("1") });
    assert_eq!(text_of(cluster.slurm(many)), "persistent instances of one job: at most 64 are allowed");
    cluster.slurm(Request::Setup(setup("1"))).unwrap();
    let hosts = (0..=MAX_HOSTS).map(|number| format!("c{number}")).collect();
    let many = Request::PreRun { token: "1".into(), hosts };
    assert_eq!(text_of(cluster.slurm(many)), "client nodes: at most 65536 are allowed");
    let access = space(1, &[AccessMode::Striped]).access[0];
    let mut refusals = (0..MAX_CONFIGURATIONS_PER_INSTANCE).map(|_| {
        let (instance, kind) = (InstanceId(1), ConfigurationType::Scratch);
        cluster.get(ALICE, Request::CreateConfiguration { instance, kind, access })
    });
    let refused = refusals.find(Result::is_err).unwrap();
    assert_eq!(text_of(refused), "configurations of an instance: at most 8 are allowed");
}
