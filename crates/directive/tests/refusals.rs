//! Every refusal and every warning with its exact message.
//!
//! `refusals.txt` is the table: a line `=== <form>`, the text that is read, a line `--- <title>`, and what is said
//! about it. `UPDATE_REFUSALS=1` writes the file anew with what is said now; the test fails all the same, so that
//! the difference is looked at.

use forebay_directive::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

struct Case {
    form: String,
    source: String,
    said: String,
}

fn table_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/refusals.txt")
}

fn cases() -> Vec<Case> {
    let table = std::fs::read_to_string(table_path()).unwrap();
    let blocks = table.split("=== ").skip(1);
    let case = |block: &str| {
        let (form, rest) = block.split_once('\n').unwrap();
        let (source, said) = rest.split_once("--- says\n").unwrap();
        let (form, source, said) = (form.to_string(), source.to_string(), said.trim_end().to_string());
        Case { form, source, said }
    };
    blocks.map(case).collect()
}

/// What is said about a case.
fn findings(case: &Case) -> Vec<Diagnostic> {
    let source = case.source.as_bytes();
    let targets = [InstanceRef::Job];
    let of_list = |list: StageList| (list.warnings, list.errors);
    let of_script = |parsed: Parsed| (parsed.warnings, parsed.errors);
    let (warnings, errors) = match case.form.as_str() {
        "script" => of_script(parse_script(source)),
        "dos script" => of_script(parse_script(case.source.replace('\n', "\r\n").as_bytes())),
        "marked script" => of_script(parse_script(format!("\u{feff}{}", case.source).as_bytes())),
        "nul script" => of_script(parse_script(case.source.replace("<NUL>", "\0").as_bytes())),
        "directives" => of_script(parse_lines(source)),
        "--bb" => of_script(parse_bb_option(case.source.trim_end())),
        "stage_in list" => of_list(parse_stage_list(source, Direction::In, &targets)),
        "stage_out list" => of_list(parse_stage_list(source, Direction::Out, &targets)),
        other => panic!("unknown form {other}"),
    };
    warnings.into_iter().chain(errors).collect()
}

fn say(case: &Case) -> String {
    let lines = findings(case).into_iter().map(|found| found.to_string());
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn every_message_is_as_in_the_table() {
    let cases = cases();
    if std::env::var_os("UPDATE_REFUSALS").is_some() {
        let table: String = cases
            .iter()
            .map(|case| format!("=== {}\n{}--- says\n{}\n\n", case.form, case.source, say(case)))
            .collect();
        std::fs::write(table_path(), table.trim_end().to_string() + "\n").unwrap();
        panic!("the table was written anew: look at the difference");
    }
    for case in &cases {
        assert_eq!(say(case), case.said, "about:\n{}", case.source);
    }
}

#[test]
fn every_code_is_in_the_table() {
    let said: BTreeSet<Code> = cases().iter().flat_map(findings).map(|found| found.code).collect();
    // These need a script too long for a table; `limits.rs` has them.
    let elsewhere = [Code::LineTooLong, Code::TooMany, Code::MoreWarnings];
    for code in Code::ALL {
        assert!(said.contains(code) || elsewhere.contains(code), "no case shows {code}");
    }
}

#[test]
fn no_sentence_is_empty_and_every_error_stops_the_script() {
    for case in cases() {
        let findings = findings(&case);
        assert!(!findings.is_empty(), "nothing is said about:\n{}", case.source);
        for found in findings {
            assert!(!found.expected.is_empty() && !found.code.title().is_empty(), "{found}");
            assert_eq!(found.severity, found.code.severity());
        }
    }
}
