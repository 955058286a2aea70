//! The suites find what is wrong: each is run on a file system that is made wrong on purpose.

use forebay_testkit::process;
use forebay_testkit::{Finished, Scratch};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(300);

/// A temporary file system in memory with these mount options; it goes with the scratch directory.
fn memory_file_system(scratch: &Scratch, options: &str) -> PathBuf {
    let point = scratch.directory("memory", 0o755);
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", options, "forebay-test"]).arg(&point);
    process::run(&mut command, LIMIT).and_then(Finished::success).expect("root may mount");
    point
}

fn suite(arguments: &[&dyn AsRef<OsStr>]) -> Finished {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay-suite"));
    process::run(command.args(arguments), LIMIT).expect("the suite runs")
}

fn failed_cases(said: &str) -> Vec<&str> {
    let lines = said.lines().filter_map(|line| line.strip_prefix("FAILED forebay_testkit::posix::"));
    lines.filter_map(|line| line.split(' ').next()).collect()
}

#[test]
fn the_posix_suite_names_what_is_wrong_and_nothing_else() {
    let scratch = Scratch::new("can-fail");
    let right = memory_file_system(&scratch, "size=200m");
    // tmpfs is not what the suite is made for: what it does in its own way is known before.
    let finished = suite(&[&"posix", &right]);
    let beforehand: Vec<String> = failed_cases(&finished.output).into_iter().map(Into::into).collect();
    drop(scratch);

    let scratch = Scratch::new("can-fail");
    let wrong = memory_file_system(&scratch, "size=200m,noexec,nosymfollow");
    let finished = suite(&[&"posix", &wrong]);
    assert_eq!(finished.status.code(), Some(1), "{}", finished.output);
    let failed = failed_cases(&finished.output);
    for case in ["maps::programs_run_from_it", "links::symbolic_links_are_followed"] {
        assert!(failed.contains(&case), "{case} did not see that links and programs do not work");
    }
    // Reading, writing and locking have nothing to do with links and programs.
    let untouched = ["data::", "locks::", "removing::", "reading_directories::", "space::", "directories::"];
    let strange: Vec<_> = failed
        .iter()
        .filter(|case| untouched.iter().any(|part| case.starts_with(part)))
        .filter(|case| !beforehand.iter().any(|known| known == *case))
        .collect();
    assert!(strange.is_empty(), "{strange:?}");
}

#[test]
fn the_lockstep_run_sees_a_difference_and_its_seed_replays_it() {
    let scratch = Scratch::new("can-fail");
    let run = |round: &str| {
        let under = scratch.directory(&format!("under{round}"), 0o755);
        let beside = scratch.directory(&format!("beside{round}"), 0o755);
        std::fs::write(under.join("a"), "only on one side").unwrap();
        suite(&[&"namespace", &under, &beside, &"--operations", &"1000", &"--seed", &"5"])
    };
    let (first, second) = (run("1"), run("2"));
    assert_eq!(first.status.code(), Some(1));
    assert!(first.output.contains("seed 5, operation "), "{}", first.output);
    assert_eq!(first_line(&first), first_line(&second));
}

#[test]
fn the_lockstep_run_sees_that_two_mounts_show_something_else() {
    let scratch = Scratch::new("can-fail");
    // Seen twice it is the same directory; another directory is what a mount with an old cache looks like.
    let run = |name: &str, through: &dyn Fn(&Path) -> PathBuf| {
        let under = scratch.directory(&format!("{name}-under"), 0o755);
        let beside = scratch.directory(&format!("{name}-beside"), 0o755);
        let through = through(&under);
        let size = [&"--operations" as &dyn AsRef<OsStr>, &"500", &"--seed", &"5"];
        suite(
            &[&[&"namespace" as &dyn AsRef<OsStr>, &under, &beside, &"--through", &through], &size[..]]
                .concat(),
        )
    };
    let same = run("same", &|under| under.to_owned());
    assert_eq!(same.status.code(), Some(0), "{}", same.output);
    let other = run("other", &|_| scratch.directory("elsewhere", 0o755));
    assert_eq!(other.status.code(), Some(1), "{}", other.output);
}

fn first_line(finished: &Finished) -> &str {
    finished.output.lines().next().unwrap_or_default()
}

#[test]
fn the_single_file_run_sees_a_refused_write() {
    let scratch = Scratch::new("can-fail");
    let small = memory_file_system(&scratch, "size=256k");
    let finished = suite(&[&"single-file", &small.join("file"), &"--operations", &"1000", &"--seed", &"5"]);
    assert_eq!(finished.status.code(), Some(1));
    assert!(finished.output.contains("errno 28"), "{}", finished.output);
}

#[test]
fn a_compare_sees_one_byte() {
    let scratch = Scratch::new("can-fail");
    let side = |name: &str, last: &str| -> PathBuf {
        let directory = scratch.directory(name, 0o755);
        let path: &Path = &directory.join("file");
        std::fs::write(path, format!("{}{last}", "x".repeat(100_000))).unwrap();
        let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(5);
        std::fs::File::open(path).unwrap().set_modified(long_ago).unwrap();
        directory
    };
    let (one, same, other) = (side("one", "a"), side("same", "a"), side("other", "b"));
    assert_eq!(suite(&[&"compare", &one, &same]).status.code(), Some(0));
    assert_eq!(suite(&[&"compare", &one, &other]).status.code(), Some(1));
}
