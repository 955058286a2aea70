//! One clear error per cause: its text, and the situation that brings it.
#![allow(missing_docs)]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_stager::tree::{Cause, EntryKind};
use forebay_stager::{
    CancelToken, Direction, ItemFailure, PosixTree, Reason, StageFailure, StageOptions, StageReport,
    StageRequest, Tuning, What, stage,
};
use support::*;

#[test]
fn the_texts_are_these() {
    use forebay_stager::failure::Side;
    let reasons = [
        Reason::SourceMissing { nearest: "/pfs/me".into(), similar: Some("spectra".into()) },
        Reason::SourceMissing { nearest: "/pfs/me".into(), similar: None },
        Reason::TargetDirectoryMissing { nearest: "/pfs/me".into() },
        Reason::SourcePermission,
        Reason::TargetPermission { refused: "/pfs/other".into() },
        Reason::ReadOnly,
        Reason::NoSpace { needed: Some(3 << 30), free: Some(1_500_000) },
        Reason::NoSpace { needed: None, free: Some(12) },
        Reason::Quota,
        Reason::NameTooLong,
        Reason::FileTooLarge { size: 5 << 40 },
        Reason::TooManyFiles,
        Reason::SourceChanged { attempts: 4 },
        Reason::NotRegularFile { kind: EntryKind::Directory },
        Reason::NotRegularFile { kind: EntryKind::Fifo },
        Reason::NotDirectory { kind: EntryKind::Regular },
        Reason::TargetIsDirectory,
        Reason::TargetNotDirectory { kind: EntryKind::Symlink },
        Reason::DuplicateTarget { other: "/pfs/a".into() },
        Reason::Overlap { destination: "/pfs/a/b".into() },
        Reason::LinkUnusable { link: "/mnt/bb/l".into() },
        Reason::ChecksumMismatch { expected: 0x1234, found: 0xabcd },
        Reason::TooManyOpenFiles,
        Reason::Journal { error: Cause::ReadOnly },
        Reason::FileSystem { operation: "write".into(), side: Side::Target, error: Cause::Io },
        Reason::Cancelled,
    ];
    let texts: Vec<String> = reasons
        .into_iter()
        .map(|reason| ItemFailure { path: "/pfs/x\n".into(), reason }.to_string())
        .collect();
    let golden = include_str!("failure_texts.txt");
    assert_eq!(texts.join("\n"), golden.trim_end(), "tests/failure_texts.txt holds the texts users see");
}

#[test]
fn a_pattern_is_said_to_be_taken_as_a_name() {
    let missing = |path: &str| {
        let reason = Reason::SourceMissing { nearest: "/pfs".into(), similar: None };
        ItemFailure { path: path.into(), reason }.to_string()
    };
    let told = "Patterns are not expanded: stage the directory, or name the files in a list (type=list).";
    for path in ["/pfs/*.dat", "/pfs/a?/b", "/pfs/[ab]"] {
        assert!(missing(path).ends_with(told), "{}", missing(path));
    }
    assert!(!missing("/pfs/a.dat").contains("Patterns"));
}

#[test]
fn a_failure_travels_as_json_and_counts_what_it_does_not_name() {
    let item = |name: &[u8]| ItemFailure {
        path: <std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name).into(),
        reason: Reason::SourcePermission,
    };
    let failure = StageFailure {
        first: item(b"/a\xff"),
        failures_total: 12,
        failures: vec![item(b"/a\xff"), item(b"/b")],
        report: Box::default(),
    };
    let text = serde_json::to_string(&failure).unwrap();
    assert_eq!(serde_json::from_str::<StageFailure>(&text).unwrap(), failure);
    let shown = failure.to_string();
    assert!(shown.starts_with("/a%FF: no permission") && shown.ends_with("\nand 10 more"), "{shown}");
    let options = serde_json::to_string(&StageOptions::default()).unwrap();
    serde_json::from_str::<StageOptions>(&options).unwrap();
    assert!(serde_json::from_str::<StageOptions>(r#"{"worker":3}"#).is_err());
}

fn reason(result: Result<StageReport, StageFailure>) -> Reason {
    result.unwrap_err().first.reason
}

#[test]
fn situations_bring_their_reasons() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::create_dir_all(at("data/spectra")).unwrap();
    fs::write(at("data/file"), "x").unwrap();
    fs::create_dir(at("target")).unwrap();

    let missing = reason(directory(Direction::In, &at("data/spcetra/x"), &at("target")));
    assert_eq!(missing, Reason::SourceMissing { nearest: at("data"), similar: Some("spectra".into()) });
    let missing = reason(file(Direction::Out, &at("data/file"), &at("no/such/file")));
    assert_eq!(missing, Reason::TargetDirectoryMissing { nearest: place.path().to_path_buf() });
    let missing = reason(directory(Direction::Out, &at("data"), &at("no/such")));
    assert_eq!(missing, Reason::TargetDirectoryMissing { nearest: place.path().to_path_buf() });
    let wrong = reason(file(Direction::In, &at("data"), &at("target/f")));
    assert_eq!(wrong, Reason::NotRegularFile { kind: EntryKind::Directory });
    let wrong = reason(directory(Direction::In, &at("data/file"), &at("target")));
    assert_eq!(wrong, Reason::NotDirectory { kind: EntryKind::Regular });
    assert_eq!(reason(file(Direction::In, &at("data/file"), &at("target"))), Reason::TargetIsDirectory);
    let wrong = reason(file(Direction::In, &at("data/file"), &at("data/file/x")));
    assert_eq!(wrong, Reason::TargetNotDirectory { kind: EntryKind::Regular });
    assert!(matches!(
        reason(file(Direction::In, &at("data/file"), &at("data/file"))),
        Reason::Overlap { .. }
    ));
    assert!(matches!(
        reason(directory(Direction::In, &at("data"), &at("data/spectra/in"))),
        Reason::Overlap { .. }
    ));
    assert!(matches!(
        reason(directory(Direction::In, &at("data/spectra"), &at("data"))),
        Reason::Overlap { .. }
    ));
    let long = at(&format!("target/{}", "n".repeat(300)));
    assert_eq!(reason(file(Direction::In, &at("data/file"), &long)), Reason::NameTooLong);
    let pairs = vec![pair(&at("data/file"), &at("target/x")), pair(&at("data/./file"), &at("target//x"))];
    let twice = reason(stage_between(Direction::In, What::List { pairs }, &StageOptions::default()));
    assert!(matches!(twice, Reason::DuplicateTarget { .. }), "{twice:?}");
    fs::create_dir(at("target/file")).unwrap();
    assert_eq!(reason(directory(Direction::In, &at("data"), &at("target"))), Reason::TargetIsDirectory);
    assert!(at("target/file").is_dir());
    std::os::unix::fs::symlink("circle", at("circle")).unwrap();
    assert!(matches!(
        reason(file(Direction::In, &at("circle"), &at("target/c"))),
        Reason::LinkUnusable { .. }
    ));
}

#[test]
fn nothing_outside_an_instance_is_reached() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::create_dir(at("instance")).unwrap();
    fs::create_dir(at("outside")).unwrap();
    fs::write(at("outside/victim"), "precious").unwrap();
    fs::write(at("input"), "evil").unwrap();
    std::os::unix::fs::symlink("../outside", at("instance/exit")).unwrap();
    std::os::unix::fs::symlink(at("outside/victim"), at("instance/file exit")).unwrap();
    let instance = PosixTree::confined(&at("instance")).unwrap();
    let everywhere = PosixTree::everywhere().unwrap();
    for destination in ["exit/victim", "file exit", "../outside/victim"] {
        let pair =
            forebay_stager::ListPair { source: relative(&at("input")), destination: destination.into() };
        let result =
            stage_trees(&everywhere, &instance, Direction::In, What::File(pair), &StageOptions::default());
        assert!(matches!(reason(result), Reason::LinkUnusable { .. }), "{destination}");
    }
    assert_eq!(fs::read(at("outside/victim")).unwrap(), b"precious");
    let pair = forebay_stager::ListPair { source: "file exit".into(), destination: relative(&at("stolen")) };
    let result =
        stage_trees(&instance, &everywhere, Direction::Out, What::File(pair), &StageOptions::default());
    assert!(matches!(reason(result), Reason::LinkUnusable { .. }));
}

/// Makes this thread, and threads it starts, live on a kernel without `openat2`.
fn forget_openat2() {
    const NUMBER: u32 = 437;
    let step = |code: u32, on_true, on_false, value| libc::sock_filter {
        code: u16::try_from(code).unwrap(),
        jt: on_true,
        jf: on_false,
        k: value,
    };
    let refuse = libc::SECCOMP_RET_ERRNO | u32::try_from(libc::ENOSYS).unwrap();
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, NUMBER),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, refuse),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: steps.as_mut_ptr() };
    // SAFETY: the calls change how this thread may call the kernel from now on; the program lives until the second has returned.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    assert!(done, "{}", std::io::Error::last_os_error());
}

#[test]
fn an_instance_is_closed_without_openat2_too() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::create_dir_all(at("instance/real/below")).unwrap();
    fs::create_dir(at("outside")).unwrap();
    fs::create_dir(at("input")).unwrap();
    fs::write(at("input/f"), "f").unwrap();
    std::os::unix::fs::symlink("../outside", at("instance/exit")).unwrap();
    std::os::unix::fs::symlink(at("outside"), at("instance/absolute")).unwrap();
    std::os::unix::fs::symlink("real/../real", at("instance/inside")).unwrap();
    let input = relative(&at("input/f"));
    let instance = at("instance");
    std::thread::spawn(move || {
        forget_openat2();
        let tree = PosixTree::confined(&instance).unwrap();
        let everywhere = PosixTree::everywhere().unwrap();
        let to = |destination: &str| {
            let pair = forebay_stager::ListPair { source: input.clone(), destination: destination.into() };
            stage_trees(&everywhere, &tree, Direction::In, What::File(pair), &StageOptions::default())
        };
        for destination in ["exit/f", "absolute/f", "real/../../outside/f"] {
            assert!(matches!(reason(to(destination)), Reason::LinkUnusable { .. }), "{destination}");
        }
        assert_eq!(to("inside/below/f").unwrap().files, 1);
    })
    .join()
    .unwrap();
    assert_eq!(fs::read(at("instance/real/below/f")).unwrap(), b"f");
    assert_eq!(fs::read_dir(at("outside")).unwrap().count(), 0);
}

#[test]
fn a_file_that_grows_all_the_time_is_given_up_with_its_name() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("log");
    fs::write(&log, content(3 << 20, 1)).unwrap();
    let done = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::io::Write;
            let mut file = fs::File::options().append(true).open(&log).unwrap();
            while !done.load(Ordering::SeqCst) {
                file.write_all(b"one more line\n").unwrap();
                std::thread::yield_now();
            }
        });
        // Slow enough that the other thread gets its turn in every attempt.
        let slow = StageOptions { bytes_per_second_max: Some(10 << 20), ..StageOptions::default() };
        let what = What::File(pair(&log, &place.path().join("copy")));
        let result = stage_between(Direction::Out, what, &slow);
        done.store(true, Ordering::SeqCst);
        result
    });
    let failure = result.unwrap_err();
    assert_eq!(failure.first, ItemFailure { path: log, reason: Reason::SourceChanged { attempts: 4 } });
    assert_eq!(failure.report.changed_retries, 3);
    assert!(!place.path().join("copy").exists());
    assert_eq!(temporaries(place.path()).len(), 0);
}

#[test]
fn cancelling_stops_and_leaves_no_half_file() {
    let place = tempfile::tempdir().unwrap();
    let from = place.path().join("from");
    fs::create_dir(&from).unwrap();
    for number in 0..40 {
        fs::write(from.join(format!("f{number}")), content(2 << 20, number)).unwrap();
    }
    fs::write(from.join("large"), content(80 << 20, 77)).unwrap();
    let to = place.path().join("to");
    let tree = PosixTree::everywhere().unwrap();
    let cancel = CancelToken::new();
    let what = What::Directory(pair(&from, &to));
    let request = StageRequest { direction: Direction::Out, source: &tree, destination: &tree, what };
    // Slow enough to be in the middle when the first progress arrives.
    let options = StageOptions {
        bytes_per_second_max: Some(40 << 20),
        progress_interval_ms: 10,
        ..StageOptions::default()
    };
    let seen = AtomicBool::new(false);
    let progress = |snapshot: forebay_stager::StageProgress| {
        if snapshot.bytes_done > 4 << 20 && !cancel.is_cancelled() {
            seen.store(true, Ordering::SeqCst);
            cancel.cancel();
        }
    };
    let failure = stage(&request, &options, &progress, &cancel).unwrap_err();
    assert!(seen.load(Ordering::SeqCst) && failure.is_cancelled(), "{failure}");
    let source = look(&from);
    for (path, found) in look(&to) {
        assert!(found.kind == "directory" || found.content == source[&path].content, "{}", path.display());
    }
    assert_eq!(temporaries(&to).len(), 0);
}

#[test]
fn the_knobs_turn_while_it_runs_and_progress_ends_at_the_total() {
    let place = tempfile::tempdir().unwrap();
    let from = place.path().join("from");
    fs::create_dir(&from).unwrap();
    for number in 0..20 {
        fs::write(from.join(format!("f{number}")), content(1 << 20, number)).unwrap();
    }
    let tree = PosixTree::everywhere().unwrap();
    let what = What::Directory(pair(&from, &place.path().join("to")));
    let request = StageRequest { direction: Direction::In, source: &tree, destination: &tree, what };
    let tuning = Tuning::default();
    tuning.set_bytes_per_second_max(4 << 20);
    let options = StageOptions {
        workers: Some(1),
        tuning: tuning.clone(),
        progress_interval_ms: 10,
        ..StageOptions::default()
    };
    let last = std::sync::Mutex::new(forebay_stager::StageProgress::default());
    let progress = |snapshot: forebay_stager::StageProgress| {
        assert!(snapshot.bytes_done <= snapshot.bytes_total && snapshot.files_done <= snapshot.files_total);
        if snapshot.bytes_done > 0 {
            tuning.set_workers(5);
            tuning.set_bytes_per_second_max(1 << 40);
        }
        *last.lock().unwrap() = snapshot;
    };
    stage(&request, &options, &progress, &CancelToken::new()).unwrap();
    let last = last.into_inner().unwrap();
    assert_eq!((last.bytes_done, last.files_done, last.walked), (20 << 20, 20, true));
    assert_eq!((last.bytes_total, last.files_total), (20 << 20, 20));
}

#[test]
fn a_stage_into_what_a_plain_user_may_not_write_or_read_says_so() {
    // Root may do everything: a child process tries as somebody else.
    if let Some(directory) = std::env::var_os("STAGE_AS_NOBODY") {
        let at = |name: &str| Path::new(&directory).join(name);
        rustix::thread::set_thread_groups(&[]).unwrap();
        rustix::thread::set_thread_gid(rustix::process::Gid::from_raw(65534)).unwrap();
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534)).unwrap();
        let refused = reason(file(Direction::Out, &at("mine/file"), &at("closed/copy")));
        assert_eq!(refused, Reason::TargetPermission { refused: at("closed") });
        assert_eq!(
            reason(file(Direction::In, &at("mine/secret"), &at("mine/copy"))),
            Reason::SourcePermission
        );
        let report = file(Direction::In, &at("mine/set-id"), &at("mine/copy")).unwrap();
        assert_eq!(report.warnings_total, 1);
        assert_eq!(fs::metadata(at("mine/copy")).unwrap().permissions().mode() & 0o7777, 0o755);
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(at("closed")).unwrap();
    fs::create_dir(at("mine")).unwrap();
    fs::write(at("mine/file"), "x").unwrap();
    fs::write(at("mine/secret"), "x").unwrap();
    fs::write(at("mine/set-id"), "x").unwrap();
    fs::set_permissions(at("mine/secret"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(at("mine/set-id"), fs::Permissions::from_mode(0o4755)).unwrap();
    std::os::unix::fs::chown(at("mine"), Some(65534), Some(65534)).unwrap();
    std::os::unix::fs::chown(at("mine/file"), Some(65534), Some(65534)).unwrap();
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_stage_into_what_a_plain_user_may_not_write_or_read_says_so", "--nocapture"])
        .env("STAGE_AS_NOBODY", place.path())
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
    assert!(!at("closed/copy").exists());
}
