//! The cluster's controller in a simulated world that is against it.
//!
//! Nodes crash, restart, lose their disks and go out of reach, mail is lost, doubled and overtakes other mail, orders
//! fail, jobs are cancelled and every verb is repeated, and the controller dies between any two effects and comes back
//! from what was stored. Whatever happens: no space is given twice or leaks, every job ends, nothing that is to be staged
//! out is destroyed unless somebody gave it up or a disk was lost, and what is stored is what the controller knows.
//!
//! `FOREBAY_TEST_SEED=n` runs another seed; a failure prints the seed that found it.

mod agent;
mod dice;
mod workload;
mod world;

use world::{Defect, Weather, World};

const STORMY: Weather = Weather {
    storage_nodes: 12,
    compute_nodes: 8,
    jobs: 60,
    at_a_time: 12,
    crash_rate: 60,
    loss_rate: 12,
    delay_rate: 4,
    failure_rate: 15,
    accident_rate: 400,
    crash_at: None,
    defect: None,
};

fn run(seed: u64, weather: Weather) -> World {
    let mut world = World::new(seed, weather);
    world.run();
    println!(
        "seed {seed}: {} jobs in {} s of the world, {} steps, {} crashes, {} mails lost, {} accidents",
        weather.jobs,
        world.now - 1_000,
        world.steps,
        world.crashes,
        world.lost_mail,
        world.accidents
    );
    world
}

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("FOREBAY_TEST_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => (1..=count).collect(),
    }
}

#[test]
fn storms_leave_nothing_behind() {
    for seed in seeds(3) {
        let world = run(seed, STORMY);
        assert!(world.crashes > 0 && world.accidents > 0 && world.lost_mail > 0, "seed {seed} was no storm");
    }
}

#[test]
fn calm_weather_ends_every_job() {
    let calm = Weather { crash_rate: 0, loss_rate: 0, failure_rate: 0, accident_rate: 0, ..STORMY };
    for seed in seeds(3) {
        run(seed, calm);
    }
}

/// A small world, so that every crash point of it can be tried.
const SMALL: Weather = Weather {
    storage_nodes: 3,
    compute_nodes: 2,
    jobs: 2,
    at_a_time: 2,
    crash_rate: 0,
    loss_rate: 0,
    delay_rate: 4,
    failure_rate: 0,
    accident_rate: 0,
    crash_at: None,
    defect: None,
};

#[test]
fn a_crash_at_any_point_changes_nothing() {
    let points = run(1, SMALL).points;
    for crash_at in 1..=points {
        let mut world = World::new(1, Weather { crash_at: Some(crash_at), ..SMALL });
        world.run();
        assert_eq!(world.crashes, 1, "the controller did not crash at point {crash_at}");
    }
    println!("{points} crash points");
}

/// Whether one of some storms brings a planted defect to light.
fn is_found(defect: Defect) -> bool {
    // What the defect breaks is expected to be told by a panic; its text would only confuse.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found = (1..=12).any(|seed| {
        std::panic::catch_unwind(|| World::new(seed, Weather { defect: Some(defect), ..STORMY }).run())
            .is_err()
    });
    std::panic::set_hook(hook);
    found
}

#[test]
fn planted_defects_are_found() {
    let defects = [
        Defect::SkipsStore,
        Defect::ForgetsRow,
        Defect::StoresLast,
        Defect::ForgetsPlannedFragments,
        Defect::FollowsOldLists,
        Defect::AlwaysHurries,
    ];
    for defect in defects {
        assert!(is_found(defect), "{defect:?} was not noticed");
    }
}

/// The size the design asks for: 300 nodes and thousands of jobs. `cargo test --release -- --ignored`
#[test]
#[ignore = "takes minutes"]
fn a_whole_machine_through_storms() {
    let machine = Weather { storage_nodes: 200, compute_nodes: 100, jobs: 3_000, at_a_time: 150, ..STORMY };
    let machine = Weather { crash_rate: 2_000, accident_rate: 3_000, ..machine };
    for seed in seeds(3) {
        run(seed, machine);
    }
}

/// More storms than the ordinary run has. `FOREBAY_TEST_SEED` is the first seed, `ROUNDS` their number.
#[test]
#[ignore = "takes as long as is wanted"]
fn many_storms() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("FOREBAY_TEST_SEED").unwrap_or(100);
    for seed in first..first + number("ROUNDS").unwrap_or(100) {
        run(seed, STORMY);
    }
}
