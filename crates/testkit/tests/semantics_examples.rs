//! The examples of `docs/SEMANTICS.md`, each run on a mount.
//!
//! An example is a fenced block that opens with ```` ```sh ````; its number is in the line before the fence (`**S7** ...`)
//! or in the heading above. It runs under `bash -Eeuo pipefail` in a fresh directory, with an empty local directory in
//! `$LOCAL`, and must succeed. Numbers run from 1 without gaps, so that none is lost by a slip of the pen.

mod support;

use forebay_testkit::Identity;
use std::process::Command;
use support::ground::{Ground, Way};

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SEMANTICS.md");

/// The document has at least so many; fewer found means that they are not recognised any more.
const FEWEST: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Example {
    number: u32,
    line: usize,
    text: String,
}

/// All examples of a document, or what is wrong with it.
fn examples_in(document: &str) -> Result<Vec<Example>, String> {
    let mut examples: Vec<Example> = Vec::new();
    let (mut introduction, mut inside) = (None, None::<Example>);
    for (line, text) in (1..).zip(document.lines()) {
        match &mut inside {
            Some(_) if text.trim() == "```" => examples.extend(inside.take()),
            Some(example) => example.text += &format!("{text}\n"),
            None if text.trim() == "```sh" => {
                let number =
                    introduction.take().ok_or(format!("line {line}: an example without a number"))?;
                inside = Some(Example { number, line, text: String::new() });
            }
            None if text.trim().is_empty() => (),
            None => introduction = number_in(text),
        }
    }
    if let Some(example) = inside {
        return Err(format!("line {}: the example has no end", example.line));
    }
    for (expected, example) in (1..).zip(&examples) {
        if example.number != expected {
            return Err(format!("line {}: example S{}, expected S{expected}", example.line, example.number));
        }
    }
    Ok(examples)
}

/// The number after a capital S that begins a word, at most three digits.
fn number_in(text: &str) -> Option<u32> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    words.filter_map(|word| word.strip_prefix('S')).find_map(|digits| digits.parse().ok())
}

fn run_all(way: Way, server: Identity, eyes: Identity) {
    let document = std::fs::read_to_string(DOCUMENT).unwrap_or_else(|error| panic!("{DOCUMENT}: {error}"));
    let examples = examples_in(&document).unwrap_or_else(|error| panic!("docs/SEMANTICS.md: {error}"));
    assert!(examples.len() >= FEWEST, "only {} examples were found", examples.len());
    let ground = Ground::new(way, &server, &eyes);
    let failures: Vec<String> = examples.iter().filter_map(|example| run(&ground, example).err()).collect();
    assert!(
        failures.is_empty(),
        "{} of {} failed:\n{}",
        failures.len(),
        examples.len(),
        failures.join("\n\n")
    );
    ground.finish();
}

fn run(ground: &Ground, example: &Example) -> Result<(), String> {
    let name = format!("S{}", example.number);
    let script = format!(
        "set -Eeuo pipefail\ntrap 'echo \"failed: $BASH_COMMAND\" >&2' ERR\nmkdir \"$LOCAL\" \"$UNDER\"\n\
         cd \"$UNDER\"\n{}",
        example.text
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script, &name]).current_dir("/").env("LC_ALL", "C.UTF-8");
    command.env("UNDER", ground.under().join(&name)).env("LOCAL", ground.beside().join(&name));
    command.env("HOME", ground.beside());
    let place = format!("docs/SEMANTICS.md:{}: {name}", example.line);
    ground.run(&mut command).map(drop).map_err(|error| format!("{place}: {error}"))
}

#[test]
fn examples_are_recognised() {
    let document = "# Title\n\n**S1** first\n\n```sh\ntrue\ntest 1 = 1\n```\n\n```text\nno\n```\n## S2: x\n```sh\n:\n```\n";
    let example = |number, line, text: &str| Example { number, line, text: text.into() };
    assert_eq!(examples_in(document), Ok(vec![example(1, 5, "true\ntest 1 = 1\n"), example(2, 14, ":\n")]));
    assert!(examples_in("```sh\n:\n```\n").is_err());
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
