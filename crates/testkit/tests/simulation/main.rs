//! The whole file system on a machine that a seed decides: clients, servers, network, kills.
//!
//! Each run is a process of its own, this program again: what a killed server leaves in memory goes with it. A run that fails
//! says its seed; the same seed is the same run, event by event:
//!
//! ```text
//! FOREBAY_SIMULATION_SEED=17 cargo test -p forebay-testkit --test simulation run_of_a_seed -- --nocapture
//! ```
//!
//! `FOREBAY_SIMULATION_TRACE` names a file for the events. `FOREBAY_SIMULATION_RUNS` says how many seeds of the clock, or of
//! `FOREBAY_TEST_SEED`, are played beside those that always are: none otherwise, so that a run of all tests says something about
//! the change at hand and nothing else.

#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

mod ground;
mod machine;
mod scene;

use forebay_testkit::{Random, process};
use machine::{Fault, Faults};
use scene::{Plan, Scene};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Says to this program that it is to play one run, and its seed.
const SEED: &str = "FOREBAY_SIMULATION_SEED";
/// Says that it is to play this scene, and not what the seed says.
const SCENE: &str = "FOREBAY_SIMULATION_SCENE";
/// How many other seeds are to be played.
const RUNS: &str = "FOREBAY_SIMULATION_RUNS";
/// Seeds that are always played.
const ALWAYS: std::ops::Range<u64> = 1..201;
/// One seed in so many plays machines that lose their power, and disks that are full.
const POWER_OF: u64 = 2;
/// Others, if nobody says how many.
const OTHERS: u64 = 0;
/// Seeds of each scene that goes one way.
const SCENES: std::ops::Range<u64> = 1..81;
/// Seeds that are played twice to see whether they are the same.
const TWICE: std::ops::Range<u64> = 1..5;
/// Runs at a time.
const AT_A_TIME: usize = 2;
/// A run that takes longer hangs; it takes less than a second where nothing else runs.
const LIMIT: Duration = Duration::from_secs(300);
/// What a run says at its end, before the counts of its faults.
const SUMMARY: &str = "played:";

/// What a seed plays.
fn plan(seed: u64) -> Plan {
    let mut dice = Random::new(seed ^ 0x5eed_f0e8);
    let mut rate = |choices: &[u64]| *dice.pick(choices);
    let faults = Faults {
        cut: rate(&[0, 30, 60, 150]),
        kill: rate(&[0, 0, 200, 500]),
        kills_left: 4,
        slow: rate(&[0, 0, 100]),
        ..Faults::default()
    };
    let plan = Plan {
        servers: rate(&[1, 2, 3]) as usize,
        home: 0,
        clients: rate(&[1, 2, 3]) as usize,
        steps: rate(&[20, 40, 60]),
        faults,
        disturbances: rate(&[0, 2, 5]),
        kills_clients: rate(&[0, 1]) == 1,
        loses_power: false,
    };
    if !seed.is_multiple_of(POWER_OF) {
        return plan;
    }
    let faults = Faults {
        crash: rate(&[0, 60, 200, 500]),
        crashes_left: 4,
        full: rate(&[0, 0, 40, 150]),
        kill: rate(&[0, 0, 300]),
        ..plan.faults
    };
    Plan { faults, kills_clients: false, loses_power: true, ..plan }
}

/// One thread runs at a time: on one processor the turns change hands faster.
fn stay_on_one_processor(seed: u64) {
    let allowed = rustix::thread::sched_getaffinity(None).expect("processors");
    let usable: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|at| allowed.is_set(*at)).collect();
    let mut one = rustix::thread::CpuSet::new();
    one.set(usable[seed as usize % usable.len()]);
    rustix::thread::sched_setaffinity(None, &one).expect("a processor");
}

/// One run; does nothing unless it is asked for by the environment.
#[test]
fn run_of_a_seed() {
    let Ok(seed) = std::env::var(SEED) else { return };
    let seed = seed.parse().expect("a number");
    stay_on_one_processor(seed);
    let ground = ground::Ground::new();
    let path = ground.path().to_owned();
    let summary = match std::env::var(SCENE) {
        Ok(name) => {
            let scene =
                Scene::of(&name).unwrap_or_else(|| panic!("{SCENE}={name} is none of {:?}", Scene::ALL));
            machine::run(seed, move || scene.play(&path))
        }
        Err(_) => {
            let plan = plan(seed);
            println!("{plan:?}");
            machine::run(seed, move || scene::play(plan, &path))
        }
    };
    println!("{} events, hash {:x}, {} ns", summary.events, summary.hash, summary.nanoseconds);
    println!("{SUMMARY} {}", summary.faults.map(|count| count.to_string()).join(" "));
}

/// Plays a seed in a process of its own; returns what it said.
fn play(seed: u64, trace: Option<&Path>) -> String {
    play_scene(seed, None, trace)
}

/// The same of a scene that goes one way.
fn play_scene(seed: u64, scene: Option<Scene>, trace: Option<&Path>) -> String {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "run_of_a_seed", "--nocapture"]);
    command.env(SEED, seed.to_string()).env("TMPDIR", directory.path()).env_remove(SCENE);
    if let Some(scene) = scene {
        command.env(SCENE, format!("{scene:?}"));
    }
    if let Some(trace) = trace {
        command.env("FOREBAY_SIMULATION_TRACE", trace);
    }
    let finished = process::run(&mut command, LIMIT).and_then(process::Finished::success);
    finished
        .unwrap_or_else(|error| panic!("{SEED}={seed} {scene:?} fails, and does so again:\n{error}"))
        .output
}

fn counts(said: &str) -> Vec<u64> {
    let line = said.lines().find_map(|line| line.strip_prefix(SUMMARY));
    line.expect("a run says what happened")
        .split_whitespace()
        .map(|count| count.parse().expect("a count"))
        .collect()
}

fn seeds() -> Vec<u64> {
    let others = std::env::var(RUNS).map_or(OTHERS, |runs| runs.parse().expect("a number of runs"));
    let mut random = Random::from_environment();
    ALWAYS.chain((0..others).map(|_| random.bits())).collect()
}

/// Does something with each, several at a time.
fn for_each<T: Sync>(all: &[T], deal: impl Fn(&T) + Sync) {
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, SeqCst) as usize) {
                    deal(one);
                }
            });
        }
    });
}

/// Adds up what went wrong in runs; each kind that `is_expected` has happened.
fn count<T: Sync>(all: &[T], play: impl Fn(&T) -> String + Sync, is_expected: impl Fn(Fault) -> bool) {
    let totals: Vec<AtomicU64> = Fault::ALL.iter().map(|_| AtomicU64::new(0)).collect();
    for_each(all, |one| {
        for (total, count) in totals.iter().zip(counts(&play(one))) {
            total.fetch_add(count, SeqCst);
        }
    });
    for (fault, total) in Fault::ALL.into_iter().zip(&totals) {
        let total = total.load(SeqCst);
        println!("{fault:?}: {total}");
        assert!(total > 0 || !is_expected(fault), "{fault:?} never happened");
    }
}

#[test]
fn whatever_goes_wrong_nothing_is_lost_and_nothing_is_left() {
    count(&seeds(), |seed| play(*seed, None), |fault| fault != Fault::Failed);
}

#[test]
fn what_was_wrong_once_behind_a_power_cut_is_right_and_failing_disks_are_told() {
    let all: Vec<_> =
        Scene::ALL.into_iter().flat_map(|scene| SCENES.map(move |seed| (scene, seed))).collect();
    let expected = [Fault::Failed, Fault::Full, Fault::Crashed, Fault::Killed];
    count(&all, |(scene, seed)| play_scene(*seed, Some(*scene), None), |fault| expected.contains(&fault));
}

#[test]
fn a_seed_is_the_same_run_every_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let trace = |seed| {
        let path = directory.path().join("trace");
        play(seed, Some(&path));
        std::fs::read_to_string(&path).expect("a trace")
    };
    for seed in TWICE {
        let (first, second) = (trace(seed), trace(seed));
        let differs = first.lines().zip(second.lines()).position(|(one, other)| one != other);
        assert!(first == second, "seed {seed} plays differently from event {differs:?} on");
    }
    assert_ne!(trace(TWICE.start), trace(TWICE.start + 1), "two seeds are two runs");
}
