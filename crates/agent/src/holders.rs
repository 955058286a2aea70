//! Who keeps a mount busy.
//!
//! Looks at the links below `/proc/<pid>` (working directory, root, program, open files, mapped files) and at the mount
//! table only, never at the mount itself, which may be dead. For a message: the answer is a snapshot and bounded, and
//! says what could not be looked at. Processes of other users are open to root alone.

use crate::mount_table;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Most processes and mounts named.
const NAMED: usize = 32;
/// Time after which the search ends with what it has found.
const TIME_LIMIT: Duration = Duration::from_millis(500);

/// What was seen to keep a mount busy, and how far one could see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holders {
    /// Ids of processes with something of it open.
    pub processes: Vec<u32>,
    /// Other mounts on its directories.
    pub mounts: Vec<PathBuf>,
    /// Processes that the user may not look at.
    pub hidden: usize,
    /// Time was up before all processes were looked at.
    pub cut_short: bool,
}

impl Holders {
    /// What is open at or below `point`, which is a path without symbolic links.
    pub(crate) fn of_mount(point: &Path) -> Holders {
        let mut holders = Holders { mounts: mounts_on(point), ..Holders::default() };
        let begin = Instant::now();
        for pid in processes() {
            if holders.processes.len() == NAMED {
                break;
            }
            if begin.elapsed() >= TIME_LIMIT {
                holders.cut_short = true;
                break;
            }
            match look(pid, point) {
                Look::Holds => holders.processes.push(pid),
                Look::Hidden => holders.hidden += 1,
                Look::Free => {}
            }
        }
        holders
    }

    /// Both together.
    pub(crate) fn and(mut self, other: Holders) -> Holders {
        self.processes.extend(other.processes);
        self.processes.sort_unstable();
        self.processes.dedup();
        self.mounts.extend(other.mounts);
        self.hidden = self.hidden.max(other.hidden);
        self.cut_short |= other.cut_short;
        self
    }
}

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |names: Vec<String>| names.join(", ");
        let processes = join(self.processes.iter().map(u32::to_string).collect());
        let mounts = join(self.mounts.iter().map(|mount| format!("{mount:?}")).collect());
        match (self.processes.len(), self.mounts.len()) {
            (0, 0) => f.write_str(&self.nobody()),
            (0, _) => write!(f, "mounts on it: {mounts}"),
            (1, 0) => write!(f, "process {processes}"),
            (_, 0) => write!(f, "processes {processes}"),
            _ => write!(f, "processes {processes}, and mounts on it: {mounts}"),
        }
    }
}

impl Holders {
    /// Why there is nobody to name.
    fn nobody(&self) -> String {
        if self.cut_short {
            return format!("by whom was not found out within {} ms", TIME_LIMIT.as_millis());
        }
        match self.hidden {
            0 => "by whom could not be seen: it ended at that moment, another mount namespace (a container) has a copy, or the kernel itself uses it (a loop device, a swap file)".into(),
            1 => "by whom could not be seen: 1 process belongs to another user".into(),
            hidden => format!("by whom could not be seen: {hidden} processes belong to other users"),
        }
    }
}

/// The ids of all processes.
pub(crate) fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn mounts_on(point: &Path) -> Vec<PathBuf> {
    let all = mount_table::below(point).unwrap_or_default();
    all.into_iter().filter(|mount| mount != point).take(NAMED).collect()
}

enum Look {
    Holds,
    Free,
    Hidden,
}

fn look(pid: u32, point: &Path) -> Look {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let inside = |link: PathBuf| std::fs::read_link(link).is_ok_and(|target| target.starts_with(point));
    let files = match std::fs::read_dir(process.join("fd")) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied && has_program(&process) => {
            return Look::Hidden;
        }
        files => files,
    };
    let holds = ["cwd", "root", "exe"].iter().any(|name| inside(process.join(name)))
        || files.is_ok_and(|files| files.flatten().any(|file| inside(file.path())))
        || maps(&process, point);
    if holds { Look::Holds } else { Look::Free }
}

/// Threads of the kernel and the dead have no command line, and nothing open.
fn has_program(process: &Path) -> bool {
    std::fs::read(process.join("cmdline")).is_ok_and(|line| !line.is_empty())
}

/// A line of `maps` ends with the path of the mapped file.
fn maps(process: &Path, point: &Path) -> bool {
    let Ok(text) = std::fs::read(process.join("maps")) else { return false };
    text.split(|byte| *byte == b'\n').any(|line| {
        let begin = line.iter().position(|byte| *byte == b'/');
        begin.is_some_and(|at| Path::new(std::ffi::OsStr::from_bytes(&line[at..])).starts_with(point))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(point: &Path) -> Vec<u32> {
        Holders::of_mount(point).processes
    }

    #[test]
    fn an_open_file_and_a_working_directory_hold() {
        let dir = tempfile::tempdir().unwrap();
        let point = dir.path().canonicalize().unwrap();
        assert!(!seen(&point).contains(&std::process::id()));
        let file = std::fs::File::create(point.join("open")).unwrap();
        assert!(seen(&point).contains(&std::process::id()));
        drop(file);
        let mut child = std::process::Command::new("sleep").arg("60").current_dir(&point).spawn().unwrap();
        let seen = seen(&point);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen.contains(&child.id()), "{seen:?}");
    }

    #[test]
    fn mounts_on_it_are_named() {
        let holders = Holders::of_mount(Path::new("/"));
        assert!(holders.mounts.contains(&PathBuf::from("/proc")), "{holders:?}");
    }

    #[test]
    fn an_empty_list_comes_with_its_reason() {
        let text = |hidden, cut_short| {
            let holders = Holders { hidden, cut_short, ..Holders::default() };
            holders.to_string()
        };
        assert!(text(0, false).contains("kernel"), "{}", text(0, false));
        assert!(text(3, false).contains("3 processes belong to other users"), "{}", text(3, false));
        assert!(text(3, true).contains("500 ms"), "{}", text(3, true));
        let some = Holders { processes: vec![3, 4], hidden: 9, ..Holders::default() };
        assert_eq!(some.to_string(), "processes 3, 4");
    }
}
