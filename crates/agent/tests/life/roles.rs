//! Other processes of a test, all of them this program run again: see [`crate::role_program`].

use crate::role_program::{ARGUMENTS, script};
use crate::scene::{CONFIGURATION, INSTANCE, Scene};
use forebay_agent::Serving;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio, Termination};

/// An instance process's other words would be options of a test program.
pub const WORDS: (&str, &str) = ("$1 $2 $3 $4", "");
/// Line with which a role says how far it is.
const REACHED: &str = "reached ";

/// A program that does what `forebay` would do with the arguments of an instance process.
pub fn instance_program(root: &Path) -> PathBuf {
    script(root, &std::env::current_exe().unwrap(), WORDS)
}

/// The entry of all roles. As a test of its own it does nothing.
#[test]
#[ignore = "entry of the processes that other tests start"]
fn play() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else { return };
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let code = match words.as_slice() {
        ["instance-process", rest @ ..] => forebay_agent::process::main(rest.iter().map(OsString::from)),
        ["ordinary", root, part] => crate::ordinary::play(Path::new(root), part),
        ["steps", root, serving, last] => steps(Path::new(root), serving, last),
        other => panic!("unknown role {other:?}"),
    };
    assert_eq!(code.report(), ExitCode::SUCCESS.report());
}

/// Starts a role; its standard output tells how far it is.
pub fn start(scene: &Scene, words: &[&str]) -> Role {
    let program = instance_program(scene.root());
    let mut child =
        Command::new(program).args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    Role { child, lines }
}

/// A running role. Killed when dropped.
pub struct Role {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Role {
    /// Waits until the role has reached a step.
    pub fn wait_for(&mut self, step: &str) {
        let mut seen = String::new();
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "the role ended before {step}: {seen}");
            if line.contains(&format!("{REACHED}{step}\n")) {
                return;
            }
            seen.push_str(&line);
        }
    }

    /// Ends it as a crash would.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn reached(step: &str) {
    println!("{REACHED}{step}");
    std::io::stdout().flush().unwrap();
}

/// Takes an instance through its life until after the step `last`, and then waits to be killed.
fn steps(root: &Path, serving: &str, last: &str) -> ExitCode {
    let scene = Scene::visit(root);
    let agent = scene.agent();
    let stop = |step: &str| {
        reached(step);
        if step == last {
            // Ends by itself if the test has gone away.
            let _ = std::io::stdin().read_line(&mut String::new());
            panic!("nobody killed this process after {step}");
        }
    };
    agent.create_instance(&description(&scene, serving), Some(parse(serving))).unwrap();
    stop("create");
    let mut attachment = agent.attach(INSTANCE).unwrap();
    stop("attach");
    let mount = attachment.mount(CONFIGURATION).unwrap();
    stop("mount");
    std::fs::write(mount.join("data"), "written before the crash").unwrap();
    stop("write");
    attachment.unmount(CONFIGURATION).unwrap();
    stop("unmount");
    attachment.detach().unwrap();
    stop("detach");
    agent.destroy_instance(INSTANCE).unwrap();
    stop("destroy");
    ExitCode::SUCCESS
}

/// The ways of serving by a name that fits on a command line.
pub fn parse(serving: &str) -> Serving {
    match serving {
        "direct" => Serving::DirectXfs,
        "fuse" => Serving::Fuse { passthrough: false },
        "passthrough" => Serving::Fuse { passthrough: true },
        "plain" => Serving::PlainDirectory,
        other => panic!("unknown way {other}"),
    }
}

/// The instance that is used for a way.
pub fn description(scene: &Scene, serving: &str) -> forebay_agent::InstanceDescription {
    scene.description(if serving == "fuse" { 3 } else { 1 }, 40 << 20)
}
