//! The plain directory.

use crate::scene::{CONFIGURATION, INSTANCE, Scene};
use forebay_agent::{AgentError, Serving, Unmounted};
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
    assert_eq!(path, scene.path("mounts/striped"), "the place of a mount, though nothing is mounted");
    fs::write(path.join("more than one byte"), "0123456789").unwrap();
    let usage = attachment.usage().unwrap();
    assert!(usage.used.0 >= 4096 && usage.bytes_written.is_none(), "{usage:?}");
    assert_eq!(attachment.unmount(CONFIGURATION).unwrap(), Unmounted::Clean);
    assert!(fs::symlink_metadata(&path).is_err(), "it went with its last user");
    attachment.detach().unwrap();
    let mut again = agent.attach(INSTANCE).unwrap();
    again.mount(CONFIGURATION).unwrap();
    assert_eq!(fs::read_to_string(path.join("more than one byte")).unwrap(), "0123456789");
    again.detach().unwrap();
    agent.destroy_instance(INSTANCE).unwrap();
    scene.assert_nothing_is_left();
}

#[test]
fn what_others_put_in_its_place_is_left() {
    let scene = Scene::new();
    let (agent, mut attachment) = scene.attached(1, 1 << 20, Some(Serving::PlainDirectory));
    let place = scene.path("mounts/striped");
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("foreign"), "x").unwrap();
    let refused = attachment.mount(CONFIGURATION).unwrap_err();
    assert!(matches!(refused, AgentError::MountPointNotEmpty { .. }), "{refused}");
    fs::remove_file(place.join("foreign")).unwrap();
    attachment.mount(CONFIGURATION).unwrap();
    fs::remove_file(&place).unwrap();
    std::os::unix::fs::symlink("/etc", &place).unwrap();
    attachment.unmount(CONFIGURATION).unwrap();
    assert_eq!(fs::read_link(&place).unwrap().to_str(), Some("/etc"));
    attachment.detach().unwrap();
    agent.destroy_instance(INSTANCE).unwrap();
    assert!(place.exists(), "neither the link nor what it leads to is ours");
    fs::remove_file(&place).unwrap();
    scene.assert_nothing_is_left();
}

#[test]
fn staged_data_is_right_in_both_directions() {
    let scene = Scene::new();
    let (_agent, mut attachment) = scene.attached(1, 1, Some(Serving::PlainDirectory));
    crate::scene_stage(&scene, &mut attachment);
}
