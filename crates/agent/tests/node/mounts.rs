//! Mounts that somebody uses, that died, and that are somebody else's.

use crate::leaks;
use crate::scene::*;
use forebay_agent::daemon::{AgentConfig, Holding, StorageKind, TaskError};
use forebay_model::ids::ActivationId;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const ACTIVATION: ActivationId = ActivationId(1);

/// A process that works in the mount.
fn holder(directory: &str) -> Child {
    let mut command = Command::new("sh");
    // It does not end when it is asked to.
    command.args(["-c", "trap '' TERM; while :; do sleep 1; done"]).current_dir(directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn who_uses_a_mount_at_its_end_is_ended() {
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let (node, point) = (scene.node(2), scene.mount_point("1"));
    node.mount(ACTIVATION, &point, &scene.striped(INSTANCE), &secrets(INSTANCE).token).unwrap();
    let mut holder = holder(&point);
    node.unmount(ACTIVATION).unwrap();
    let is_ended = holder.try_wait().unwrap().is_some();
    let _ = holder.kill();
    holder.wait().unwrap();
    assert!(is_ended, "it goes on");
    assert!(!Path::new(&point).exists());
    assert!(leaks::with(&scene.path("state2"), "mount").is_empty(), "its process has ended");
    scene.tear_down(INSTANCE);
    scene.assert_disks_are_empty();
}

#[test]
fn or_left_where_that_is_configured() {
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let config = AgentConfig { holders: Holding::Leave, ..scene.config(2) };
    let (node, point) = (scene.node_with(config), scene.mount_point("1"));
    let (target, token) = (scene.striped(INSTANCE), secrets(INSTANCE).token);
    node.mount(ACTIVATION, &point, &target, &token).unwrap();
    let mut holder = holder(&point);
    node.unmount(ACTIVATION).unwrap();
    assert!(holder.try_wait().unwrap().is_none(), "it goes on");
    assert!(!Path::new(&point).exists(), "the path is free");
    node.mount(ACTIVATION, &point, &target, &token).unwrap();
    fs::write(Path::new(&point).join("file"), "x").unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();
    node.unmount(ACTIVATION).unwrap();
    wait_until("the processes end", || leaks::with(&scene.path("state2"), "mount").is_empty());
    scene.tear_down(INSTANCE);
}

#[test]
fn a_mount_whose_process_died_is_not_held_and_made_again() {
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let (node, point) = (scene.node(2), scene.mount_point("1"));
    let (target, token) = (scene.striped(INSTANCE), secrets(INSTANCE).token);
    node.mount(ACTIVATION, &point, &target, &token).unwrap();
    fs::write(Path::new(&point).join("file"), "x").unwrap();
    leaks::kill_with(&scene.path("state2"), "mount");
    assert!(node.held_mounts().unwrap().is_empty());
    node.mount(ACTIVATION, &point, &target, &token).unwrap();
    assert_eq!(fs::read_to_string(Path::new(&point).join("file")).unwrap(), "x");
    leaks::kill_with(&scene.path("state2"), "mount");
    node.unmount(ACTIVATION).unwrap();
    assert!(!Path::new(&point).exists());
    scene.tear_down(INSTANCE);
}

#[test]
fn what_stands_at_the_path_is_neither_hidden_nor_removed() {
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let (node, point) = (scene.node(2), scene.mount_point("1"));
    let (target, token) = (scene.striped(INSTANCE), secrets(INSTANCE).token);
    fs::create_dir_all(&point).unwrap();
    let file = Path::new(&point).join("thesis.tex");
    fs::write(&file, "years of work").unwrap();
    let error = node.mount(ACTIVATION, &point, &target, &token).unwrap_err();
    assert!(error.sentence().contains("it is not an empty directory"), "{error}");
    node.unmount(ACTIVATION).unwrap();
    assert!(file.exists());
    fs::remove_file(&file).unwrap();
    assert!(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&point).status().unwrap().success());
    let error = node.mount(ACTIVATION, &point, &target, &token).unwrap_err();
    assert!(matches!(error, TaskError::Foreign { .. }) && error.to_string().contains("tmpfs"), "{error}");
    node.unmount(ACTIVATION).unwrap();
    assert!(Command::new("umount").arg(&point).status().unwrap().success(), "it was still there");
    let wrong = node.mount(ACTIVATION, "relative", &target, &token).unwrap_err();
    assert!(matches!(wrong, TaskError::BadOrder { .. }), "{wrong}");
    let error = node.mount(ACTIVATION, &point, &target, &wrong_token()).unwrap_err();
    assert!(error.sentence().contains("the token is not the one of the instance"), "{error}");
    node.unmount(ACTIVATION).unwrap();
    scene.tear_down(INSTANCE);
}
