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

#[test]
fn there_are_no_more_sessions_than_numbers_and_places_for_them() {
    let mut cluster = Cluster::new();
    cluster.slurm(Request::Setup(Setup { stages: Vec::new(), ..job("1", ALICE) })).unwrap();
    let setup = |token: &str| Request::Setup(Setup { stages: Vec::new(), ..job(token, BOB) });
    // Slurm keeps 32 bits of a number: it would take the next one for the first.
    let mut numbered = cluster.state.clone();
    numbered.draw(|counters| {
        counters.sessions = MAX_ID;
        &mut counters.tasks
    });
    std::mem::swap(&mut cluster.state, &mut numbered);
    assert_eq!(text_of(cluster.slurm(setup("2"))), "sessions over all time: at most 4294967295 are allowed");
    std::mem::swap(&mut cluster.state, &mut numbered);
    let first = cluster.state.session_of("1").unwrap().clone();
    for number in 2..=MAX_SESSIONS as u32 {
        // Nobody has more than he may.
        let (id, token, owner) = (SessionId(number.into()), number.to_string(), 10_000 + number);
        cluster.state.insert(Row::Session(SessionRow { id, token, owner, ..first.clone() }));
    }
    assert_eq!(text_of(cluster.slurm(setup("more"))), "sessions: at most 100000 are allowed");
}

#[test]
fn a_session_holds_so_many_instances_and_stagings() {
    let mut cluster = Cluster::new();
    cluster.incarnations.insert("s3".into(), 1);
    let capacity = Bytes(2 * MAX_INSTANCES_PER_SESSION as u64 * GRANULE);
    let large = Registering { pool: Some("wlm_pool".into()), capacity, ..Registering::default() };
    cluster.say("s3", AgentMessage::Register(large));
    let stages = vec![stage(StageDirection::In); MAX_STAGES];
    cluster.slurm(Request::Setup(Setup { stages, ..job("1", ALICE) })).unwrap();
    let (session, configuration) = (SessionId(1), ConfigurationId(1));
    let more = Request::Stage { session, configuration, stage: stage(StageDirection::Out) };
    assert_eq!(text_of(cluster.get(ALICE, more)), "stagings of a session: at most 10000 are allowed");
    let instance = || {
        let (label, space) = ("x".to_owned(), space(1, &[AccessMode::Striped]));
        Request::CreateInstance { session, label, space }
    };
    for _ in 1..MAX_INSTANCES_PER_SESSION {
        cluster.get(ALICE, instance()).unwrap();
    }
    assert_eq!(text_of(cluster.get(ALICE, instance())), "instances of a session: at most 64 are allowed");
}

#[test]
fn there_are_no_more_pools_than_may_be() {
    let mut cluster = Cluster::new();
    let pool = |number: usize| Request::CreatePool { name: format!("p{number}"), granularity: Bytes(1) };
    for number in cluster.state.tables().pools.len()..MAX_POOLS {
        cluster.get(OPERATOR, pool(number)).unwrap();
    }
    assert_eq!(text_of(cluster.get(OPERATOR, pool(MAX_POOLS))), "pools: at most 256 are allowed");
    // One that is there may be made again.
    cluster.get(OPERATOR, pool(MAX_POOLS - 1)).unwrap();
}

/// What the log says of an agent that is not admitted.
fn turned_away(cluster: &mut Cluster, node: &str, registering: Registering) -> String {
    *cluster.incarnations.entry(node.into()).or_default() += 1;
    let (row, said) = (cluster.state.tables().nodes.get(node).cloned(), cluster.logs.len());
    cluster.say(node, AgentMessage::Register(registering));
    assert_eq!(cluster.state.tables().nodes.get(node).cloned(), row, "nothing is changed");
    cluster.logs.split_off(said).concat()
}

#[test]
fn an_agent_is_turned_away_that_says_too_much_or_is_one_too_many() {
    let mut cluster = Cluster::new();
    let fragment =
        HeldFragment { fragment: FragmentId(1), instance: InstanceId(1), bytes: Bytes(1), serving: false };
    let plain = Registering::default;
    let too_much = [
        (Registering { fragments: vec![fragment; MAX_HELD + 1], ..plain() }, "more than 100000 fragments"),
        (
            Registering { mounts: vec![ActivationId(1); MAX_HELD + 1], ..plain() },
            "more than 100000 fragments",
        ),
        (
            Registering { address: Some(format!("{}:1", "h".repeat(MAX_ADDRESS))), ..plain() },
            "300 characters",
        ),
        (Registering { socket: Some("/x".repeat(MAX_PATH_BYTES)), ..plain() }, "its socket"),
    ];
    for (registering, words) in too_much {
        let said = turned_away(&mut cluster, "s1", registering);
        assert!(said.contains(words), "{words}: {said}");
    }
    let known = cluster.state.tables().nodes.get("c1").unwrap().clone();
    for number in cluster.state.tables().nodes.len()..MAX_NODES {
        cluster.state.insert(Row::Node(NodeRow { name: format!("n{number}"), ..known.clone() }));
    }
    let said = turned_away(&mut cluster, "one.more", plain());
    assert!(said.contains("there are 100000 nodes already"), "{said}");
    // One that is known comes back.
    cluster.register("c1", Vec::new());
    assert!(cluster.state.tables().nodes.get("c1").unwrap().incarnation > known.incarnation);
}

#[test]
fn no_more_requests_wait_than_there_are_places() {
    let mut cluster = Cluster::new();
    cluster.off.extend(["s1".to_owned(), "s2".to_owned()]);
    for number in 0..MAX_WAITING as u64 {
        let (name, token, until) = ("setup", String::new(), waiting::Until::Ready);
        let (request, session) = (RequestId(1_000_000 + number), SessionId(number));
        let caller = Caller { uid: SLURM };
        let waiting = waiting::Waiting { request, caller, name, session, token, until };
        cluster.state.waiting.enter(waiting);
    }
    let setup = Request::Setup(Setup { stages: Vec::new(), ..job("1", ALICE) });
    assert_eq!(text_of(cluster.slurm(setup)), "waiting requests: at most 200000 are allowed");
}

#[test]
fn a_path_and_the_text_of_a_failure_have_a_length() {
    let mut cluster = Cluster::new();
    let long = vec![b'x'; MAX_PATH_BYTES];
    for (pfs, inner) in
        [([b"/".as_slice(), &long].concat(), b"x".to_vec()), (b"/x".to_vec(), [long, vec![b'x']].concat())]
    {
        let one = Stage { pfs, instance_path: inner, ..stage(StageDirection::In) };
        let setup = Request::Setup(Setup { stages: vec![one], ..job("1", ALICE) });
        assert!(text_of(cluster.slurm(setup)).contains("longer than 4096 bytes"));
    }
    cluster.slurm(Request::Setup(Setup { stages: Vec::new(), ..job("2", ALICE) })).unwrap();
    cluster.off.insert("c1".into());
    let pre_run = Request::PreRun { token: "2".into(), hosts: vec!["c1".into()] };
    let waits = cluster.ask(SLURM, pre_run);
    let task = cluster.state.tables().tasks.values().find(|task| task.node == "c1").unwrap().id;
    let text = "long ".repeat(MAX_TEXT);
    cluster.say("c1", AgentMessage::Failed { task, text, again: false });
    let told = cluster.answers[&waits].as_ref().unwrap_err().to_string();
    assert!(told.contains("long long") && told.len() < MAX_TEXT + 200, "{} characters", told.len());
}
