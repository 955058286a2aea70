//! The directly reached XFS.

use crate::scene::{CONFIGURATION, INSTANCE, Scene};
use forebay_agent::{AgentError, Serving, StageTask, Unmounted};
use forebay_model::units::{Bytes, MIB};
use forebay_stager::{CancelToken, Direction, StageOptions};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;
use std::sync::Mutex;

/// A user who owns a program.
const SOMEBODY: u32 = 4321;

#[test]
fn lives_and_leaves_nothing() {
    let scene = Scene::new();
    let agent = scene.agent();
    let description = scene.description(1, 64 * MIB);
    assert_eq!(agent.create_instance(&description, None).unwrap(), Serving::DirectXfs);
    assert_eq!(
        agent.create_instance(&description, None).unwrap(),
        Serving::DirectXfs,
        "making again changes nothing"
    );
    assert_eq!(agent.instances().unwrap(), [INSTANCE]);
    let mut attachment = agent.attach(INSTANCE).unwrap();
    let mount = attachment.mount(CONFIGURATION).unwrap();
    assert_eq!(mount, description.configurations[0].mount);
    let meta = fs::metadata(&mount).unwrap();
    assert_eq!((meta.permissions().mode() & 0o7777, meta.uid()), (0o755, 0));
    fs::write(mount.join("result"), "42").unwrap();
    assert_eq!(attachment.unmount(CONFIGURATION).unwrap(), Unmounted::Clean);
    assert!(!mount.exists());
    attachment.detach().unwrap();
    scene.assert_nothing_lives();

    let mut again = agent.attach(INSTANCE).unwrap();
    let mount = again.mount(CONFIGURATION).unwrap();
    assert_eq!(fs::read_to_string(mount.join("result")).unwrap(), "42");
    let refused = agent.destroy_instance(INSTANCE).unwrap_err();
    assert!(
        matches!(&refused, AgentError::InUse { holders, .. } if *holders == [std::process::id()]),
        "{refused}"
    );
    assert!(mount.join("result").exists());
    again.detach().unwrap();
    agent.destroy_instance(INSTANCE).unwrap();
    agent.destroy_instance(INSTANCE).unwrap();
    scene.assert_nothing_is_left();
}

/// Neither the mount of a fragment nor that of the file system brings anybody powers.
#[test]
fn programs_of_others_and_devices_are_none_in_an_instance() {
    for (fragments, serving) in [(1, Serving::DirectXfs), (3, Serving::Fuse { passthrough: false })] {
        let scene = Scene::new();
        let (_agent, mut attachment) = scene.attached(fragments, 40 * MIB, Some(serving));
        let mount = attachment.mount(CONFIGURATION).unwrap();
        let (program, device) = (mount.join("id"), mount.join("zero"));
        fs::copy("/usr/bin/id", &program).unwrap();
        std::os::unix::fs::chown(&program, Some(SOMEBODY), None).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
        let ran = Command::new(&program).arg("-u").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "0\n", "{serving:?}: it ran as its owner");
        let made = Command::new("mknod").arg(&device).args(["c", "1", "5"]).status().unwrap();
        assert!(made.success());
        let opened = File::open(&device).unwrap_err();
        assert_eq!(opened.kind(), ErrorKind::PermissionDenied, "{serving:?}");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn the_size_is_hard_and_shown() {
    let scene = Scene::new();
    let (_agent, mut attachment) = scene.attached(1, 50 * MIB, None);
    let mount = attachment.mount(CONFIGURATION).unwrap();
    let space = rustix::fs::statvfs(&mount).unwrap();
    assert!(space.f_bavail * space.f_frsize >= 50 * MIB);
    let empty = attachment.usage().unwrap();
    assert_eq!((empty.capacity, empty.used), (Bytes(50 * MIB), Bytes(0)));
    let mut file = File::create(mount.join("large")).unwrap();
    let piece = vec![1; MIB as usize];
    let mut written = 0;
    let refused = loop {
        match file.write_all(&piece) {
            Ok(()) => written += MIB,
            Err(error) => break error,
        }
        assert!(written < 100 * MIB, "no limit");
    };
    assert_eq!(refused.kind(), ErrorKind::StorageFull);
    assert!(written >= 49 * MIB, "only {written} fitted");
    let full = attachment.usage().unwrap();
    assert!(full.used.0 > 48 * MIB && full.used <= full.capacity, "{full:?}");
    assert!(full.bytes_written.unwrap().0 >= written, "{full:?}");
    drop(file);
    fs::remove_file(mount.join("large")).unwrap();
}

#[test]
fn two_attachments_share_and_the_last_one_cleans() {
    let scene = Scene::new();
    let (agent, mut first) = scene.attached(1, 40 * MIB, None);
    let mut second = agent.attach(INSTANCE).unwrap();
    let mount = first.mount(CONFIGURATION).unwrap();
    fs::write(mount.join("from-first"), "x").unwrap();
    assert_eq!(second.mount(CONFIGURATION).unwrap(), mount);
    assert_eq!(first.unmount(CONFIGURATION).unwrap(), Unmounted::Shared);
    first.detach().unwrap();
    assert_eq!(fs::read_to_string(mount.join("from-first")).unwrap(), "x", "the second one still uses it");
    second.detach().unwrap();
    scene.assert_nothing_lives();
    agent.destroy_instance(INSTANCE).unwrap();
    scene.assert_nothing_is_left();
}

#[test]
fn a_busy_mount_leaves_the_tree_names_its_users_and_loses_nothing() {
    let scene = Scene::new();
    let (agent, mut attachment) = scene.attached(1, 40 * MIB, None);
    let mount = attachment.mount(CONFIGURATION).unwrap();
    let mut open = File::create(mount.join("open")).unwrap();
    open.write_all(b"before").unwrap();
    crate::assert_held_by_me(&attachment.unmount(CONFIGURATION).unwrap());
    assert!(!mount.join("open").exists());
    open.write_all(b" and after").unwrap();
    attachment.detach().unwrap();
    // While the old mount lives, the image must not be mounted a second time.
    let mut again = agent.attach(INSTANCE).unwrap();
    let mount = again.mount(CONFIGURATION).unwrap();
    assert_eq!(fs::read_to_string(mount.join("open")).unwrap(), "before and after");
    drop(open);
    again.detach().unwrap();
    scene.assert_nothing_lives();
}

#[test]
fn staged_data_is_right_in_both_directions() {
    let scene = Scene::new();
    let (_agent, mut attachment) = scene.attached(1, 40 * MIB, None);
    crate::scene_stage(&scene, &mut attachment);
}

#[test]
fn a_mount_point_in_use_is_refused() {
    let scene = Scene::new();
    let (_agent, mut attachment) = scene.attached(1, 40 * MIB, None);
    let mount = scene.path("mounts/striped");
    fs::create_dir_all(&mount).unwrap();
    fs::write(mount.join("mine"), "x").unwrap();
    let refused = attachment.mount(CONFIGURATION).unwrap_err();
    assert!(matches!(refused, AgentError::MountPointNotEmpty { .. }), "{refused}");
    assert!(mount.join("mine").exists());
    fs::remove_file(mount.join("mine")).unwrap();
    attachment.mount(CONFIGURATION).unwrap();
}

#[test]
fn no_room_fails_with_figures_and_leaves_nothing() {
    let scene = Scene::new();
    let agent = scene.agent();
    let refused = agent.create_instance(&scene.description(1, 1 << 50), None).unwrap_err();
    assert!(matches!(refused, AgentError::NoRoom { .. }), "{refused}");
    scene.assert_nothing_is_left();
}

#[test]
fn another_description_of_the_same_instance_is_refused() {
    let scene = Scene::new();
    let agent = scene.agent();
    agent.create_instance(&scene.description(1, 40 * MIB), None).unwrap();
    let refused = agent.create_instance(&scene.description(1, 41 * MIB), None).unwrap_err();
    assert!(matches!(refused, AgentError::DescriptionDiffers { .. }), "{refused}");
    agent.destroy_instance(INSTANCE).unwrap();
}

#[test]
fn what_cannot_work_is_refused_with_its_reason() {
    let scene = Scene::new();
    let agent = scene.agent();
    let refused = agent.create_instance(&scene.description(2, MIB), Some(Serving::DirectXfs)).unwrap_err();
    assert!(refused.to_string().contains("the instance has 2 fragments"), "{refused}");
    let without = scene.agent_with(agent.capabilities().clone().without_images());
    let refused = without.create_instance(&scene.description(1, MIB), Some(Serving::DirectXfs)).unwrap_err();
    assert!(refused.to_string().contains("switched off"), "{refused}");
    assert!(matches!(agent.attach(INSTANCE), Err(AgentError::UnknownInstance { .. })));
    scene.assert_nothing_is_left();
}

#[test]
fn stopping_a_staging_keeps_the_instance() {
    let scene = Scene::new();
    let (_agent, attachment) = scene.attached(1, 40 * MIB, None);
    fs::create_dir(scene.path("pfs")).unwrap();
    fs::write(scene.path("pfs/a"), "x").unwrap();
    let task =
        StageTask::file(CONFIGURATION, Direction::In, &scene.path("pfs/a"), b"a", StageOptions::default());
    let cancel = CancelToken::new();
    cancel.cancel();
    let seen = Mutex::new(0);
    let stopped = attachment.stage(&task, &|_| *seen.lock().unwrap() += 1, &cancel);
    let Err(forebay_agent::StageError::Failed(failure)) = stopped else { panic!("{stopped:?}") };
    assert!(failure.is_cancelled());
    assert!(scene.path("pfs/a").exists());
}

#[test]
fn discarding_removes_without_writing_back_and_leaves_nothing() {
    for (serving, fragments) in [(Serving::DirectXfs, 1), (Serving::Fuse { passthrough: true }, 2)] {
        let scene = Scene::new();
        let (agent, mut attachment) = scene.attached(fragments, 60 * MIB, Some(serving));
        let mount = attachment.mount(CONFIGURATION).unwrap();
        fs::write(mount.join("large"), vec![1; 40 << 20]).unwrap();
        let other = agent.attach(INSTANCE).unwrap();
        let refused = attachment.discard().unwrap_err();
        assert!(matches!(refused, AgentError::InUse { .. }), "{refused}");
        other.detach().unwrap();
        let mut again = agent.attach(INSTANCE).unwrap();
        let mount = again.mount(CONFIGURATION).unwrap();
        assert_eq!(fs::metadata(mount.join("large")).unwrap().len(), 40 << 20);
        fs::write(mount.join("second"), vec![2; 10 << 20]).unwrap();
        again.discard().unwrap();
        scene.assert_nothing_is_left();
    }
}
