//! The examples of `docs/SEMANTICS.md` that need one mount, each run on mounts of every kind.

mod support;

use forebay_testkit::Identity;
use support::examples::{Example, all_succeed, examples_in, series};
use support::ground::{Ground, Way};

/// The document has at least so many.
const FEWEST: usize = 8;

fn run_all(way: Way, server: Identity, eyes: Identity) {
    let examples = series('S', FEWEST);
    let ground = Ground::new(way, &server, &eyes);
    all_succeed(&examples, |example| run(&ground, example));
    ground.finish();
}

fn run(ground: &Ground, example: &Example) -> Result<(), String> {
    let (under, local) = (ground.under().join(example.name()), ground.beside().join(example.name()));
    let mut command = example.command(&under, &local);
    command.env("HOME", ground.beside());
    ground.run(&mut command).map(drop).map_err(|error| format!("{}: {error}", example.place()))
}

#[test]
fn examples_are_recognised() {
    let document = "# Title\n\n**S1** first\n\n```sh\ntrue\ntest 1 = 1\n```\n\n```text\nno\n```\n## S2: x\n```sh\n:\n```\n";
    let example = |number, line, text: &str| Example { label: ('S', number), line, text: text.into() };
    assert_eq!(examples_in(document), Ok(vec![example(1, 5, "true\ntest 1 = 1\n"), example(2, 14, ":\n")]));
    assert!(examples_in("```sh\n:\n```\n").is_err());
    assert!(examples_in("M2\n```sh\n:\n```\n").is_err());
    assert!(examples_in("S1\n```sh\n:\n```\nM1\n```sh\n:\n```\n").is_ok());
    assert!(examples_in("S2\n```sh\n:\n```\n").is_err());
    assert!(examples_in("S1\n```sh\n:\n").is_err());
}

#[test]
fn striped_as_root() {
    run_all(Way::Striped, Identity::root(), Identity::root());
}

#[test]
fn striped_as_user() {
    run_all(Way::Striped, Identity::nobody(), Identity::nobody());
}

#[test]
fn inline_as_user() {
    run_all(Way::Inline, Identity::nobody(), Identity::nobody());
}

#[test]
fn passthrough_as_root() {
    run_all(Way::Passthrough, Identity::root(), Identity::root());
}
