//! The script's process: its end, and the end of what it left running. How it is started is in [`super::held`].
//!
//! The script runs in a process group of its own, with standard input from /dev/null as in a batch job (a shell keeps that of
//! forebay, and its group becomes the foreground group of a terminal). The group is what an interrupt ends and what is swept
//! after the script's own end: a background process that still wrote while results are staged out would make the
//! stage-out a matter of luck. Processes that left the group (setsid) are not hunted down; the unmount names them.

use rustix::process::{Pid, Signal, WaitOptions};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Time between SIGTERM and SIGKILL for an interrupted script, Slurm's default KillWait.
pub const KILL_WAIT: Duration = Duration::from_secs(30);

/// Time that processes left behind by the script get between SIGTERM and SIGKILL.
const LEFTOVER_WAIT: Duration = Duration::from_secs(2);

/// How often the end of a process group is looked for: there is no event for it.
const GROUP_POLL: Duration = Duration::from_millis(5);

/// Where a script reads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Nowhere, as a batch job.
    Nothing,
    /// What this process reads from: a pipe or a file.
    Inherited,
    /// The terminal that this process has, of which the script's group is the foreground group.
    Terminal,
}

/// What to run.
#[derive(Debug)]
pub struct ScriptCommand {
    /// The script or shell.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Working directory.
    pub directory: PathBuf,
    /// Variables added to the environment of this process.
    pub variables: Vec<(String, OsString)>,
    /// Its standard input.
    pub input: Input,
}

/// A running script.
#[derive(Debug)]
pub struct Script {
    child: Child,
    group: Pid,
    input: Input,
}

/// The process group of a script; may be used from the interrupt hook while the script is awaited elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct ScriptGroup(Pid);

impl ScriptCommand {
    /// As messages call it: a batch script is a copy with a name that its user never gave.
    pub fn shown(&self) -> String {
        match self.input {
            Input::Nothing => "the script".into(),
            Input::Inherited | Input::Terminal => format!("{:?}", self.program),
        }
    }
}

impl Script {
    /// The process of a script, which leads a group. Gives it the terminal where it has one.
    pub(super) fn new(child: Child, input: Input) -> Script {
        let group = Pid::from_child(&child);
        if input == Input::Terminal {
            give_terminal(group);
        }
        Script { child, group, input }
    }

    /// Its process id, which is its group's id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its group, for the interrupt hook.
    pub fn group(&self) -> ScriptGroup {
        ScriptGroup(self.group)
    }

    /// Waits for its end, then ends what it left running. Gives the script's status and whether something was left.
    pub fn wait(mut self) -> io::Result<(ExitStatus, bool)> {
        let status = self.child.wait();
        if self.input == Input::Terminal {
            give_terminal(rustix::process::getpgrp());
        }
        let swept = ScriptGroup(self.group).sweep(LEFTOVER_WAIT);
        Ok((status?, swept))
    }
}

impl ScriptGroup {
    /// The group of a script that an earlier run recorded; the caller has checked that the number was not reused.
    pub fn numbered(number: Pid) -> ScriptGroup {
        ScriptGroup(number)
    }

    /// Its number.
    pub fn number(self) -> u32 {
        self.0.as_raw_pid().unsigned_abs()
    }

    /// Asks the group to end, with SIGTERM as Slurm does, whatever signal forebay itself got: a shell that gets SIGINT
    /// while it starts a command may swallow it. A stopped group is woken to hear it.
    pub fn terminate(self) {
        // ESRCH: the group is gone already, which is what is wanted.
        let _ = rustix::process::kill_process_group(self.0, Signal::TERM);
        let _ = rustix::process::kill_process_group(self.0, Signal::CONT);
    }

    /// Ends it for good.
    pub fn kill(self) {
        let _ = rustix::process::kill_process_group(self.0, Signal::KILL);
    }

    /// Ends every process of the group, with SIGKILL after `wait`. True when there were any.
    pub fn sweep(self, wait: Duration) -> bool {
        if self.is_gone() {
            return false;
        }
        self.end(wait, || self.is_gone());
        true
    }

    /// Ends every process of the group, with SIGKILL after `wait`. Says whether it is gone in the end.
    pub fn end(self, wait: Duration, is_gone: impl Fn() -> bool) -> bool {
        self.terminate();
        if within(wait, &is_gone) {
            return true;
        }
        self.kill();
        within(LEFTOVER_WAIT, &is_gone)
    }

    fn is_gone(self) -> bool {
        // This process is the subreaper of what the script leaves: without the wait the dead would count as living.
        while let Ok(Some(_)) = rustix::process::waitpgid(self.0, WaitOptions::NOHANG) {}
        rustix::process::test_kill_process_group(self.0).is_err()
    }
}

fn within(limit: Duration, is_so: impl Fn() -> bool) -> bool {
    let end = Instant::now() + limit;
    while !is_so() {
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(GROUP_POLL);
    }
    true
}

/// Makes this process the one that orphans of the script are handed to, so that their ends can be awaited.
pub fn adopt_orphans() {
    // Without it only the end of left-over processes is seen later; nothing depends on it.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Makes `group` the foreground group of the terminal, if standard input is one.
fn give_terminal(group: Pid) {
    // A background process that changes the foreground group gets SIGTTOU, which would stop forebay itself.
    // SAFETY: ignoring a signal has no preconditions; the shell's own dispositions are reset at its exec.
    unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
    let _ = rustix::termios::tcsetpgrp(rustix::stdio::stdin(), group);
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGTTOU, libc::SIG_DFL) };
}

/// The status that a shell would report: the script's own, or 128 + the signal that ended it.
pub fn shell_status(status: ExitStatus) -> u8 {
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(255);
    u8::try_from(number & 0xff).unwrap_or(255)
}
