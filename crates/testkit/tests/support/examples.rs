//! The examples of `docs/SEMANTICS.md`.
//!
//! An example is a fenced block that opens with ```` ```sh ````; its label is in the line before the fence (`**S7** ...`) or
//! in the heading above. The letter of the label is its series: `S` runs on one mount, `M` on two mounts of one namespace, `C` on two that cache.
//! The numbers of a series run from 1 without gaps, so that none is lost by a slip of the pen.
#![allow(dead_code)] // Each test program runs its own series.

use std::path::Path;
use std::process::Command;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SEMANTICS.md");

/// The series that exist.
const SERIES: [char; 3] = ['S', 'M', 'C'];

/// Letter and number of an example.
pub type Label = (char, u32);

/// One example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    pub label: Label,
    pub line: usize,
    pub text: String,
}

impl Example {
    /// `S7`
    pub fn name(&self) -> String {
        format!("{}{}", self.label.0, self.label.1)
    }

    /// Where it stands.
    pub fn place(&self) -> String {
        format!("docs/SEMANTICS.md:{}: {}", self.line, self.name())
    }

    /// A shell that runs it in the directory `$UNDER`, which it makes, with an empty local directory `$LOCAL`. Only some
    /// of the environment is set: the caller sets the rest.
    pub fn command(&self, under: &Path, local: &Path) -> Command {
        let script = format!(
            "set -Eeuo pipefail\ntrap 'echo \"failed: $BASH_COMMAND\" >&2' ERR\nmkdir \"$LOCAL\" \"$UNDER\"\n\
             cd \"$UNDER\"\n{}",
            self.text
        );
        let mut command = Command::new("bash");
        command.args(["-c", &script, &self.name()]).current_dir("/").env("LC_ALL", "C.UTF-8");
        command.env("UNDER", under).env("LOCAL", local);
        command
    }
}

/// All examples of a series of the document, which has at least `fewest`: fewer mean that they are not recognised any more.
pub fn series(series: char, fewest: usize) -> Vec<Example> {
    let document = std::fs::read_to_string(DOCUMENT).unwrap_or_else(|error| panic!("{DOCUMENT}: {error}"));
    let mut examples = examples_in(&document).unwrap_or_else(|error| panic!("docs/SEMANTICS.md: {error}"));
    examples.retain(|example| example.label.0 == series);
    assert!(examples.len() >= fewest, "only {} examples {series} were found", examples.len());
    examples
}

/// Runs examples, which must all succeed.
pub fn all_succeed(examples: &[Example], run: impl Fn(&Example) -> Result<(), String>) {
    let failures: Vec<String> = examples.iter().filter_map(|example| run(example).err()).collect();
    assert!(
        failures.is_empty(),
        "{} of {} failed:\n{}",
        failures.len(),
        examples.len(),
        failures.join("\n\n")
    );
}

/// All examples of a document, or what is wrong with it.
pub fn examples_in(document: &str) -> Result<Vec<Example>, String> {
    let mut examples: Vec<Example> = Vec::new();
    let (mut introduction, mut inside) = (None, None::<Example>);
    for (line, text) in (1..).zip(document.lines()) {
        match &mut inside {
            Some(_) if text.trim() == "```" => examples.extend(inside.take()),
            Some(example) => example.text += &format!("{text}\n"),
            None if text.trim() == "```sh" => {
                let label = introduction.take().ok_or(format!("line {line}: an example without a number"))?;
                inside = Some(Example { label, line, text: String::new() });
            }
            None if text.trim().is_empty() => (),
            None => introduction = label_in(text),
        }
    }
    if let Some(example) = inside {
        return Err(format!("line {}: the example has no end", example.line));
    }
    SERIES.into_iter().try_for_each(|series| numbered_without_gaps(&examples, series))?;
    Ok(examples)
}

fn numbered_without_gaps(examples: &[Example], series: char) -> Result<(), String> {
    for (expected, example) in (1..).zip(examples.iter().filter(|example| example.label.0 == series)) {
        if example.label.1 != expected {
            return Err(format!("line {}: {}, expected {series}{expected}", example.line, example.name()));
        }
    }
    Ok(())
}

/// A letter of a series that begins a word, and the number after it.
fn label_in(text: &str) -> Option<Label> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let label = |word: &str| {
        SERIES.into_iter().find_map(|letter| Some((letter, word.strip_prefix(letter)?.parse().ok()?)))
    };
    words.filter_map(label).next()
}
