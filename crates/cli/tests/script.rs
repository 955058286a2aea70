//! The script's process: held until its word comes, awaited, ended with all of its group.

use forebay_cli::job::held::Held;
use forebay_cli::job::script::{Input, Script, ScriptCommand, adopt_orphans, shell_status};
use rustix::process::Pid;
use std::io;
use std::path::Path;

fn command(program: &str, arguments: &[&str]) -> ScriptCommand {
    ScriptCommand {
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        directory: "/".into(),
        variables: vec![("GIVEN".into(), "yes".into())],
        input: Input::Nothing,
    }
}

fn hold(command: &ScriptCommand) -> io::Result<Held> {
    adopt_orphans();
    command.hold(Path::new(env!("CARGO_BIN_EXE_forebay")))
}

fn held(text: &str) -> Held {
    hold(&command("/bin/sh", &["-c", text])).unwrap()
}

fn begun(text: &str) -> Script {
    held(text).begin().unwrap()
}

fn has_processes(group: u32) -> bool {
    let group = Pid::from_raw(group.cast_signed()).unwrap();
    rustix::process::test_kill_process_group(group).is_ok()
}

#[test]
fn the_status_is_the_scripts_own() {
    let (status, swept) = begun("test \"$GIVEN\" = yes && exit 7").wait().unwrap();
    assert_eq!((shell_status(status), swept), (7, false));
    let (status, _) = begun("kill -9 $$").wait().unwrap();
    assert_eq!(shell_status(status), 137);
}

#[test]
fn what_the_script_leaves_running_is_ended() {
    let script = begun("sleep 1000 & exit 0");
    let group = script.pid();
    let (status, swept) = script.wait().unwrap();
    assert_eq!((shell_status(status), swept), (0, true));
    assert!(!has_processes(group));
}

#[test]
fn an_interrupt_ends_the_whole_group() {
    let script = begun("sleep 1000; sleep 1000");
    script.group().terminate();
    let (status, _) = script.wait().unwrap();
    assert_eq!(shell_status(status), 143);
}

#[test]
fn an_interrupt_before_the_word_ends_it_too() {
    let place = tempfile::tempdir().unwrap();
    let ran = place.path().join("ran");
    let held = held(&format!("touch {}", ran.display()));
    held.group().terminate();
    let (status, _) = held.begin().unwrap().wait().unwrap();
    assert_eq!((shell_status(status), ran.exists()), (143, false));
}

#[test]
fn without_the_word_nothing_runs_and_nothing_is_left() {
    let place = tempfile::tempdir().unwrap();
    let ran = place.path().join("ran");
    let held = held(&format!("touch {}", ran.display()));
    let group = held.pid();
    held.forgo();
    assert!(!ran.exists() && !has_processes(group));
}

#[test]
fn the_script_is_the_process_that_was_held_and_has_nothing_of_it() {
    let place = tempfile::tempdir().unwrap();
    let said = place.path().join("said");
    let held = held(&format!("exec > {}; echo $$; readlink /proc/$$/fd/*", said.display()));
    let pid = held.pid();
    held.begin().unwrap().wait().unwrap();
    let said = std::fs::read_to_string(said).unwrap();
    assert_eq!(said.lines().next(), Some(pid.to_string().as_str()));
    assert!(!said.contains("socket:"), "{said}");
}

#[test]
fn every_argument_is_the_scripts() {
    let place = tempfile::tempdir().unwrap();
    let said = place.path().join("said");
    let print = format!("printf '%s\\n' \"$@\" > {}", said.display());
    let given = ["--", "--help", "-c", "", "--state-dir", "a b", "--"];
    let all: Vec<&str> = ["-c", &print, "name"].into_iter().chain(given).collect();
    hold(&command("/bin/sh", &all)).unwrap().begin().unwrap().wait().unwrap();
    let said = std::fs::read_to_string(said).unwrap();
    assert_eq!(said.lines().collect::<Vec<_>>(), given);
}

#[test]
fn a_program_that_cannot_be_started_is_an_error() {
    let missing = hold(&command("/no/such/program", &[])).unwrap().begin().unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    let directory = hold(&command("/tmp", &[])).unwrap().begin().unwrap_err();
    assert_eq!(directory.kind(), io::ErrorKind::PermissionDenied);
}
