//! Copies as a user.

use crate::leaks;
use crate::scene::*;
use forebay_agent::daemon::{Cancel, StorageKind, TaskError};
use forebay_controller::cluster::event::Copied;
use forebay_controller::cluster::row::{StageId, StageOutcome, StageRow, TaskId};
use forebay_controller::request::{StageDirection, StageKind};
use forebay_model::ids::{ActivationId, SessionId};
use forebay_model::units::Bytes;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

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
    let (target, token) = (scene.striped(INSTANCE), secrets(INSTANCE).token);
    scene.node(0).stage(TaskId(task), row, OWNER, &target, &token, &Cancel::default())
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
    let scene = Scene::new(StorageKind::Image);
    scene.set_up(INSTANCE);
    let (source, back) = (pfs(&scene, "source"), pfs(&scene, "back"));
    let content: Vec<u8> = (0..3_000_001u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::create_dir(source.join("sub")).unwrap();
    fs::write(source.join("large"), &content).unwrap();
    fs::write(source.join("sub/small"), "small").unwrap();
    let tree = row(StageDirection::In, StageKind::Directory, &source, "in");
    let done = Copied { files: 2, bytes: Bytes(content.len() as u64 + 5) };
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
    let (target, token) = (scene.striped(INSTANCE), secrets(INSTANCE).token);
    let cancel = Cancel::default();
    std::thread::scope(|scope| {
        let work = |task| {
            let (node, cancel) = (scene.node(0), cancel.clone());
            let (endless, target, token) = (&endless, &target, &token);
            scope.spawn(move || node.stage(TaskId(task), endless, OWNER, target, token, &cancel))
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

#[test]
fn a_killed_copy_is_begun_again() {
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let source = pfs(&scene, "source");
    for number in 0..300 {
        fs::write(source.join(number.to_string()), vec![number as u8; 20_000]).unwrap();
    }
    let tree = row(StageDirection::In, StageKind::Directory, &source, "in");
    let done = std::thread::scope(|scope| {
        let staging = scope.spawn(|| stage(&scene, 1, &tree));
        wait_until("it runs", || {
            staging.is_finished() || !leaks::with(&scene.path("state0"), "stage").is_empty()
        });
        leaks::kill_with(&scene.path("state0"), "stage");
        staging.join().unwrap().unwrap()
    });
    assert_eq!((done.files, done.bytes), (300, Bytes(300 * 20_000)));
    scene.tear_down(INSTANCE);
}
