//! A forked child of a case: another process, and if wanted another user.
//!
//! The suite's process has one thread, so a fork copies everything that matters. The child reports its tally through a
//! pipe and ends without running the parent's destructors. A child is always waited for, and killed first if its
//! owner goes away early.

use super::check::{self, Tally};
use crate::identity::Identity;
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// One side of a conversation between a case and its child.
#[derive(Debug)]
pub(crate) struct Link {
    from_other: PipeReader,
    to_other: PipeWriter,
}

impl Link {
    /// Tells the other side to go on.
    pub(crate) fn tell(&mut self) {
        self.to_other.write_all(b".").expect("the other side is alive");
    }

    /// Awaits being told by the other side.
    ///
    /// # Panics
    /// If the other side has ended: the case cannot go on.
    pub(crate) fn listen(&mut self) {
        self.from_other.read_exact(&mut [0]).expect("the other side is alive");
    }
}

/// A running child.
#[derive(Debug)]
pub(crate) struct Child {
    pid: libc::pid_t,
    report: PipeReader,
    waited: bool,
    /// The parent's side of the conversation.
    pub(crate) link: Link,
}

/// Runs `work` in a child that is this user; what its checks found counts for the case.
#[track_caller]
pub(crate) fn as_user(identity: &Identity, work: impl FnOnce()) {
    let identity = identity.clone();
    let child = beside(move |_| {
        identity.assume().expect("only root can become somebody else");
        work();
    });
    child.finish();
}

/// Starts `work` in a child that runs beside the case.
pub(crate) fn beside(work: impl FnOnce(&mut Link)) -> Child {
    let (report, mut report_to) = pipe().expect("a pipe");
    let (from_parent, to_child) = pipe().expect("a pipe");
    let (from_child, to_parent) = pipe().expect("a pipe");
    // SAFETY: this process has one thread, so the child's copy of memory and locks is whole.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            drop((report, to_child, from_child));
            let mut link = Link { from_other: from_parent, to_other: to_parent };
            let tally = tally_of(|| work(&mut link));
            let sent = report_to.write_all(encode(&tally).as_bytes());
            // SAFETY: ends the child at once; its destructors are the parent's to run.
            unsafe { libc::_exit(i32::from(sent.is_err())) }
        }
        pid => {
            Child { pid, report, waited: false, link: Link { from_other: from_child, to_other: to_child } }
        }
    }
}

impl Child {
    /// It sleeps inside one of these system calls.
    pub(crate) fn is_inside(&self, calls: &[libc::c_long]) -> bool {
        let now = std::fs::read_to_string(format!("/proc/{}/syscall", self.pid)).unwrap_or_default();
        let number = now.split(' ').next().and_then(|word| word.parse().ok());
        number.is_some_and(|number| calls.contains(&number))
    }

    /// Awaits its end and counts what it found.
    #[track_caller]
    pub(crate) fn finish(mut self) {
        let mut text = String::new();
        self.report.read_to_string(&mut text).expect("the pipe is ours");
        let status = self.wait();
        check::add(decode(&text));
        check::same(status, 0);
    }

    /// Kills it with the signal nobody can catch and awaits its end; its tally is lost.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // SAFETY: plain system call; the child has not been waited for, so the id is its own.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        self.wait();
    }

    fn wait(&mut self) -> i32 {
        let mut status = 0;
        // SAFETY: the pointer is to a live integer; the child is ours and waited for once.
        while unsafe { libc::waitpid(self.pid, &raw mut status, 0) } == -1 {}
        self.waited = true;
        status
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.waited {
            self.end();
        }
    }
}

/// Runs `work` with a tally of its own; a panic becomes a failure in it.
pub(super) fn tally_of(work: impl FnOnce()) -> Tally {
    check::take();
    let panicked = catch_unwind(AssertUnwindSafe(work)).err();
    let mut tally = check::take();
    tally.failures.extend(panicked.map(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        text.or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_else(|| "a panic without words".into())
    }));
    tally
}

fn encode(tally: &Tally) -> String {
    let lines = tally.failures.iter().map(|line| line.replace('\n', " ") + "\n");
    format!("{}\n{}", tally.checks, lines.collect::<String>())
}

fn decode(text: &str) -> Tally {
    let mut lines = text.lines();
    match lines.next().and_then(|first| first.parse().ok()) {
        Some(checks) => Tally { checks, failures: lines.map(str::to_owned).collect() },
        None => Tally { checks: 0, failures: vec!["a child ended without a report".into()] },
    }
}
