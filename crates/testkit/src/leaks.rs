//! What a test left behind: mounts, loop devices and processes that have to do with its directory.
//!
//! Only things tied to the given directory count, so tests can run side by side on one machine.

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
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Leak::Mount(point) => write!(f, "mount at {}", point.display()),
            Leak::Loop { device, file } => write!(f, "loop device {device} on {}", file.display()),
            Leak::Process { pid, command } => write!(f, "process {pid}: {command}"),
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
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|&pid| pid != std::process::id())
        .filter(|pid| is_at_home_in(directory, *pid))
        .map(|pid| Leak::Process { pid, command: command_line(pid) })
        .collect()
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
    use crate::{ProcessGuard, Scratch};
    use std::process::Command;

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
