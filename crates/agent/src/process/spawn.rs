//! Starting the instance process.
//!
//! Order of events: the starter listens on the socket - starts the program with the socket as its standard input - says
//! hello. The connection waits in the socket until the process takes it; if the process dies before, the socket
//! closes with it and the hello fails. Crash of the starter in between: the process finds no connection and ends.

use super::connection::Connection;
use super::socket;
use crate::error::AgentError;
use crate::state_directory::StateDirectory;
use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The hidden subcommand.
pub(crate) const SUBCOMMAND: &str = "instance-process";
/// Its option.
pub(crate) const OPTION: &str = "--directory";

/// Starts the process and opens the first connection to it. The caller holds the gate and knows that none lives.
pub(crate) fn start(state: &StateDirectory, program: Option<&Path>) -> Result<Connection, AgentError> {
    let listener = socket::listen(state)?;
    let program = match program {
        Some(program) => program.to_owned(),
        None => {
            std::env::current_exe().map_err(|error| AgentError::system("find", "/proc/self/exe", error))?
        }
    };
    let child = command(state, &program, listener.into())?
        .spawn()
        .map_err(|error| AgentError::system("start", &program, error))?;
    reap(child);
    Connection::open(state)
}

fn command(state: &StateDirectory, program: &PathBuf, listener: OwnedFd) -> Result<Command, AgentError> {
    let log = state.log();
    let said = OpenOptions::new().append(true).create(true).mode(0o600).open(&log);
    let said = said.map_err(|error| AgentError::system("open", &log, error))?;
    let again = said.try_clone().map_err(|error| AgentError::system("open", &log, error))?;
    let mut command = Command::new(program);
    command.arg(SUBCOMMAND).arg(OPTION).arg(state.path());
    // Nothing of the job's environment reaches it; programs it runs (fusermount3) come from the system.
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C");
    command.stdin(Stdio::from(listener)).stdout(said).stderr(again).current_dir("/");
    // SAFETY: setsid is async-signal-safe, and nothing else runs between fork and exec.
    unsafe {
        command.pre_exec(|| rustix::process::setsid().map(drop).map_err(std::io::Error::from));
    }
    Ok(command)
}

/// Waits for the process's end in the background, so that it leaves no zombie in a starter that lives longer.
fn reap(mut child: std::process::Child) {
    let wait = move || {
        let _ = child.wait();
    };
    // Without a thread the zombie is the starter's until it ends: harmless.
    let _ = std::thread::Builder::new().name("reap-instance".into()).stack_size(64 << 10).spawn(wait);
}
