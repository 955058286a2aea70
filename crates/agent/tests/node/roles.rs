//! Other processes of a test, all of them this program run again: see [`crate::role_program`].

use crate::role_program::{ARGUMENTS, script};
use crate::scene::Scene;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio, Termination};

/// A program that does what `forebay` would do with the arguments of an agent's process.
pub fn program(root: &Path) -> PathBuf {
    script(root, &std::env::current_exe().unwrap(), ("$*", "\"$@\""))
}

/// The entry of all roles. As a test of its own it does nothing.
#[test]
#[ignore = "entry of the processes that other tests start"]
fn play() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else { return };
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let code = match words.as_slice() {
        ["agent-worker", rest @ ..] => {
            let code = forebay_agent::daemon::worker::main(rest.iter().map(OsString::from));
            // A failed test would say more than the process did.
            std::process::exit(i32::from(code.report() != ExitCode::SUCCESS.report()));
        }
        ["cycle", root] => {
            crate::crash::cycle(&Scene::visit(Path::new(root)));
            ExitCode::SUCCESS
        }
        ["agent", root, number] => {
            crate::controlled::play_agent(&Scene::visit(Path::new(root)), number.parse().unwrap());
            ExitCode::SUCCESS
        }
        ["silent-mount", point, source] => crate::stuck::play(point, source),
        other => panic!("unknown role {other:?}"),
    };
    assert_eq!(code.report(), ExitCode::SUCCESS.report());
}

/// Starts a role.
pub fn start(root: &Path, words: &[&str]) -> Child {
    let mut command = Command::new(program(root));
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

const LOG: &str = "agents.log";

/// What the roles have said whose words go to a file.
pub fn log(root: &Path) -> String {
    std::fs::read_to_string(root.join(LOG)).unwrap_or_default()
}

/// Starts a role whose words go to a file.
pub fn start_silently(root: &Path, words: &[&str]) -> Child {
    let log = std::fs::OpenOptions::new().append(true).create(true).open(root.join(LOG)).unwrap();
    let mut command = Command::new(program(root));
    command.args(words).stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
    command.spawn().unwrap()
}

/// What a role that has ended said.
pub fn words_of(child: &mut Child) -> String {
    let mut text = String::new();
    let _ = child.stdout.take().map(|mut out| out.read_to_string(&mut text));
    let _ = child.stderr.take().map(|mut out| out.read_to_string(&mut text));
    text
}
