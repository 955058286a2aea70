//! Who asks, with the supplementary groups that a kernel does not pass on.
//!
//! They are read from the process that asks and kept for a moment. A process whose user is not the one that asks (its
//! number was used again, or it has changed users) gives none: too few rights are better than somebody else's.

use forebay_wire::Caller;
use forebay_wire::message::{Credentials, GROUPS_MAX, Group};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// For how long groups are kept.
const KEPT: Duration = Duration::from_secs(1);
/// Processes kept at most.
const PROCESSES_MAX: usize = 1024;

struct Kept {
    since: Instant,
    groups: Vec<Group>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Groups {
    /// By process, user and group.
    kept: Mutex<HashMap<(u32, u32, u32), Kept>>,
}

impl Groups {
    /// The caller with his groups.
    pub(crate) fn of(&self, by: Caller) -> Credentials {
        let key = (by.pid, by.uid, by.gid);
        let now = Instant::now();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.get(&key)
            && now.duration_since(known.since) < KEPT
        {
            return credentials(by, known.groups.clone());
        }
        drop(kept);
        let groups = groups_of(by);
        kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= PROCESSES_MAX {
            kept.clear();
        }
        kept.insert(key, Kept { since: now, groups: groups.clone() });
        credentials(by, groups)
    }
}

fn credentials(by: Caller, groups: Vec<Group>) -> Credentials {
    Credentials { uid: by.uid, gid: by.gid, pid: by.pid, groups }
}

fn groups_of(by: Caller) -> Vec<Group> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", by.pid));
    status.ok().and_then(|status| parse(&status, by.uid)).unwrap_or_default()
}

/// The groups in a process's status, if its file system user is this one.
fn parse(status: &str, uid: u32) -> Option<Vec<Group>> {
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let fs_uid = line("Uid:")?.split_ascii_whitespace().nth(3)?.parse::<u32>().ok()?;
    if fs_uid != uid {
        return None;
    }
    let groups = line("Groups:")?.split_ascii_whitespace();
    groups.map(|group| group.parse().ok().map(Group)).take(GROUPS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tsh\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nGroups:\t10 20 \nNStgid:\t1\n";

    #[test]
    fn groups_are_those_of_the_user_who_asks() {
        assert_eq!(parse(STATUS, 4), Some(vec![Group(10), Group(20)]));
        assert_eq!(parse(STATUS, 1), None, "only the file system user counts");
        assert_eq!(parse("Uid:\t1\t1\t1\t1\nGroups:\t\n", 1), Some(vec![]));
        assert_eq!(parse("nonsense", 1), None);
    }

    #[test]
    fn our_own_groups_are_the_systems() {
        let uid = rustix::process::geteuid().as_raw();
        let by = Caller { uid, gid: 0, pid: std::process::id() };
        let own = rustix::process::getgroups().unwrap();
        let own: Vec<Group> = own.into_iter().map(|group| Group(group.as_raw())).collect();
        let groups = Groups::default();
        assert_eq!(groups.of(by).groups, own);
        assert_eq!(groups.of(Caller { pid: 0, ..by }).groups, []);
    }
}
