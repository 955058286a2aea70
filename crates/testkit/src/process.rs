//! Programs under control: they end with their owner, within a limit, and what they said is kept.
//!
//! Every program gets a process group of its own, and that whole group is killed, so that no grandchild survives.
//! Output goes to an unlinked file and not to a pipe: no reader is needed and no program blocks on a full one.

use crate::wait;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// A program could not be run, or failed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It did not start.
    #[error("{program} does not start: {source}")]
    Start {
        /// Which.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It ran longer than allowed and was killed.
    #[error("{command} was killed after {limit:?}; it said:\n{output}")]
    TooLong {
        /// With its arguments.
        command: String,
        /// The limit.
        limit: Duration,
        /// Standard output and error.
        output: String,
    },
    /// It ended with a failure.
    #[error("{command} ended with {status}; it said:\n{output}")]
    Failed {
        /// With its arguments.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// Standard output and error.
        output: String,
    },
}

/// A running program that does not outlive this value.
#[derive(Debug)]
pub struct ProcessGuard {
    child: Child,
}

impl ProcessGuard {
    /// Starts `command` in a process group of its own.
    pub fn start(command: &mut Command) -> Result<ProcessGuard, ProcessError> {
        match command.process_group(0).spawn() {
            Ok(child) => Ok(ProcessGuard { child }),
            Err(source) => {
                let program = command.get_program().to_string_lossy().into_owned();
                Err(ProcessError::Start { program, source })
            }
        }
    }

    /// Its process id, which is also the id of its group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends `signal` (`libc::SIGTERM`, ...) to the program alone, not to its group.
    pub fn signal(&self, signal: i32) {
        // SAFETY: plain system call. The child has not been waited for, so its id is not used by anybody else.
        unsafe { libc::kill(self.id().cast_signed(), signal) };
    }

    /// How it ended, if it did.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Awaits its end.
    pub fn ends_within(&mut self, limit: Duration) -> Option<ExitStatus> {
        let mut status = None;
        let _ = wait::wait_until("the end of a program", limit, || {
            status = self.ended();
            status.is_some()
        });
        status
    }

    fn kill_group(&mut self) {
        // SAFETY: plain system call. The group was made for this child; while the child is not reaped its id is ours.
        unsafe { libc::kill(-self.id().cast_signed(), libc::SIGKILL) };
        let _ = self.child.wait();
    }
}

impl Drop for ProcessGuard {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.kill_group();
        }
    }
}

/// A program that ended by itself.
#[derive(Debug)]
pub struct Finished {
    command: String,
    /// How.
    pub status: ExitStatus,
    /// Standard output and standard error, in the order they were written.
    pub output: String,
}

impl Finished {
    /// Itself, unless it failed.
    pub fn success(self) -> Result<Finished, ProcessError> {
        if self.status.success() {
            return Ok(self);
        }
        Err(ProcessError::Failed { command: self.command, status: self.status, output: self.output })
    }
}

/// Runs `command` to its end, at most for `limit`; its standard input is empty unless it was set.
pub fn run(command: &mut Command, limit: Duration) -> Result<Finished, ProcessError> {
    let name = format!("{command:?}");
    let start = |source| ProcessError::Start { program: name.clone(), source };
    let mut kept = tempfile::tempfile().map_err(start)?;
    let (output, errors) = (kept.try_clone().map_err(start)?, kept.try_clone().map_err(start)?);
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    let mut guard = ProcessGuard::start(command)?;
    let ended = guard.ends_within(limit);
    drop(guard);
    let output = all_of(&mut kept);
    match ended {
        Some(status) => Ok(Finished { command: name, status, output }),
        None => Err(ProcessError::TooLong { command: name, limit, output }),
    }
}

fn all_of(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    match read {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => format!("(its output cannot be read: {error})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_status_are_kept() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let finished = run(&mut command, Duration::from_secs(60)).unwrap();
        assert_eq!((finished.output.as_str(), finished.status.code()), ("out\nerr\n", Some(3)));
        assert!(matches!(finished.success(), Err(ProcessError::Failed { .. })));
    }

    #[test]
    fn a_program_that_runs_too_long_is_killed_with_its_children() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo $!; wait"]);
        let error = run(&mut command, Duration::from_millis(300)).unwrap_err();
        let ProcessError::TooLong { output, .. } = error else { panic!("{error}") };
        let child = format!("/proc/{}/exe", output.trim());
        let gone = || std::fs::read_link(&child).is_err();
        wait::wait_until("the end of the grandchild", Duration::from_secs(10), gone).unwrap();
    }
}
