//! The users of a site. They exist in the box only.

use crate::Identity;
use std::path::Path;
use std::process::Command;

/// Somebody who works on the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// Login name.
    pub name: &'static str,
    /// Number; the primary group has the same.
    pub uid: u32,
    groups: &'static [u32],
}

/// A group of both users, `project`.
const PROJECT: u32 = 20010;

/// An ordinary user.
pub const ALICE: User = User { name: "alice", uid: 20001, groups: &[PROJECT] };

/// Another ordinary user.
pub const BOB: User = User { name: "bob", uid: 20002, groups: &[PROJECT] };

/// The superuser, who is an operator of Slurm.
pub const ROOT: User = User { name: "root", uid: 0, groups: &[] };

/// Those who have to be made.
pub(super) const USERS: [User; 2] = [ALICE, BOB];

impl User {
    /// For the kernel.
    pub fn identity(&self) -> Identity {
        Identity { uid: self.uid, gid: self.uid, groups: self.groups.to_vec() }
    }

    /// Makes `command` run as after a login: with this identity, a clean environment, at home.
    pub(super) fn become_in(&self, command: &mut Command, home: &Path, programs: &Path) {
        command
            .env_clear()
            .env("PATH", format!("{}:{PATH}", programs.display()))
            .env("HOME", home)
            .env("SHELL", "/bin/bash");
        command.env("USER", self.name).env("LOGNAME", self.name).env("LC_ALL", "C.UTF-8").current_dir(home);
        self.identity().apply(command);
    }
}

/// Search path of users and daemons.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// `/etc/passwd` of the site: the machine's and the users.
pub(super) fn passwd(machine: &str, homes: &Path) -> String {
    let own = USERS.map(|user| {
        let User { name, uid, .. } = user;
        format!("{name}:x:{uid}:{uid}:{name}:{}:/bin/bash\n", homes.join(name).display())
    });
    joined(machine, &own)
}

/// `/etc/group` of the site: the machine's and those of the users.
pub(super) fn group(machine: &str) -> String {
    let names = USERS.map(|user| user.name).join(",");
    let mut own = USERS.map(|user| format!("{}:x:{}:\n", user.name, user.uid)).to_vec();
    own.push(format!("project:x:{PROJECT}:{names}\n"));
    joined(machine, &own)
}

/// The machine's lines that name nobody of ours, then ours.
fn joined(machine: &str, own: &[String]) -> String {
    let name = |line: &str| line.split(':').next().map(str::to_owned);
    let ours: Vec<_> = own.iter().map(|line| name(line)).collect();
    let kept = machine.lines().filter(|line| !ours.contains(&name(line)));
    kept.map(|line| format!("{line}\n")).chain(own.iter().cloned()).collect()
}

/// Number and primary group of an account of the machine: packages make them for their daemons.
pub(super) fn of_machine(name: &str, passwd: &str) -> Option<Identity> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut numbers = line.split(':').skip(2).map(str::parse);
    let (uid, gid) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    Some(Identity { uid, gid, groups: vec![gid] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_added_to_the_machines_and_replace_their_namesakes() {
        let machine =
            "root:x:0:0:root:/root:/bin/bash\nalice:x:7:7::/home/alice:/bin/sh\nslurm:x:64030:64031::/:/x\n";
        let text = passwd(machine, Path::new("/pfs/home"));
        assert!(text.starts_with("root:x:0:0:root:/root:/bin/bash\nslurm:"), "{text}");
        assert!(text.contains("alice:x:20001:20001:alice:/pfs/home/alice:/bin/bash\n"), "{text}");
        assert_eq!(of_machine("slurm", &text).map(|slurm| (slurm.uid, slurm.gid)), Some((64030, 64031)));
        assert_eq!(of_machine("nobody-here", &text), None);
    }
}
