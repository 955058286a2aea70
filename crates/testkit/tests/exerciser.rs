//! Random operations on DWFS against a local directory and against memory, from seeds that are printed.
//!
//! `FOREBAY_TEST_SEED` replays one seed; `FOREBAY_TEST_OPERATIONS` sets the operations of each run (default 3000).

mod support;

use forebay_testkit::Identity;
use forebay_testkit::random::seed_from_environment;
use support::ground::{Ground, Way};

/// Environment variable for longer runs.
const OPERATIONS_VARIABLE: &str = "FOREBAY_TEST_OPERATIONS";

/// Seeds that every run begins with; a seed that found a defect belongs here.
const FIXED_SEEDS: [u64; 4] = [1, 124, 1_792_311_141_999_996_150, 1_798_078_192_421_456_473];

fn operations() -> String {
    std::env::var(OPERATIONS_VARIABLE).unwrap_or_else(|_| "3000".into())
}

/// The seed asked for, or the fixed ones: a run of all tests says something about the change at hand and nothing else.
/// `make soak` looks for new defects with seeds that nobody chose.
fn seeds() -> Vec<u64> {
    seed_from_environment().map_or_else(|| FIXED_SEEDS.to_vec(), |seed| vec![seed])
}

fn exercise(way: Way, server: Identity, eyes: Identity) {
    for seed in seeds() {
        let mut ground = Ground::new(way, &server, &eyes);
        let (seed, operations) = (seed.to_string(), operations());
        let length: [&dyn AsRef<std::ffi::OsStr>; 4] = [&"--operations", &operations, &"--seed", &seed];
        let file = ground.under().join("single-file");
        let arguments = [&[&"single-file" as &dyn AsRef<_>, &file], &length[..]].concat();
        println!("{}", ground.judge(&arguments));
        ground.run(std::process::Command::new("rm").arg(&file)).expect("the file was made");
        let (under, beside) = (ground.under().to_owned(), ground.beside().to_owned());
        let arguments = [&[&"namespace" as &dyn AsRef<_>, &under, &beside], &length[..]].concat();
        println!("{}", ground.judge(&arguments));
        if way != Way::LocalXfs {
            // What was there is there after the server has ended and another has begun.
            ground.remount();
            println!("{}", ground.judge(&[&"compare", &under, &beside]));
        }
        ground.finish();
    }
}

#[test]
fn local_xfs_as_root() {
    exercise(Way::LocalXfs, Identity::root(), Identity::root());
}

#[test]
fn local_xfs_as_user() {
    exercise(Way::LocalXfs, Identity::root(), Identity::nobody());
}

#[test]
fn striped_as_root() {
    exercise(Way::Striped, Identity::root(), Identity::root());
}

#[test]
fn striped_as_user() {
    exercise(Way::Striped, Identity::nobody(), Identity::nobody());
}

#[test]
fn inline_as_root() {
    exercise(Way::Inline, Identity::root(), Identity::root());
}

#[test]
fn inline_as_user() {
    exercise(Way::Inline, Identity::nobody(), Identity::nobody());
}

#[test]
fn passthrough_as_root() {
    exercise(Way::Passthrough, Identity::root(), Identity::root());
}

#[test]
fn passthrough_as_user_on_a_mount_of_root() {
    exercise(Way::Passthrough, Identity::root(), Identity::nobody());
}
