//! Doing something as another user: a program, or a closure in a forked child.
//!
//! Changing identity needs root. A closure runs in a forked child of a process that must have only one thread, which
//! is why the suites run in the command `forebay-suite` and not in a test harness.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Uid and gid of the non-root user of the suites: the kernel's overflow user, which exists everywhere and owns nothing.
pub const NOBODY: u32 = 65534;

/// A group the non-root user of the suites is a member of besides its own.
pub const EXTRA_GROUP: u32 = 60001;

/// Who does something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl Identity {
    /// The superuser.
    pub fn root() -> Identity {
        Identity { uid: 0, gid: 0, groups: vec![] }
    }

    /// The non-root user of the suites.
    pub fn nobody() -> Identity {
        Identity { uid: NOBODY, gid: NOBODY, groups: vec![NOBODY, EXTRA_GROUP] }
    }

    /// Some user with a group of the same number and no other.
    pub fn user(uid: u32) -> Identity {
        Identity { uid, gid: uid, groups: vec![] }
    }

    /// Makes `command` run with this identity.
    pub fn apply<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let identity = self.clone();
        // SAFETY: the closure only makes system calls and reads memory that was allocated before the fork.
        unsafe { command.pre_exec(move || identity.assume()) }
    }

    /// Turns this process into this identity, for good.
    ///
    /// Only for a process with one thread: the raw system calls change the calling thread alone.
    pub fn assume(&self) -> io::Result<()> {
        // SAFETY: plain system calls; the pointer and the length describe a live vector.
        let failed = unsafe {
            libc::syscall(libc::SYS_setgroups, self.groups.len(), self.groups.as_ptr()) != 0
                || libc::syscall(libc::SYS_setresgid, self.gid, self.gid, self.gid) != 0
                || libc::syscall(libc::SYS_setresuid, self.uid, self.uid, self.uid) != 0
        };
        if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process;
    use std::time::Duration;

    #[test]
    fn a_program_runs_as_the_user() {
        let mut command = Command::new("sh");
        command.args(["-c", "id -u; id -g; id -G"]);
        let finished = process::run(Identity::nobody().apply(&mut command), Duration::from_secs(60)).unwrap();
        assert_eq!(finished.output, "65534\n65534\n65534 60001\n");
    }
}
