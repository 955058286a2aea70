//! Which processes keep a mount busy.
//!
//! Looks at the links below `/proc/<pid>` only (working directory, root, program, open files, mapped files) and never
//! at the mount itself, which may be dead. Processes of other users are seen by root alone. For a message: the answer
//! is a snapshot and bounded.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Most processes named.
const NAMED: usize = 32;
/// Time after which the search ends with what it has found.
const TIME_LIMIT: Duration = Duration::from_millis(500);

/// Ids of processes with something open at or below `point`, which is a path without symbolic links.
pub(crate) fn of_mount(point: &Path) -> Vec<u32> {
    let begin = Instant::now();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .take_while(|_| begin.elapsed() < TIME_LIMIT)
        .filter(|pid| holds(*pid, point))
        .take(NAMED)
        .collect()
}

fn holds(pid: u32, point: &Path) -> bool {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let inside = |link: PathBuf| std::fs::read_link(link).is_ok_and(|target| target.starts_with(point));
    ["cwd", "root", "exe"].iter().any(|name| inside(process.join(name)))
        || std::fs::read_dir(process.join("fd")).is_ok_and(|fds| fds.flatten().any(|fd| inside(fd.path())))
        || maps(&process, point)
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

    #[test]
    fn an_open_file_and_a_working_directory_hold() {
        let dir = tempfile::tempdir().unwrap();
        let point = dir.path().canonicalize().unwrap();
        assert!(!of_mount(&point).contains(&std::process::id()));
        let file = std::fs::File::create(point.join("open")).unwrap();
        assert!(of_mount(&point).contains(&std::process::id()));
        drop(file);
        let mut child = std::process::Command::new("sleep").arg("60").current_dir(&point).spawn().unwrap();
        let seen = of_mount(&point);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen.contains(&child.id()), "{seen:?}");
    }
}
