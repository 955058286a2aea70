//! The text of sbatch's `--bb="capacity=1G access=striped type=scratch"`.

use crate::command::Command;
use crate::diagnostic::{Code, Place, Report};
use crate::fields::{Fields, Value, Vocabulary};
use crate::lines::Form;
use crate::read::job;
use crate::script::{Parsed, parse};
use crate::symbols::LineSymbols;
use crate::types::{Directive, Located, Swap};
use crate::value::tell_bytes;
use crate::words::{Word, words};
use forebay_model::capacity::parse_bytes;
use forebay_model::units::Bytes;

const KEYS: Vocabulary =
    Vocabulary { keys: &["capacity", "access", "access_mode", "type", "pool", "swap"], flags: &[] };

/// Reads the text of `--bb`: keys of a `jobdw`, where access modes may be written `access=`, and `swap=<n>` in GiB; or
/// `#DW` lines as they stand in a script. Persistent instances can neither be made nor removed by it.
pub fn parse_bb_option(text: &str) -> Parsed {
    if text.trim_start().starts_with('#') {
        return literal(text.trim_start());
    }
    let mut report = Report::default();
    let mut directives = Vec::new();
    let first_line = text.as_bytes().split(|byte| *byte == b'\n').next().unwrap_or_default();
    if first_line.len() < text.trim_end().len() {
        let rest = &text.as_bytes()[first_line.len() + 1..];
        let place = Place { line: 2, column: 1 };
        report.add(Code::StrayWord, place, rest, "keys in one line, or lines that begin with #DW");
    }
    let words: Vec<Word> = words(1, first_line, 0).collect();
    if words.is_empty() {
        let expected = "capacity=<size> access=striped type=scratch";
        report.add(Code::MissingKey, Place { line: 1, column: 1 }, b"--bb", expected);
    }
    if !words.is_empty() {
        let subject = (Place { line: 1, column: 1 }, &b"--bb"[..]);
        let fields = Fields::read(subject, &words, KEYS, &mut LineSymbols::new(None), &mut report);
        directives.extend(from_fields(&fields, &mut report));
    }
    let (warnings, errors) = report.finish();
    let located = |value| Located { line: 1, column: 1, value };
    Parsed { directives: directives.into_iter().map(located).collect(), warnings, errors }
}

fn from_fields(fields: &Fields, report: &mut Report) -> Vec<Directive> {
    let swap_only = fields.mentions("swap")
        && !["capacity", "access", "access_mode", "type"].iter().any(|key| fields.mentions(key));
    let job = if swap_only { None } else { job(fields, &["access", "access_mode"], report) };
    let pool = job.as_ref().and_then(|job| job.pool.clone());
    let swap = fields.get("swap").and_then(|value| gibibytes(value, report));
    let pool = if swap_only { fields.get("pool").map(|value| value.lossy().into_owned()) } else { pool };
    let swap = swap.map(|per_node| Directive::Swap(Swap { per_node, pool }));
    job.map(Directive::JobDw).into_iter().chain(swap).collect()
}

/// A number of GiB without a unit, or a size with one.
fn gibibytes(value: &Value, report: &mut Report) -> Option<Bytes> {
    let text = value.lossy();
    let digits_only = text.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = if digits_only { parse_bytes(&format!("{text}GiB")) } else { parse_bytes(&text) };
    parsed.map_err(|error| tell_bytes(&error, value.start(), &text, report)).ok()
}

/// `#DW` lines given as they are.
fn literal(text: &str) -> Parsed {
    let mut parsed = parse(text.as_bytes(), Form::Directives, None);
    let mut report = Report::default();
    for located in &parsed.directives {
        let command = match located.value {
            Directive::CreatePersistent(_) => Command::CreatePersistent,
            Directive::DestroyPersistent(_) => Command::DestroyPersistent,
            _ => continue,
        };
        let place = Place { line: located.line, column: located.column };
        let expected = "#DW lines and keys of jobdw only";
        let suggestion = "write it into a job script or a file for --bbf";
        report.suggest(Code::NotAllowedHere, place, command.name().as_bytes(), expected, suggestion);
    }
    parsed.errors.extend(report.finish().1);
    parsed.errors.sort_by_key(|error| (error.line, error.column));
    parsed
}
