//! What a test may have left on the machine: mounts, loop devices, processes.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Everything below `root` that is mounted, looped or run, in words.
pub fn of(root: &Path) -> Vec<String> {
    let mut found: Vec<String> = mounts(root).iter().map(|point| format!("mount {point:?}")).collect();
    found.extend(loops(root).iter().map(|device| format!("loop device {device}")));
    found.extend(processes(root).iter().map(|pid| format!("process {pid}: {}", command_line(*pid))));
    found
}

/// Ends it all, as roughly as needed.
pub fn end_all(root: &Path) {
    for pid in processes(root) {
        let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
    }
    for point in mounts(root) {
        let _ = Command::new("umount").arg("-l").arg(point).status();
    }
}

/// All files and directories below `root`.
pub fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}

fn mounts(root: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    let mut points: Vec<PathBuf> = points.filter(|point| point.starts_with(root)).collect();
    points.reverse();
    points
}

fn loops(root: &Path) -> Vec<String> {
    let devices = fs::read_dir("/sys/block").unwrap().flatten().filter(|device| {
        let backing = fs::read_to_string(device.path().join("loop/backing_file")).unwrap_or_default();
        Path::new(&backing).starts_with(root)
    });
    devices.map(|device| device.file_name().to_string_lossy().into_owned()).collect()
}

/// Instance processes and other roles have the scene's path in their arguments.
fn processes(root: &Path) -> Vec<u32> {
    let root = root.to_str().unwrap();
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    pids.filter(|pid| *pid != std::process::id() && command_line(*pid).contains(root)).collect()
}

fn command_line(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

/// Processes that have this path and this word as arguments: those of an agent.
#[allow(dead_code)]
pub fn with(path: &Path, word: &str) -> Vec<u32> {
    let has_word = |pid: &u32| command_line_words(*pid).iter().any(|one| one == word);
    processes(path).into_iter().filter(has_word).collect()
}

/// Kills them and waits for their ends: until then they have their locks and sockets.
///
/// A process handle tells the end of all threads. `/proc/PID/task` does not: its listing breaks off where a thread goes while
/// it is read, and the others are missed.
#[allow(dead_code)]
pub fn kill_with(path: &Path, word: &str) {
    let pids = with(path, word).into_iter().filter_map(|pid| Pid::from_raw(pid.cast_signed()));
    // Whoever ended since has no handle.
    let handles = pids.filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let handles: Vec<OwnedFd> = handles.collect();
    for handle in &handles {
        let _ = pidfd_send_signal(handle, Signal::KILL);
    }
    for handle in &handles {
        while !matches!(poll(&mut [PollFd::new(handle, PollFlags::IN)], None), Ok(1)) {}
    }
}

/// Unmounts what is mounted below a directory, lazily; how much that was.
#[allow(dead_code)]
pub fn unmount(root: &Path) -> usize {
    let points = mounts(root);
    for point in &points {
        assert!(Command::new("umount").arg("-l").arg(point).status().unwrap().success());
    }
    points.len()
}

fn command_line_words(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}
