//! Mapped files on several nodes: random operations of two and three mounts on one file, against what is promised.
//!
//! The oracle is proved on a local file, whose names are many and whose pages are one.

mod deployed;

use deployed::{Deployment, SUITE_LIMIT, Shape};
use forebay_testkit::random::seed_from_environment;
use forebay_testkit::{Finished, Scratch, process};
use std::path::PathBuf;
use std::process::Command;

/// Operations of each run.
const OPERATIONS: &str = "1000";
/// Seed of the runs; a run of all tests says something about the change at hand and nothing else.
const SEED: u64 = 1;

fn exercise(files: &[PathBuf], seed: u64) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-suite"));
    command.arg("mapped").args(files).args(["--operations", OPERATIONS, "--seed", &seed.to_string()]);
    process::run(&mut command, SUITE_LIMIT).unwrap_or_else(|error| panic!("{error}"))
}

fn holds(files: &[PathBuf]) {
    let finished = exercise(files, seed_from_environment().unwrap_or(SEED)).success();
    println!("{}", finished.unwrap_or_else(|error| panic!("{error}")).output);
}

#[test]
fn two_mounts_map_one_file() {
    let deployment = Deployment::start(Shape { clients: 2, ..Shape::default() });
    let files = [0, 1].map(|client| deployment.file(client, "file"));
    holds(&files);
    deployment.finish();
}

#[test]
fn three_mounts_map_one_file_of_one_server() {
    let deployment = Deployment::start(Shape { servers: 1, clients: 3, ..Shape::default() });
    let files = [0, 1, 2].map(|client| deployment.file(client, "file"));
    holds(&files);
    deployment.finish();
}

#[test]
fn the_oracle_holds_on_a_local_file() {
    let scratch = Scratch::new("mapped");
    let file = scratch.path().join("file");
    holds(&[file.clone(), file]);
    scratch.finish();
}

#[test]
fn the_oracle_sees_that_two_files_are_not_one() {
    let scratch = Scratch::new("mapped");
    let file = |name: &str| scratch.path().join(name);
    std::fs::write(file("other"), "").unwrap();
    let finished = exercise(&[file("file"), file("other")], 1);
    assert_eq!(finished.status.code(), Some(1), "{}", finished.output);
    assert!(finished.output.contains("FOREBAY_TEST_SEED=1"), "{}", finished.output);
    let again = exercise(&[file("again"), file("other")], 1);
    assert_eq!(again.output.lines().next(), finished.output.lines().next(), "the seed replays it");
    scratch.finish();
}
