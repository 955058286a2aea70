//! The plain directory.

use crate::scene::{CONFIGURATION, INSTANCE, Scene};
use forebay_agent::{Serving, Unmounted};
use std::fs;

#[test]
fn lives_without_mounts_and_says_what_it_does_not_hold() {
    let scene = Scene::new();
    let agent = scene.agent_with(scene.agent().capabilities().clone().without_fuse().without_images());
    let serving = agent.create_instance(&scene.description(2, 1), None).unwrap();
    assert_eq!(serving, Serving::PlainDirectory);
    assert_eq!(serving.not_enforced().len(), 3);
    let mut attachment = agent.attach(INSTANCE).unwrap();
    let path = attachment.mount(CONFIGURATION).unwrap();
    fs::write(path.join("more than one byte"), "0123456789").unwrap();
    let usage = attachment.usage().unwrap();
    assert!(usage.used.0 >= 4096 && usage.bytes_written.is_none(), "{usage:?}");
    assert_eq!(attachment.unmount(CONFIGURATION).unwrap(), Unmounted::Clean);
    attachment.detach().unwrap();
    assert!(path.join("more than one byte").exists());
    agent.destroy_instance(INSTANCE).unwrap();
    scene.assert_nothing_is_left();
}

#[test]
fn staged_data_is_right_in_both_directions() {
    let scene = Scene::new();
    let (_agent, mut attachment) = scene.attached(1, 1, Some(Serving::PlainDirectory));
    crate::scene_stage(&scene, &mut attachment);
}
