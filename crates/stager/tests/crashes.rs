//! A stage killed in the middle leaves whole files and temporary ones, and the next run finishes it without copying everything
//! again. Memory stays bounded however many entries there are. A disk that is full is said to be full.
#![allow(missing_docs)]

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use forebay_stager::{CancelToken, Direction, PosixTree, Reason, StageOptions, StageRequest, What, stage};
use support::faulty::{Faulty, Plan};
use support::*;

/// A child is never left behind.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn child(test: &str, place: &Path, direction: Direction) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture"])
        .env("STAGE_CHILD", place)
        .env("STAGE_DIRECTION", if direction == Direction::In { "in" } else { "out" });
    command
}

fn child_place() -> Option<(PathBuf, Direction)> {
    let place = PathBuf::from(std::env::var_os("STAGE_CHILD")?);
    let direction = std::env::var("STAGE_DIRECTION").unwrap();
    Some((place, if direction == "in" { Direction::In } else { Direction::Out }))
}

fn options(place: &Path) -> StageOptions {
    StageOptions { journal: Some(place.join("journal")), progress_interval_ms: 10, ..StageOptions::default() }
}

const FILES: u64 = 300;

#[test]
fn a_stage_killed_in_the_middle_is_finished_by_the_next() {
    if let Some((place, direction)) = child_place() {
        // Slow, so that the parent can choose the moment, and half of it comes after the time in which nothing is noted; says
        // how far it is.
        let tree = PosixTree::everywhere().unwrap();
        let what = What::Directory(pair(&place.join("from"), &place.join("to")));
        let request = StageRequest { direction, source: &tree, destination: &tree, what };
        let slow = StageOptions { bytes_per_second_max: Some(20 << 20), ..options(&place) };
        let progress = |snapshot: forebay_stager::StageProgress| println!("done {}", snapshot.files_done);
        stage(&request, &slow, &progress, &CancelToken::new()).unwrap();
        return;
    }
    for (direction, kill_at) in [(Direction::In, 160), (Direction::In, 250), (Direction::Out, 40)] {
        let place = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| place.path().join(name));
        fs::create_dir_all(from.join("sub")).unwrap();
        for number in 0..FILES {
            let name = if number % 2 == 0 { format!("f{number}") } else { format!("sub/f{number}") };
            fs::write(from.join(name), content(100_000, number)).unwrap();
        }
        fs::write(from.join("large"), content(70 << 20, 1)).unwrap();
        // One target exists beforehand: it must never be half.
        fs::create_dir(&to).unwrap();
        fs::write(to.join("f0"), "old").unwrap();
        let mut running = Killed(
            child("a_stage_killed_in_the_middle_is_finished_by_the_next", place.path(), direction)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        let mut seen = 0;
        for line in BufReader::new(running.0.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if let Some(done) = line.rsplit_once("done ").and_then(|(_, done)| done.parse::<u64>().ok()) {
                seen = done;
            }
            // A stage-out puts files in place in groups: the moment is one with bytes moved and none in place.
            if seen >= kill_at || (direction == Direction::Out && temporaries_exist(&to)) {
                break;
            }
        }
        drop(running);
        let known =
            fs::read(place.path().join("journal")).unwrap().iter().filter(|byte| **byte == b'\n').count();
        let source = look(&from);
        for (path, found) in look(&to) {
            let ours =
                path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".forebay-part-"));
            let fresh = direction == Direction::In && path.starts_with("sub");
            if found.kind == "file" && !ours && !fresh {
                assert!(
                    found.content == b"old" || found.content == source[&path].content,
                    "{} is half",
                    path.display()
                );
            }
        }
        let what = What::Directory(pair(&from, &to));
        let report = stage_between(direction, what, &options(place.path())).unwrap();
        if direction == Direction::In {
            assert!(known > 10, "the child was killed before it had done anything: {known}");
            assert!(report.files_skipped > 10 && report.files_skipped < FILES + 1, "{report:?}");
        }
        assert_eq!(report.files + report.files_skipped, FILES + 1);
        let (mut left, mut right) = (source, look(&to));
        left.remove(Path::new(""));
        right.remove(Path::new(""));
        assert_same(&left, &right);
        assert!(!place.path().join("journal").exists(), "a finished stage needs no journal");
    }
}

/// The only half file that a stage leaves under a final name: the documentation names it, and how to avoid it.
#[test]
fn a_killed_stage_in_leaves_half_a_file_in_a_directory_of_its_own_only() {
    let quick = StageOptions::default();
    if let Some((place, direction)) = child_place() {
        let what = What::Directory(pair(&place.join("from"), &place.join("to")));
        let slow = StageOptions { bytes_per_second_max: Some(1 << 20), ..quick };
        stage_between(direction, what, &slow).unwrap();
        return;
    }
    for is_made_before in [false, true] {
        let place = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| place.path().join(name));
        fs::create_dir(&from).unwrap();
        fs::write(from.join("file"), content(30 << 20, 1)).unwrap();
        if is_made_before {
            fs::create_dir(&to).unwrap();
        }
        let running = Killed(
            child(
                "a_killed_stage_in_leaves_half_a_file_in_a_directory_of_its_own_only",
                place.path(),
                Direction::In,
            )
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
        );
        let written = || {
            let names = fs::read_dir(&to).into_iter().flatten().flatten();
            names.filter_map(|entry| entry.metadata().ok()).map(|found| found.blocks()).sum::<u64>()
        };
        until("the first bytes", || written() > 0);
        drop(running);
        assert_eq!(to.join("file").exists(), !is_made_before, "half a file under its final name");
        assert_eq!(temporaries_exist(&to), is_made_before);
        let what = What::Directory(pair(&from, &to));
        stage_between(Direction::In, what, &quick).unwrap();
        assert_eq!(fs::read(to.join("file")).unwrap(), content(30 << 20, 1));
        assert_eq!(temporaries(&to), Vec::<PathBuf>::new());
    }
}

/// Waits for a condition that another process brings about; fails after a minute.
fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited a minute for: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Lets a stage end as a crash does: from the n-th operation at the target on, nothing works any more.
fn break_off(direction: Direction, what: &What, options: &StageOptions, nth: u64) {
    let everywhere = PosixTree::everywhere().unwrap();
    let plan = Plan::new("", nth, true, forebay_stager::tree::Cause::Io);
    let broken = Faulty { inner: &everywhere, plan };
    stage_trees(&everywhere, &broken, direction, what.clone(), options).unwrap_err();
}

#[test]
fn what_a_crash_left_of_vanished_sources_is_removed_and_nothing_else() {
    for (direction, journal) in [(Direction::Out, true), (Direction::In, false)] {
        let place = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| place.path().join(name));
        fs::create_dir_all(from.join("sub")).unwrap();
        fs::create_dir_all(to.join("sub")).unwrap();
        for number in 0..40 {
            fs::write(from.join(format!("sub/f{number}")), content(3000, number)).unwrap();
        }
        let options =
            StageOptions { journal: journal.then(|| place.path().join("journal")), ..options(place.path()) };
        let what = What::Directory(pair(&from, &to));
        break_off(direction, &what, &options, 60);
        assert!(temporaries_exist(&to.join("sub")), "nothing was left in {direction:?}");
        let foreign = [
            ".forebay-part-00000000000000000000000000000000",
            ".forebay-part-0123456789abcdef",
            ".forebay-part-",
        ];
        for name in foreign {
            fs::write(to.join("sub").join(name), "of another stage").unwrap();
        }
        for number in 1..40 {
            fs::remove_file(from.join(format!("sub/f{number}"))).unwrap();
        }
        stage_between(direction, what, &options).unwrap();
        let mut left: Vec<_> =
            temporaries(&to).into_iter().map(|path| path.file_name().unwrap().to_owned()).collect();
        left.sort();
        let mut expected = foreign.map(std::ffi::OsString::from);
        expected.sort();
        assert_eq!(left, expected);
        assert_eq!(fs::read(to.join("sub/f0")).unwrap(), content(3000, 0));
    }
}

#[test]
fn what_a_crash_left_of_a_named_file_is_removed_when_the_file_is_gone() {
    let place = tempfile::tempdir().unwrap();
    let [from, to] = ["from", "to"].map(|name| place.path().join(name));
    fs::write(&from, content(3000, 1)).unwrap();
    fs::create_dir(&to).unwrap();
    let what = What::File(pair(&from, &to.join("copy")));
    let nth = (1..30).find(|nth| {
        break_off(Direction::Out, &what, &options(place.path()), *nth);
        temporaries_exist(&to)
    });
    assert!(nth.is_some(), "nothing was ever left");
    fs::remove_file(&from).unwrap();
    let failure = stage_between(Direction::Out, what, &options(place.path())).unwrap_err();
    assert!(matches!(failure.first.reason, Reason::SourceMissing { .. }), "{failure}");
    assert_eq!(temporaries(&to), Vec::<PathBuf>::new());
}

fn temporaries_exist(to: &Path) -> bool {
    fs::read_dir(to)
        .unwrap()
        .flatten()
        .any(|entry| entry.file_name().as_encoded_bytes().starts_with(b".forebay-part-"))
}

/// Peak resident memory of this process, in KiB.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// What 100,000 entries may take: the bound stated in the documentation.
const PEAK_KIB_MAX: u64 = 24 * 1024;

#[test]
fn a_hundred_thousand_entries_take_bounded_memory() {
    if let Some((place, direction)) = child_place() {
        let what = What::Directory(pair(&place.join("from"), &place.join("to")));
        let quick = StageOptions { durable: Some(false), ..StageOptions::default() };
        let report = stage_between(direction, what, &quick).unwrap();
        assert_eq!(report.files + report.hard_links, 99_000);
        println!("peak {}", peak_kib());
        return;
    }
    // In memory, because it is about this process and not about a disk's journal.
    let place = tempfile::tempdir().unwrap();
    let disk = Mounted::new(&place, "tmpfs", &["-t", "tmpfs", "-o", "size=1g,nr_inodes=400k"]);
    let from = disk.0.join("from");
    for directory in 0..1000 {
        let directory = from.join(format!("directory-{:02}/d{directory}", directory % 50));
        fs::create_dir_all(&directory).unwrap();
        for file in 0..97 {
            // Some have content, which takes a page each.
            let content: &[u8] = if file % 8 == 0 { b"x" } else { b"" };
            fs::write(directory.join(format!("a-file-name-of-usual-length-{file:05}")), content).unwrap();
        }
        for link in 0..2 {
            fs::hard_link(
                directory.join("a-file-name-of-usual-length-00000"),
                directory.join(format!("link{link}")),
            )
            .unwrap();
        }
    }
    let output =
        child("a_hundred_thousand_entries_take_bounded_memory", &disk.0, Direction::In).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let peak: u64 = text.lines().find_map(|line| line.rsplit_once("peak ")?.1.parse().ok()).expect(&text);
    assert!(peak < PEAK_KIB_MAX, "peak {peak} KiB");
    println!("peak {peak} KiB for 100,000 entries");
}

/// A file system mounted for a test; unmounted however the test ends. Declared after the directory it lies in, so that it
/// goes first.
struct Mounted(PathBuf);

impl Mounted {
    fn new(place: &tempfile::TempDir, what: impl AsRef<std::ffi::OsStr>, options: &[&str]) -> Self {
        let mount = place.path().join("mount");
        fs::create_dir(&mount).unwrap();
        run(Command::new("mount").args(options).arg(what).arg(&mount));
        Self(mount)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Makes an XFS of 320 MiB in a file.
fn xfs_image(place: &tempfile::TempDir) -> PathBuf {
    let image = place.path().join("image");
    fs::File::create(&image).unwrap().set_len(320 << 20).unwrap();
    run(Command::new("mkfs.xfs").arg("-q").arg(&image));
    image
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_full_disk_is_said_to_be_full_and_keeps_what_it_had() {
    let place = tempfile::tempdir().unwrap();
    let disk = Mounted::new(&place, xfs_image(&place), &["-o", "loop"]);
    let from = place.path().join("from");
    fs::create_dir(&from).unwrap();
    fs::write(disk.0.join("f3"), "old").unwrap();
    for number in 0..6 {
        fs::write(from.join(format!("f{number}")), content(60 << 20, number)).unwrap();
    }
    // A directory: found out on the way.
    let failure = directory(Direction::Out, &from, &disk.0).unwrap_err();
    let Reason::NoSpace { needed: Some(needed), free: Some(free) } = failure.first.reason else {
        panic!("{failure}");
    };
    assert!(needed > 60 << 20 && free < 320 << 20, "{failure}");
    for number in 0..6 {
        let name = format!("f{number}");
        if let Ok(there) = fs::read(disk.0.join(&name)) {
            assert!(there == b"old" || there == fs::read(from.join(&name)).unwrap(), "{name} is half");
        }
    }
    assert_eq!(temporaries(&disk.0).len(), 0);
    // A named file: found out before the first byte.
    let huge = fs::File::create(from.join("huge")).unwrap();
    rustix::fs::fallocate(&huge, rustix::fs::FallocateFlags::empty(), 0, 400 << 20).unwrap();
    let failure = file(Direction::Out, &from.join("huge"), &disk.0.join("huge")).unwrap_err();
    assert!(
        matches!(failure.first.reason, Reason::NoSpace { needed: Some(n), .. } if n == 400 << 20),
        "{failure}"
    );
    assert_eq!(failure.report.bytes_moved, 0);
    run(Command::new("mount").args(["-o", "remount,ro"]).arg(&disk.0));
    let failure = file(Direction::Out, &from.join("f0"), &disk.0.join("new")).unwrap_err();
    assert_eq!(failure.first.reason, Reason::ReadOnly);
}
