//! Killed at any step: the next ones clean up, and what was written is still there.

use crate::scene::{CONFIGURATION, INSTANCE, Scene};
use crate::{leaks, roles};
use std::fs;

const STEPS: [&str; 7] = ["create", "attach", "mount", "write", "unmount", "detach", "destroy"];

fn killed_after_each_step(serving: &str) {
    for step in STEPS {
        let scene = Scene::new();
        let mut role = roles::start(&scene, &["steps", scene.root().to_str().unwrap(), serving, step]);
        role.wait_for(step);
        if ["attach", "mount", "write", "unmount"].contains(&step) && serving != "plain" {
            assert!(
                !leaks::of(scene.root()).is_empty(),
                "{serving} {step}: nothing to clean, the test proves nothing"
            );
        }
        role.kill();
        let agent = scene.agent();
        agent.clean_stale(INSTANCE).unwrap();
        scene.assert_nothing_lives();
        if ["write", "unmount", "detach"].contains(&step) {
            let mut attachment = agent.attach(INSTANCE).unwrap();
            let mount = attachment.mount(CONFIGURATION).unwrap();
            let data = fs::read_to_string(mount.join("data")).unwrap();
            assert_eq!(data, "written before the crash", "{serving} {step}");
            attachment.detach().unwrap();
        }
        agent.destroy_instance(INSTANCE).unwrap();
        scene.assert_nothing_is_left();
    }
}

/// Without cleaning first: attaching or destroying does it.
fn attached_and_destroyed_over_the_remains(serving: &str) {
    let scene = Scene::new();
    let mut role = roles::start(&scene, &["steps", scene.root().to_str().unwrap(), serving, "write"]);
    role.wait_for("write");
    role.kill();
    let agent = scene.agent();
    let mut attachment = agent.attach(INSTANCE).unwrap();
    let mount = attachment.mount(CONFIGURATION).unwrap();
    assert_eq!(fs::read_to_string(mount.join("data")).unwrap(), "written before the crash");
    attachment.detach().unwrap();
    scene.assert_nothing_lives();
    agent.destroy_instance(INSTANCE).unwrap();

    let mut role = roles::start(&scene, &["steps", scene.root().to_str().unwrap(), serving, "write"]);
    role.wait_for("write");
    role.kill();
    agent.destroy_instance(INSTANCE).unwrap();
    scene.assert_nothing_is_left();
}

#[test]
fn direct() {
    killed_after_each_step("direct");
    attached_and_destroyed_over_the_remains("direct");
}

#[test]
fn plain() {
    killed_after_each_step("plain");
    attached_and_destroyed_over_the_remains("plain");
}

#[test]
fn fuse() {
    killed_after_each_step("fuse");
    attached_and_destroyed_over_the_remains("fuse");
}

#[test]
fn passthrough() {
    killed_after_each_step("passthrough");
    attached_and_destroyed_over_the_remains("passthrough");
}
