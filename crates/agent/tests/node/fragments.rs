//! Fragments on a disk, and what is not one.

use crate::leaks;
use crate::scene::*;
use forebay_agent::daemon::{AgentConfig, NewFragment, StorageKind, TaskError};
use forebay_model::ids::InstanceId;
use forebay_model::units::Bytes;
use std::fs;

const SMALL: Bytes = Bytes(SIZE);

#[test]
fn what_is_not_ours_is_neither_used_nor_removed() {
    let scene = Scene::new(StorageKind::Directory);
    let (node, id) = (scene.node(0), fragment(INSTANCE, 0));
    let small = part(INSTANCE, 0, SMALL);
    let thesis = scene.disk(0).join(id.to_string()).join("thesis.tex");
    fs::create_dir_all(thesis.parent().unwrap()).unwrap();
    fs::write(&thesis, "years of work").unwrap();
    for error in [node.make_fragment(&small).unwrap_err(), node.remove_fragment(id).unwrap_err()] {
        assert!(matches!(error, TaskError::Foreign { .. }) && !error.may_go_better(), "{error}");
        assert!(error.sentence().contains(&format!("{}", scene.disk(0).display())), "{error}");
    }
    assert!(thesis.exists());
    fs::remove_dir_all(thesis.parent().unwrap()).unwrap();

    node.make_fragment(&small).unwrap();
    let error = node.make_fragment(&NewFragment { instance: InstanceId(43), ..small }).unwrap_err();
    assert!(error.to_string().contains("of instance 42, wanted is one"), "{error}");
    let other = scene.node_with(AgentConfig { registry: "other".into(), ..scene.config(0) });
    for error in [other.make_fragment(&small).unwrap_err(), other.remove_fragment(id).unwrap_err()] {
        assert!(error.to_string().contains("belongs to the registry \"test\", this is \"other\""), "{error}");
    }
    assert_eq!(other.held_registry().unwrap().as_deref(), Some("test"), "the controller is told");
    assert_eq!(node.held_fragments().unwrap().len(), 1);
    fs::write(scene.disk(0).join(id.to_string()).join("note"), "by an administrator").unwrap();
    assert!(node.remove_fragment(id).is_err());
    fs::remove_file(scene.disk(0).join(id.to_string()).join("note")).unwrap();
    node.remove_fragment(id).unwrap();
    scene.assert_disks_are_empty();
}

#[test]
fn a_fragment_that_lost_its_content_is_not_held_and_not_made_anew() {
    let scene = Scene::new(IMAGE);
    let (node, id) = (scene.node(0), fragment(INSTANCE, 0));
    let small = part(INSTANCE, 0, SMALL);
    node.make_fragment(&small).unwrap();
    assert_eq!(node.held_fragments().unwrap().len(), 1);
    let image = scene.disk(0).join(format!("{id}/instance-{INSTANCE}-fragment-{id}/image.xfs"));
    fs::remove_file(&image).unwrap();
    assert!(node.held_fragments().unwrap().is_empty());
    let error = node.make_fragment(&small).unwrap_err();
    assert!(matches!(error, TaskError::Lost { .. }) && !error.may_go_better(), "{error}");
    node.remove_fragment(id).unwrap();
    scene.assert_disks_are_empty();
}

#[test]
fn a_disk_that_is_not_there_has_lost_nothing() {
    let scene = Scene::new(StorageKind::Directory);
    let node = scene.node(0);
    let small = part(INSTANCE, 0, SMALL);
    node.make_fragment(&small).unwrap();
    let (disk, away) = (scene.disk(0), scene.path("away"));
    let refused = |words: &str| {
        let small = node.make_fragment(&part(INSTANCE, 5, SMALL)).unwrap_err();
        for error in [node.held_fragments().unwrap_err(), node.held_registry().unwrap_err(), small] {
            assert!(matches!(error, TaskError::WrongDisk { .. }) && error.may_go_better(), "{error}");
            assert!(error.sentence().contains(words), "{words}: {error}");
        }
    };
    fs::rename(&disk, &away).unwrap();
    refused("is no directory: mount the disk");
    fs::create_dir(&disk).unwrap();
    refused("is not the disk that this node had");
    fs::remove_dir(&disk).unwrap();
    fs::rename(scene.disk(1), scene.path("other")).unwrap();
    fs::create_dir(scene.disk(1)).unwrap();
    scene.node(1).make_fragment(&part(INSTANCE, 1, SMALL)).unwrap();
    fs::rename(scene.disk(1), &disk).unwrap();
    refused("is a disk of node node1, this is node0");
    fs::rename(&disk, scene.disk(1)).unwrap();
    fs::rename(&away, &disk).unwrap();
    assert_eq!(node.held_fragments().unwrap().len(), 1);
    fs::remove_dir_all(scene.path("state0")).unwrap();
    assert_eq!(scene.node(0).held_fragments().unwrap().len(), 1, "the agent's own directory was lost");
}

#[test]
fn what_cannot_be_is_refused() {
    let scene = Scene::new(IMAGE);
    let client = scene.node(2);
    let error = client.make_fragment(&part(INSTANCE, 0, SMALL)).unwrap_err();
    assert!(matches!(error, TaskError::NoStorage) && !error.may_go_better(), "{error}");
    let node = scene.node(0);
    let error = node.make_fragment(&part(INSTANCE, 0, Bytes(1 << 60))).unwrap_err();
    assert!(error.to_string().contains("has no room for a fragment of"), "{error}");
    assert_eq!(
        node.held_fragments().unwrap().len(),
        1,
        "it was begun: its remains are the controller's to remove"
    );
    node.remove_fragment(fragment(INSTANCE, 0)).unwrap();
    let (parts, uses) = (scene.parts(INSTANCE), uses());
    let error = node.serve(&serving(INSTANCE, 0, (&parts, &uses)), &secrets(INSTANCE)).unwrap_err();
    assert!(matches!(error, TaskError::NotHere { .. }), "{error}");
    scene.assert_disks_are_empty();
}

/// A removal that was cut off anywhere is ordered again only while the fragment is held.
#[test]
fn secrets_go_before_the_fragment_does() {
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let (node, id) = (scene.node(0), fragment(INSTANCE, 0));
    // Killed while it wrote.
    fs::write(scene.path(&format!("state0/instances/.{INSTANCE}.token.new")), "secret").unwrap();
    let note = scene.disk(0).join(id.to_string()).join("note");
    fs::write(&note, "by an administrator").unwrap();
    assert!(node.remove_fragment(id).is_err());
    assert_eq!(node.held_fragments().unwrap().len(), 1);
    assert_eq!(scene.of_instances(0), [""; 0]);
    fs::remove_file(note).unwrap();
    scene.tear_down(INSTANCE);
    scene.assert_disks_are_empty();
}

#[test]
fn a_record_that_was_not_written_to_its_end_goes_with_its_fragment() {
    let scene = Scene::new(StorageKind::Directory);
    let (node, id) = (scene.node(0), fragment(INSTANCE, 0));
    let begun = scene.disk(0).join(format!(".{id}.json.new"));
    fs::write(&begun, "{").unwrap();
    node.remove_fragment(id).unwrap();
    assert!(!begun.exists(), "the first one of a fragment");
    node.make_fragment(&part(INSTANCE, 0, SMALL)).unwrap();
    fs::write(&begun, "{").unwrap();
    node.remove_fragment(id).unwrap();
    scene.assert_disks_are_empty();
}

/// A power cut can bring back what was removed and take away what was written.
#[test]
fn secrets_of_which_there_is_no_fragment_are_removed_at_the_start() {
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let left = ["7.token", "7.seal", ".8.seal.new", "of an administrator"];
    for name in left {
        fs::write(scene.path("state0/instances").join(name), "secret").unwrap();
    }
    scene.node(0).sweep_instances().unwrap();
    let kept = ["seal", "token", "toml"].map(|kind| format!("{INSTANCE}.{kind}"));
    assert_eq!(scene.of_instances(0), [&kept[..], &["of an administrator".to_owned()]].concat());
    fs::remove_file(scene.path("state0/instances/of an administrator")).unwrap();
    let served = scene.path("state0/instances/7.toml");
    fs::write(&served, "by a server that lives").unwrap();
    scene.node(0).sweep_instances().unwrap();
    assert!(served.exists());
    leaks::kill_with(&scene.path("state0"), "file-server");
    // Its lock is held for a moment by a process that another thread is about to start.
    wait_until("it is removed", || {
        scene.node(0).sweep_instances().unwrap();
        !served.exists()
    });
    fs::rename(scene.disk(0), scene.path("elsewhere")).unwrap();
    assert!(scene.node(0).sweep_instances().is_err());
    assert_eq!(scene.of_instances(0), kept, "a disk that is not there has lost nothing");
    fs::rename(scene.path("elsewhere"), scene.disk(0)).unwrap();
    scene.tear_down(INSTANCE);
    scene.assert_disks_are_empty();
}
