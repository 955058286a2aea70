//! What a test left behind: mounts, loop devices and processes that have to do with its directory, and its namespaces.
//!
//! Only things tied to the given directory or namespaces count, so tests can run side by side on one machine.

use crate::mounts;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// One thing that should have gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leak {
    /// Something is still mounted there.
    Mount(PathBuf),
    /// A loop device still holds a file.
    Loop {
        /// `loop7`.
        device: String,
        /// The file it holds.
        file: PathBuf,
    },
    /// A process still works in the directory or runs a program from it.
    Process {
        /// Its id.
        pid: u32,
        /// Its arguments.
        command: String,
    },
    /// A namespace still has a holder.
    Namespace {
        /// Which.
        namespace: Namespace,
        /// A file of `/proc` that shows it: of a process that is in it or has a descriptor of it.
        holder: PathBuf,
    },
}

/// A namespace as the kernel names it: `net:[4026532008]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace(String);

impl Namespace {
    /// The namespaces of a process.
    pub fn of_process(pid: u32) -> Vec<Namespace> {
        links_in(&format!("/proc/{pid}/ns")).into_iter().map(|(_, name)| Namespace(name)).collect()
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Leak::Mount(point) => write!(f, "mount at {}", point.display()),
            Leak::Loop { device, file } => write!(f, "loop device {device} on {}", file.display()),
            Leak::Process { pid, command } => write!(f, "process {pid}: {command}"),
            Leak::Namespace { namespace, holder } => {
                write!(f, "namespace {namespace} held by {}", holder.display())
            }
        }
    }
}

/// Everything that still has to do with `directory`.
pub fn below(directory: &Path) -> Vec<Leak> {
    let mut leaks: Vec<Leak> =
        mounts::below(directory).into_iter().map(|mount| Leak::Mount(mount.point)).collect();
    leaks.extend(loops_below(directory));
    leaks.extend(processes_below(directory));
    leaks
}

/// Every process, descriptor or mount that still keeps one of these namespaces alive. Namespaces of the calling process
/// itself are no leaks.
pub fn holding(namespaces: &[Namespace]) -> Vec<Leak> {
    let own = Namespace::of_process(std::process::id());
    let asked = |name: &str| namespaces.iter().find(|asked| asked.0 == name && !own.contains(asked));
    let places = pids().flat_map(|pid| [format!("/proc/{pid}/ns"), format!("/proc/{pid}/fd")]);
    let links = places.flat_map(|place| links_in(&place));
    let by_processes =
        links.filter_map(|(holder, name)| Some(Leak::Namespace { namespace: asked(&name)?.clone(), holder }));
    let by_mounts = mounts::all().into_iter().filter_map(|mount| {
        Some(Leak::Namespace { namespace: asked(&mount.root)?.clone(), holder: mount.point })
    });
    by_processes.chain(by_mounts).collect()
}

/// The links in a directory of `/proc`, with where they point; what has gone meanwhile is left out.
fn links_in(directory: &str) -> Vec<(PathBuf, String)> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let link = |entry: fs::DirEntry| {
        let target = fs::read_link(entry.path()).ok()?;
        Some((entry.path(), target.to_string_lossy().into_owned()))
    };
    entries.flatten().filter_map(link).collect()
}

fn loops_below(directory: &Path) -> Vec<Leak> {
    let Ok(devices) = fs::read_dir("/sys/block") else { return Vec::new() };
    let held = devices.flatten().filter_map(|device| {
        let text = fs::read_to_string(device.path().join("loop/backing_file")).ok()?;
        let file = PathBuf::from(text.trim_end_matches('\n').trim_end_matches(" (deleted)"));
        file.starts_with(directory)
            .then(|| Leak::Loop { device: device.file_name().to_string_lossy().into_owned(), file })
    });
    held.collect()
}

fn processes_below(directory: &Path) -> Vec<Leak> {
    pids()
        .filter(|&pid| pid != std::process::id())
        .filter(|pid| is_at_home_in(directory, *pid))
        .map(|pid| Leak::Process { pid, command: command_line(pid) })
        .collect()
}

/// Every process that is there now.
fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn is_at_home_in(directory: &Path, pid: u32) -> bool {
    // A zombie has neither; a process that ended between listing and looking is no leak either.
    ["cwd", "exe"].iter().any(|link| {
        fs::read_link(format!("/proc/{pid}/{link}")).is_ok_and(|target| target.starts_with(directory))
    })
}

fn command_line(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProcessGuard, Scratch, wait_until};
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn a_namespace_is_found_by_the_process_in_it_until_it_ends() {
        let mut sleeper = Command::new("unshare");
        sleeper.args(["--net", "sleep", "1000"]);
        let guard = ProcessGuard::start(&mut sleeper).unwrap();
        let own = Namespace::of_process(std::process::id());
        let mut made = Vec::new();
        wait_until("the namespace", Duration::from_secs(10), || {
            made = Namespace::of_process(guard.id());
            made.retain(|namespace| !own.contains(namespace));
            !made.is_empty()
        })
        .unwrap();
        let found = holding(&made);
        assert!(found.iter().any(|leak| matches!(leak, Leak::Namespace { .. })), "{found:?}");
        assert!(
            found.iter().all(|leak| leak.to_string().contains(&format!("/{}/", guard.id()))),
            "{found:?}"
        );
        drop(guard);
        assert_eq!(holding(&made), vec![]);
        assert_eq!(holding(&own), vec![]);
    }

    #[test]
    fn a_process_working_in_the_directory_is_found_until_it_ends() {
        let scratch = Scratch::new("leaks");
        let mut sleeper = Command::new("sleep");
        sleeper.arg("1000").current_dir(scratch.path());
        let guard = ProcessGuard::start(&mut sleeper).unwrap();
        let found = below(scratch.path());
        assert!(matches!(found[..], [Leak::Process { pid, .. }] if pid == guard.id()), "{found:?}");
        drop(guard);
        assert_eq!(below(scratch.path()), vec![]);
    }
}
