//! `docs/directives.md` says what the code does: its scripts are read without errors, it names every code with a
//! message that is really said, and every key, value, symbol and unit.

use forebay_directive::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn document() -> String {
    read("../../docs/directives.md")
}

/// Code and message of each row of the tables of messages.
fn rows() -> BTreeMap<String, String> {
    let document = document();
    let messages = document.split_once("## Messages").unwrap().1;
    let rows = messages
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" `` |")?.split_once("` | `` "));
    rows.map(|(code, message)| (code.to_string(), message.to_string())).collect()
}

#[test]
fn every_code_is_documented_and_no_other() {
    let codes: BTreeSet<String> = Code::ALL.iter().map(|code| code.name().to_string()).collect();
    assert_eq!(rows().into_keys().collect::<BTreeSet<_>>(), codes);
}

#[test]
fn the_documented_messages_are_said() {
    let limits = read("tests/limits.rs");
    let table = read("tests/refusals.txt");
    for (code, message) in rows() {
        let said = format!(": {message} [{code}]");
        // The warning of this kind has the words of the error.
        let known = table.contains(&said) || limits.contains(&said) || code == "more-warnings";
        assert!(known, "nothing says: {said}");
    }
}

#[test]
fn the_documented_scripts_are_understood() {
    let document = document();
    let scripts: Vec<&str> =
        document.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(scripts.len() >= 6, "{}", scripts.len());
    for script in scripts {
        let parsed = parse_script(script.as_bytes());
        assert_eq!((parsed.errors, parsed.warnings), (vec![], vec![]), "{script}");
        assert!(!parsed.directives.is_empty(), "{script}");
    }
}

#[test]
fn every_word_of_the_language_is_documented() {
    let document = document();
    let expected_keys = parse_script(
        b"#DW jobdw ?=1\n#DW stage_in ?=1\n#BB create_persistent ?=1\n#BB destroy_persistent ?=1\n",
    );
    let keys = expected_keys.errors.iter().filter(|error| error.code == Code::UnknownKey);
    let keys: BTreeSet<String> = keys
        .flat_map(|error| error.expected.split(' ').skip(2).map(str::to_string).collect::<Vec<_>>())
        .collect();
    assert_eq!(keys.len(), 19, "{keys:?}");
    for word in keys
        .iter()
        .map(String::as_str)
        .chain(SYMBOLS.split(' '))
        .chain(forebay_model::capacity::UNITS.split(' '))
    {
        assert!(document.contains(&format!("`{word}`")), "`{word}` is not documented");
    }
    for word in
        ["jobdw", "swap", "stage_in", "stage_out", "persistentdw", "create_persistent", "destroy_persistent"]
    {
        assert!(document.contains(&format!(" {word}`")), "{word} has no heading");
    }
}
