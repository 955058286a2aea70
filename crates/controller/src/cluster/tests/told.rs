//! What agents are told beside the plain order: addresses, policies, names of instances.

use super::*;
use forebay_model::limits::{InstancePolicies, Policy};

/// Where the file servers are that mounts are told of, by the node and activation.
fn mount_orders(cluster: &Cluster) -> Vec<(String, ActivationId, Vec<String>)> {
    let orders = cluster.lists.values().flat_map(|list| list.orders.iter().map(move |o| (&list.node, o)));
    let mount = |(node, order): (&String, &Order)| match &order.work {
        Work::Mount { activation, target, .. } => {
            let addresses = target.fragments.iter().filter_map(|part| part.address.clone());
            Some((node.clone(), *activation, addresses.collect()))
        }
        _ => None,
    };
    orders.filter_map(mount).collect()
}

#[test]
fn mounts_are_told_when_a_file_server_moves() {
    let mut cluster = Cluster::new();
    register_at(&mut cluster, "s1", "s1:4001");
    register_at(&mut cluster, "s2", "s2:4001");
    cluster.slurm(Request::Setup(job("7", ALICE))).unwrap();
    let small = Setup { space: Some(space(GRANULE, &[AccessMode::Striped])), ..job("8", ALICE) };
    cluster.slurm(Request::Setup(small)).unwrap();
    for token in ["7", "8"] {
        cluster.slurm(Request::DataIn { token: token.into() }).unwrap();
        let hosts = vec!["c1".into(), "c2".into()];
        cluster.slurm(Request::PreRun { token: token.into(), hosts }).unwrap();
    }
    let on_s1 = |cluster: &Cluster, token: &str| {
        let session = cluster.state.session_of(token).unwrap().id;
        let fragments = cluster.state.tables().fragments.values().filter(|row| row.node == "s1");
        let mut instances = fragments.filter_map(|row| cluster.state.tables().instances.get(&row.instance));
        instances.any(|row| row.session == session)
    };
    assert!(on_s1(&cluster, "7") && !on_s1(&cluster, "8"), "only one of them is concerned");
    register_at(&mut cluster, "s1", "s1:4002");
    let activation = cluster.state.tables().activations.values().next().unwrap().id;
    let addresses = vec!["s1:4002".to_owned(), "s2:4001".to_owned()];
    let told = |node: &str| (node.to_owned(), activation, addresses.clone());
    assert_eq!(mount_orders(&cluster), [told("c1"), told("c2")]);
    // They are mounted meanwhile.
    assert!(cluster.state.tables().mounts.values().all(|row| row.mounted));
    cluster.work();
    assert!(cluster.state.tables().mounts.values().all(|row| row.mounted));
    // One that is being unmounted is not mounted again.
    let post_run = cluster.ask(SLURM, Request::PostRun { token: "7".into() });
    register_at(&mut cluster, "s1", "s1:4003");
    assert_eq!(mount_orders(&cluster), []);
    cluster.work();
    assert_eq!(cluster.answers[&post_run], Ok(Answer::Done));
}

#[test]
fn where_the_accounting_is_kept_is_told_to_owners_and_operators() {
    let mut cluster = Cluster::new();
    register_at(&mut cluster, "s1", "s1:4001");
    register_at(&mut cluster, "s2", "s2:4001");
    let both = Setup {
        space: Some(space(3 * GRANULE, &[AccessMode::Striped, AccessMode::Private])),
        ..job("7", ALICE)
    };
    cluster.slurm(Request::Setup(both)).unwrap();
    cluster.slurm(Request::DataIn { token: "7".into() }).unwrap();
    let hosts = vec!["c1".into(), "c2".into()];
    cluster.slurm(Request::PreRun { token: "7".into(), hosts }).unwrap();
    let own = cluster.state.tables().instances.values().next().unwrap().id;
    let sight = view::sight(&cluster.state, ALICE, own).unwrap();
    assert_eq!(sight.servers, ["s1:4001", "s2:4001"]);
    let private: Vec<bool> = sight.trees.iter().map(|tree| tree.private.is_some()).collect();
    assert_eq!(private, [false, true, true]);
    assert!(sight.trees.iter().all(|tree| tree.home < 2));
    for who in [SLURM, OPERATOR, 0] {
        assert_eq!(view::sight(&cluster.state, who, own).as_ref(), Ok(&sight));
    }
    let hidden = Refusal::NoObject { kind: ObjectKind::Instance, id: own.0 };
    assert_eq!(view::sight(&cluster.state, BOB, own), Err(hidden));
    // That somebody may use a persistent instance does not mean that he may know all of it.
    cluster.slurm(persistent("common")).unwrap();
    let common = cluster.state.tables().instances.values().last().unwrap().id;
    assert!(view::sight(&cluster.state, ALICE, common).is_ok());
    let refused = view::sight(&cluster.state, BOB, common);
    assert!(matches!(refused, Err(Refusal::NotAllowed { uid: BOB, .. })), "{refused:?}");
    cluster.lose("s2");
    let lost = view::sight(&cluster.state, ALICE, own).unwrap_err().to_string();
    assert_eq!(lost, "node s2 does not answer: asking its file server has to wait for it");
}

/// The tasks of stagings that are ordered, with the addresses of the file servers.
fn stage_orders(cluster: &Cluster) -> Vec<(TaskId, bool, Vec<String>)> {
    let orders = cluster.lists.values().flat_map(|list| &list.orders);
    let stage = |order: &Order| match &order.work {
        Work::Stage { target, .. } => {
            let addresses = target.fragments.iter().filter_map(|part| part.address.clone());
            Some((order.task, order.cancel, addresses.collect()))
        }
        _ => None,
    };
    orders.filter_map(stage).collect()
}

#[test]
fn stagings_are_begun_again_where_a_file_server_is_now() {
    let mut cluster = Cluster::new();
    register_at(&mut cluster, "s1", "s1:4001");
    register_at(&mut cluster, "s2", "s2:4001");
    cluster.slurm(Request::Setup(job("7", ALICE))).unwrap();
    let data_in = cluster.ask(SLURM, Request::DataIn { token: "7".into() });
    let [(first, false, _)] = stage_orders(&cluster)[..] else { panic!("{:?}", cluster.lists) };
    register_at(&mut cluster, "s2", "s2:4002");
    let [(second, false, ref addresses)] = stage_orders(&cluster)[..] else { panic!("{:?}", cluster.lists) };
    assert_ne!(first, second);
    assert_eq!(*addresses, ["s1:4001", "s2:4002"]);
    // What the first one says does not count any more.
    let node = cluster.lists.iter().find(|(_, list)| list.orders.iter().any(|order| order.task == second));
    let node = node.map(|(node, _)| node.clone()).unwrap();
    cluster.say(&node, AgentMessage::Failed { task: first, text: "EIO".into(), again: true });
    assert!(!cluster.answers.contains_key(&data_in));
    cluster.work();
    assert_eq!(cluster.answers[&data_in], Ok(Answer::Done));
    // One that is being broken off stays so.
    cluster.slurm(Request::Setup(job("8", ALICE))).unwrap();
    cluster.ask(SLURM, Request::DataIn { token: "8".into() });
    cluster.ask(SLURM, teardown("8", true));
    let [(third, true, _)] = stage_orders(&cluster)[..] else { panic!("{:?}", cluster.lists) };
    register_at(&mut cluster, "s2", "s2:4003");
    assert!(matches!(stage_orders(&cluster)[..], [(task, true, _)] if task == third));
    cluster.work();
    assert!(cluster.state.session_of("8").is_none());
}

/// The mount of job 7 fails as often as it is ordered, while seconds pass; how long that was until the job was told.
fn fails_to_mount(cluster: &mut Cluster, seconds: i64) -> Option<i64> {
    let pre_run = cluster.ask(SLURM, Request::PreRun { token: "7".into(), hosts: vec!["c1".into()] });
    for second in 0..seconds {
        let order = cluster.lists["c1"].orders.first().map(|order| order.task);
        if let Some(task) = order {
            let text = "nobody listens at s2:4001".to_owned();
            cluster.say("c1", AgentMessage::Failed { task, text, again: true });
        }
        if cluster.answers.contains_key(&pre_run) {
            return Some(second);
        }
        cluster.pass(1);
    }
    None
}

#[test]
fn a_mount_waits_for_a_storage_node_that_is_being_started() {
    let mut cluster = Cluster::new();
    cluster.slurm(Request::Setup(job("7", ALICE))).unwrap();
    cluster.slurm(Request::DataIn { token: "7".into() }).unwrap();
    let held_on_s2 = held(&cluster, "s2");
    cluster.lose("s2");
    assert_eq!(fails_to_mount(&mut cluster, STORAGE_WAIT_S - 10), None, "it may still come");
    cluster.off.remove("s2");
    cluster.register("s2", held_on_s2);
    let pre_run = cluster.ask(SLURM, Request::PreRun { token: "7".into(), hosts: vec!["c1".into()] });
    cluster.pass(FIRST_RETRY_S);
    cluster.work();
    assert_eq!(cluster.answers[&pre_run], Ok(Answer::Done));
}

#[test]
fn a_mount_names_the_storage_node_that_did_not_come() {
    let mut cluster = Cluster::new();
    cluster.slurm(Request::Setup(job("7", ALICE))).unwrap();
    cluster.slurm(Request::DataIn { token: "7".into() }).unwrap();
    cluster.lose("s2");
    let waited = fails_to_mount(&mut cluster, 2 * STORAGE_WAIT_S).unwrap();
    assert!((STORAGE_WAIT_S..STORAGE_WAIT_S + 10).contains(&waited), "{waited}");
    let refusal = cluster.answers.values().find_map(|answer| answer.as_ref().err()).unwrap();
    assert_eq!(refusal.to_string(), "node s2 does not answer: mounting has to wait for it");
    // With all storage nodes there it is the client that is at fault, and told at once.
    let mut cluster = Cluster::new();
    cluster.slurm(Request::Setup(job("7", ALICE))).unwrap();
    cluster.slurm(Request::DataIn { token: "7".into() }).unwrap();
    let waited = fails_to_mount(&mut cluster, STORAGE_WAIT_S).unwrap();
    let pauses: i64 = (1..MAX_ATTEMPTS).map(retry_pause_s).sum();
    assert_eq!(waited, pauses);
}

#[test]
fn who_is_no_operator_can_only_add_to_the_policies_of_the_pool() {
    let mut cluster = Cluster::new();
    let create = Request::CreateSession {
        token: "mine".into(),
        owner: ALICE,
        group: 100,
        hosts: Vec::new(),
        creator: None,
    };
    let Ok(Answer::Accepted { id: session, .. }) = cluster.get(ALICE, create) else { panic!() };
    let mut asked = |uid: u32, label: &str, write_window: Policy| {
        let policies = InstancePolicies { write_window, ..InstancePolicies::default() };
        let space = Space { policies: Some(policies), ..space(1, &[AccessMode::Striped]) };
        let (session, label) = (SessionId(session), label.to_owned());
        let made = cluster.get(uid, Request::CreateInstance { session, label, space });
        let rows = cluster.state.tables().instances.values().last().map(|row| row.policies.write_window);
        made.map(|_| rows)
    };
    assert_eq!(asked(ALICE, "a", Policy::Both), Ok(Some(Policy::Both)));
    assert!(matches!(asked(ALICE, "b", Policy::Log), Err(Refusal::NotAllowed { uid: ALICE, .. })));
    assert_eq!(asked(OPERATOR, "c", Policy::Log), Ok(Some(Policy::Log)));
}

#[test]
fn file_servers_are_told_the_policies_of_their_pool() {
    let policies = InstancePolicies { file_count: Policy::Log, ..InstancePolicies::default() };
    let mut cluster = Cluster::new();
    let settings = Settings { policies: BTreeMap::from([("wlm_pool".into(), policies)]), ..settings() };
    cluster.state = State::new(settings).unwrap();
    cluster.pass(1);
    for node in ["s1", "s2", "c1", "c2"] {
        cluster.register(node, Vec::new());
    }
    cluster.ask(SLURM, Request::Setup(job("7", ALICE)));
    let mut told = 0;
    while let Some((node, order)) = cluster.next_order() {
        if let Work::Serve { policies: ordered, .. } = order.work {
            assert_eq!(ordered, policies);
            told += 1;
        }
        cluster.say(&node, AgentMessage::Done { task: order.task, copied: None });
    }
    assert_eq!(told, 2);
}

/// What a staging of a job is recorded with, and the names that its order says.
#[test]
fn stagings_name_what_the_job_has() {
    let mut cluster = Cluster::new();
    let mine = |name: &str, mode| CreatePersistent {
        name: name.into(),
        creator: "CLI".into(),
        owner: ALICE,
        group: ALICE,
        space: space(1, &[mode]),
    };
    cluster.slurm(Request::CreatePersistent(mine("mine", AccessMode::Striped))).unwrap();
    cluster.slurm(Request::CreatePersistent(mine("own", AccessMode::Private))).unwrap();
    let list = |persistent: Option<&str>, inside: &str| Stage {
        kind: StageKind::List,
        persistent: persistent.map(Into::into),
        pfs: if inside.is_empty() { b"/pfs/list".into() } else { Vec::new() },
        instance_path: inside.into(),
        ..stage(StageDirection::Out)
    };
    let with = |attach: &[&str], modes: &[AccessMode], stages: Vec<Stage>| Setup {
        attach: attach.iter().map(ToString::to_string).collect(),
        space: Some(space(1, modes)),
        stages,
        ..job("7", ALICE)
    };
    let striped = [AccessMode::Striped];
    let one =
        |persistent: &str| vec![Stage { persistent: Some(persistent.into()), ..stage(StageDirection::In) }];
    for (setup, words) in [
        (with(&[], &striped, one("mine")), "does not attach: add #DW persistentdw name=mine"),
        (with(&["own"], &striped, one("own")), "own has no striped space"),
        (with(&["mine"], &[AccessMode::Private], vec![stage(StageDirection::In)]), "add access_mode=striped"),
        (with(&["mine"], &[AccessMode::Private], vec![list(None, "l")]), "add access_mode=striped"),
        (with(&["gone"], &striped, one("gone")), "gone"),
        (
            with(&[], &striped, vec![Stage { direction: StageDirection::In, ..list(None, "l") }]),
            "needs the full path",
        ),
    ] {
        let refusal = cluster.slurm(Request::Setup(setup)).unwrap_err().to_string();
        assert!(refusal.contains(words), "{words}: {refusal}");
    }
    // A list on the parallel file system needs no space of the job's own; one that lies in an instance belongs to that.
    let stages = vec![list(None, ""), list(Some("mine"), "l")];
    cluster.slurm(Request::Setup(with(&["mine", "own"], &[AccessMode::Private], stages))).unwrap();
    cluster.ask(SLURM, Request::DataOut { token: "7".into() });
    let orders = cluster.lists.values().flat_map(|list| &list.orders);
    let named = orders.filter_map(|order| match &order.work {
        Work::Stage { persistent, others, .. } => Some((persistent.as_deref(), others.len())),
        _ => None,
    });
    assert_eq!(named.collect::<Vec<_>>(), [(Some("mine"), 0), (Some("mine"), 0)]);
    cluster.work();
    cluster.slurm(Request::Teardown { token: "7".into(), hurry: true }).unwrap();
    let stages = vec![
        list(None, ""),
        list(Some("mine"), "l"),
        Stage { kind: StageKind::File, ..one("mine")[0].clone() },
    ];
    cluster.slurm(Request::Setup(with(&["mine"], &striped, stages))).unwrap();
    cluster.ask(SLURM, Request::DataIn { token: "7".into() });
    cluster.ask(SLURM, Request::DataOut { token: "7".into() });
    let instance = cluster.state.tables().instances.values().find(|row| row.label == "mine").unwrap().id;
    let orders = cluster.lists.values().flat_map(|list| &list.orders);
    let mut named: Vec<(Option<&str>, Vec<Option<&str>>)> = orders
        .filter_map(|order| match &order.work {
            Work::Stage { persistent, others, target, .. } => {
                assert_eq!(persistent.is_some(), target.instance == instance);
                let others = others.iter().map(|other| other.persistent.as_deref()).collect();
                Some((persistent.as_deref(), others))
            }
            _ => None,
        })
        .collect();
    named.sort();
    assert_eq!(named, [(None, vec![Some("mine")]), (Some("mine"), vec![]), (Some("mine"), vec![None])]);
    let own_list = |order: &Order| matches!(&order.work, Work::Stage { persistent: None, .. });
    let list = cluster.lists.values().find(|list| list.orders.iter().any(own_list)).unwrap();
    assert!(view::is_concerned(&cluster.state, &list.node, instance), "it may have the secrets");
}
