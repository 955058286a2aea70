//! Who keeps a mount busy.
//!
//! Looks at the links below `/proc/<pid>` (working directory, root, program, open files, mapped files) and at the mount
//! table only, never at the mount itself, which may be dead. Processes of other users are open to root alone. A process whose
//! first thread has ended shows what it has by its other threads only.
//!
//! [`Holders`] is for a message: a snapshot, bounded, that says what could not be looked at. [`Search`] is for who ends them: it
//! leaves nobody out, however many there are, and gives what it has found from time to time.

use crate::mount_table;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
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
            let looks: Vec<Look> = threads(pid).iter().map(|thread| look(thread, point)).collect();
            if looks.contains(&Look::Holds) {
                holders.processes.push(pid);
            } else if looks.contains(&Look::Hidden) {
                holders.hidden += 1;
            }
        }
        holders
    }

    /// All could be seen, and nobody is there.
    pub(crate) fn is_nobody(&self) -> bool {
        *self == Holders::default()
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

/// Goes through all processes, a while at a time.
pub(crate) struct Search<F> {
    holds: F,
    /// The processes up to this one were looked at.
    after: u32,
}

/// What a part of a search has found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Those who hold it.
    pub processes: Vec<u32>,
    /// It was the last part: all processes were looked at since the part after the last one that says so.
    pub is_round: bool,
}

impl<F: Fn(&Path) -> bool> Search<F> {
    /// A search for processes of which this is true; it is told their directories in `/proc`.
    pub fn new(holds: F) -> Search<F> {
        Search { holds, after: 0 }
    }

    /// Goes on where it stopped, for a while, and by one process at least.
    pub fn go_on(&mut self, a_while: Duration) -> Found {
        let begin = Instant::now();
        let mut found = Found { processes: Vec::new(), is_round: false };
        let left: BTreeSet<u32> = processes().filter(|pid| *pid > self.after).collect();
        for pid in left {
            if threads(pid).iter().any(|thread| (self.holds)(thread)) {
                found.processes.push(pid);
            }
            self.after = pid;
            if begin.elapsed() >= a_while {
                return found;
            }
        }
        self.after = 0;
        found.is_round = true;
        found
    }
}

/// Whether a process has something open at or below a path.
pub(crate) fn is_in(process: &Path, point: &Path) -> bool {
    matches!(look(process, point), Look::Holds)
}

/// The ids of all processes.
fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The directories that show what a process has: its own, and, where its first thread has ended, those of the others.
fn threads(pid: u32) -> Vec<PathBuf> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    if std::fs::read_link(process.join("exe")).is_ok() {
        return vec![process];
    }
    let others = std::fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    let others =
        others.map(|thread| Path::new("/proc").join(thread.file_name())).filter(|one| *one != process);
    std::iter::once(process.clone()).chain(others).collect()
}

fn mounts_on(point: &Path) -> Vec<PathBuf> {
    let all = mount_table::below(point).unwrap_or_default();
    all.into_iter().filter(|mount| mount != point).take(NAMED).collect()
}

#[derive(PartialEq, Eq)]
enum Look {
    Holds,
    Free,
    Hidden,
}

fn look(process: &Path, point: &Path) -> Look {
    let inside = |link: PathBuf| std::fs::read_link(link).is_ok_and(|target| target.starts_with(point));
    let files = match std::fs::read_dir(process.join("fd")) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied && has_program(process) => {
            return Look::Hidden;
        }
        files => files,
    };
    let holds = ["cwd", "root", "exe"].iter().any(|name| inside(process.join(name)))
        || files.is_ok_and(|files| files.flatten().any(|file| inside(file.path())))
        || maps(process, point);
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

    /// A library that this program uses, and so is one for others too.
    fn library() -> PathBuf {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let mut paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
        paths.find(|path| path.contains("libgcc_s") || path.contains("libm")).expect("a library").into()
    }

    /// A process that has mapped a file and has nothing else of the directory.
    fn mapper(directory: &Path) -> std::process::Child {
        let mapped = directory.join("mapped.so");
        std::fs::copy(library(), &mapped).unwrap();
        let child = std::process::Command::new("sleep").arg("60").env("LD_PRELOAD", &mapped).spawn().unwrap();
        let maps = format!("/proc/{}/maps", child.id());
        while !std::fs::read_to_string(&maps).unwrap_or_default().contains("mapped.so") {
            std::thread::yield_now();
        }
        child
    }

    #[test]
    fn a_mapped_file_holds() {
        let dir = tempfile::tempdir().unwrap();
        let point = dir.path().canonicalize().unwrap();
        let mut child = mapper(&point);
        let seen = seen(&point);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen, [child.id()]);
    }

    /// The other threads of a process whose first one has ended.
    #[test]
    fn who_has_lost_its_first_thread_holds() {
        let dir = tempfile::tempdir().unwrap();
        let point = dir.path().canonicalize().unwrap();
        let script = "import ctypes, threading, time\n\
            threading.Thread(target=time.sleep, args=(60,)).start()\n\
            ctypes.CDLL(None).pthread_exit(None)\n";
        let mut python = std::process::Command::new("python3");
        let mut child = python.args(["-c", script]).current_dir(&point).spawn().unwrap();
        let exe = format!("/proc/{}/exe", child.id());
        // Gone with the first thread.
        let begin = Instant::now();
        while std::fs::read_link(&exe).is_ok() && begin.elapsed() < Duration::from_secs(30) {
            std::thread::yield_now();
        }
        let seen = seen(&point);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen, [child.id()]);
    }

    #[test]
    fn a_search_goes_on_where_it_stopped_until_it_has_seen_everybody() {
        let dir = tempfile::tempdir().unwrap();
        let point = dir.path().canonicalize().unwrap();
        let one = || std::process::Command::new("sleep").arg("60").current_dir(&point).spawn().unwrap();
        // More than a message would name.
        let mut children: Vec<_> = (0..NAMED + 8).map(|_| one()).collect();
        let mut search = Search::new(|process: &Path| is_in(process, &point));
        let (mut found, mut parts) = (Vec::new(), 0);
        loop {
            let part = search.go_on(Duration::ZERO);
            parts += 1;
            assert!(part.processes.len() <= 1, "no time is one process");
            found.extend(part.processes);
            if part.is_round {
                break;
            }
        }
        let again = search.go_on(Duration::from_secs(60));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let all: Vec<u32> = children.iter().map(std::process::Child::id).collect();
        found.sort_unstable();
        assert_eq!(found, all);
        assert!(parts > all.len());
        assert_eq!(again, Found { processes: all, is_round: true });
    }

    #[test]
    fn mounts_on_it_are_named() {
        // Not the root: what other tests have mounted may be more than is named.
        let holders = Holders::of_mount(Path::new("/dev"));
        assert!(holders.mounts.contains(&PathBuf::from("/dev/pts")), "{holders:?}");
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
