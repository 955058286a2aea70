//! The script of a job whose forebay was killed: it may still run, or only what it started, and either may write.
//!
//! What is written down is the script's process, which leads its group. While it lives, the group is its. When it has
//! ended, the number alone says nothing for certain: it is given to nobody while processes of the group live, but may have been free in
//! between, and have led another group. So one of the group has to be of the job: the script has its job's mark in the
//! environment, and what it starts inherits it. A group of which nobody has the mark is left alone. A process of the script that is in
//! another group, or a group of which all have an environment of their own, is not found; the unmount names who uses the mount.
//!
//! Reads `/proc` and sends signals; changes nothing else. A crash in the middle leaves the group to the next recovery.

use super::script::ScriptGroup;
use crate::state_dir::STATE_DIR_VARIABLE;
use forebay_controller::process::{ProcessId, living_of_group};
use rustix::process::Pid;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// The variable that says whose script a process is of: the job's token.
const JOB_VARIABLE: &str = "FOREBAY_JOB";

/// The variables that all processes of a job's script have: which job, of which state directory.
pub fn mark(token: &str, state: &Path) -> [(String, OsString); 2] {
    [(JOB_VARIABLE.into(), token.into()), (STATE_DIR_VARIABLE.into(), state.into())]
}

/// What is left of a script.
#[derive(Debug)]
pub struct Forsaken {
    group: ScriptGroup,
    /// The script itself still runs.
    pub leads: bool,
}

impl Forsaken {
    /// What still runs of the script whose process was `leader`; `None` when nothing does.
    pub fn find(leader: ProcessId, mark: &[(String, OsString)]) -> io::Result<Option<Forsaken>> {
        let Some(group) = i32::try_from(leader.pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        let now = ProcessId::of(leader.pid)?;
        let is_ours = match now {
            Some(process) => process == leader,
            None => living_of_group(leader.pid)?.into_iter().any(|pid| has(pid, mark)),
        };
        let leads = now.is_some();
        Ok(is_ours.then_some(Forsaken { group: ScriptGroup::numbered(group), leads }))
    }

    /// Ends all of it, with SIGKILL after `wait`. `false`: something still runs.
    pub fn end(&self, wait: Duration) -> bool {
        // Who is dead and not awaited by its parent runs nothing. What cannot be looked at counts as living.
        self.group.end(wait, || living_of_group(self.group.number()).is_ok_and(|left| left.is_empty()))
    }
}

/// A process has all these in its environment. Of another user's it cannot be known.
fn has(pid: u32, mark: &[(String, OsString)]) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let all: Vec<&[u8]> = environment.split(|byte| *byte == 0).collect();
    mark.iter()
        .all(|(name, value)| all.contains(&[name.as_bytes(), b"=", value.as_bytes()].concat().as_slice()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    /// A script that has started a process in its group and waits for a line.
    struct Started {
        script: Child,
        leader: ProcessId,
        straggler: ProcessId,
    }

    impl Started {
        fn with(mark: &[(String, OsString)]) -> Started {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", "sleep 1000 >/dev/null & echo $!; read line; exit 0"]);
            command.envs(mark.iter().cloned()).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
            let mut script = command.spawn().unwrap();
            let mut pid = String::new();
            BufReader::new(script.stdout.take().unwrap()).read_line(&mut pid).unwrap();
            let process = |pid| ProcessId::of(pid).unwrap().expect("it runs");
            let (leader, straggler) = (process(script.id()), process(pid.trim().parse().unwrap()));
            Started { script, leader, straggler }
        }

        fn script_ends(&mut self) {
            drop(self.script.stdin.take());
            self.script.wait().unwrap();
        }
    }

    impl Drop for Started {
        fn drop(&mut self) {
            let _ = rustix::process::kill_process_group(
                Pid::from_child(&self.script),
                rustix::process::Signal::KILL,
            );
            let _ = self.script.wait();
        }
    }

    fn own() -> [(String, OsString); 2] {
        mark("100001", Path::new("/state"))
    }

    #[test]
    fn a_script_that_runs_is_ended_with_what_it_started() {
        let mut started = Started::with(&[]);
        let found = Forsaken::find(started.leader, &own()).unwrap().expect("it runs");
        assert!(found.leads);
        // The test is its parent, and has to take notice of its end.
        std::thread::scope(|scope| {
            scope.spawn(|| started.script.wait().unwrap());
            assert!(found.end(Duration::from_secs(60)));
        });
        assert!(!started.straggler.is_alive().unwrap());
    }

    #[test]
    fn what_a_script_left_is_ended() {
        let mut started = Started::with(&own());
        started.script_ends();
        let found = Forsaken::find(started.leader, &own()).unwrap().expect("something of it runs");
        assert!(!found.leads);
        assert!(found.end(Duration::from_secs(60)));
        assert!(!started.straggler.is_alive().unwrap());
        assert!(Forsaken::find(started.leader, &own()).unwrap().is_none());
    }

    #[test]
    fn a_group_of_somebody_else_is_left_alone() {
        for other in [mark("100002", Path::new("/state")), mark("100001", Path::new("/elsewhere"))] {
            let mut started = Started::with(&other);
            let earlier = ProcessId { start_ticks: started.leader.start_ticks - 1, ..started.leader };
            assert!(Forsaken::find(earlier, &own()).unwrap().is_none(), "its number is another process's");
            started.script_ends();
            assert!(Forsaken::find(earlier, &own()).unwrap().is_none(), "its group is another job's");
            assert!(started.straggler.is_alive().unwrap());
        }
    }
}
