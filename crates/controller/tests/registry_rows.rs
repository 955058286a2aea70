//! The registry of a cluster holds what the core knows, after every step and over every reopening.

use forebay_controller::cluster::event::Registering;
use forebay_controller::cluster::request::{Setup, Space};
use forebay_controller::cluster::*;
use forebay_controller::request::AccessRequest;
use forebay_controller::service::{Rows, SqliteRows, StoreError};
use forebay_model::allocate::Strategy;
use forebay_model::capacity::Capacity;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::{Bytes, GIB};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;

const SLURM: u32 = 64030;

fn settings() -> Settings {
    Settings {
        registry: "rows".into(),
        operators: BTreeSet::new(),
        workload_managers: BTreeSet::from([SLURM]),
        mount_root: "/mnt/dw".into(),
        pools: vec![("main".into(), Bytes(GIB))],
        policies: Default::default(),
        space_by_hand: forebay_controller::cluster::SpaceByHand::Unlimited,
        lost_after_s: limits::LOST_AFTER_S,
        storage_wait_s: limits::STORAGE_WAIT_S,
    }
}

#[derive(Clone, Debug)]
enum Deed {
    Setup(u8),
    Teardown(u8),
    PreRun(u8),
    Register(u8),
    Work,
    Pass(u8),
    Reopen,
}

fn deed() -> impl Strategy2<Value = Deed> {
    prop_oneof![
        3 => (0..6_u8).prop_map(Deed::Setup),
        2 => (0..6_u8).prop_map(Deed::Teardown),
        2 => (0..6_u8).prop_map(Deed::PreRun),
        1 => (0..4_u8).prop_map(Deed::Register),
        4 => Just(Deed::Work),
        1 => (1..90_u8).prop_map(Deed::Pass),
        1 => Just(Deed::Reopen),
    ]
}

use proptest::strategy::Strategy as Strategy2;

struct World {
    state: State,
    rows: SqliteRows,
    now: i64,
    incarnation: u64,
    request: u64,
}

impl World {
    fn open(file: &Path) -> World {
        let mut rows = SqliteRows::open(file, "rows").unwrap();
        let state = State::restore(settings(), rows.load().unwrap()).unwrap();
        World { state, rows, now: 1_000, incarnation: 0, request: 0 }
    }

    fn step(&mut self, event: Event) {
        for effect in step(&mut self.state, event) {
            if let Effect::Store(changes) = effect {
                self.rows.store(&changes).unwrap();
            }
        }
    }

    fn ask(&mut self, request: Request) {
        self.request += 1;
        let (id, caller) = (RequestId(self.request), Caller { uid: SLURM });
        self.step(Event::Request { id, caller, request });
    }

    fn register(&mut self, node: u8) {
        self.incarnation += 1;
        let storage = node < 3;
        let message = AgentMessage::Register(Registering {
            pool: storage.then(|| "main".into()),
            capacity: Bytes(if storage { 8 * GIB } else { 0 }),
            ..Registering::default()
        });
        self.step(Event::Agent { node: format!("n{node}"), incarnation: self.incarnation, message });
    }

    fn work(&mut self) {
        let tasks: Vec<_> = self.state.tables().tasks.values().cloned().collect();
        for task in tasks {
            let Some(node) = self.state.tables().nodes.get(&task.node) else { continue };
            let incarnation = node.incarnation;
            let message = AgentMessage::Done { task: task.id, copied: None };
            self.step(Event::Agent { node: task.node, incarnation, message });
        }
    }
}

fn setup(number: u8) -> Request {
    let access = |mode| AccessRequest { mode, max_file_size: None, max_files: None, client_cache: false };
    Request::Setup(Setup {
        token: number.to_string(),
        creator: "SLURM".into(),
        owner: 1000,
        group: 100,
        space: Some(Space {
            capacity: Capacity::Bytes(Bytes(u64::from(number) * GIB + 1)),
            pool: None,
            strategy: Strategy::Bandwidth,
            kind: ConfigurationType::Scratch,
            access: vec![access(AccessMode::Striped), access(AccessMode::Private)],
            write_window: None,
            policies: None,
        }),
        attach: Vec::new(),
        stages: Vec::new(),
        swap: false,
    })
}

fn same(left: &State, right: Vec<row::Row>) -> bool {
    let text = |row: row::Row| serde_json::to_string(&row).unwrap();
    let left: BTreeSet<String> = left.tables().rows().into_iter().map(text).collect();
    // The counters of an empty registry are nowhere yet.
    let right: BTreeSet<String> = right.into_iter().map(text).collect();
    left.difference(&right).chain(right.difference(&left)).all(|row| row.contains("counters"))
        && left.len().abs_diff(right.len()) <= 1
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_file_holds_what_the_core_knows(deeds in prop::collection::vec(deed(), 1..60)) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("r.sqlite");
        let mut world = World::open(&file);
        world.step(Event::Tick { now: world.now });
        (0..4).for_each(|node| world.register(node));
        for deed in deeds {
            match deed {
                Deed::Setup(number) => world.ask(setup(number)),
                Deed::Teardown(number) => {
                    world.ask(Request::Teardown { token: number.to_string(), hurry: false });
                }
                Deed::PreRun(number) => {
                    world.ask(Request::PreRun { token: number.to_string(), hosts: vec!["n3".into()] });
                }
                Deed::Register(node) => world.register(node),
                Deed::Work => world.work(),
                Deed::Pass(seconds) => {
                    world.now += i64::from(seconds);
                    let now = world.now;
                    world.step(Event::Tick { now });
                }
                Deed::Reopen => {
                    let before = world.state.tables().rows();
                    let (now, incarnation, request) = (world.now, world.incarnation, world.request);
                    drop(world);
                    world = World { now, incarnation, request, ..World::open(&file) };
                    prop_assert!(same(&world.state, before));
                    prop_assert!(world.state.has_right_links());
                    world.step(Event::Tick { now });
                }
            }
            let stored = world.rows.load().unwrap();
            prop_assert!(same(&world.state, stored));
        }
    }
}

#[test]
fn what_is_no_registry_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("r.sqlite");
    std::fs::write(&file, "a text that is longer than a header of a database could ever be".repeat(9))
        .unwrap();
    assert!(matches!(SqliteRows::open(&file, "a").err(), Some(StoreError::Foreign { .. })));
    let other = directory.path().join("local.sqlite");
    drop(forebay_controller::registry::Registry::open(&other).unwrap());
    assert!(matches!(SqliteRows::open(&other, "a").err(), Some(StoreError::Foreign { .. })));
    let ours = directory.path().join("ours.sqlite");
    drop(SqliteRows::open(&ours, "a").unwrap());
    assert!(matches!(SqliteRows::open(&ours, "b").err(), Some(StoreError::OtherName { .. })));
    assert!(SqliteRows::open(&ours, "a").is_ok());
}

#[test]
fn a_damaged_row_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("r.sqlite");
    {
        let mut world = World::open(&file);
        world.step(Event::Tick { now: 1 });
        world.register(0);
    }
    let connection = rusqlite::Connection::open(&file).unwrap();
    connection
        .execute("UPDATE rows SET row = replace(row, 'online', 'onlin') WHERE key LIKE '%n0%'", [])
        .unwrap();
    drop(connection);
    let error = SqliteRows::open(&file, "rows").unwrap().load().err().unwrap().to_string();
    assert!(error.contains("n0") && error.contains("onlin"), "{error}");
}
