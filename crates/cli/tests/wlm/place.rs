//! A controller with agents in a directory of its own, and calls of the programs against it.

pub use crate::service::{GRANULE, await_it};
use std::ops::{Deref, DerefMut};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;

/// Uid of an ordinary user.
pub const ANN: u32 = 5001;
/// Uid of another one.
pub const BOB: u32 = 5002;
/// What users run.
const PROGRAMS: [&str; 3] =
    [env!("CARGO_BIN_EXE_dw_wlm_cli"), env!("CARGO_BIN_EXE_dwcli"), env!("CARGO_BIN_EXE_dwstat")];

/// The controller's own place for tests, and the programs.
pub struct Place {
    service: crate::service::Place,
    /// The directory of the programs that other users run, once one has.
    programs: OnceLock<PathBuf>,
}

impl Deref for Place {
    type Target = crate::service::Place;

    fn deref(&self) -> &Self::Target {
        &self.service
    }
}

impl DerefMut for Place {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.service
    }
}

/// What a call printed and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    pub status: i32,
    pub text: String,
}

impl Place {
    pub fn new() -> Place {
        Place::of(crate::service::Place::new())
    }

    /// One with more configuration.
    pub fn with(more: &str) -> Place {
        Place::of(crate::service::Place::with(more))
    }

    fn of(service: crate::service::Place) -> Place {
        Place { service, programs: OnceLock::new() }
    }

    /// One where users may make space by hand.
    pub fn for_everybody() -> Place {
        Place::with("space_by_hand = 'unlimited'")
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

    /// A program of ours as another user: the build directory may be closed to others, this place is not.
    pub fn command_of(&self, uid: u32, program: &str, line: &str) -> Command {
        let programs = self.programs.get_or_init(|| {
            let directory = self.path("programs");
            std::fs::create_dir(&directory).unwrap();
            // By a process of its own: a file that is open for writing cannot be run, and a child forked by another test at
            // this moment would inherit it.
            assert!(Command::new("cp").args(PROGRAMS).arg(&directory).status().unwrap().success());
            directory
        });
        let mut command = self.command(programs.join(program).to_str().unwrap(), line);
        command.uid(uid).gid(uid);
        command
    }

    /// `dwcli` as a user: status, standard output, standard error.
    pub fn dwcli(&self, uid: u32, line: &str) -> (i32, String, String) {
        parts(self.command_of(uid, "dwcli", line).output().unwrap())
    }

    /// `dwstat` as a user.
    pub fn dwstat(&self, uid: u32, line: &str) -> (i32, String, String) {
        parts(self.command_of(uid, "dwstat", line).output().unwrap())
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
