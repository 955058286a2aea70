//! Somebody else changes the trees while they are copied: whoever may write into a directory that a user names must not lead the
//! copy out of it.
#![allow(missing_docs)]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::time::{Duration, Instant};

use forebay_stager::{Direction, StageOptions, What};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use support::{pair, stage_between};

/// Directories that are swapped all the time, and files in each.
const DIRECTORIES: usize = 8;
const FILES: usize = 60;
/// Stages that must have been raced with.
const ROUNDS: u32 = 8;
const LIMIT: Duration = Duration::from_secs(60);

fn names(of: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{of}{number}")).collect()
}

/// A tree whose files have this content.
fn tree(top: &Path, content: &str) {
    for directory in names("d", DIRECTORIES) {
        fs::create_dir_all(top.join(&directory)).unwrap();
        for file in names("f", FILES) {
            fs::write(top.join(&directory).join(file), content).unwrap();
        }
    }
}

/// Exchanges every directory of `top` with a link to the one of the same name in `outside`, and back, for ever: at any moment half of
/// them are links.
fn swap(top: &Path, outside: &Path, spare: &Path, ends: &AtomicBool, swaps: &AtomicU32) {
    for name in names("d", DIRECTORIES) {
        symlink(outside.join(&name), spare.join(&name)).unwrap();
    }
    while !ends.load(SeqCst) {
        for name in names("d", DIRECTORIES) {
            let (here, there) = (top.join(&name), spare.join(&name));
            // Where a directory is not there yet there is nothing to exchange.
            if renameat_with(CWD, &here, CWD, &there, RenameFlags::EXCHANGE).is_ok() {
                swaps.fetch_add(1, SeqCst);
            }
        }
    }
}

/// Ends the racer also when the test fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Stages `from` to `to` while the directories below `raced`, one of them, are swapped with links to those of `outside`.
fn race(from: &Path, to: &Path, raced: &Path, outside: &Path, direction: Direction, after: impl Fn()) {
    let spare = tempfile::tempdir_in(raced.parent().unwrap()).unwrap();
    let options = StageOptions { tolerate_errors: true, durable: Some(false), ..StageOptions::default() };
    let (ends, swaps) = (AtomicBool::new(false), AtomicU32::new(0));
    std::thread::scope(|scope| {
        let _ends = Ends(&ends);
        let racer = scope.spawn(|| swap(raced, outside, spare.path(), &ends, &swaps));
        let start = Instant::now();
        let mut rounds = 0;
        while rounds < ROUNDS {
            let before = swaps.load(SeqCst);
            // What is a link at the moment is refused or copied as one, the rest goes on.
            let _ = stage_between(direction, What::Directory(pair(from, to)), &options);
            rounds += u32::from(swaps.load(SeqCst) > before + 10);
            after();
            assert!(start.elapsed() < LIMIT && !racer.is_finished(), "nobody races");
        }
    });
}

#[test]
fn nothing_is_written_where_a_swapped_directory_leads() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    tree(&at("instance"), "evil");
    tree(&at("home"), "precious");
    fs::create_dir(at("shared")).unwrap();
    race(&at("instance"), &at("shared"), &at("shared"), &at("home"), Direction::Out, || {
        for directory in names("d", DIRECTORIES) {
            let entries: Vec<_> = fs::read_dir(at("home").join(&directory)).unwrap().flatten().collect();
            assert_eq!(entries.len(), FILES, "{directory}: {entries:?}");
            for entry in entries {
                assert_eq!(fs::read_to_string(entry.path()).unwrap(), "precious", "{:?}", entry.path());
            }
        }
    });
}

#[test]
fn nothing_is_read_where_a_swapped_directory_leads() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    tree(&at("shared"), "meant");
    tree(&at("home"), "secret");
    race(&at("shared"), &at("instance"), &at("shared"), &at("home"), Direction::In, || {
        let copied = fs::read_dir(at("instance")).into_iter().flatten().flatten();
        // A link that was found is copied as the link that it is.
        for directory in copied.filter(|entry| entry.file_type().unwrap().is_dir()) {
            for file in fs::read_dir(directory.path()).into_iter().flatten().flatten() {
                assert_ne!(fs::read_to_string(file.path()).unwrap(), "secret", "{:?}", file.path());
            }
        }
        let _ = fs::remove_dir_all(at("instance"));
    });
}
