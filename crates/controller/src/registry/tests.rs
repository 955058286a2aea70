//! Tests of the registry on real files.

use super::*;
use crate::error::{InvalidOffer, OfferError, OfferedError, SetupError};
use crate::job::{JobState, Wish};
use crate::process::ProcessId;
use crate::record::{Job, StageResult};
use crate::request::*;
use forebay_model::allocate::Strategy;
use forebay_model::capacity::Capacity;
use forebay_model::lifecycle::Phase;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::state::ObjectState;
use forebay_model::units::{Bytes, GIB, Granules, MIB};
use std::path::PathBuf;
use tempfile::TempDir;

const NOW: i64 = 1_478_231_657;
const ME: ProcessId = ProcessId { pid: 4711, start_ticks: 99, boot: 7 };
const OTHER: ProcessId = ProcessId { pid: 4711, start_ticks: 100, boot: 7 };

struct Place {
    registry: Registry,
    directory: TempDir,
}

impl Place {
    fn new() -> Place {
        let directory = tempfile::tempdir().unwrap();
        let registry = Registry::open(&directory.path().join("registry.sqlite")).unwrap();
        Place { registry, directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("registry.sqlite")
    }

    /// Four nodes of ten granules of 16 MiB.
    fn with_pool() -> Place {
        let place = Place::new();
        place.registry.offer(&[pool(4)]).unwrap();
        place
    }

    fn free(&self) -> u64 {
        self.registry.snapshot().unwrap().pools[0].free.0
    }
}

fn node(number: usize) -> NodeOffer {
    NodeOffer {
        name: format!("node{number}"),
        directory: format!("/disks/{number}").into(),
        capacity: Bytes(160 * MIB),
        granularity: Bytes(MIB),
        online: true,
        drain: false,
    }
}

fn pool(nodes: usize) -> PoolOffer {
    PoolOffer {
        name: "wlm_pool".into(),
        granularity: Bytes(16 * MIB),
        default: true,
        nodes: (0..nodes).map(node).collect(),
    }
}

fn space(granules: u64) -> AllocationRequest {
    AllocationRequest {
        capacity: Capacity::Bytes(Bytes(granules * 16 * MIB)),
        pool: None,
        strategy: Strategy::Bandwidth,
        kind: ConfigurationType::Scratch,
        access: vec![access(AccessMode::Striped)],
        write_window: None,
    }
}

fn access(mode: AccessMode) -> AccessRequest {
    AccessRequest { mode, max_file_size: None, max_files: None, client_cache: false }
}

fn job(granules: u64) -> JobRequest {
    JobRequest {
        token: None,
        creator: "CLI".into(),
        owner_uid: 1000,
        client_nodes: 1,
        owner: ME,
        allocation: Some(space(granules)),
        attach: vec![],
        stages: vec![],
        script: Script {
            path: "/home/a/job.sh".into(),
            args: vec!["".into(), "x y".into()],
            working_directory: "/home/a".into(),
            submit_directory: "/home/a".into(),
            name: "job.sh".into(),
        },
        keep: false,
    }
}

fn persistent(name: &str, granules: u64) -> PersistentRequest {
    PersistentRequest {
        name: name.into(),
        creator: "CLI".into(),
        owner_uid: 1000,
        owner: ME,
        allocation: space(granules),
    }
}

fn at(phase: Phase) -> JobState {
    JobState { phase, ..JobState::new(false) }
}

/// Walks a job to a phase by the usual way.
fn walk(registry: &Registry, job: &Job, phase: Phase) {
    let now = registry.job(&job.token).unwrap().unwrap().phase;
    for step in Phase::ALL.into_iter().filter(|&step| step >= now && step <= phase && step != Phase::Kept) {
        registry.record(job.session, &at(step)).unwrap();
    }
}

#[test]
fn what_was_set_up_reads_back_as_it_was_asked_for() {
    let place = Place::with_pool();
    let scratch = place.registry.create_persistent(&persistent("alpha", 4), NOW).unwrap();
    place.registry.instance_made(scratch.id).unwrap();
    let stage = StageSpec {
        direction: StageDirection::Out,
        kind: StageKind::Directory,
        target: StageTarget::Persistent("alpha".into()),
        pfs: "/lus/out \u{fc}".into(),
        instance_path: b"a/\xff".to_vec(),
        tolerate_errors: true,
    };
    let mut request = job(9);
    request.attach = vec!["alpha".into()];
    request.stages = vec![StageSpec { target: StageTarget::Job, ..stage.clone() }, stage.clone()];
    request.keep = true;
    request.allocation.as_mut().unwrap().access = vec![
        AccessRequest { max_files: Some(7), ..access(AccessMode::Private) },
        access(AccessMode::Striped),
    ];
    let made = place.registry.setup_job(&request, NOW).unwrap();

    assert_eq!((made.phase, made.owner, made.keep, made.created), (Phase::Setup, ME, true, NOW));
    assert_eq!(made.script, request.script);
    assert_eq!(
        made.stages.iter().map(|stage| &stage.spec).collect::<Vec<_>>(),
        request.stages.iter().collect::<Vec<_>>()
    );
    let own = made.own.clone().unwrap();
    assert_eq!(
        own.configurations.iter().map(|c| c.access).collect::<Vec<_>>(),
        request.allocation.unwrap().access
    );
    assert_eq!((own.granules, own.bytes), (Granules(9), Bytes(9 * 16 * MIB)));
    assert_eq!(own.label, format!("I{}-0", made.session));
    assert_eq!(own.fragments.iter().map(|f| f.granules.0).collect::<Vec<_>>(), [3, 2, 2, 2]);
    assert_eq!(made.stages[0].configuration, own.configurations[1].id, "the striped one");
    assert_eq!(made.stages[1].instance, scratch.id);
    assert_eq!(made.attached.iter().map(|one| one.id).collect::<Vec<_>>(), [scratch.id]);
    // The same from the file, by another connection.
    let reader = Registry::open_for_reading(&place.path()).unwrap().unwrap();
    assert_eq!(reader.job(&made.token).unwrap(), Some(made));
}

#[test]
fn states_follow_the_work_and_all_granules_come_back() {
    let place = Place::with_pool();
    let made = place.registry.setup_job(&job(9), NOW).unwrap();
    assert_eq!(place.free(), 31);
    let states = |registry: &Registry| {
        let all = registry.snapshot().unwrap();
        let mut states: Vec<String> = vec![];
        states.extend(all.sessions.iter().map(|one| one.state.to_string()));
        states.extend(all.instances.iter().map(|one| one.state.to_string()));
        states.extend(all.configurations.iter().map(|one| one.state.to_string()));
        states.extend(all.fragments.iter().map(|one| one.state.to_string()));
        states.extend(all.namespaces.iter().map(|one| one.state.to_string()));
        states.extend(all.registrations.iter().map(|one| one.state.to_string()));
        states
    };
    let expect = |letters: &str| vec![letters.to_owned(); 9];
    assert_eq!(states(&place.registry), expect("C--T-"));
    place.registry.instance_made(made.own.as_ref().unwrap().id).unwrap();
    walk(&place.registry, &made, Phase::DataIn);
    assert_eq!(states(&place.registry), expect("CA---"));
    walk(&place.registry, &made, Phase::Teardown);
    place.registry.instance_unmaking(made.own.as_ref().unwrap().id).unwrap();
    assert_eq!(states(&place.registry), expect("DA-T-"));
    place.registry.finish_teardown(made.session).unwrap();
    assert_eq!(states(&place.registry), [""; 0]);
    assert_eq!(place.free(), 40);
    place.registry.finish_teardown(made.session).unwrap();
    place.registry.record(made.session, &at(Phase::Ended)).unwrap();
}

#[test]
fn one_request_too_large_leaves_nothing_behind() {
    let place = Place::with_pool();
    place.registry.setup_job(&job(30), NOW).unwrap();
    let before = place.registry.snapshot().unwrap();
    let error = place.registry.setup_job(&job(11), NOW).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pool wlm_pool has 10 of 40 granules free, 11 are needed (one granule is 16777216 bytes): \
         ask for less, or wait until other jobs end"
    );
    assert_eq!(place.registry.snapshot().unwrap(), before);
}

#[test]
fn refusals_say_what_there_is() {
    let place = Place::with_pool();
    let registry = &place.registry;
    let refused = |request: JobRequest| registry.setup_job(&request, NOW).unwrap_err();
    let first = registry.setup_job(&JobRequest { token: Some("77".into()), ..job(1) }, NOW).unwrap();
    let twice = refused(JobRequest { token: Some("77".into()), ..job(1) });
    assert!(matches!(&twice, SetupError::TokenInUse { session, .. } if *session == first.session));
    let pool = refused(JobRequest {
        allocation: Some(AllocationRequest { pool: Some("x".into()), ..space(1) }),
        ..job(1)
    });
    assert_eq!(pool.to_string(), "there is no pool x; there is wlm_pool");
    let unknown = refused(JobRequest { attach: vec!["beta".into()], ..job(1) });
    assert_eq!(unknown.to_string(), "there is no persistent instance beta; there is none");
    registry.create_persistent(&persistent("beta", 1), NOW).unwrap();
    let early = refused(JobRequest { attach: vec!["beta".into()], ..job(1) });
    assert!(matches!(early, SetupError::PersistentNotReady { state: ObjectState::CREATING, .. }));
    for token in ["", "a b", "a/b", "..", "a\n", &"x".repeat(129)] {
        let bad = refused(JobRequest { token: Some(token.into()), ..job(1) });
        assert!(matches!(bad, SetupError::BadToken { .. }), "{token:?}");
    }
    let none =
        refused(JobRequest { allocation: Some(AllocationRequest { access: vec![], ..space(1) }), ..job(1) });
    assert!(matches!(none, SetupError::NoAccess));
    let doubled = vec![access(AccessMode::Striped); 2];
    let doubled =
        refused(JobRequest { allocation: Some(AllocationRequest { access: doubled, ..space(1) }), ..job(1) });
    assert!(matches!(doubled, SetupError::AccessTwice { mode: AccessMode::Striped }));
    let zero = refused(job(0));
    assert!(matches!(zero, SetupError::NoCapacity));
    let crowd = refused(JobRequest { client_nodes: 1 << 40, ..job(1) });
    assert!(matches!(crowd, SetupError::TooManyNodes { .. }));
    let whole = AllocationRequest { capacity: Capacity::Nodes(3), ..space(1) };
    let whole = refused(JobRequest { allocation: Some(whole), ..job(1) });
    assert!(matches!(whole, SetupError::NoNodes { requested: 3, free: 2, nodes: 4, .. }), "{whole}");
}

#[test]
fn a_pool_must_be_offered_first() {
    let place = Place::new();
    assert!(matches!(place.registry.setup_job(&job(1), NOW), Err(SetupError::NoPool)));
    let plain = JobRequest { allocation: None, ..job(1) };
    let made = place.registry.setup_job(&plain, NOW).unwrap();
    assert_eq!(made.own, None);
}

#[test]
fn staging_needs_a_striped_scratch_allocation() {
    let place = Place::with_pool();
    let stage = StageSpec {
        direction: StageDirection::In,
        kind: StageKind::File,
        target: StageTarget::Job,
        pfs: "/lus/in".into(),
        instance_path: b"in".to_vec(),
        tolerate_errors: false,
    };
    let private = AllocationRequest { access: vec![access(AccessMode::Private)], ..space(1) };
    for allocation in [None, Some(private)] {
        let request = JobRequest { allocation, stages: vec![stage.clone()], ..job(1) };
        let error = place.registry.setup_job(&request, NOW).unwrap_err();
        assert_eq!(error.to_string(), "stage_in of /lus/in: the job has no striped allocation to stage");
    }
    assert_eq!(place.free(), 40);
}

#[test]
fn results_are_not_given_up_by_mistake() {
    let place = Place::with_pool();
    let made = place.registry.setup_job(&job(1), NOW).unwrap();
    walk(&place.registry, &made, Phase::Running);
    let refused = place.registry.record(made.session, &at(Phase::Teardown)).unwrap_err();
    assert_eq!(refused.to_string(), "job 100001 is in running and cannot go to teardown");
    let refused = place.registry.finish_teardown(made.session).unwrap_err();
    assert!(matches!(refused, RegistryError::NotTornDown { phase: Phase::Running, .. }));
    let discard = JobState { wish: Wish::Discard, ..at(Phase::Teardown) };
    place.registry.record(made.session, &discard).unwrap();
    place.registry.finish_teardown(made.session).unwrap();
}

#[test]
fn a_persistent_instance_goes_only_when_nobody_has_it() {
    let place = Place::with_pool();
    let registry = &place.registry;
    let alpha = registry.create_persistent(&persistent("alpha", 2), NOW).unwrap();
    registry.instance_made(alpha.id).unwrap();
    assert!(matches!(
        registry.create_persistent(&persistent("alpha", 2), NOW),
        Err(SetupError::NameInUse { name }) if name == "alpha"
    ));
    assert!(matches!(registry.finish_destroy(alpha.id), Err(RegistryError::NotDestroying { .. })));
    let user = registry.setup_job(&JobRequest { attach: vec!["alpha".into()], ..job(1) }, NOW).unwrap();
    let refused = registry.begin_destroy_persistent("alpha", false, OTHER).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "persistent instance alpha is attached by 100001: wait until they end, or use hurry"
    );
    assert_eq!(registry.persistent("alpha").unwrap().unwrap().state, ObjectState::GOOD);
    // The job's end does not take the instance along.
    walk(registry, &user, Phase::Teardown);
    registry.finish_teardown(user.session).unwrap();
    let begun = registry.begin_destroy_persistent("alpha", false, OTHER).unwrap();
    assert_eq!((begun.state, begun.owner), (ObjectState::DESTROYING, OTHER));
    assert!(matches!(
        registry.setup_job(&JobRequest { attach: vec!["alpha".into()], ..job(1) }, NOW),
        Err(SetupError::PersistentNotReady { .. })
    ));
    assert_eq!(registry.orphans(&|_| false).unwrap().persistents, std::slice::from_ref(&begun));
    assert_eq!(registry.orphans(&|process| process == OTHER).unwrap().persistents, []);
    registry.finish_destroy(alpha.id).unwrap();
    registry.finish_destroy(alpha.id).unwrap();
    assert_eq!(place.free(), 40);
    let unknown = registry.begin_destroy_persistent("alpha", true, ME).unwrap_err();
    assert_eq!(unknown.to_string(), "there is no persistent instance alpha; there is none");
}

#[test]
fn hurry_takes_an_instance_from_its_jobs() {
    let place = Place::with_pool();
    let alpha = place.registry.create_persistent(&persistent("alpha", 2), NOW).unwrap();
    place.registry.instance_made(alpha.id).unwrap();
    let user = place.registry.setup_job(&JobRequest { attach: vec!["alpha".into()], ..job(1) }, NOW).unwrap();
    place.registry.begin_destroy_persistent("alpha", true, ME).unwrap();
    place.registry.finish_destroy(alpha.id).unwrap();
    let user = place.registry.job(&user.token).unwrap().unwrap();
    assert_eq!(user.attached, []);
}

#[test]
fn mounts_are_shown_while_they_are_there() {
    let place = Place::with_pool();
    let made = place.registry.setup_job(&job(1), NOW).unwrap();
    let configuration = made.own.unwrap().configurations[0].id;
    let first = place.registry.activate(made.session, configuration, Path::new("/mnt/a")).unwrap();
    let again = place.registry.activate(made.session, configuration, Path::new("/mnt/b")).unwrap();
    assert_eq!(first, again);
    let all = place.registry.snapshot().unwrap();
    assert_eq!((all.activations[0].mount.as_str(), all.activations[0].nodes), ("/mnt/b", 1));
    assert_eq!((all.configurations[0].activations, all.nodes[0].activations), (1, 1));
    place.registry.deactivate(made.session, configuration).unwrap();
    place.registry.deactivate(made.session, configuration).unwrap();
    assert_eq!(place.registry.snapshot().unwrap().activations, []);
    let stranger = SessionId(1);
    let refused = place.registry.activate(stranger, configuration, Path::new("/mnt/a"));
    assert!(matches!(refused, Err(RegistryError::NotRegistered { .. })));
}

#[test]
fn only_one_recovery_gets_a_job() {
    let place = Place::with_pool();
    let made = place.registry.setup_job(&job(1), NOW).unwrap();
    assert_eq!(place.registry.orphans(&|process| process == ME).unwrap().jobs, []);
    assert_eq!(
        place.registry.orphans(&|process| process == OTHER).unwrap().jobs,
        std::slice::from_ref(&made)
    );
    let taken = place.registry.take_over(made.session, ME, OTHER).unwrap();
    assert_eq!(taken.owner, OTHER);
    let refused = place.registry.take_over(made.session, ME, OTHER).unwrap_err();
    assert!(matches!(refused, RegistryError::NotOwner { pid: 4711, .. }));
}

#[test]
fn a_stage_keeps_its_result() {
    let place = Place::with_pool();
    let stage = StageSpec {
        direction: StageDirection::In,
        kind: StageKind::List,
        target: StageTarget::Job,
        pfs: "/lus/list".into(),
        instance_path: vec![],
        tolerate_errors: false,
    };
    let made = place.registry.setup_job(&JobRequest { stages: vec![stage], ..job(1) }, NOW).unwrap();
    let id = made.stages[0].id;
    for result in [
        StageResult::Failed { text: "no such file".into() },
        StageResult::Done { files: 3, bytes: Bytes(9), elapsed_ms: 12 },
        StageResult::Pending,
    ] {
        place.registry.record_stage(id, &result).unwrap();
        assert_eq!(place.registry.job(&made.token).unwrap().unwrap().stages[0].result, result);
    }
    place.registry.record_script_group(made.session, Some(OTHER)).unwrap();
    assert_eq!(place.registry.job(&made.token).unwrap().unwrap().script_group, Some(OTHER));
}

#[test]
fn an_offer_does_not_pull_the_floor_from_under_fragments() {
    let place = Place::with_pool();
    let registry = &place.registry;
    // Granules go to node0 and node1.
    let made = registry.setup_job(&job(2), NOW).unwrap();
    let mut offer = pool(4);
    for node in &mut offer.nodes {
        node.capacity = Bytes(32 * MIB);
        node.directory = "/elsewhere".into();
    }
    offer.nodes.remove(1);
    let outcome = registry.offer(std::slice::from_ref(&offer)).unwrap();
    assert_eq!(outcome.drained, ["node1"]);
    assert_eq!(outcome.kept.iter().map(|kept| kept.node.as_str()).collect::<Vec<_>>(), ["node0"]);
    let nodes = registry.snapshot().unwrap().nodes;
    let shown: Vec<_> = nodes.iter().map(|n| (n.name.as_str(), n.capacity.0 / MIB, n.drain)).collect();
    assert_eq!(
        shown,
        [("node0", 160, false), ("node2", 32, false), ("node3", 32, false), ("node1", 160, true)]
    );
    assert_eq!(place.free(), 9 + 2 + 2);
    // Fragments keep their directory.
    let kept = registry.job(&made.token).unwrap().unwrap().own.unwrap();
    assert_eq!(kept.fragments[0].directory, PathBuf::from("/disks/0"));
    offer.granularity = Bytes(GIB);
    let refused = registry.offer(std::slice::from_ref(&offer)).unwrap_err();
    assert!(
        matches!(&refused, OfferError::GranularityInUse { holders, .. } if *holders == ["100001"]),
        "{refused}"
    );
    let mut moved = pool(4);
    moved.name = "other".into();
    let refused = registry.offer(&[moved]).unwrap_err();
    assert!(matches!(refused, OfferError::NodeInUse { .. }), "{refused}");
    // When the fragments are gone the node that was not offered vanishes, and the granularity may change.
    walk(registry, &made, Phase::Teardown);
    registry.finish_teardown(made.session).unwrap();
    assert_eq!(registry.snapshot().unwrap().nodes.len(), 3);
    registry.offer(&[offer]).unwrap();
}

#[test]
fn pools_leave_when_their_last_fragment_does() {
    let place = Place::with_pool();
    let made = place.registry.setup_job(&job(1), NOW).unwrap();
    let second = PoolOffer {
        name: "second".into(),
        nodes: vec![NodeOffer { name: "n9".into(), ..node(9) }],
        ..pool(0)
    };
    place.registry.offer(&[second]).unwrap();
    let names = |registry: &Registry| -> Vec<String> {
        registry.snapshot().unwrap().pools.into_iter().map(|pool| pool.name).collect()
    };
    assert_eq!(names(&place.registry), ["second", "wlm_pool"]);
    walk(&place.registry, &made, Phase::Teardown);
    place.registry.finish_teardown(made.session).unwrap();
    assert_eq!(names(&place.registry), ["second"]);
}

#[test]
fn contradictory_offers_are_refused() {
    let place = Place::new();
    let refused = |offer: &[PoolOffer]| match place.registry.offer(offer) {
        Err(OfferError::Invalid(invalid)) => invalid,
        other => panic!("{other:?}"),
    };
    assert!(matches!(refused(&[pool(1), pool(0)]), InvalidOffer::PoolTwice { .. }));
    let spare = PoolOffer { name: "b".into(), default: false, ..pool(1) };
    assert!(matches!(refused(&[pool(1), spare]), InvalidOffer::NodeTwice { .. }));
    assert!(matches!(
        refused(&[PoolOffer { default: false, ..pool(1) }]),
        InvalidOffer::Defaults { count: 0 }
    ));
    let none = PoolOffer { granularity: Bytes(0), ..pool(1) };
    assert!(matches!(refused(&[none]), InvalidOffer::NoGranularity { .. }));
    let relative = PoolOffer { nodes: vec![NodeOffer { directory: "x".into(), ..node(0) }], ..pool(0) };
    assert!(matches!(refused(&[relative]), InvalidOffer::RelativeDirectory { .. }));
    for name in ["", "a b", "a/b", "a\n"] {
        assert!(matches!(
            refused(&[PoolOffer { name: name.into(), ..pool(1) }]),
            InvalidOffer::BadName { .. }
        ));
        let node = NodeOffer { name: name.into(), ..node(0) };
        assert!(matches!(
            refused(&[PoolOffer { nodes: vec![node], ..pool(0) }]),
            InvalidOffer::BadName { .. }
        ));
    }
    let vast = PoolOffer { nodes: vec![NodeOffer { capacity: Bytes(u64::MAX), ..node(0) }], ..pool(0) };
    assert!(matches!(refused(&[vast]), InvalidOffer::TooLarge { .. }));
}

#[test]
fn wear_outlives_the_node() {
    let place = Place::with_pool();
    let made = place.registry.setup_job(&job(2), NOW).unwrap();
    let instance = made.own.as_ref().unwrap().id;
    place.registry.record_written(instance, Bytes(GIB)).unwrap();
    place.registry.record_written(instance, Bytes(u64::MAX)).unwrap();
    place.registry.record_written(instance, Bytes(u64::MAX)).unwrap();
    walk(&place.registry, &made, Phase::Teardown);
    place.registry.finish_teardown(made.session).unwrap();
    place.registry.offer(&[]).unwrap();
    place.registry.offer(&[pool(4)]).unwrap();
    let mut request = job(1);
    request.allocation.as_mut().unwrap().strategy = Strategy::Wear;
    let fresh = place.registry.setup_job(&request, NOW).unwrap();
    assert_eq!(fresh.own.unwrap().fragments[0].node, "node2");
}

#[test]
fn ids_do_not_stand_in_the_lines_of_others() {
    let place = Place::with_pool();
    let registry = &place.registry;
    // These would be taken for session 20002 and token 100002.
    registry.create_persistent(&persistent("run20002", 1), NOW).unwrap();
    let user = JobRequest { owner_uid: 100_002, ..job(1) };
    let first = registry.setup_job(&user, NOW).unwrap();
    let second = registry.setup_job(&user, NOW).unwrap();
    assert_eq!((first.token.as_str(), second.token.as_str()), ("100001", "100003"));
    assert_eq!((first.session.0, second.session.0), (20_003, 20_004));
    assert_eq!(first.own.unwrap().id.0, first.session.0);
    // A number that was used is not used again.
    walk(registry, &second, Phase::Teardown);
    registry.finish_teardown(second.session).unwrap();
    let third = registry.setup_job(&user, NOW).unwrap();
    assert_eq!((third.token.as_str(), third.session.0), ("100004", 20_005));
    registry.connection.execute("UPDATE numbers SET next = 1520003 WHERE kind = 'fragment'", []).unwrap();
    let fourth = registry.setup_job(&user, NOW).unwrap();
    assert_eq!(fourth.own.unwrap().fragments[0].id.0, 1_520_004, "1520003 holds the number of an instance");
}

#[test]
fn other_files_and_formats_are_refused_and_left_alone() {
    let place = Place::new();
    let path = place.path();
    place.registry.connection.execute_batch("PRAGMA user_version = 99").unwrap();
    assert!(matches!(Registry::open(&path), Err(RegistryError::TooNew { found: 99, .. })));
    assert!(matches!(Registry::open_for_reading(&path), Err(RegistryError::TooNew { .. })));

    let foreign = place.directory.path().join("foreign.sqlite");
    Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    let before = std::fs::read(&foreign).unwrap();
    assert!(matches!(Registry::open(&foreign), Err(RegistryError::Foreign { .. })));
    assert_eq!(std::fs::read(&foreign).unwrap(), before);

    let text = place.directory.path().join("notes.txt");
    std::fs::write(&text, "these are my notes, and they are longer than a header of a database is".repeat(9))
        .unwrap();
    let before = std::fs::read(&text).unwrap();
    assert!(matches!(Registry::open(&text), Err(RegistryError::Foreign { .. })));
    assert_eq!(std::fs::read(&text).unwrap(), before);

    let nowhere = place.directory.path().join("missing/registry.sqlite");
    assert!(matches!(Registry::open(&nowhere), Err(RegistryError::Reach { .. })));
    assert!(Registry::open_for_reading(&nowhere).unwrap().is_none());
    let below_a_file = text.join("registry.sqlite");
    assert!(matches!(Registry::open_for_reading(&below_a_file), Err(RegistryError::Reach { .. })));
    let empty = place.directory.path().join("empty.sqlite");
    std::fs::write(&empty, "").unwrap();
    assert!(Registry::open_for_reading(&empty).unwrap().is_none());
}

#[test]
fn an_edited_row_is_damage_not_a_guess() {
    let place = Place::with_pool();
    place.registry.setup_job(&job(1), NOW).unwrap();
    place.registry.connection.execute_batch("UPDATE jobs SET phase = 'lunch'").unwrap();
    let error = place.registry.jobs().unwrap_err();
    assert!(matches!(error, RegistryError::Damaged { column: "phase", .. }), "{error}");
}

#[test]
fn the_file_is_its_owners_business() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::with_pool();
    for entry in std::fs::read_dir(place.directory.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{:?}", entry.file_name());
    }
}

#[test]
fn a_reader_waits_for_no_writer() {
    let place = Place::with_pool();
    let reader = Registry::open_for_reading(&place.path()).unwrap().unwrap();
    reader.connection.busy_timeout(Duration::ZERO).unwrap();
    let before = reader.snapshot().unwrap();
    let inside: Result<(), RegistryError> = place.registry.change(|tx| {
        tx.execute("DELETE FROM nodes", [])?;
        // A blocked reader would answer Busy at once.
        assert_eq!(reader.snapshot()?, before);
        Err(RegistryError::NoSession(SessionId(0)))
    });
    assert!(inside.is_err());
    assert_eq!(reader.snapshot().unwrap(), before);
}

#[test]
fn a_job_gets_the_nodes_that_it_was_offered() {
    let place = Place::with_pool();
    let (outcome, made) = place.registry.setup_job_on(&[pool(2)], &job(4), NOW).unwrap();
    assert_eq!(outcome, OfferOutcome::default());
    assert_eq!(made.own.unwrap().fragments.len(), 2);
    let before = place.registry.snapshot().unwrap();
    // A refused request takes the offer back with it.
    let refused = place.registry.setup_job_on(&[pool(4)], &job(99), NOW).unwrap_err();
    assert!(matches!(refused, OfferedError::Setup(SetupError::NoSpace { .. })));
    let wrong = PoolOffer { granularity: Bytes(GIB), ..pool(4) };
    let refused = place.registry.create_persistent_on(&[wrong], &persistent("alpha", 1), NOW).unwrap_err();
    assert!(matches!(refused, OfferedError::Offer(OfferError::GranularityInUse { .. })));
    assert_eq!(place.registry.snapshot().unwrap(), before);
    let (_, alpha) = place.registry.create_persistent_on(&[pool(3)], &persistent("alpha", 1), NOW).unwrap();
    assert_eq!(alpha.fragments[0].node, "node2", "the one with the most room");
}

#[test]
fn an_ended_job_holds_nothing() {
    let place = Place::with_pool();
    let made = place.registry.setup_job(&job(4), NOW).unwrap();
    walk(&place.registry, &made, Phase::Ended);
    assert_eq!((place.free(), place.registry.jobs().unwrap()), (40, vec![]));
}

#[test]
fn commits_reach_the_disk_before_they_are_answered() {
    let place = Place::new();
    let registry = &place.registry;
    assert_eq!(registry.pragma::<String>("journal_mode").unwrap(), "wal");
    // 2 is FULL: the log is synced at every commit.
    assert_eq!(registry.pragma::<i64>("synchronous").unwrap(), 2);
    let again = Registry::open(&place.path()).unwrap();
    assert_eq!(again.pragma::<i64>("synchronous").unwrap(), 2);
    // 3 is EXTRA: without a log the directory has to be synced as well.
    drop(again);
    registry.pragma::<String>("journal_mode = DELETE").unwrap();
    registry.sync_commits().unwrap();
    assert_eq!(registry.pragma::<i64>("synchronous").unwrap(), 3);
}

#[test]
fn a_full_disk_changes_nothing() {
    let place = Place::with_pool();
    let before = place.registry.snapshot().unwrap();
    let pages: i64 = place.registry.pragma("page_count").unwrap();
    let most: i64 = place.registry.pragma(&format!("max_page_count = {pages}")).unwrap();
    assert_eq!(most, pages);
    let mut request = job(9);
    request.script.args = vec!["x".repeat(100_000).into()];
    let refused = place.registry.setup_job(&request, NOW).unwrap_err();
    assert!(matches!(refused, SetupError::Registry(RegistryError::DiskFull)), "{refused}");
    assert_eq!(place.registry.snapshot().unwrap(), before);
}

#[test]
fn a_writer_that_waits_in_vain_says_so() {
    let place = Place::with_pool();
    let second = Registry::open(&place.path()).unwrap();
    second.connection.busy_timeout(Duration::ZERO).unwrap();
    let held: Result<(), RegistryError> = place.registry.change(|_| {
        let refused = second.setup_job(&job(1), NOW).unwrap_err();
        assert!(matches!(refused, SetupError::Registry(RegistryError::Busy { .. })), "{refused}");
        Ok(())
    });
    held.unwrap();
    second.setup_job(&job(1), NOW).unwrap();
}

#[test]
fn many_openers_of_a_new_file_share_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("registry.sqlite");
    let tokens: Vec<Vec<String>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let registry = Registry::open(&path).unwrap();
                    registry.offer(&[pool(4)]).unwrap();
                    let jobs = (0..5).map(|_| registry.setup_job(&job(2), NOW).unwrap().token);
                    jobs.collect::<Vec<_>>()
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    });
    let mut tokens: Vec<String> = tokens.concat();
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), 20);
    let registry = Registry::open(&path).unwrap();
    assert_eq!(registry.snapshot().unwrap().pools[0].free, Granules(0));
    assert!(matches!(registry.setup_job(&job(1), NOW), Err(SetupError::NoSpace { .. })));
}
