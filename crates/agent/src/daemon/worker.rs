//! The processes that an agent starts: this program again, with a hidden subcommand.
//!
//! They are in sessions of their own and have nothing of the agent's environment. Each holds a lock as long as it lives
//! ([`crate::process::lifelock`]), by which a later agent finds it. Starting: the agent makes the process's directory - starts it -
//! waits until it says that it is ready, or has ended. A crash of the agent in between: the process goes on, and is found.

use super::error::TaskError;
use super::tail::Tail;
use super::{file_server, log_file, mounts, stage_worker};
use crate::error::AgentError;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The hidden subcommand.
pub const SUBCOMMAND: &str = "agent-worker";
/// What a process says when it is ready.
pub(super) const READY: &str = "ready";
/// Lines that it may say before.
const LINES_MAX: usize = 16;
/// How long a process may take until it is ready.
pub(super) const READY_WAIT: Duration = Duration::from_secs(60);

/// What a process does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    FileServer,
    Mount,
    Stage,
}

impl Role {
    fn word(self) -> &'static str {
        match self {
            Role::FileServer => "file-server",
            Role::Mount => "mount",
            Role::Stage => "stage",
        }
    }

    /// For messages.
    pub fn title(self) -> &'static str {
        match self {
            Role::FileServer => "the file server",
            Role::Mount => "the process of the mount",
            Role::Stage => "the process of the staging",
        }
    }
}

/// Runs a process. `arguments` are those after the subcommand.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let [role, directory] = arguments.as_slice() else { return usage() };
    let directory = Path::new(directory);
    let done = match role.to_str() {
        Some("file-server") => file_server::run(directory),
        Some("mount") => mounts::run(directory),
        Some("stage") => stage_worker::run(directory),
        _ => return usage(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(format_args!("{error}"));
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    note(format_args!("usage: {SUBCOMMAND} ROLE DIRECTORY: started by the agent only"));
    ExitCode::from(64)
}

/// Writes a line to the log, which is standard error. On a full disk it is lost, and nothing else.
pub(super) fn note(line: std::fmt::Arguments<'_>) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Says that the process is ready. Whoever started it may be gone.
pub(super) fn say_ready() {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{READY}");
    let _ = out.flush();
}

/// Starts a process and waits until it is ready.
pub(super) fn start(program: &Path, role: Role, directory: &Path, log: &Path) -> Result<(), TaskError> {
    let mark = Tail::mark(log);
    let mut child = command(program, role, directory, log)?
        .spawn()
        .map_err(|error| AgentError::system("start", program, error))?;
    let out = child.stdout.take();
    let (sender, ready) = channel();
    let wait = move || {
        // An end of the pipe is an end of the process, or near enough.
        let mut lines = out.map(|out| BufReader::new(out).lines().take(LINES_MAX)).into_iter().flatten();
        let _ = sender.send(lines.any(|line| line.is_ok_and(|line| line.ends_with(READY))));
        drop(lines);
        reap(child);
    };
    let thread = std::thread::Builder::new().name("worker".into()).stack_size(128 << 10).spawn(wait);
    thread.map_err(|error| AgentError::system("start a thread for", program, error))?;
    match ready.recv_timeout(READY_WAIT) {
        Ok(true) => Ok(()),
        Ok(false) | Err(RecvTimeoutError::Disconnected) => {
            Err(TaskError::Ended { what: role.title().into(), said: Tail::since(log, mark) })
        }
        Err(RecvTimeoutError::Timeout) => Err(TaskError::Silent {
            what: role.title().into(),
            waited: READY_WAIT,
            said: Tail::since(log, mark),
        }),
    }
}

/// Waits for the end, so that no zombie is left in an agent that lives longer.
fn reap(mut child: Child) {
    let _ = child.wait();
}

fn command(program: &Path, role: Role, directory: &Path, log: &Path) -> Result<Command, AgentError> {
    let said = log_file::open(log).map_err(|error| AgentError::system("open", log, error))?;
    let mut command = Command::new(program);
    command.arg(SUBCOMMAND).arg(role.word()).arg(directory);
    // Nothing of the agent's environment reaches it; programs it runs come from the system.
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(said).current_dir("/");
    // SAFETY: setsid is async-signal-safe, and nothing else runs between fork and exec.
    unsafe {
        command.pre_exec(|| rustix::process::setsid().map(drop).map_err(std::io::Error::from));
    }
    Ok(command)
}

/// The program that is run again: this one.
pub(super) fn own_program() -> Result<PathBuf, AgentError> {
    let own = std::env::current_exe();
    let own = own.map_err(|error| AgentError::system("find", "/proc/self/exe", error))?;
    // After an update the new one stands where this one was.
    Ok(match own.to_str().and_then(|path| path.strip_suffix(" (deleted)")) {
        Some(path) => path.into(),
        None => own,
    })
}
