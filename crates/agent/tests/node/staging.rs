//! Copies as a user.

use crate::leaks;
use crate::scene::*;
use forebay_agent::daemon::{Cancel, StageSpace, Staging, StorageKind, TaskError};
use forebay_controller::cluster::event::Copied;
use forebay_controller::cluster::row::{StageId, StageOutcome, StageRow, TaskId};
use forebay_controller::request::{StageDirection, StageKind};
use forebay_model::ids::{ActivationId, InstanceId, SessionId};
use forebay_model::units::Bytes;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::time::Duration;

fn row(direction: StageDirection, kind: StageKind, pfs: &Path, inside: &str) -> StageRow {
    StageRow {
        id: StageId(1),
        session: SessionId(1),
        configuration: STRIPED,
        direction,
        kind,
        pfs: pfs.to_str().unwrap().as_bytes().to_vec(),
        instance_path: inside.as_bytes().to_vec(),
        tolerate_errors: false,
        live: false,
        wanted: true,
        outcome: StageOutcome::Pending,
    }
}

fn stage(scene: &Scene, task: u64, row: &StageRow) -> Result<Copied, TaskError> {
    stage_with(scene, task, row, &[scene.space(INSTANCE, None)], &Cancel::default())
}

fn stage_with(
    scene: &Scene,
    task: u64,
    row: &StageRow,
    spaces: &[StageSpace],
    cancel: &Cancel,
) -> Result<Copied, TaskError> {
    let (uid, gid) = OWNER;
    scene.node(0).stage(&Staging { task: TaskId(task), row, uid, gid, spaces }, cancel)
}

/// A directory of the owner on the parallel file system.
fn pfs(scene: &Scene, name: &str) -> std::path::PathBuf {
    let path = scene.path("pfs").join(name);
    fs::create_dir_all(&path).unwrap();
    fs::set_permissions(scene.path("pfs"), fs::Permissions::from_mode(0o755)).unwrap();
    chown(&path, Some(OWNER.0), Some(OWNER.1)).unwrap();
    path
}

#[test]
fn trees_files_and_lists_go_in_and_out_as_the_user() {
    let scene = Scene::new(IMAGE);
    scene.set_up(INSTANCE);
    let (source, back) = (pfs(&scene, "source"), pfs(&scene, "back"));
    let content: Vec<u8> = (0..3_000_001u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::create_dir(source.join("sub")).unwrap();
    fs::write(source.join("large"), &content).unwrap();
    fs::write(source.join("sub/small"), "small").unwrap();
    let tree = row(StageDirection::In, StageKind::Directory, &source, "in");
    let done = Copied { files: 2, bytes: Bytes(content.len() as u64 + 5), skipped: 0 };
    assert_eq!(stage(&scene, 1, &tree).unwrap(), done);
    fs::remove_dir_all(&source).unwrap();
    assert_eq!(stage(&scene, 1, &tree).unwrap(), done, "what is done is answered again");

    let point = scene.mount_point("1");
    let token = secrets(INSTANCE).token;
    scene.node(2).mount(ActivationId(1), &point, &scene.striped(INSTANCE), &token).unwrap();
    assert!(fs::read(Path::new(&point).join("in/large")).unwrap() == content);
    let staged = fs::metadata(Path::new(&point).join("in/sub/small")).unwrap();
    assert_eq!((staged.uid(), staged.gid()), OWNER);
    fs::write(Path::new(&point).join("in/result"), "made by the job").unwrap();

    let file = row(StageDirection::Out, StageKind::File, &back.join("one"), "in/large");
    stage(&scene, 2, &file).unwrap();
    assert!(fs::read(back.join("one")).unwrap() == content);
    let list = back.join("list");
    fs::write(
        &list,
        format!(
            "$DW_JOB_STRIPED/in/result {0}/two\n$DW_JOB_STRIPED/in/sub/small {0}/three\n",
            back.display()
        ),
    )
    .unwrap();
    assert_eq!(stage(&scene, 3, &row(StageDirection::Out, StageKind::List, &list, "")).unwrap().files, 2);
    assert_eq!(fs::read_to_string(back.join("two")).unwrap(), "made by the job");
    let out = fs::metadata(back.join("three")).unwrap();
    assert_eq!((out.uid(), out.gid()), OWNER);

    assert_eq!(scene.node(0).known_stages().unwrap(), [TaskId(1), TaskId(2), TaskId(3)]);
    for task in [1, 2, 3, 3] {
        scene.node(0).forget_stage(TaskId(task)).unwrap();
    }
    assert!(scene.node(0).known_stages().unwrap().is_empty());
    scene.node(2).unmount(ActivationId(1)).unwrap();
    scene.tear_down(INSTANCE);
    scene.assert_disks_are_empty();
}

#[test]
fn nobody_reads_or_writes_what_he_could_not_himself() {
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let back = pfs(&scene, "back");
    let secret = scene.path("pfs/secret");
    fs::write(&secret, "root's").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    let roots = scene.path("pfs/roots");
    fs::create_dir(&roots).unwrap();
    let refused = |task, row: &StageRow, words: &[&str]| {
        let error = stage(&scene, task, row).unwrap_err();
        assert!(matches!(error, TaskError::Stage { .. }), "{error}");
        for word in words {
            assert!(error.sentence().contains(word), "{word}: {error}");
        }
        assert!(!error.sentence().contains('\n'));
    };
    let path = secret.to_str().unwrap();
    let file = |direction, pfs: &Path, inside: &str| row(direction, StageKind::File, pfs, inside);
    refused(1, &file(StageDirection::In, &secret, "x"), &[path, "no permission to read the source"]);
    let list = back.join("list");
    std::os::unix::fs::symlink(&secret, &list).unwrap();
    refused(2, &row(StageDirection::In, StageKind::List, &list, ""), &["list", "Permission denied"]);
    fs::write(back.join("mine"), "mine").unwrap();
    stage(&scene, 3, &file(StageDirection::In, &back.join("mine"), "mine")).unwrap();
    refused(4, &file(StageDirection::Out, &roots.join("x"), "mine"), &["roots", "no permission"]);
    refused(
        5,
        &file(StageDirection::Out, &back.join("x"), "missing"),
        &["$DW_JOB_STRIPED/missing", "does not exist"],
    );
    refused(6, &file(StageDirection::In, &back.join("missing"), "y"), &["missing", "does not exist"]);
    assert_eq!(fs::read_to_string(&secret).unwrap(), "root's");
    assert_eq!(fs::read_dir(&roots).unwrap().count(), 0);
    scene.tear_down(INSTANCE);
}

#[test]
fn a_staging_outlives_its_agent_and_is_stopped_when_it_is_not_wanted() {
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let source = pfs(&scene, "source");
    // Nobody writes to it: the copy does not end by itself.
    let fifo = source.join("list");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let endless = row(StageDirection::In, StageKind::List, &fifo, "");
    let spaces = [scene.space(INSTANCE, None)];
    let cancel = Cancel::default();
    std::thread::scope(|scope| {
        let work = |task| {
            let (scene, cancel, endless, spaces) = (&scene, cancel.clone(), &endless, &spaces);
            scope.spawn(move || stage_with(scene, task, endless, spaces, &cancel))
        };
        let first = work(1);
        wait_until("it runs", || leaks::with(&scene.path("state0"), "stage").len() == 1);
        let again = work(1);
        let user = leaks::with(&scene.path("state0"), "stage")[0];
        wait_until("it is the user", || {
            fs::metadata(format!("/proc/{user}/task")).is_ok_and(|_| uid_of(user) == OWNER.0)
        });
        assert_eq!(
            fs::metadata(format!("/proc/{user}/mem")).unwrap().uid(),
            0,
            "the user cannot look into it"
        );
        cancel.cancel();
        for ended in [first, again] {
            assert!(matches!(ended.join().unwrap(), Err(TaskError::Cancelled)));
        }
    });
    assert!(leaks::with(&scene.path("state0"), "stage").is_empty());
    scene.node(0).forget_stage(TaskId(1)).unwrap();
    scene.tear_down(INSTANCE);
}

fn uid_of(pid: u32) -> u32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or("0");
    line.split_whitespace().next().unwrap_or("0").parse().unwrap()
}

/// Files of the user, so many that copying them takes longer than a journal needs to begin. Answers how many, and their bytes.
pub fn many_files(directory: &Path) -> (u64, u64) {
    const FILES: u32 = 2_500;
    let mut bytes = 0;
    for number in 0..FILES {
        if number % 500 == 0 {
            fs::create_dir(directory.join(format!("d{}", number / 500))).unwrap();
        }
        let content: Vec<u8> = (0..8_000 + number).map(|n| (n.wrapping_mul(number + 7) >> 3) as u8).collect();
        bytes += content.len() as u64;
        fs::write(directory.join(format!("d{}/{number}", number / 500)), content).unwrap();
    }
    (u64::from(FILES), bytes)
}

pub fn assert_same(one: &Path, other: &Path) {
    let same = std::process::Command::new("diff").arg("-r").args([one, other]).status().unwrap();
    assert!(same.success(), "{one:?} and {other:?} differ");
}

/// Files that a staging's journal says are finished. A kill may tear the line of one, which is not believed; it stays where it is.
fn journal(scene: &Scene) -> u64 {
    let text = fs::read_to_string(scene.path("state0/journals/1-7")).unwrap_or_default();
    let whole =
        text.split_inclusive('\n').filter_map(|line| line.strip_suffix("\"}\n")?.split_once(r#"","key":""#));
    whole.map(|(target, _)| target).collect::<HashSet<_>>().len() as u64
}

/// Kills the process of a staging again and again, whenever it has finished more of so many files; answers what the staging did at
/// last, and how many files were finished at the last kill and at the one before.
fn stage_with_kills(
    scene: &Scene,
    task: u64,
    row: &StageRow,
    files: u64,
    kills: usize,
) -> (Copied, u64, u64) {
    let (mut finished, mut before) = (0, 0);
    let done = std::thread::scope(|scope| {
        let staging = scope.spawn(|| stage(scene, task, row));
        for _ in 0..kills {
            // Each file is on the disk before it is finished.
            wait_within(Duration::from_secs(180), "it has finished more files", || {
                staging.is_finished() || (journal(scene) > finished && is_staging(scene))
            });
            if staging.is_finished() {
                break;
            }
            // Before the kill: afterwards the next process may have finished more already. One that has finished all may have
            // said so before it is killed, and no other one comes.
            let now = journal(scene);
            if now >= files {
                break;
            }
            (before, finished) = (finished, now);
            leaks::kill_with(&scene.path("state0"), "stage");
        }
        staging.join().unwrap().unwrap()
    });
    (done, finished, before)
}

fn is_staging(scene: &Scene) -> bool {
    !leaks::with(&scene.path("state0"), "stage").is_empty()
}

/// More kills than a staging has tries: those that finished files do not count.
#[test]
fn a_killed_copy_goes_on_after_what_was_finished() {
    const KILLS: usize = 5;
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let (source, back) = (pfs(&scene, "source"), pfs(&scene, "back"));
    let files = many_files(&source);
    let ways = [
        row(StageDirection::In, StageKind::Directory, &source, "in"),
        row(StageDirection::Out, StageKind::Directory, &back, "in"),
    ];
    for (task, row) in (1..).zip(&ways) {
        let (done, finished, before) = stage_with_kills(&scene, task, row, files.0, KILLS);
        println!("{:?}: {done:?}, {finished} were finished at the last kill", row.direction);
        assert!(finished > 0, "it was killed in the middle");
        assert_eq!((done.files, done.bytes), (files.0, Bytes(files.1)));
        // The last kill may have come when it had just finished all the others: then it has skipped what was finished before it began.
        assert!(done.skipped >= before && done.skipped <= files.0, "{done:?}, {before}");
        scene.node(0).forget_stage(TaskId(task)).unwrap();
        assert_eq!(
            fs::read_dir(scene.path("state0/journals")).unwrap().count(),
            0,
            "what is done needs no journal"
        );
    }
    assert_same(&source, &back);
    scene.tear_down(INSTANCE);
}

#[test]
fn a_staging_that_failed_goes_on_as_another_task() {
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let source = pfs(&scene, "source");
    let files = many_files(&source);
    let unreadable = source.join("d4/2499");
    fs::set_permissions(&unreadable, fs::Permissions::from_mode(0o000)).unwrap();
    let tree = row(StageDirection::In, StageKind::Directory, &source, "in");
    let error = stage(&scene, 1, &tree).unwrap_err().to_string();
    assert!(error.contains("no permission to read"), "{error}");
    let finished = journal(&scene);
    scene.node(0).forget_stage(TaskId(1)).unwrap();
    fs::set_permissions(&unreadable, fs::Permissions::from_mode(0o644)).unwrap();
    let done = stage(&scene, 2, &tree).unwrap();
    println!("{done:?}, {finished} were finished");
    assert_eq!((done.files, done.bytes), (files.0, Bytes(files.1)));
    assert!(finished > 0 && done.skipped >= finished, "{done:?}, {finished}");
    scene.tear_down(INSTANCE);
}

#[test]
fn lists_name_several_instances_and_lie_in_one_of_them() {
    const OTHER: InstanceId = InstanceId(43);
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    scene.set_up(OTHER);
    let (source, back) = (pfs(&scene, "source"), pfs(&scene, "back"));
    let spaces = [scene.space(INSTANCE, None), scene.space(OTHER, Some("mine"))];
    let copy = |task, row: &StageRow, spaces: &[StageSpace]| {
        stage_with(&scene, task, row, spaces, &Cancel::default())
    };
    for name in ["a", "b"] {
        fs::write(source.join(name), name).unwrap();
    }
    let list = source.join("list");
    let from = source.display();
    let lines = format!("{from}/a $DW_JOB_STRIPED/a\n{from}/b $DW_PERSISTENT_STRIPED_mine/sub/b\n");
    fs::write(&list, lines).unwrap();
    let into = row(StageDirection::In, StageKind::List, &list, "");
    assert_eq!(copy(1, &into, &spaces).unwrap(), Copied { files: 2, bytes: Bytes(2), skipped: 0 });
    // A list that lies in the persistent instance, and names both.
    let to = back.display();
    let lines = format!("$DW_JOB_STRIPED/a {to}/a\n$DW_PERSISTENT_STRIPED_mine/sub/b {to}/b\n");
    fs::write(source.join("out"), lines).unwrap();
    let reversed = [spaces[1].clone(), spaces[0].clone()];
    copy(2, &row(StageDirection::In, StageKind::File, &source.join("out"), "lists/out"), &reversed).unwrap();
    let mut out = row(StageDirection::Out, StageKind::List, Path::new("/"), "lists/out");
    out.pfs.clear();
    assert_eq!(copy(3, &out, &reversed).unwrap().files, 2);
    assert_eq!(fs::read_to_string(back.join("a")).unwrap(), "a");
    assert_eq!(fs::read_to_string(back.join("b")).unwrap(), "b");
    // What is not there, and what nobody attached.
    let error = copy(4, &out, &spaces).unwrap_err().to_string();
    assert!(error.starts_with("$DW_JOB_STRIPED/lists/out: the list cannot be read: no such file"), "{error}");
    let error = copy(5, &out, &reversed[..1]).unwrap_err().to_string();
    assert!(error.contains("$DW_JOB_STRIPED") && error.contains("lists/out"), "{error}");
    fs::write(&list, format!("{from}/a $DW_JOB_STRIPED/../a\n")).unwrap();
    let error = copy(7, &into, &spaces).unwrap_err().to_string();
    let told = "expected a path that stays inside the instance; remove the `..` [path-escape]";
    assert!(
        error.starts_with(&format!("{}:1:", list.display())) && error.ends_with(told),
        "one sentence: {error}"
    );
    let missing = row(StageDirection::Out, StageKind::File, &back.join("c"), "c");
    let error = copy(6, &missing, &reversed[..1]).unwrap_err().to_string();
    assert!(error.contains("$DW_PERSISTENT_STRIPED_mine/c"), "{error}");
    scene.tear_down(INSTANCE);
    scene.tear_down(OTHER);
    scene.assert_disks_are_empty();
}
