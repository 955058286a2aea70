//! Instances that are served and used.

use crate::leaks;
use crate::scene::*;
use forebay_agent::daemon::{Serving, StorageKind};
use forebay_controller::request::WindowRequest;
use forebay_model::ids::{ActivationId, InstanceId};
use forebay_model::limits::{InstancePolicies, Policy};
use forebay_model::units::{Bytes, MIB};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// More than one stripe on each server.
fn content() -> Vec<u8> {
    (0..5_000_003u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn nodes_see_each_others_files_and_everything_can_be_repeated() {
    for kind in [IMAGE, StorageKind::Directory] {
        let scene = Scene::new(kind);
        let (first, second) = (scene.node(2), scene.node(3));
        let (one, other) = (scene.mount_point("1_striped_scratch/"), scene.mount_point("2_striped_scratch"));
        for _ in 0..2 {
            scene.set_up(INSTANCE);
            let target = scene.striped(INSTANCE);
            let token = secrets(INSTANCE).token;
            for _ in 0..2 {
                first.mount(ActivationId(1), &one, &target, &token).unwrap();
                second.mount(ActivationId(2), &other, &target, &token).unwrap();
            }
            let root = fs::metadata(&one).unwrap();
            assert_eq!((root.uid(), root.gid(), root.mode() & 0o7777), (OWNER.0, OWNER.1, 0o755));
            fs::write(Path::new(&one).join("file"), content()).unwrap();
            assert!(fs::read(Path::new(&other).join("file")).unwrap() == content());
            // What the owner did to her directory stays.
            std::os::unix::fs::chown(&one, Some(OWNER.0), Some(7)).unwrap();
            scene.set_up(INSTANCE);
            assert_eq!(fs::metadata(&other).unwrap().gid(), 7);
            assert_eq!(first.held_mounts().unwrap(), [ActivationId(1)]);
            let held = scene.node(0).held_fragments().unwrap();
            assert_eq!((held.len(), held[0].fragment, held[0].serving), (1, fragment(INSTANCE, 0), true));
            for _ in 0..2 {
                first.unmount(ActivationId(1)).unwrap();
                second.unmount(ActivationId(2)).unwrap();
            }
            assert!(!Path::new(&one).exists() && !Path::new(&other).exists());
            assert!(first.held_mounts().unwrap().is_empty());
            scene.tear_down(INSTANCE);
            scene.tear_down(INSTANCE);
            scene.assert_disks_are_empty();
            assert!(scene.node(0).held_fragments().unwrap().is_empty());
        }
    }
}

#[test]
fn in_private_mode_each_client_has_a_tree_of_its_own() {
    let scene = Scene::new(StorageKind::Directory);
    scene.set_up(INSTANCE);
    let token = secrets(INSTANCE).token;
    let point = |number: u64| scene.mount_point(&format!("{number}_private_scratch"));
    for number in [1, 2] {
        let target = scene.private(INSTANCE, number);
        scene.node(2 + number).mount(ActivationId(number), &point(number), &target, &token).unwrap();
        assert_eq!(fs::metadata(point(number)).unwrap().uid(), OWNER.0);
        assert_eq!(fs::read_dir(point(number)).unwrap().count(), 0, "nobody else's files");
        fs::write(Path::new(&point(number)).join("file"), content()).unwrap();
    }
    fs::remove_file(Path::new(&point(1)).join("file")).unwrap();
    assert!(fs::read(Path::new(&point(2)).join("file")).unwrap() == content());
    // The servers die; the trees are found again when their clients come back.
    for number in STORAGE {
        leaks::kill_with(&scene.path(&format!("state{number}")), "file-server");
        scene.serve_again(number);
    }
    assert!(fs::read(Path::new(&point(2)).join("file")).unwrap() == content());
    assert_eq!(fs::read_dir(point(1)).unwrap().count(), 0);
    // Neither without the token nor at a home that there is not.
    let bad = scene.private(INSTANCE, 3);
    let error = scene.node(5).mount(ActivationId(3), &point(3), &bad, &wrong_token()).unwrap_err();
    assert!(error.sentence().contains("token"), "{error}");
    for number in [1, 2] {
        scene.node(2 + number).unmount(ActivationId(number)).unwrap();
    }
    scene.tear_down(INSTANCE);
    scene.assert_disks_are_empty();
}

#[test]
fn a_killed_file_server_is_started_again_with_all_instances_and_one_that_goes_takes_no_other_along() {
    let scene = Scene::new(IMAGE);
    let other = InstanceId(43);
    scene.set_up(INSTANCE);
    scene.set_up(other);
    let client = scene.node(2);
    let point = |instance: InstanceId| scene.mount_point(&instance.to_string());
    for instance in [INSTANCE, other] {
        let (target, token) = (scene.striped(instance), secrets(instance).token);
        client.mount(ActivationId(instance.0), &point(instance), &target, &token).unwrap();
        fs::write(Path::new(&point(instance)).join("file"), content()).unwrap();
    }
    let open = fs::File::open(Path::new(&point(other)).join("file")).unwrap();
    leaks::kill_with(&scene.path("state1"), "file-server");
    assert!(scene.node(1).held_fragments().unwrap().iter().all(|held| !held.serving));
    scene.serve_again(1);
    wait_until("both are served", || scene.node(1).held_fragments().unwrap().iter().all(|held| held.serving));
    for instance in [INSTANCE, other] {
        assert!(fs::read(Path::new(&point(instance)).join("file")).unwrap() == content());
    }
    client.unmount(ActivationId(INSTANCE.0)).unwrap();
    scene.tear_down(INSTANCE);
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; 1000];
    open.read_exact_at(&mut bytes, 4_000_000).unwrap();
    assert!(bytes == content()[4_000_000..4_001_000], "what was open stays open");
    assert!(fs::read(Path::new(&point(other)).join("file")).unwrap() == content());
    fs::write(Path::new(&point(other)).join("more"), "more").unwrap();
    drop(open);
    client.unmount(ActivationId(other.0)).unwrap();
    scene.tear_down(other);
    scene.assert_disks_are_empty();
}

/// From the order to the file server: what goes beyond a limit is refused or not, and is logged.
#[test]
fn limits_are_kept_as_the_policies_say() {
    for policy in Policy::ALL {
        let scene = Scene::new(StorageKind::Directory);
        let mut configurations = uses();
        configurations[0].access.max_files = Some(2);
        configurations[0].access.max_file_size = Some(Bytes(MIB));
        for number in STORAGE {
            let parts = scene.parts(INSTANCE);
            let serving = Serving {
                write_window: Some(WindowRequest { length_s: 86_400, multiplier: 1 }),
                policies: InstancePolicies { write_window: policy, file_size: policy, file_count: policy },
                ..serving(INSTANCE, number, (&parts, &configurations))
            };
            let node = scene.node(number);
            node.make_fragment(&part(INSTANCE, number, Bytes(4 * MIB))).unwrap();
            node.serve(&serving, &secrets(INSTANCE)).unwrap();
        }
        let (client, point) = (scene.node(2), scene.mount_point("1"));
        client.mount(ActivationId(1), &point, &scene.striped(INSTANCE), &secrets(INSTANCE).token).unwrap();
        let at = |name: &str| Path::new(&point).join(name);
        let said = |what: &str| {
            let log = |number| fs::read_to_string(scene.path(&format!("state{number}/server/log")));
            STORAGE.iter().any(|number| log(number).is_ok_and(|text| text.contains(what)))
        };
        let mut outcomes = vec![fs::write(at("large"), vec![1; 3 << 19])];
        fs::write(at("second"), "x").unwrap();
        outcomes.push(fs::write(at("third"), "x"));
        // Over and over the same bytes: the fragments do not get fuller, and the window does.
        let second = fs::OpenOptions::new().write(true).open(at("second")).unwrap();
        use std::os::unix::fs::FileExt;
        outcomes.push((0..20).try_for_each(|_| second.write_all_at(&vec![2; 1 << 20], 0)));
        drop(second);
        let errors: Vec<Option<i32>> = outcomes
            .iter()
            .map(|outcome| outcome.as_ref().err().and_then(std::io::Error::raw_os_error))
            .collect();
        let refused = [Some(libc::EFBIG), Some(libc::EMFILE), Some(libc::EROFS)];
        assert_eq!(errors, if policy.refuses() { refused } else { [None; 3] }, "{policy:?}");
        assert_eq!(said("limit reached: "), policy.logs(), "{policy:?}");
        client.unmount(ActivationId(1)).unwrap();
        scene.tear_down(INSTANCE);
    }
}

/// On images a client of the same machine writes to the files itself until writes have to be counted.
#[test]
fn limits_that_are_changed_count_for_who_has_mounted_and_opened_already() {
    use std::os::unix::fs::FileExt;
    for kind in [IMAGE, StorageKind::Directory] {
        let scene = Scene::new(kind.clone());
        scene.set_up(INSTANCE);
        let (client, point) = (scene.node(2), scene.mount_point("1"));
        client.mount(ActivationId(1), &point, &scene.striped(INSTANCE), &secrets(INSTANCE).token).unwrap();
        let at = |name: &str| Path::new(&point).join(name);
        let open = fs::File::create(at("open")).unwrap();
        // Over and over the same bytes, four times the size of a fragment.
        let write_much =
            || (0..4 * SIZE / MIB).try_for_each(|_| open.write_all_at(&vec![1; MIB as usize], 0));
        write_much().unwrap();
        let serve = |multiplier: u64, max_files: Option<u64>| {
            let mut configurations = uses();
            configurations[0].access.max_files = max_files;
            for number in STORAGE {
                let parts = scene.parts(INSTANCE);
                let write_window = Some(WindowRequest { length_s: 86_400, multiplier });
                let serving = serving(INSTANCE, number, (&parts, &configurations));
                scene.node(number).serve(&Serving { write_window, ..serving }, &secrets(INSTANCE)).unwrap();
            }
        };
        let error = |outcome: std::io::Result<()>| outcome.err().and_then(|error| error.raw_os_error());
        serve(1, None);
        assert_eq!(error(write_much()), Some(libc::EROFS), "{kind:?}");
        serve(1000, None);
        write_much().unwrap();
        serve(1000, Some(1));
        assert_eq!(error(fs::write(at("more"), "")), Some(libc::EMFILE), "{kind:?}");
        serve(1000, None);
        fs::write(at("more"), "").unwrap();
        drop(open);
        client.unmount(ActivationId(1)).unwrap();
        scene.tear_down(INSTANCE);
        scene.assert_disks_are_empty();
    }
}

#[test]
fn a_configuration_that_comes_later_disturbs_nobody() {
    let scene = Scene::new(StorageKind::Directory);
    let set_up = |configurations: &[forebay_controller::cluster::effect::Use]| {
        for number in STORAGE {
            let parts = scene.parts(INSTANCE);
            let serving = serving(INSTANCE, number, (&parts, configurations));
            let node = scene.node(number);
            let bytes = forebay_model::units::Bytes(SIZE);
            node.make_fragment(&part(INSTANCE, number, bytes)).unwrap();
            node.serve(&serving, &secrets(INSTANCE)).unwrap();
        }
    };
    set_up(&uses()[..1]);
    let (client, point) = (scene.node(2), scene.mount_point("1"));
    let token = secrets(INSTANCE).token;
    client.mount(ActivationId(1), &point, &scene.striped(INSTANCE), &token).unwrap();
    fs::write(Path::new(&point).join("file"), content()).unwrap();
    let process = fs::read(scene.path("state1/server/lock")).unwrap();
    set_up(&uses());
    client.mount(ActivationId(2), &scene.mount_point("2"), &scene.private(INSTANCE, 4), &token).unwrap();
    assert_eq!(fs::read(scene.path("state1/server/lock")).unwrap(), process, "it is the same process");
    assert!(fs::read(Path::new(&point).join("file")).unwrap() == content());
    client.unmount(ActivationId(1)).unwrap();
    client.unmount(ActivationId(2)).unwrap();
    scene.tear_down(INSTANCE);
}
