//! Single rules of the core; how they hold together is tried by `tests/cluster_simulation`.

use super::effect::*;
use super::event::*;
use super::limits::*;
use super::refusal::*;
use super::request::*;
use super::row::*;
use super::*;
use crate::request::{AccessRequest, StageDirection, StageKind};
use forebay_model::allocate::Strategy;
use forebay_model::capacity::Capacity;
use forebay_model::ids::*;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::{Bytes, MIB};
use std::collections::{BTreeMap, BTreeSet};

mod by_hand;
mod changes;
mod limits;
mod told;

const SLURM: u32 = 64030;
const OPERATOR: u32 = 10;
const ALICE: u32 = 5001;
const BOB: u32 = 5002;
const GRANULE: u64 = 16 * MIB;

/// A controller with agents that do at once what they are told, except on nodes that are switched off.
struct Cluster {
    state: State,
    now: i64,
    incarnations: BTreeMap<String, u64>,
    off: BTreeSet<String>,
    /// Stagings fail while this is set.
    pfs_is_full: bool,
    lists: BTreeMap<String, List>,
    last_request: u64,
    answers: BTreeMap<RequestId, Result<Answer, Refusal>>,
    logs: Vec<String>,
}

fn settings() -> Settings {
    Settings {
        registry: "test".into(),
        operators: BTreeSet::from([OPERATOR]),
        workload_managers: BTreeSet::from([SLURM]),
        mount_root: settings::MOUNT_ROOT.into(),
        pools: vec![("wlm_pool".into(), Bytes(GRANULE)), ("sm_pool".into(), Bytes(GRANULE / 4))],
        policies: BTreeMap::new(),
        space_by_hand: SpaceByHand::Unlimited,
        lost_after_s: LOST_AFTER_S,
        storage_wait_s: STORAGE_WAIT_S,
    }
}

impl Cluster {
    /// Two storage nodes of four granules and two compute nodes.
    fn new() -> Cluster {
        let mut cluster = Cluster {
            state: State::new(settings()).unwrap(),
            now: 1_000,
            incarnations: BTreeMap::new(),
            off: BTreeSet::new(),
            pfs_is_full: false,
            lists: BTreeMap::new(),
            last_request: 0,
            answers: BTreeMap::new(),
            logs: Vec::new(),
        };
        cluster.pass(1);
        for node in ["s1", "s2", "c1", "c2"] {
            cluster.register(node, Vec::new());
        }
        cluster
    }

    fn take(&mut self, event: Event) {
        for effect in step(&mut self.state, event) {
            match effect {
                Effect::Hand(list) => drop(self.lists.insert(list.node.clone(), list)),
                Effect::Answer { request, answer } => drop(self.answers.insert(request, answer)),
                Effect::Log { text, .. } => self.logs.push(text),
                _ => {}
            }
        }
    }

    /// Agents work until none has anything to do.
    fn work(&mut self) {
        for _ in 0..10_000 {
            let Some((node, order)) = self.next_order() else { return };
            let task = order.task;
            let staging = matches!(order.work, Work::Stage { .. });
            let message = match order.cancel || (staging && self.pfs_is_full) {
                true => AgentMessage::Failed { task, text: "/pfs/out: no space left".into(), again: true },
                false => AgentMessage::Done { task, copied: None },
            };
            self.say(&node, message);
        }
        panic!("the agents never get ready");
    }

    fn next_order(&self) -> Option<(String, Order)> {
        let lists = self.lists.iter().filter(|(node, _)| !self.off.contains(*node));
        let mut orders = lists.flat_map(|(node, list)| list.orders.iter().map(move |order| (node, order)));
        orders.next().map(|(node, order)| (node.clone(), order.clone()))
    }

    fn say(&mut self, node: &str, message: AgentMessage) {
        let incarnation = self.incarnations[node];
        self.take(Event::Agent { node: node.into(), incarnation, message });
    }

    fn register(&mut self, node: &str, fragments: Vec<HeldFragment>) {
        *self.incarnations.entry(node.into()).or_default() += 1;
        let storage = node.starts_with('s');
        let pool = storage.then(|| "wlm_pool".to_owned());
        let capacity = Bytes(if storage { 4 * GRANULE } else { 0 });
        let rest = Registering::default();
        self.say(node, AgentMessage::Register(Registering { pool, capacity, fragments, ..rest }));
    }

    /// Time passes; who is not switched off says that it lives.
    fn pass(&mut self, seconds: i64) {
        self.now += seconds;
        for node in self.incarnations.keys().cloned().collect::<Vec<_>>() {
            if !self.off.contains(&node) {
                self.say(&node, AgentMessage::Heartbeat { list: u64::MAX, bytes_written: Bytes(0) });
            }
        }
        self.take(Event::Tick { now: self.now });
    }

    fn lose(&mut self, node: &str) {
        self.off.insert(node.into());
        for _ in 0..LOST_AFTER_S + 1 {
            self.pass(1);
        }
        assert!(!self.state.is_online(node));
    }

    fn ask(&mut self, uid: u32, request: Request) -> RequestId {
        self.last_request += 1;
        let id = RequestId(self.last_request);
        self.take(Event::Request { id, caller: Caller { uid }, request });
        id
    }

    /// Asks, lets the agents work, and gives the answer.
    fn get(&mut self, uid: u32, request: Request) -> Result<Answer, Refusal> {
        let id = self.ask(uid, request);
        self.work();
        self.answers.remove(&id).unwrap_or_else(|| panic!("no answer; {:?}", self.state.tables().tasks))
    }

    fn slurm(&mut self, request: Request) -> Result<Answer, Refusal> {
        self.get(SLURM, request)
    }

    fn free(&self) -> u64 {
        view::pools(&self.state)[0].free.0
    }

    fn run_until_results(&mut self, token: &str) {
        self.slurm(Request::Setup(job(token, ALICE))).unwrap();
        self.slurm(Request::DataIn { token: token.into() }).unwrap();
        let hosts = vec!["c1".into(), "c2".into()];
        self.slurm(Request::PreRun { token: token.into(), hosts }).unwrap();
        self.slurm(Request::PostRun { token: token.into() }).unwrap();
    }
}

fn space(bytes: u64, modes: &[AccessMode]) -> Space {
    let access = |mode: &AccessMode| AccessRequest {
        mode: *mode,
        max_file_size: None,
        max_files: None,
        client_cache: false,
    };
    Space {
        capacity: Capacity::Bytes(Bytes(bytes)),
        pool: None,
        strategy: Strategy::Bandwidth,
        kind: ConfigurationType::Scratch,
        access: modes.iter().map(access).collect(),
        write_window: None,
        policies: None,
    }
}

fn stage(direction: StageDirection) -> Stage {
    let (kind, persistent) = (StageKind::File, None);
    Stage {
        direction,
        kind,
        persistent,
        pfs: b"/pfs/a".into(),
        instance_path: b"a".into(),
        tolerate_errors: false,
    }
}

/// Three granules, one file in and one out.
fn job(token: &str, owner: u32) -> Setup {
    Setup {
        token: token.into(),
        creator: "SLURM".into(),
        owner,
        group: 100,
        space: Some(space(2 * GRANULE + 1, &[AccessMode::Striped])),
        attach: Vec::new(),
        stages: vec![stage(StageDirection::In), stage(StageDirection::Out)],
        swap: false,
    }
}

fn persistent(name: &str) -> Request {
    let space = space(1, &[AccessMode::Striped]);
    let create =
        CreatePersistent { name: name.into(), creator: "CLI".into(), owner: ALICE, group: 100, space };
    Request::CreatePersistent(create)
}

fn teardown(token: &str, hurry: bool) -> Request {
    Request::Teardown { token: token.into(), hurry }
}

#[test]
fn a_job_takes_whole_granules_and_gives_them_back() {
    let mut cluster = Cluster::new();
    assert_eq!(cluster.free(), 8);
    cluster.run_until_results("1");
    assert_eq!(cluster.free(), 5);
    let size = cluster.slurm(Request::RealSize { token: "1".into() });
    assert_eq!(size, Ok(Answer::Size(Bytes(3 * GRANULE))));
    cluster.slurm(Request::DataOut { token: "1".into() }).unwrap();
    cluster.slurm(teardown("1", false)).unwrap();
    assert_eq!(cluster.free(), 8);
    let Err(Refusal::NoToken { .. }) = cluster.slurm(teardown("1", false)) else { panic!("torn down twice") };
}

#[test]
fn a_session_is_listed_before_its_space_is_there() {
    let mut cluster = Cluster::new();
    cluster.ask(SLURM, Request::Setup(job("1", ALICE)));
    let sessions = view::snapshot(&cluster.state, SLURM).sessions;
    assert_eq!((sessions[0].token.as_str(), sessions[0].state.to_string().as_str()), ("1", "C--T-"));
    cluster.work();
    assert_eq!(view::snapshot(&cluster.state, SLURM).sessions[0].state.to_string(), "CA---");
}

#[test]
fn the_same_setup_again_has_one_effect_and_the_same_answer() {
    let mut cluster = Cluster::new();
    let first = cluster.ask(SLURM, Request::Setup(job("1", ALICE)));
    let second = cluster.ask(SLURM, Request::Setup(job("1", ALICE)));
    cluster.work();
    assert_eq!(cluster.answers[&first], Ok(Answer::Done));
    assert_eq!(cluster.answers[&second], Ok(Answer::Done));
    assert_eq!(cluster.slurm(Request::Setup(job("1", ALICE))), Ok(Answer::Done));
    assert_eq!((cluster.free(), cluster.state.tables().sessions.len()), (5, 1));
    let other = Setup { space: None, stages: Vec::new(), ..job("1", ALICE) };
    let Err(Refusal::Exists { .. }) = cluster.slurm(Request::Setup(other)) else { panic!("replaced") };
}

#[test]
fn setup_during_teardown_waits_for_its_end() {
    let mut cluster = Cluster::new();
    cluster.slurm(Request::Setup(job("1", ALICE))).unwrap();
    let gone = cluster.ask(SLURM, teardown("1", true));
    let again = cluster.ask(SLURM, teardown("1", false));
    let setup = cluster.ask(SLURM, Request::Setup(job("1", ALICE)));
    assert!(cluster.answers.is_empty());
    cluster.work();
    for request in [gone, again, setup] {
        assert_eq!(cluster.answers[&request], Ok(Answer::Done));
    }
    assert_eq!(cluster.state.session_of("1").unwrap().id, SessionId(2));
}

#[test]
fn results_that_cannot_be_staged_out_survive_teardown_until_hurry() {
    let mut cluster = Cluster::new();
    cluster.run_until_results("1");
    cluster.pfs_is_full = true;
    let Err(Refusal::StageFailed { text }) = cluster.slurm(Request::DataOut { token: "1".into() }) else {
        panic!("staged out onto a full disk")
    };
    assert_eq!(text, "/pfs/out: no space left");
    for _ in 0..3 {
        let Err(Refusal::ResultsPending { pending: 1, reason, .. }) = cluster.slurm(teardown("1", false))
        else {
            panic!("torn down with results in it")
        };
        assert_eq!(reason, "/pfs/out: no space left");
        assert_eq!(cluster.free(), 5);
    }
    cluster.slurm(teardown("1", true)).unwrap();
    assert_eq!(cluster.free(), 8);
}

#[test]
fn teardown_stages_out_by_itself_once_that_goes_again() {
    let mut cluster = Cluster::new();
    cluster.run_until_results("1");
    cluster.pfs_is_full = true;
    cluster.slurm(teardown("1", false)).unwrap_err();
    cluster.pfs_is_full = false;
    let id = cluster.ask(SLURM, teardown("1", false));
    let orders = cluster.lists.values().flat_map(|list| &list.orders);
    assert!(orders.clone().any(|order| matches!(order.work, Work::Stage { .. })));
    assert!(!orders.clone().any(|order| matches!(order.work, Work::RemoveFragment { .. })));
    cluster.work();
    assert_eq!(cluster.answers[&id], Ok(Answer::Done));
}

#[test]
fn a_job_that_never_ran_owes_nothing() {
    let mut cluster = Cluster::new();
    cluster.slurm(Request::Setup(job("1", ALICE))).unwrap();
    cluster.pfs_is_full = true;
    cluster.slurm(teardown("1", false)).unwrap();
    assert_eq!(cluster.free(), 8);
}

#[test]
fn no_wait_gives_the_results_of_a_registration_up() {
    let mut cluster = Cluster::new();
    cluster.run_until_results("1");
    cluster.pfs_is_full = true;
    let waiting = cluster.slurm(teardown("1", false)).unwrap_err();
    assert!(matches!(waiting, Refusal::ResultsPending { .. }));
    let registration = RegistrationId(1);
    let refused = cluster.get(BOB, Request::NoWait { registration });
    assert!(matches!(refused, Err(Refusal::NotYours { uid: BOB, owner: ALICE, .. })));
    cluster.get(ALICE, Request::NoWait { registration }).unwrap();
    assert_eq!(cluster.free(), 8);
}

#[test]
fn hurry_while_staging_out_breaks_it_off_first() {
    let mut cluster = Cluster::new();
    cluster.run_until_results("1");
    let staging = cluster.ask(SLURM, Request::DataOut { token: "1".into() });
    cluster.ask(SLURM, teardown("1", true));
    let orders: Vec<&Order> = cluster.lists.values().flat_map(|list| &list.orders).collect();
    assert!(
        orders.iter().all(|order| matches!(order.work, Work::Stage { .. }) && order.cancel),
        "{orders:?}"
    );
    assert_eq!(orders.len(), 1);
    cluster.work();
    assert!(matches!(cluster.answers[&staging], Err(Refusal::TornDown { .. })));
    assert_eq!(cluster.free(), 8);
}

#[test]
fn a_staging_that_is_broken_off_fails_what_waits_for_it() {
    let mut cluster = Cluster::new();
    cluster.slurm(Request::Setup(job("1", ALICE))).unwrap();
    let waiting = cluster.ask(SLURM, Request::DataIn { token: "1".into() });
    let stage = StageId(1);
    let foreign = cluster.ask(BOB, Request::StageTerminate { stage });
    assert!(matches!(cluster.answers[&foreign], Err(Refusal::NotYours { .. })));
    cluster.get(ALICE, Request::StageTerminate { stage }).unwrap();
    assert!(matches!(cluster.answers[&waiting], Err(Refusal::StageFailed { .. })));
    assert_eq!(cluster.slurm(Request::DataIn { token: "1".into() }), Ok(Answer::Done));
}

#[test]
fn the_environment_names_the_mounts() {
    let mut cluster = Cluster::new();
    cluster.slurm(persistent("alpha")).unwrap();
    let both = Some(space(1, &[AccessMode::Striped, AccessMode::Private]));
    let setup = Setup { attach: vec!["alpha".into()], space: both, ..job("7", BOB) };
    cluster.slurm(Request::Setup(setup)).unwrap();
    let Ok(Answer::Paths(paths)) = cluster.slurm(Request::Paths { token: "7".into() }) else { panic!() };
    let root = "/var/opt/cray/dws/mounts/batch";
    let expected = [
        ("DW_JOB_STRIPED", format!("{root}/7_striped_scratch/")),
        ("DW_JOB_PRIVATE", format!("{root}/7_private_scratch/")),
        ("DW_PERSISTENT_STRIPED_alpha", format!("{root}/alpha_7_striped_scratch/")),
    ];
    assert_eq!(paths, expected.map(|(name, path)| (name.to_owned(), path)));
}

#[test]
fn the_size_of_whatever_show_sessions_lists_is_told() {
    let mut cluster = Cluster::new();
    cluster.slurm(persistent("alpha")).unwrap();
    let mut size = |token: &str| cluster.slurm(Request::RealSize { token: token.into() });
    assert_eq!(size("alpha"), Ok(Answer::Size(Bytes(GRANULE))));
    assert!(matches!(size("beta"), Err(Refusal::NoToken { .. })));
}

#[test]
fn a_persistent_instance_stays_while_it_is_used() {
    let mut cluster = Cluster::new();
    assert_eq!(cluster.slurm(persistent("alpha")), Ok(Answer::Done));
    assert_eq!(cluster.slurm(persistent("alpha")), Ok(Answer::Done));
    let setup = Setup { attach: vec!["alpha".into()], space: None, stages: Vec::new(), ..job("1", BOB) };
    cluster.slurm(Request::Setup(setup)).unwrap();
    for hurry in [false, true] {
        let refused = cluster.slurm(teardown("alpha", hurry));
        assert_eq!(refused, Err(Refusal::InUse { name: "alpha".into(), users: "1".into() }));
    }
    cluster.slurm(teardown("1", false)).unwrap();
    cluster.slurm(teardown("alpha", false)).unwrap();
    assert_eq!(cluster.free(), 8);
}

#[test]
fn requests_that_make_no_sense_are_refused_and_change_nothing() {
    let mut cluster = Cluster::new();
    let before = cluster.state.tables().rows();
    let with = |change: &dyn Fn(&mut Setup)| {
        let mut setup = job("1", ALICE);
        change(&mut setup);
        Request::Setup(setup)
    };
    let space_of =
        |change: fn(&mut Space)| with(&move |setup: &mut Setup| change(setup.space.as_mut().unwrap()));
    let wrong = [
        with(&|setup| setup.swap = true),
        with(&|setup| setup.token = "it's".into()),
        with(&|setup| setup.token = "../x".into()),
        with(&|setup| setup.token = "x".repeat(MAX_WORD + 1)),
        with(&|setup| setup.attach = vec!["nowhere".into()]),
        with(&|setup| setup.attach = vec!["x".into(); MAX_ATTACHED + 1]),
        with(&|setup| setup.stages = vec![stage(StageDirection::In); MAX_STAGES + 1]),
        with(&|setup| setup.stages[0].pfs = b"relative".into()),
        with(&|setup| setup.stages[0].instance_path = b"a/../../b".into()),
        with(&|setup| setup.stages[0].persistent = Some("alpha".into())),
        space_of(|space| space.kind = ConfigurationType::Cache),
        space_of(|space| space.access[0].mode = AccessMode::Ldbalance),
        space_of(|space| space.access.push(space.access[0])),
        space_of(|space| space.access[0].mode = AccessMode::Private),
        space_of(|space| space.pool = Some("nowhere".into())),
        space_of(|space| space.capacity = Capacity::Bytes(Bytes(9 * GRANULE))),
        space_of(|space| space.capacity = Capacity::Bytes(Bytes(u64::MAX))),
        space_of(|space| space.capacity = Capacity::Nodes(16_777_216)),
        persistent("1digit"),
        Request::DataIn { token: "1".into() },
        Request::PreRun { token: "1".into(), hosts: vec!["c1".into()] },
    ];
    for request in wrong {
        let refusal = cluster.slurm(request.clone()).expect_err(&format!("{request:?}"));
        let text = refusal.to_string();
        assert!(!text.contains(['\'', '\n']), "{text}");
        assert_eq!(cluster.state.tables().rows(), before, "{request:?}");
    }
    assert!(!cluster.logs.is_empty() && cluster.logs.iter().all(|line| line.contains(" refused: ")));
}

#[test]
fn only_the_workload_manager_and_operators_speak_for_jobs() {
    let mut cluster = Cluster::new();
    for uid in [ALICE, BOB] {
        let refused = cluster.get(uid, Request::Setup(job("1", ALICE)));
        assert!(matches!(refused, Err(Refusal::NotAllowed { role: Role::WorkloadManager, .. })));
    }
    for uid in [SLURM, OPERATOR, 0] {
        cluster.get(uid, Request::Setup(job("1", ALICE))).unwrap();
    }
    for request in
        [Request::ForgetNode { node: "s1".into() }, Request::Drain { node: "s1".into(), drain: true }]
    {
        let refused = cluster.get(SLURM, request);
        assert!(matches!(refused, Err(Refusal::NotAllowed { role: Role::Operators, .. })));
    }
}

#[test]
fn users_see_and_change_only_what_is_theirs() {
    let mut cluster = Cluster::new();
    cluster.slurm(persistent("alpha")).unwrap();
    cluster.slurm(Request::Setup(job("1", ALICE))).unwrap();
    let seen = |cluster: &Cluster, uid| {
        let view = view::snapshot(&cluster.state, uid);
        (view.sessions.len(), view.instances.len(), view.registrations.len())
    };
    assert_eq!(seen(&cluster, ALICE), (2, 2, 2));
    assert_eq!(seen(&cluster, BOB), (0, 1, 0), "the public instance only");
    assert_eq!(seen(&cluster, OPERATOR), (2, 2, 2));
    let session = cluster.state.session_of("1").unwrap().id;
    let configuration = ConfigurationId(2);
    let of_alice = [
        Request::Remove { object: ObjectId::Session(session), hurry: true },
        Request::Remove { object: ObjectId::Registration(RegistrationId(2)), hurry: false },
        Request::Stage { session, configuration, stage: stage(StageDirection::Out) },
        Request::CreateActivation { session, configuration, mount: None },
        Request::CreateInstance { session, label: "x".into(), space: space(1, &[AccessMode::Striped]) },
    ];
    for request in of_alice {
        let refused = cluster.get(BOB, request);
        assert!(matches!(refused, Err(Refusal::NotYours { uid: BOB, owner: ALICE, .. })), "{refused:?}");
    }
    let somebody_else = Request::CreateSession {
        token: "x".into(),
        owner: ALICE,
        group: 1,
        hosts: Vec::new(),
        creator: None,
    };
    assert!(matches!(cluster.get(BOB, somebody_else), Err(Refusal::NotAllowed { .. })));
    cluster.get(ALICE, Request::Remove { object: ObjectId::Session(session), hurry: false }).unwrap();
}

#[test]
fn objects_made_by_hand_live_and_end_like_those_of_jobs() {
    let mut cluster = Cluster::new();
    let hosts = vec!["c1".into()];
    let made = cluster.get(
        OPERATOR,
        Request::CreateSession { token: "mine".into(), owner: BOB, group: 1, hosts, creator: None },
    );
    let Ok(Answer::Accepted { kind: ObjectKind::Session, id: 1 }) = made else { panic!("{made:?}") };
    let (session, configuration) = (SessionId(1), ConfigurationId(1));
    let space = space(1, &[AccessMode::Striped]);
    cluster.get(BOB, Request::CreateInstance { session, label: "space".into(), space }).unwrap();
    cluster.get(BOB, Request::CreateActivation { session, configuration, mount: None }).unwrap();
    assert_eq!(view::snapshot(&cluster.state, BOB).activations[0].state.to_string(), "CA---");
    let staged =
        cluster.get(BOB, Request::Stage { session, configuration, stage: stage(StageDirection::Out) });
    assert_eq!(staged, Ok(Answer::Accepted { kind: ObjectKind::Stage, id: 1 }));
    let done = |cluster: &Cluster| {
        matches!(cluster.state.tables().stages.get(&StageId(1)).unwrap().outcome, StageOutcome::Done { .. })
    };
    assert!(done(&cluster), "staged out while mounted");
    cluster.get(BOB, Request::Remove { object: ObjectId::Session(session), hurry: false }).unwrap();
    assert_eq!((cluster.free(), cluster.state.tables().sessions.len()), (8, 0));
}

#[test]
fn drained_and_lost_nodes_take_nothing_new() {
    let mut cluster = Cluster::new();
    cluster.get(OPERATOR, Request::Drain { node: "s1".into(), drain: true }).unwrap();
    assert_eq!(cluster.free(), 4);
    cluster.slurm(Request::Setup(job("1", ALICE))).unwrap();
    assert!(cluster.state.tables().fragments.values().all(|row| row.node == "s2"));
    cluster.get(OPERATOR, Request::Drain { node: "s1".into(), drain: false }).unwrap();
    cluster.lose("s2");
    assert_eq!(cluster.free(), 4);
    let big = Setup { space: Some(space(5 * GRANULE, &[AccessMode::Striped])), ..job("2", ALICE) };
    assert!(matches!(cluster.slurm(Request::Setup(big)), Err(Refusal::NoSpace { .. })));
}

#[test]
fn a_lost_storage_node_keeps_its_granules_until_it_says_that_they_are_free() {
    let mut cluster = Cluster::new();
    cluster.slurm(Request::Setup(job("1", ALICE))).unwrap();
    let on_s2: Vec<HeldFragment> = held(&cluster, "s2");
    cluster.lose("s2");
    cluster.slurm(teardown("1", true)).unwrap();
    assert_eq!(cluster.free(), 4);
    assert_eq!(cluster.state.tables().fragments.len(), 1, "what is on the lost node stays booked");
    cluster.off.clear();
    cluster.register("s2", on_s2);
    assert_eq!(cluster.free(), 8 - 1, "there again, but still full");
    cluster.work();
    assert_eq!((cluster.free(), cluster.state.tables().instances.len()), (8, 0));
}

fn held(cluster: &Cluster, node: &str) -> Vec<HeldFragment> {
    let rows = cluster.state.tables().fragments.values().filter(|row| row.node == node);
    let held = |row: &FragmentRow| HeldFragment {
        fragment: row.id,
        instance: row.instance,
        bytes: row.bytes,
        serving: true,
    };
    rows.map(held).collect()
}

#[test]
fn a_node_that_lost_its_fragments_leaves_instances_not_intact() {
    let mut cluster = Cluster::new();
    cluster.slurm(persistent("alpha")).unwrap();
    let node = cluster.state.tables().fragments.values().next().unwrap().node.clone();
    let there = held(&cluster, &node);
    cluster.register(&node, there.clone());
    assert!(view::snapshot(&cluster.state, 0).instances[0].intact);
    cluster.register(&node, Vec::new());
    assert!(!view::snapshot(&cluster.state, 0).instances[0].intact);
    let setup = Setup { attach: vec!["alpha".into()], ..job("1", ALICE) };
    assert!(matches!(cluster.slurm(Request::Setup(setup)), Err(Refusal::NotIntact { .. })));
    // The disk was only not mounted.
    cluster.register(&node, there);
    cluster.work();
    assert!(view::snapshot(&cluster.state, 0).instances[0].intact);
}

#[test]
fn a_lost_compute_node_does_not_hold_the_results_up() {
    let mut cluster = Cluster::new();
    cluster.slurm(Request::Setup(job("1", ALICE))).unwrap();
    let hosts = vec!["c1".into(), "c2".into()];
    cluster.slurm(Request::PreRun { token: "1".into(), hosts }).unwrap();
    cluster.lose("c2");
    cluster.slurm(Request::PostRun { token: "1".into() }).unwrap();
    cluster.slurm(Request::DataOut { token: "1".into() }).unwrap();
    cluster.slurm(teardown("1", false)).unwrap();
    // It comes back with the mount and is told to unmount it.
    cluster.off.clear();
    *cluster.incarnations.get_mut("c2").unwrap() += 1;
    let mounts = vec![ActivationId(1)];
    cluster.say("c2", AgentMessage::Register(Registering { mounts, ..Registering::default() }));
    let order = &cluster.lists["c2"].orders[0];
    assert_eq!(order.work, Work::Unmount { activation: ActivationId(1) });
}

#[test]
fn pre_run_on_a_lost_or_unknown_node_says_which() {
    let mut cluster = Cluster::new();
    cluster.slurm(Request::Setup(job("1", ALICE))).unwrap();
    let on = |host: &str| Request::PreRun { token: "1".into(), hosts: vec![host.into()] };
    assert_eq!(cluster.slurm(on("c9")), Err(Refusal::UnknownNodes { nodes: "c9".into() }));
    cluster.lose("c2");
    let refused = cluster.slurm(on("c2")).unwrap_err();
    assert_eq!(refused, Refusal::NodeLost { node: "c2".into(), what: "mounting" });
    assert_eq!(cluster.slurm(on("c1")), Ok(Answer::Done), "other nodes can be taken instead");
}

#[test]
fn forgetting_a_node_lets_go_of_what_is_on_it() {
    let mut cluster = Cluster::new();
    cluster.slurm(Request::Setup(job("1", ALICE))).unwrap();
    let forget = Request::ForgetNode { node: "s2".into() };
    assert!(matches!(cluster.get(OPERATOR, forget.clone()), Err(Refusal::NodeOnline { .. })));
    let leftover = held(&cluster, "s2");
    cluster.lose("s2");
    cluster.get(OPERATOR, forget).unwrap();
    assert!(!view::snapshot(&cluster.state, 0).instances[0].intact);
    cluster.slurm(teardown("1", true)).unwrap();
    assert!(cluster.state.tables().fragments.is_empty());
    // It comes back after all: what is on it was given up, and is booked until it is removed.
    cluster.off.clear();
    cluster.register("s2", leftover);
    assert_eq!(cluster.free(), 7);
    cluster.work();
    assert_eq!(cluster.free(), 8);
}

#[test]
fn a_fragment_that_this_registry_never_made_is_left_alone() {
    let mut cluster = Cluster::new();
    let foreign =
        HeldFragment { fragment: FragmentId(99), instance: InstanceId(9), bytes: Bytes(1), serving: false };
    cluster.register("s1", vec![foreign]);
    assert!(cluster.lists["s1"].orders.is_empty());
    assert!(cluster.logs.last().unwrap().contains("never made"));
    *cluster.incarnations.get_mut("s1").unwrap() += 1;
    let other = Registering { registry: Some("other".into()), ..Registering::default() };
    cluster.say("s1", AgentMessage::Register(other));
    assert!(cluster.logs.last().unwrap().contains("not admitted"));
}

#[test]
fn a_task_that_fails_again_and_again_blows_its_fuse_and_is_tried_again_on_request() {
    let mut cluster = Cluster::new();
    let setup = Request::Setup(job("1", ALICE));
    let id = cluster.ask(SLURM, setup.clone());
    for attempt in 1..=MAX_ATTEMPTS {
        let order = cluster.lists["s1"].orders[0].task;
        let text = "/dev/sda: it's\nbroken".to_owned();
        cluster.say("s1", AgentMessage::Failed { task: order, text, again: true });
        assert!(cluster.lists["s1"].orders.is_empty(), "it is put off");
        assert_eq!(cluster.answers.contains_key(&id), attempt == MAX_ATTEMPTS);
        cluster.pass(retry_pause_s(attempt));
    }
    let Err(Refusal::Failed { text, .. }) = &cluster.answers[&id] else { panic!() };
    assert_eq!(text, "/dev/sda: it`s broken");
    assert!(view::snapshot(&cluster.state, 0).instances[0].state.fuse_blown);
    assert_eq!(cluster.slurm(setup), Ok(Answer::Done));
    assert!(!view::snapshot(&cluster.state, 0).instances[0].state.fuse_blown);
}

#[test]
fn messages_of_an_earlier_incarnation_are_not_believed() {
    let mut cluster = Cluster::new();
    cluster.ask(SLURM, Request::Setup(job("1", ALICE)));
    let task = cluster.lists["s1"].orders[0].task;
    cluster.register("s1", Vec::new());
    let message = AgentMessage::Done { task, copied: None };
    cluster.take(Event::Agent { node: "s1".into(), incarnation: 1, message });
    assert!(cluster.state.tables().tasks.contains(&task));
}

#[test]
fn waiting_requests_have_a_limit_for_each_session() {
    let mut cluster = Cluster::new();
    for _ in 0..MAX_WAITING_PER_SESSION {
        cluster.ask(SLURM, Request::Setup(job("1", ALICE)));
    }
    let refused = cluster.get(SLURM, Request::Setup(job("1", ALICE)));
    assert!(matches!(refused, Err(Refusal::TooMany { limit: MAX_WAITING_PER_SESSION, .. })));
}

#[test]
fn a_registry_that_does_not_fit_together_is_refused() {
    let mut cluster = Cluster::new();
    cluster.run_until_results("1");
    let rows = cluster.state.tables().rows();
    assert!(State::restore(settings(), rows.clone()).is_ok());
    let without = |key: Key| rows.iter().filter(|row| row.key() != key).cloned().collect::<Vec<_>>();
    let broken = [Key::Session(SessionId(1)), Key::Instance(InstanceId(1)), Key::Counters(())];
    for key in broken {
        State::restore(settings(), without(key.clone())).expect_err(&format!("{key:?}"));
    }
    let mut other = settings();
    other.pools[0].1 = Bytes(GRANULE * 2);
    let refused = State::restore(other, rows).expect_err("granules of another size");
    assert!(matches!(refused, RestoreError::Granularity { .. }));
}

#[test]
fn pauses_between_attempts_grow_to_a_limit() {
    let pauses: Vec<i64> = (1..9).map(retry_pause_s).collect();
    assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60, 60]);
    assert_eq!(retry_pause_s(u32::MAX), MAX_RETRY_S);
}

/// The Serve orders on the lists, by the node that got them.
fn serve_orders(cluster: &Cluster) -> Vec<(String, Vec<Part>, Vec<Use>)> {
    let orders = cluster.lists.values().flat_map(|list| list.orders.iter().map(move |o| (&list.node, o)));
    let serve = |(node, order): (&String, &Order)| match &order.work {
        Work::Serve { fragments, configurations, .. } => {
            Some((node.clone(), fragments.clone(), configurations.clone()))
        }
        _ => None,
    };
    orders.filter_map(serve).collect()
}

fn register_at(cluster: &mut Cluster, node: &str, address: &str) {
    let fragments = cluster.state.tables().fragments.values().filter(|row| row.node == node);
    let held = |row: &FragmentRow| {
        let (fragment, instance, bytes) = (row.id, row.instance, row.bytes);
        HeldFragment { fragment, instance, bytes, serving: row.step == FragmentStep::Serving }
    };
    let fragments = fragments.map(held).collect();
    *cluster.incarnations.get_mut(node).unwrap() += 1;
    let message = AgentMessage::Register(Registering {
        pool: Some("wlm_pool".into()),
        capacity: Bytes(4 * GRANULE),
        address: Some(address.into()),
        socket: Some("/run/forebay/server.sock".into()),
        fragments,
        ..Registering::default()
    });
    cluster.say(node, message);
}

#[test]
fn file_servers_are_told_of_all_parts_and_uses_and_again_when_one_of_them_moves() {
    let mut cluster = Cluster::new();
    register_at(&mut cluster, "s1", "s1:4001");
    register_at(&mut cluster, "s2", "s2:4001");
    let setup = cluster.ask(SLURM, Request::Setup(job("7", ALICE)));
    // The fragments are made, and the servers are ordered.
    for node in ["s1", "s2"] {
        let task = cluster.lists[node].orders[0].task;
        cluster.say(node, AgentMessage::Done { task, copied: None });
    }
    let orders = serve_orders(&cluster);
    assert_eq!(orders.len(), 2);
    for (_, parts, uses) in &orders {
        let addresses: Vec<_> = parts.iter().map(|part| part.address.clone().unwrap()).collect();
        assert_eq!(addresses, ["s1:4001", "s2:4001"]);
        assert_eq!(uses[0].home, Some(0));
    }
    // A server that moves while the others are being told makes what they were told worthless.
    let late = cluster.next_order().unwrap();
    register_at(&mut cluster, "s2", "s2:4002");
    cluster.say(&late.0, AgentMessage::Done { task: late.1.task, copied: None });
    for (_, parts, _) in serve_orders(&cluster) {
        assert_eq!(parts[1].address.as_deref(), Some("s2:4002"));
    }
    assert_eq!(serve_orders(&cluster).len(), 2, "the old order does not count");
    assert!(!cluster.answers.contains_key(&setup));
    cluster.work();
    assert_eq!(cluster.answers[&setup], Ok(Answer::Done));
    // One that comes back to where it was tells nobody anything new.
    register_at(&mut cluster, "s2", "s2:4002");
    assert!(cluster.next_order().is_none());
    register_at(&mut cluster, "s2", "s2:4003");
    assert_eq!(serve_orders(&cluster).len(), 2);
}

#[test]
fn an_agent_with_an_unusable_address_is_not_admitted() {
    let mut cluster = Cluster::new();
    for address in ["nowhere", "a b:1", "x:1\n"] {
        register_at(&mut cluster, "s1", address);
        assert!(cluster.logs.pop().unwrap().contains("is not admitted"), "{address}");
    }
}
