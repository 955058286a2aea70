//! Fragments in a real volume group, which needs root. With a device mapper in the kernel the whole life of a volume is gone
//! through; without one, that it is refused, and all that LVM does by itself.

use super::lvm::tests::{Group, said};
use super::*;
use forebay_model::units::MIB;

fn volume(group: &Group, registry: &str, capacity: u64) -> (LvmVolume, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::new(InstanceId(4), FragmentId(7), &dir.path().join("fragment"));
    let owner = Owner { registry, instance: InstanceId(4), fragment: FragmentId(7) };
    let mut volume = LvmVolume::new(place, &group.name, &owner, Bytes(capacity));
    volume.lvm.without_kernel = !has_device_mapper();
    (volume, dir)
}

fn has_device_mapper() -> bool {
    File::options().read(true).write(true).open("/dev/mapper/control").is_ok()
}

#[test]
fn what_is_missing_is_said_before_a_job_waits_for_it() {
    let error = check("no-such-group").unwrap_err();
    let words = if has_device_mapper() { "\"no-such-group\" not found" } else { "load the module dm_mod" };
    assert!(error.to_string().contains(words), "{error}");
    let absent = AgentError::NoLvm { program: "lvcreate" }.to_string();
    assert!(absent.contains("Debian package lvm2"), "{absent}");
}

#[test]
fn a_volume_is_found_again_and_removed_and_never_one_of_somebody_else() {
    let group = Group::new();
    let (ours, _ours) = volume(&group, "box", 8 * MIB);
    assert!(!ours.is_made());
    // As far as a crash between the volume and its file system comes.
    ours.place.make().unwrap();
    ours.create(Bytes(24 * MIB)).unwrap();
    assert!(ours.is_made());
    let (theirs, _theirs) = volume(&group, "other", 8 * MIB);
    for error in [theirs.make().unwrap_err(), theirs.remove().map(drop).unwrap_err()] {
        assert!(matches!(error, AgentError::ForeignVolume { .. }), "{error}");
        assert!(error.to_string().contains("was not made for registry \"other\""), "{error}");
    }
    assert!(ours.is_made());
    ours.remove().unwrap();
    ours.remove().unwrap();
    assert!(!ours.is_made() && !ours.place.directory().exists());
    let left = said("lvs", &["--noheadings", &group.name]);
    assert_eq!(left.trim(), "");
}

#[test]
fn no_room_is_said_with_figures() {
    let group = Group::new();
    let (large, _dir) = volume(&group, "box", 1 << 40);
    let AgentError::NoRoom { directory, wanted, free } = large.make().unwrap_err() else { panic!() };
    assert!(directory.ends_with(&group.name) && wanted.0 > 1 << 40 && free.0 > 90 * MIB && free < wanted);
    large.remove().unwrap();
}

#[test]
fn a_volume_holds_what_was_promised_where_the_kernel_can_show_it() {
    let group = Group::new();
    let (volume, _dir) = volume(&group, "box", 16 * MIB);
    if !has_device_mapper() {
        // LVM's own records change, and then nobody shows the volume: an error, and nothing stays.
        let error = volume.make().unwrap_err();
        assert!(matches!(error, AgentError::Program { .. }), "{error}");
        volume.remove().unwrap();
        assert_eq!(said("lvs", &["--noheadings", &group.name]).trim(), "");
        return;
    }
    volume.make().unwrap();
    volume.make().unwrap();
    let root = volume.bring_up().unwrap();
    assert_eq!(volume.bring_up().unwrap(), root);
    let space = rustix::fs::statvfs(&root).unwrap();
    assert!(space.f_bavail * space.f_frsize >= 16 * MIB);
    std::fs::write(root.join("file"), "content").unwrap();
    assert_eq!(volume.take_down().unwrap(), Departure::Clean);
    assert_eq!(std::fs::read_to_string(volume.bring_up().unwrap().join("file")).unwrap(), "content");
    volume.abandon();
    volume.remove().unwrap();
    assert!(!volume.is_made() && !volume.place.directory().exists());
}
