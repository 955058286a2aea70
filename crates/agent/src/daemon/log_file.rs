//! The log of a process that lives for long: its standard error, kept within bounds.
//!
//! Nobody else writes to the file: who starts a process opens it for appending. A thread of the process waits for the file to be
//! written (it costs nothing while nothing is said), and turns it when it is larger than [`SIZE_MAX`]: the oldest goes - the others
//! are named one higher - `log` becomes `log.1` - a new `log` - standard error is the new one. What is said in between goes to
//! `log.1`. After a crash anywhere there may be no `log`, or a number is missing: the next start makes the one and the next turn
//! passes over the other. A process whose file somebody else has turned only goes on with the new one.
//!
//! A staging's process is the user's and may turn nothing; it says a line or two, and its log goes with it.

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Largest log, apart from what is said while it is turned.
pub(super) const SIZE_MAX: u64 = 1 << 20;
/// Old logs that are kept.
pub(super) const KEPT: usize = 4;
/// How often a file is looked at that the system does not watch for us.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Opens a log for a process that is started. One that has grown too large is turned before.
pub(super) fn open(log: &Path) -> io::Result<File> {
    let file = append(log)?;
    if file.metadata()?.len() > SIZE_MAX { turn(log) } else { Ok(file) }
}

/// Keeps the log of this process within bounds as long as it lives.
pub(super) fn keep(log: PathBuf) -> io::Result<()> {
    // Without a watch, as when the user's number of them is used up, it is looked at now and then.
    let watch = inotify::init(CreateFlags::CLOEXEC).ok();
    std::thread::Builder::new()
        .name("log".into())
        .spawn(move || {
            loop {
                wait(watch.as_ref(), &log);
                // On a full disk it is tried again with the next words.
                let _ = look(&log);
            }
        })
        .map(drop)
}

/// Until something may have been written.
fn wait(watch: Option<&OwnedFd>, log: &Path) {
    let watched = watch.filter(|watch| {
        // The same file is watched once only; a new one anew.
        inotify::add_watch(watch, log, WatchFlags::MODIFY | WatchFlags::ONESHOT).is_ok()
    });
    let Some(watch) = watched else { return std::thread::sleep(LOOK_EVERY) };
    let mut events = [0; 1 << 10];
    if rustix::io::read(watch, &mut events).is_err() {
        std::thread::sleep(LOOK_EVERY);
    }
}

fn look(log: &Path) -> io::Result<()> {
    let own = rustix::fs::fstat(rustix::stdio::stderr())?;
    let is_ours =
        std::fs::metadata(log).is_ok_and(|there| there.ino() == own.st_ino && there.dev() == own.st_dev);
    let is_large = u64::try_from(own.st_size).is_ok_and(|size| size > SIZE_MAX);
    let new = match (is_ours, is_large) {
        (true, false) => return Ok(()),
        (true, true) => turn(log)?,
        (false, _) => append(log)?,
    };
    Ok(rustix::stdio::dup2_stderr(&new)?)
}

fn append(log: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(log)
}

/// Gives the log and the old ones their next names, and opens a new one.
fn turn(log: &Path) -> io::Result<File> {
    for number in (0..KEPT).rev() {
        match std::fs::rename(numbered(log, number), numbered(log, number + 1)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    append(log)
}

/// `log`, `log.1`, `log.2`...
fn numbered(log: &Path, number: usize) -> PathBuf {
    if number == 0 {
        return log.to_owned();
    }
    let mut name = log.as_os_str().to_owned();
    name.push(format!(".{number}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn names(directory: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(directory).unwrap().flatten();
        let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn so_many_are_kept_and_the_oldest_goes() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        for number in 0..KEPT + 3 {
            open(&log).unwrap().write_all(format!("{number}").as_bytes()).unwrap();
            turn(&log).unwrap();
        }
        assert_eq!(names(directory.path()), ["log", "log.1", "log.2", "log.3", "log.4"]);
        assert_eq!(std::fs::read_to_string(numbered(&log, 1)).unwrap(), "6");
        assert_eq!(std::fs::read_to_string(numbered(&log, KEPT)).unwrap(), "3");
    }

    #[test]
    fn what_a_crash_left_is_no_obstacle() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        // After any number of the renames of a turn.
        for done in 0..=KEPT {
            for number in 0..=KEPT {
                std::fs::write(numbered(&log, number), format!("{number}")).unwrap();
            }
            for number in (0..KEPT).rev().take(done) {
                std::fs::rename(numbered(&log, number), numbered(&log, number + 1)).unwrap();
            }
            let newest = if done == KEPT { numbered(&log, 1) } else { log.clone() };
            assert_eq!(std::fs::read_to_string(newest).unwrap(), "0", "the newest words are there");
            open(&log).unwrap().write_all(b"new").unwrap();
            turn(&log).unwrap();
            assert!(std::fs::read_to_string(numbered(&log, 1)).unwrap().ends_with("new"), "{done}");
            assert!(names(directory.path()).len() <= KEPT + 1);
        }
    }

    #[test]
    fn a_log_that_is_too_large_is_turned_before_it_is_used() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        std::fs::write(&log, vec![b'x'; SIZE_MAX as usize + 1]).unwrap();
        open(&log).unwrap().write_all(b"new").unwrap();
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "new");
        assert_eq!(std::fs::metadata(numbered(&log, 1)).unwrap().len(), SIZE_MAX + 1);
    }
}
