//! Whatever operation fails: the stage is complete or says clearly what failed, the source is untouched, and every target has
//! its old or its new content.
#![allow(missing_docs)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use forebay_stager::tree::Cause;
use forebay_stager::{
    Direction, ListPair, PosixTree, Reason, Side, StageFailure, StageOptions, StageReport, Tree, What,
};
use support::faulty::{Faulty, Plan};
use support::*;

const OLD: &[u8] = b"old content";

/// A source, and a target holding older files under some of the names.
fn place() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| place.path().join(name));
    fs::create_dir_all(from.join("sub")).unwrap();
    fs::create_dir_all(to.join("sub")).unwrap();
    for number in 0..6 {
        fs::write(from.join(format!("f{number}")), content(20_000, number)).unwrap();
        // One of more than a piece.
        let length = if number == 0 { 1_200_000 } else { 30_000 };
        fs::write(from.join(format!("sub/g{number}")), content(length, number + 10)).unwrap();
        fs::write(to.join(format!("f{number}")), OLD).unwrap();
    }
    fs::hard_link(from.join("f1"), from.join("sub/hard")).unwrap();
    std::os::unix::fs::symlink("f1", from.join("soft")).unwrap();
    make_fifo(&from.join("fifo"), 0o600);
    set_xattr(&from.join("f2"), "user.note", b"n");
    (place, from, to)
}

fn run(
    source: &dyn Tree,
    target: &dyn Tree,
    from: &Path,
    to: &Path,
    direction: Direction,
) -> Result<StageReport, StageFailure> {
    let pair = ListPair { source: relative(from), destination: relative(to) };
    let options = StageOptions { durable: Some(direction == Direction::Out), ..StageOptions::default() };
    stage_trees(source, target, direction, What::Directory(pair), &options)
}

/// Every file of the target is whole: the old one, or the source's.
fn assert_no_half(from: &Path, to: &Path, what: &str) {
    let source = look(from);
    for (path, seen) in look(to) {
        if seen.kind == "file" {
            let new = source.get(&path).map(|seen| seen.content.as_slice());
            let whole = seen.content == OLD || Some(seen.content.as_slice()) == new;
            assert!(whole, "{what}: {} is half ({} bytes)", path.display(), seen.content.len());
        }
    }
}

fn without_top(mut tree: BTreeMap<PathBuf, Seen>) -> BTreeMap<PathBuf, Seen> {
    tree.remove(Path::new(""));
    tree
}

/// Lets each n-th operation of one side fail, until there is none left to fail.
fn every_operation(side_is_source: bool, direction: Direction, cause: Cause, forever: bool) {
    let everywhere = PosixTree::everywhere().unwrap();
    let (mut nth, mut failed, mut complete) = (1, 0, 0);
    loop {
        let (_place, from, to) = place();
        let before = look(&from);
        let faulty = Faulty { inner: &everywhere, plan: Plan::new("", nth, forever, cause) };
        let (source, target): (&dyn Tree, &dyn Tree) =
            if side_is_source { (&faulty, &everywhere) } else { (&everywhere, &faulty) };
        let result = run(source, target, &from, &to, direction);
        let what = format!("operation {nth}, {cause:?}, source {side_is_source}: {result:?}");
        assert_same(&before, &look(&from));
        if !forever {
            assert_eq!(temporaries(&to), Vec::<PathBuf>::new(), "{what}");
        }
        match &result {
            // A fault that was survived (a refused attribute, a space query) still leaves a complete target.
            Ok(report) if report.warnings_total == 0 => {
                assert_same(&without_top(before), &without_top(look(&to)));
                complete += 1;
            }
            Ok(_) => complete += 1,
            Err(failure) => {
                assert!(!failure.to_string().is_empty() && failure.failures_total > 0, "{what}");
                assert_no_half_but_own_temporaries(&from, &to, &what);
                // Once the fault is gone the same stage completes.
                directory_cached(direction, &from, &to).unwrap();
                assert_same(&without_top(before), &without_top(look(&to)));
                assert_eq!(temporaries(&to), Vec::<PathBuf>::new(), "{what}");
                failed += 1;
            }
        }
        if faulty.plan.fired() == 0 {
            break;
        }
        // All of the first ones, then a sample: the later ones repeat per file.
        nth += if nth < 40 { 1 } else { 7 };
    }
    assert!(failed > 10 && complete >= 1, "failed {failed}, complete {complete}");
}

fn assert_no_half_but_own_temporaries(from: &Path, to: &Path, what: &str) {
    for path in temporaries(to) {
        fs::remove_file(to.join(path)).unwrap();
    }
    assert_no_half(from, to, what);
}

#[test]
fn any_target_operation_may_fail_once() {
    every_operation(false, Direction::In, Cause::Io, false);
}

#[test]
fn any_target_operation_of_a_stage_out_may_fail_once() {
    every_operation(false, Direction::Out, Cause::NoSpace, false);
}

#[test]
fn the_target_may_fail_for_good() {
    every_operation(false, Direction::Out, Cause::Io, true);
}

#[test]
fn any_source_operation_may_fail_once() {
    every_operation(true, Direction::Out, Cause::AccessDenied, false);
}

fn one_fault(
    operation: &'static str,
    cause: Cause,
) -> (Result<StageReport, StageFailure>, PathBuf, tempfile::TempDir) {
    let (place, from, to) = place();
    let everywhere = PosixTree::everywhere().unwrap();
    let faulty = Faulty { inner: &everywhere, plan: Plan::new(operation, 1, false, cause) };
    let result = run(&everywhere, &faulty, &from, &to, Direction::Out);
    assert_eq!(faulty.plan.fired(), 1);
    assert_no_half(&from, &to, operation);
    (result, to, place)
}

/// What a killed process of the same stage has sent last may be carried out while the next one is at work: on the same names.
#[test]
fn late_calls_of_a_process_that_was_killed_do_no_harm() {
    let everywhere = PosixTree::everywhere().unwrap();
    for direction in [Direction::In, Direction::Out] {
        for operation in ["late_create", "late_create_and_unlink", "late_rename", "late_unlink"] {
            for nth in 1.. {
                let (_place, from, to) = place();
                let faulty = Faulty { inner: &everywhere, plan: Plan::new(operation, nth, false, Cause::Io) };
                let report = run(&everywhere, &faulty, &from, &to, direction).expect(operation);
                assert_eq!(report.warnings_total, 0, "{report:?}");
                assert_eq!(report.files, 12, "{report:?}");
                assert_same(&without_top(look(&from)), &without_top(look(&to)));
                assert_eq!(faulty.plan.seen() >= nth, faulty.plan.fired() == 1);
                if faulty.plan.fired() == 0 {
                    assert!(nth > 14, "each file, the link and the fifo: {nth}");
                    break;
                }
            }
        }
    }
}

#[test]
fn a_name_that_is_taken_away_again_and_again_is_said_to_be() {
    for (operation, cause) in
        [("late_rename", Cause::Io), ("late_unlink", Cause::Io), ("rename", Cause::NotFound)]
    {
        let (_place, from, to) = place();
        let everywhere = PosixTree::everywhere().unwrap();
        let faulty = Faulty { inner: &everywhere, plan: Plan::new(operation, 1, true, cause) };
        let failure = run(&everywhere, &faulty, &from, &to, Direction::In).unwrap_err();
        let expected =
            Reason::FileSystem { operation: "rename".to_owned(), side: Side::Target, error: Cause::NotFound };
        assert_eq!(failure.first.reason, expected);
        assert_no_half(&from, &to, operation);
    }
}

#[test]
fn a_target_that_holds_something_else_is_found_and_not_put_in_place() {
    let (result, ..) = one_fault("corrupt", Cause::Io);
    let failure = result.unwrap_err();
    assert!(matches!(failure.first.reason, Reason::ChecksumMismatch { .. }), "{failure}");
}

#[test]
fn nothing_of_a_group_is_put_in_place_when_its_sync_fails() {
    let (result, to, _place) = one_fault("sync_point", Cause::Io);
    let failure = result.unwrap_err();
    assert_eq!(failure.report.files, 0);
    assert!((0..6).all(|number| fs::read(to.join(format!("f{number}"))).unwrap() == OLD));
}

/// More than one early sync's worth, so that one may go on while the stage does.
const LARGE: usize = 200 << 20;

#[test]
fn an_error_of_a_sync_on_the_way_is_not_lost() {
    let place = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| place.path().join(name));
    fs::create_dir(&from).unwrap();
    fs::create_dir(&to).unwrap();
    fs::write(from.join("large"), vec![7; LARGE]).unwrap();
    let everywhere = PosixTree::everywhere().unwrap();
    let durable = StageOptions { durable: Some(true), ..StageOptions::default() };
    // The first sync fails, whether it is an early one or the last; those after it would succeed.
    let fail_first = |operation, from: &Path, to: &Path, what: fn(ListPair) -> What| {
        let faulty = Faulty { inner: &everywhere, plan: Plan::new(operation, 1, false, Cause::Io) };
        let result = stage_trees(&everywhere, &faulty, Direction::In, what(pair(from, to)), &durable);
        assert_eq!(faulty.plan.fired(), 1);
        result.expect_err("a sync failed")
    };
    fail_first("sync", &from.join("large"), &to.join("large"), What::File);
    assert_eq!(look(&to).len(), 1, "nothing is put in place, nothing is left");
    fail_first("sync_point", &from, &to, What::Directory);
}

#[test]
fn a_refused_attribute_is_a_warning_and_a_refused_link_a_copy() {
    let (result, ..) = one_fault("set_xattr", Cause::Unsupported);
    let report = result.unwrap();
    assert_eq!(report.warnings.len(), 1);
    assert!(report.warnings[0].path.ends_with("f2"));
    let (result, to, _place) = one_fault("link", Cause::TooManyLinks);
    assert_eq!(result.unwrap().warnings_total, 1);
    assert_eq!(fs::read(to.join("sub/hard")).unwrap(), fs::read(to.join("f1")).unwrap());
}

#[test]
fn a_tolerant_stage_goes_on_and_names_what_failed() {
    let (_place, from, to) = place();
    let everywhere = PosixTree::everywhere().unwrap();
    let faulty = Faulty { inner: &everywhere, plan: Plan::new("create", 2, false, Cause::AccessDenied) };
    let pair = ListPair { source: relative(&from), destination: relative(&to) };
    let options = StageOptions { tolerate_errors: true, ..StageOptions::default() };
    let report = stage_trees(&everywhere, &faulty, Direction::In, What::Directory(pair), &options).unwrap();
    assert_eq!(faulty.plan.fired(), 1);
    assert!(report.failures_total >= 1 && report.failures_total <= 2, "{report:?}");
    assert!(report.files >= 10, "{report:?}");
    assert!(matches!(report.failures[0].reason, Reason::TargetPermission { .. }));
}
