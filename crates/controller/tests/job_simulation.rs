//! Jobs in a fake world that crashes.
//!
//! The world has instances, mounts, a script that writes results, and a parallel file system. A driver carries out the
//! steps of a job against it and a real registry. Before and after every effect, every part of an effect and every
//! change of the registry stands a crash point; every one of them is tried, and seeds choose failures, interrupts and
//! a second crash during recovery. Whatever happens: results are on the parallel file system or were given up by name,
//! every job ends, all space is given back, and the persistent instance of somebody else is untouched.

use forebay_controller::job::{Effect, Event, JobState, Recovery, ScriptEnd, step};
use forebay_controller::process::ProcessId;
use forebay_controller::record::Job;
use forebay_controller::registry::Registry;
use forebay_controller::request::*;
use forebay_model::allocate::Strategy;
use forebay_model::capacity::Capacity;
use forebay_model::ids::{InstanceId, SessionId};
use forebay_model::lifecycle::Phase;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::{Bytes, MIB};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The process died here.
#[derive(Debug)]
struct Crash;

/// A small generator, so that a seed always means the same run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

struct World {
    registry: Registry,
    dice: Dice,
    /// Crash points until the crash; `None`: no crash.
    fuse: Option<u64>,
    /// One effect in so many fails; 0: none.
    failure_rate: u64,
    interrupt_rate: u64,
    /// Instances that exist, with the results in them.
    instances: BTreeMap<InstanceId, BTreeSet<u64>>,
    mounted: BTreeSet<InstanceId>,
    /// The running script and the instance that it writes to. It goes on when its driver dies.
    script: Option<InstanceId>,
    next_result: u64,
    produced: BTreeSet<u64>,
    pfs: BTreeSet<u64>,
    /// Instances whose results somebody gave up by name, and those results as they went.
    given_up: BTreeSet<InstanceId>,
    discarded: BTreeSet<u64>,
    points: u64,
}

impl World {
    fn new(path: &Path, seed: u64) -> World {
        let registry = Registry::open(path).unwrap();
        registry.offer(&[pool()]).unwrap();
        World {
            registry,
            dice: Dice(seed),
            fuse: None,
            failure_rate: 0,
            interrupt_rate: 0,
            instances: BTreeMap::new(),
            mounted: BTreeSet::new(),
            script: None,
            next_result: 0,
            produced: BTreeSet::new(),
            pfs: BTreeSet::new(),
            given_up: BTreeSet::new(),
            discarded: BTreeSet::new(),
            points: 0,
        }
    }

    /// A crash point. Time passes: a running script writes.
    fn point(&mut self) -> Result<(), Crash> {
        self.points += 1;
        self.write_result();
        if let Some(left) = &mut self.fuse {
            if *left == 0 {
                return Err(Crash);
            }
            *left -= 1;
        }
        Ok(())
    }

    fn write_result(&mut self) {
        let Some(instance) = self.script else { return };
        assert!(self.mounted.contains(&instance), "the script runs without its mount");
        let results = self.instances.get_mut(&instance).expect("the script runs without its instance");
        results.insert(self.next_result);
        self.produced.insert(self.next_result);
        self.next_result += 1;
    }

    fn fails(&mut self) -> bool {
        self.failure_rate != 0 && self.dice.roll(self.failure_rate) == 0
    }

    /// Carries out one work effect and says what came of it. `hurried`: it was asked to stop.
    fn carry_out(&mut self, job: &Job, effect: Effect, hurried: bool) -> Result<Event, Crash> {
        self.point()?;
        let event = match effect {
            Effect::MakeInstance => self.make_instance(job)?,
            Effect::StageIn => self.attempt(hurried),
            Effect::Mount => self.mount(job)?,
            Effect::RunScript => self.run_script(job)?,
            Effect::EndScript { .. } => {
                self.script = None;
                Event::Done
            }
            Effect::Unmount => self.unmount(job),
            Effect::StageOut => self.stage_out(job, hurried)?,
            Effect::Teardown => self.tear_down(job)?,
            Effect::StopWork => panic!("is no work"),
        };
        self.point()?;
        Ok(event)
    }

    fn attempt(&mut self, hurried: bool) -> Event {
        if hurried || self.fails() { Event::Failed { cause: "bad luck".into() } } else { Event::Done }
    }

    fn make_instance(&mut self, job: &Job) -> Result<Event, Crash> {
        let own = job.own.as_ref().unwrap();
        if self.fails() {
            return Ok(Event::Failed { cause: "no disk".into() });
        }
        self.instances.entry(own.id).or_default();
        self.point()?;
        self.registry.instance_made(own.id).unwrap();
        Ok(Event::Done)
    }

    fn mount(&mut self, job: &Job) -> Result<Event, Crash> {
        for instance in job.own.iter().chain(&job.attached) {
            if self.fails() {
                return Ok(Event::Failed { cause: "no mount".into() });
            }
            assert!(self.instances.contains_key(&instance.id), "mounts what is not there");
            self.mounted.insert(instance.id);
            self.point()?;
            let configuration = instance.configurations[0].id;
            self.registry.activate(job.session, configuration, Path::new("/mnt")).unwrap();
        }
        Ok(Event::Done)
    }

    fn run_script(&mut self, job: &Job) -> Result<Event, Crash> {
        if self.fails() {
            return Ok(Event::Failed { cause: "no interpreter".into() });
        }
        self.script = Some(job.own.as_ref().unwrap().id);
        for _ in 0..3 {
            self.point()?;
        }
        self.script = None;
        Ok(Event::ScriptEnded(ScriptEnd::Exited(self.dice.roll(2) as i32)))
    }

    fn unmount(&mut self, job: &Job) -> Event {
        if self.fails() {
            return Event::Failed { cause: "busy".into() };
        }
        for instance in job.own.iter().chain(&job.attached) {
            self.mounted.remove(&instance.id);
            self.registry.deactivate(job.session, instance.configurations[0].id).unwrap();
        }
        Event::Done
    }

    fn stage_out(&mut self, job: &Job, hurried: bool) -> Result<Event, Crash> {
        assert_eq!(self.script, None, "stages out under the script's hands");
        let own = job.own.as_ref().unwrap().id;
        let results = self.instances.get(&own).expect("stages out of nothing").clone();
        for result in results {
            self.point()?;
            if hurried || self.fails() {
                return Ok(Event::Failed { cause: "quota".into() });
            }
            self.pfs.insert(result);
        }
        Ok(Event::Done)
    }

    fn tear_down(&mut self, job: &Job) -> Result<Event, Crash> {
        assert_eq!(self.script, None, "pulls the floor from under the script");
        let own = job.own.as_ref().unwrap().id;
        if self.fails() {
            return Ok(Event::Failed { cause: "device busy".into() });
        }
        for instance in job.own.iter().chain(&job.attached) {
            self.mounted.remove(&instance.id);
        }
        self.point()?;
        let results = self.instances.remove(&own).unwrap_or_default();
        if self.given_up.contains(&own) {
            self.discarded.extend(results);
        }
        self.point()?;
        self.registry.finish_teardown(job.session).unwrap();
        Ok(Event::Done)
    }

    /// Drives a job until nothing more happens, as the command does.
    fn drive(&mut self, job: &Job, first: Event) -> Result<JobState, Crash> {
        let mut state = job.state();
        let mut event = first;
        loop {
            let taken = step(&state, event);
            self.record(job.session, &taken.next)?;
            state = taken.next;
            let Some(effect) = taken.effect else {
                assert!(state.is_at_rest(), "waits for nothing: {state:?}");
                return Ok(state);
            };
            let mut hurried = false;
            while self.interrupt_rate != 0 && self.dice.roll(self.interrupt_rate) == 0 {
                let taken = step(&state, Event::Interrupt);
                self.record(job.session, &taken.next)?;
                state = taken.next;
                hurried |= taken.effect == Some(Effect::StopWork);
            }
            event = self.carry_out(job, effect, hurried)?;
        }
    }

    fn record(&mut self, session: SessionId, state: &JobState) -> Result<(), Crash> {
        self.point()?;
        self.registry.record(session, state).unwrap();
        self.point()
    }

    /// What `forebay recover` does for every orphan.
    fn recover(&mut self, decision: Recovery) -> Result<(), Crash> {
        let orphans = self.registry.orphans(&|_| false).unwrap();
        for job in orphans.jobs {
            let mine = ProcessId { start_ticks: self.points, ..ME };
            let job = self.registry.take_over(job.session, job.owner, mine).unwrap();
            if decision == Recovery::Discard {
                self.given_up.insert(job.own.as_ref().unwrap().id);
            }
            self.drive(&job, Event::Recover(decision))?;
        }
        for instance in orphans.persistents {
            self.registry.begin_destroy_persistent(&instance.label, false, ME).unwrap();
            self.point()?;
            self.instances.remove(&instance.id);
            self.point()?;
            self.registry.finish_destroy(instance.id).unwrap();
        }
        Ok(())
    }

    fn lost(&self) -> Vec<u64> {
        let saved = |result: &&u64| !self.pfs.contains(result) && !self.discarded.contains(result);
        self.produced.iter().filter(saved).copied().collect()
    }

    /// Recovery in a world without bad luck ends everything, and nothing is lost.
    fn settle(&mut self, story: &str) {
        (self.fuse, self.failure_rate, self.interrupt_rate) = (None, 0, 0);
        self.recover(Recovery::Finish).unwrap();
        // A job with `--keep` is brought to where it is kept first; asked for again, it ends.
        let left: Vec<Phase> = self.registry.jobs().unwrap().iter().map(|job| job.phase).collect();
        assert!(left.iter().all(|&phase| phase == Phase::Kept), "{story}: {left:?}");
        self.recover(Recovery::Finish).unwrap();
        assert_eq!(self.registry.jobs().unwrap(), [], "{story}");
        assert_eq!(self.lost(), [0; 0], "{story}");
        let all = self.registry.snapshot().unwrap();
        let names: Vec<_> = all.instances.iter().map(|instance| instance.label.as_str()).collect();
        assert_eq!(names, ["somebody"], "{story}");
        assert_eq!(all.pools[0].free.0 + 1, all.pools[0].quantity.0, "{story}");
        assert_eq!(
            (all.sessions.len(), all.registrations.len(), all.activations.len()),
            (1, 0, 0),
            "{story}"
        );
        assert_eq!(self.instances.values().collect::<Vec<_>>(), [&BTreeSet::from([u64::MAX])], "{story}");
        assert_eq!((self.mounted.len(), self.script), (0, None), "{story}");
    }

    fn add_somebody(&mut self) {
        let request = PersistentRequest {
            name: "somebody".into(),
            creator: "CLI".into(),
            owner_uid: 1,
            owner: ME,
            allocation: space(1),
        };
        let made = self.registry.create_persistent(&request, 0).unwrap();
        self.instances.insert(made.id, BTreeSet::from([u64::MAX]));
        self.registry.instance_made(made.id).unwrap();
    }
}

const ME: ProcessId = ProcessId { pid: 1, start_ticks: 1, boot: 1 };

fn pool() -> PoolOffer {
    let node = |number: u32| NodeOffer {
        name: format!("node{number}"),
        directory: format!("/{number}").into(),
        capacity: Bytes(4 * MIB),
        granularity: Bytes(MIB),
        online: true,
        drain: false,
    };
    PoolOffer { name: "p".into(), granularity: Bytes(MIB), default: true, nodes: (0..3).map(node).collect() }
}

fn space(granules: u64) -> AllocationRequest {
    let mode = AccessMode::Striped;
    AllocationRequest {
        capacity: Capacity::Bytes(Bytes(granules * MIB)),
        pool: None,
        strategy: Strategy::Bandwidth,
        kind: ConfigurationType::Scratch,
        access: vec![AccessRequest { mode, max_file_size: None, max_files: None, client_cache: false }],
        write_window: None,
    }
}

fn request(keep: bool) -> JobRequest {
    JobRequest {
        token: None,
        creator: "CLI".into(),
        owner_uid: 1,
        client_nodes: 1,
        owner: ME,
        allocation: Some(space(5)),
        attach: vec!["somebody".into()],
        stages: vec![],
        script: Script {
            path: "/job".into(),
            args: vec![],
            working_directory: "/".into(),
            submit_directory: "/".into(),
            name: "job".into(),
        },
        keep,
    }
}

/// Runs one job to its end or to its crash; gives the number of crash points passed.
fn run_job(world: &mut World, keep: bool) -> Option<JobState> {
    let before = world.points;
    let job = world.registry.setup_job(&request(keep), 0).unwrap();
    let end = world.point().and_then(|()| world.drive(&job, Event::Begin)).ok();
    assert!(world.points - before < 1000, "the job does not end");
    end
}

fn registry_file(directory: &tempfile::TempDir) -> std::path::PathBuf {
    directory.path().join("registry.sqlite")
}

#[test]
fn an_undisturbed_job_ends_with_its_results_staged_out() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = World::new(&registry_file(&directory), 1);
    world.add_somebody();
    let end = run_job(&mut world, false).unwrap();
    assert_eq!((end.phase, end.failure), (Phase::Ended, None));
    assert!(!world.produced.is_empty());
    assert_eq!(world.pfs, world.produced);
    world.settle("undisturbed");
}

#[test]
fn a_kept_job_keeps_its_results_until_it_is_asked() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = World::new(&registry_file(&directory), 1);
    world.add_somebody();
    let end = run_job(&mut world, true).unwrap();
    assert_eq!(end.phase, Phase::Kept);
    assert_eq!(world.instances.len(), 2);
    world.settle("kept");
}

#[test]
fn a_crash_at_any_point_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = World::new(&registry_file(&directory), 1);
    world.add_somebody();
    for keep in [false, true] {
        for fuse in 0.. {
            world.fuse = Some(fuse);
            let end = run_job(&mut world, keep);
            world.settle(&format!("keep {keep}, crash at point {fuse}"));
            if end.is_some() {
                assert!(fuse > 20, "only {fuse} crash points");
                break;
            }
        }
    }
}

#[test]
fn a_crash_at_any_point_of_the_recovery_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = World::new(&registry_file(&directory), 1);
    world.add_somebody();
    // A crash while the script runs leaves most to be done.
    let mut fuse = 0;
    loop {
        world.fuse = Some(fuse);
        run_job(&mut world, false);
        if world.script.is_some() {
            break;
        }
        world.settle("before the script");
        fuse += 1;
    }
    for second in 0.. {
        world.fuse = Some(second);
        let recovered = world.recover(Recovery::Finish);
        world.settle(&format!("second crash at point {second}"));
        if recovered.is_ok() {
            assert!(second > 10, "only {second} crash points");
            break;
        }
        world.fuse = Some(fuse);
        run_job(&mut world, false);
    }
}

#[test]
fn bad_luck_of_all_kinds_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = World::new(&registry_file(&directory), 1);
    world.add_somebody();
    let mut ends = BTreeSet::new();
    for seed in 0..300 {
        world.dice = Dice(seed);
        (world.failure_rate, world.interrupt_rate) = (9, 11);
        world.fuse = (world.dice.roll(2) == 0).then(|| world.dice.roll(60));
        let keep = world.dice.roll(4) == 0;
        if let Some(end) = run_job(&mut world, keep) {
            ends.insert(end.phase);
        }
        for _ in 0..world.dice.roll(3) {
            world.fuse = Some(world.dice.roll(30));
            let discard = world.dice.roll(4) == 0;
            let decision = if discard { Recovery::Discard } else { Recovery::Finish };
            let _crashed_or_not = world.recover(decision);
        }
        world.settle(&format!("seed {seed}"));
    }
    assert!(ends.is_superset(&BTreeSet::from([Phase::Kept, Phase::Ended, Phase::Teardown])), "{ends:?}");
    assert!(!world.discarded.is_empty());
}

#[test]
fn a_persistent_instance_half_made_or_half_destroyed_is_finished() {
    let directory = tempfile::tempdir().unwrap();
    let mut world = World::new(&registry_file(&directory), 1);
    world.add_somebody();
    let request = PersistentRequest {
        name: "other".into(),
        creator: "CLI".into(),
        owner_uid: 1,
        owner: ME,
        allocation: space(2),
    };
    let half_made = world.registry.create_persistent(&request, 0).unwrap();
    world.instances.insert(half_made.id, BTreeSet::new());
    world.settle("half made");
    let made = world.registry.create_persistent(&request, 0).unwrap();
    world.instances.insert(made.id, BTreeSet::new());
    world.registry.instance_made(made.id).unwrap();
    world.registry.begin_destroy_persistent("other", false, ME).unwrap();
    for fuse in 0..2 {
        world.fuse = Some(fuse);
        world.recover(Recovery::Finish).unwrap_err();
    }
    world.settle("half destroyed");
}
