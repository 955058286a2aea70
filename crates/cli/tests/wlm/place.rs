//! A controller with agents in a directory of its own, and calls of the programs against it.

use crate::agent::Agent;
use forebay_controller::client::{Address, Client};
use forebay_controller::service::{Config, Service};
use forebay_model::units::MIB;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub const GRANULE: u64 = 16 * MIB;
/// Uid of an ordinary user.
pub const ANN: u32 = 5001;
/// Uid of another one.
pub const BOB: u32 = 5002;
/// Nothing takes so long.
const DEADLINE: Duration = Duration::from_secs(60);

pub struct Place {
    directory: tempfile::TempDir,
    config: Config,
    service: Option<Service>,
}

/// What a call printed and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    pub status: i32,
    pub text: String,
}

impl Place {
    pub fn new() -> Place {
        let directory = tempfile::tempdir().unwrap();
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), mode).unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        let text = format!(
            "socket = '{}'\nstate = '{}'\nworkload_managers = [64030]\n[[pool]]\nname = 'wlm_pool'\ngranularity = '16MiB'\n",
            at("controller.sock"),
            at("state"),
        );
        let config = Config::parse(&text, Path::new("test")).unwrap();
        let mut place = Place { directory, config, service: None };
        place.start();
        place
    }

    pub fn start(&mut self) {
        self.service = Some(Service::start(&self.config).unwrap());
    }

    pub fn stop(&mut self) {
        self.service.take().unwrap().stop().unwrap();
    }

    pub fn client(&self) -> Client {
        Client::open(Address::Unix(self.config.socket.clone().unwrap()))
    }

    /// Storage nodes s1, s2, ... of four granules each and compute nodes c1, c2, ...
    pub fn agents(&self, storage: usize, compute: usize) -> Vec<Agent> {
        let storage = (1..=storage).map(|n| Agent::start(self.client(), format!("s{n}"), 4 * GRANULE));
        let compute = (1..=compute).map(|n| Agent::start(self.client(), format!("c{n}"), 0));
        let agents: Vec<Agent> = storage.chain(compute).collect();
        await_it("all agents are known", || {
            let nodes = self.client().snapshot().unwrap().nodes;
            nodes.iter().filter(|node| node.online).count() >= agents.len()
        });
        agents
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file and gives its path.
    pub fn file(&self, name: &str, text: &[u8]) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// A program as Slurm starts it: no standard input, one pipe for both streams.
    pub fn command(&self, program: &str, line: &str) -> Command {
        let mut command = Command::new(program);
        command
            .args(line.split_whitespace())
            .env("FOREBAY_CONTROLLER", self.client().address().to_string())
            .env("FOREBAY_LOG", self.path("log"))
            .env_remove("FOREBAY_STATE_DIR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn wlm_command(&self, line: &str) -> Command {
        self.command(env!("CARGO_BIN_EXE_dw_wlm_cli"), line)
    }

    /// `dw_wlm_cli --function ...`, which says nothing on standard error.
    pub fn wlm(&self, line: &str) -> Said {
        silent(self.wlm_command(&format!("--function {line}")).output().unwrap())
    }

    /// The same while it goes on.
    pub fn wlm_child(&self, line: &str) -> Running {
        Running(Some(self.wlm_command(&format!("--function {line}")).spawn().unwrap()))
    }

    /// `dwcli` as a user: status, standard output, standard error.
    pub fn dwcli(&self, uid: u32, line: &str) -> (i32, String, String) {
        let mut command = self.command(env!("CARGO_BIN_EXE_dwcli"), line);
        parts(command.uid(uid).gid(uid).output().unwrap())
    }

    /// `dwstat` as a user.
    pub fn dwstat(&self, uid: u32, line: &str) -> (i32, String, String) {
        let mut command = self.command(env!("CARGO_BIN_EXE_dwstat"), line);
        parts(command.uid(uid).gid(uid).output().unwrap())
    }

    pub fn free(&self) -> u64 {
        self.client().snapshot().unwrap().pools[0].free.0
    }
}

/// A call that goes on; killed if the test ends before it.
pub struct Running(Option<Child>);

impl Running {
    pub fn wait(mut self) -> Said {
        silent(self.0.take().unwrap().wait_with_output().unwrap())
    }

    pub fn kill(mut self) {
        let mut child = self.0.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub fn is_running(&mut self) -> bool {
        self.0.as_mut().unwrap().try_wait().unwrap().is_none()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn parts(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

fn silent(output: Output) -> Said {
    let (status, text, error) = parts(output);
    assert_eq!(error, "", "nothing may be said on standard error");
    assert!(status == 0 || (!text.contains('\n') && !text.is_empty()), "{text:?}");
    Said { status, text }
}

pub fn done() -> Said {
    Said { status: 0, text: String::new() }
}

/// A failure whose text has all these parts.
pub fn assert_failed(said: &Said, parts: &[&str]) {
    assert_eq!(said.status, 1, "{said:?}");
    for part in parts {
        assert!(said.text.contains(part), "{said:?} has no {part:?}");
    }
    assert!(said.text.starts_with(|c: char| c.is_ascii_alphabetic()), "{said:?}");
}

/// Waits for a condition.
pub fn await_it(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "it never happens that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
