//! Who holds a job: a process, named so that a later process with the same pid is not taken for it.
//!
//! A pid alone is reused within minutes on a busy machine and always after a reboot. The start time in
//! `/proc/<pid>/stat` counts clock ticks since boot, so the boot id belongs to the name as well.
//! Reads `/proc`; holds nothing; callable from any thread.

use serde::{Deserialize, Serialize};
use std::io;

/// One process, never confused with another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessId {
    /// Its pid.
    pub pid: u32,
    /// When it started, in clock ticks since the machine booted (field 22 of `/proc/<pid>/stat`).
    pub start_ticks: u64,
    /// Which boot that was (`/proc/sys/kernel/random/boot_id`).
    pub boot: u128,
}

impl ProcessId {
    /// The calling process.
    pub fn current() -> io::Result<ProcessId> {
        let pid = std::process::id();
        ProcessId::of(pid)?
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "/proc does not show this process"))
    }

    /// The process that has this pid now; `None` when there is none or when it is a zombie, which runs nothing.
    pub fn of(pid: u32) -> io::Result<Option<ProcessId>> {
        let Some(Stat { start_ticks, .. }) = living(pid)? else { return Ok(None) };
        Ok(Some(ProcessId { pid, start_ticks, boot: boot_id()? }))
    }

    /// Whether this very process still runs.
    pub fn is_alive(self) -> io::Result<bool> {
        Ok(ProcessId::of(self.pid)? == Some(self))
    }
}

/// The pids of a process group, without the zombies. The number of a group is given to no process while the group has one.
pub fn living_of_group(group: u32) -> io::Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        match living(pid) {
            Ok(Some(stat)) if u32::try_from(stat.group) == Ok(group) => found.push(pid),
            Ok(_) => {}
            // Of another user, where they are hidden.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// What is read of `/proc/<pid>/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    /// Field 3.
    state: u8,
    /// Field 5; 0 of a thread of the kernel, -1 of a process that is all but gone.
    group: i32,
    /// Field 22.
    start_ticks: u64,
}

/// What `/proc` says of a process; `None` when there is none or it is dead.
fn living(pid: u32) -> io::Result<Option<Stat>> {
    let line = match std::fs::read(format!("/proc/{pid}/stat")) {
        Ok(line) => line,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        // A process that ends between open and read answers ESRCH.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let stat = Stat::parse(&line).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat has an unknown form"))
    })?;
    Ok((!matches!(stat.state, b'Z' | b'X' | b'x')).then_some(stat))
}

impl Stat {
    /// The command's name is in parentheses and may itself hold blanks and parentheses, so the fields are counted from the
    /// last one: the state is the first behind it.
    fn parse(line: &[u8]) -> Option<Stat> {
        let close = line.iter().rposition(|&byte| byte == b')')?;
        let rest = std::str::from_utf8(&line[close + 1..]).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let group = fields.nth(1)?.parse().ok()?;
        let start_ticks = fields.nth(16)?.parse().ok()?;
        Some(Stat { state, group, start_ticks })
    }
}

fn boot_id() -> io::Result<u128> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    u128::from_str_radix(&text.trim().replace('-', ""), 16)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let stat = b"77 (a) S 1 (b) R 1 77 77 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 1 0 4242 1 2";
        assert_eq!(Stat::parse(stat), Some(Stat { state: b'R', group: 77, start_ticks: 4242 }));
        assert_eq!(Stat::parse(b"77 (cut) S 1 2"), None);
        assert_eq!(Stat::parse(b""), None);
    }

    #[test]
    fn this_process_lives_and_an_ended_child_does_not() {
        let me = ProcessId::current().unwrap();
        assert!(me.is_alive().unwrap());
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let named = ProcessId::of(child.id()).unwrap().unwrap();
        assert!(named.is_alive().unwrap());
        assert!(!ProcessId { start_ticks: named.start_ticks + 1, ..named }.is_alive().unwrap());
        assert!(!ProcessId { boot: named.boot ^ 1, ..named }.is_alive().unwrap());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!named.is_alive().unwrap());
    }
}
