//! What a sync of a striped file has to cover of its stub, and where the next append to it begins.

use super::super::reclaim::tests::me;
use super::LocalStub;
use crate::local::{FragmentSpec, Fragments, Limits, NamespaceSpec, Services, SpaceRule};
use forebay_model::layout::LayoutChoice;
use forebay_wire::{Ino, MetadataService, NewObject, OpenFlags, SetAttr, SetTime, Stub, XattrMode};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::Ordering::SeqCst;

/// A namespace over two fragments in a directory.
fn namespace(directory: &Path) -> Services {
    let specs = [0, 1].map(|n: usize| {
        let root = directory.join(n.to_string());
        std::fs::create_dir(&root).unwrap();
        FragmentSpec { root, space: SpaceRule::Hard }
    });
    let (layout, limits) = (LayoutChoice::default(), Limits::default());
    let spec = NamespaceSpec { name: "c1".into(), layout, limits };
    Fragments::open(&specs).unwrap().namespace(&spec).unwrap()
}

#[test]
fn a_stub_is_synced_for_what_its_data_does_not_say() {
    let directory = tempfile::tempdir().unwrap();
    let services = namespace(directory.path());
    let tree: &dyn MetadataService = &*services.metadata;
    let by = me();
    let object = NewObject { caller: by, mode: 0o100_600, rdev: 0 };
    let name = OsStr::new("f");
    let (attr, opened) = tree.create(Ino::ROOT, name, &object, OpenFlags::READ_WRITE).unwrap();
    let ino = attr.ino;
    let stub = opened.as_any().downcast_ref::<LocalStub>().unwrap();
    let is_unsynced = || stub.unsynced.load(SeqCst);
    let set = |change: SetAttr| {
        tree.setattr(by, ino, Some(&*opened), &change).unwrap();
    };
    let none = SetAttr::default();
    assert!(is_unsynced(), "it is new");
    stub.sync(true).unwrap();
    assert!(!is_unsynced());
    stub.was_written(5000).unwrap();
    stub.was_changed().unwrap();
    tree.getattr(ino).unwrap();
    assert!(!is_unsynced(), "the data says how long it is");
    let key = OsStr::new("user.k");
    let changes: [(&str, &dyn Fn()); 7] = [
        ("cut", &|| set(SetAttr { size: Some(10), ..none })),
        ("grown without data", &|| set(SetAttr { size: Some(90_000), ..none })),
        ("mode", &|| set(SetAttr { mode: Some(0o640), ..none })),
        ("owner", &|| set(SetAttr { gid: Some(by.gid), ..none })),
        ("times", &|| set(SetAttr { mtime: Some(SetTime::Now), ..none })),
        ("attribute", &|| tree.setxattr(by, ino, key, b"v", XattrMode::Any).unwrap()),
        ("no attribute", &|| tree.removexattr(by, ino, key).unwrap()),
    ];
    for (what, change) in changes {
        change();
        assert!(is_unsynced(), "{what}");
        stub.sync(false).unwrap();
        assert!(!is_unsynced(), "{what}");
    }
    drop(opened);
    let again = tree.open(by, ino, OpenFlags::READ_ONLY).unwrap();
    let again = again.as_any().downcast_ref::<LocalStub>().unwrap();
    assert!(again.unsynced.load(SeqCst), "what was done before it was opened is not known");
}

#[test]
fn what_an_append_gives_up_is_the_place_of_the_next_one_unless_another_is_behind_it() {
    let directory = tempfile::tempdir().unwrap();
    let services = namespace(directory.path());
    let by = me();
    let object = NewObject { caller: by, mode: 0o100_600, rdev: 0 };
    let made = services.metadata.create(Ino::ROOT, OsStr::new("f"), &object, OpenFlags::READ_WRITE);
    let stub = made.unwrap().1;
    assert_eq!(stub.reserve(100), Ok(0));
    stub.give_up(40..100).unwrap();
    assert_eq!(stub.reserve(100), Ok(40));
    assert_eq!(stub.reserve(10), Ok(140));
    stub.give_up(40..140).unwrap();
    assert_eq!(stub.reserve(10), Ok(150), "the one behind it has its place");
    stub.give_up(150..160).unwrap();
    stub.give_up(150..160).unwrap();
    stub.give_up(150..150).unwrap();
    assert_eq!(stub.reserve(10), Ok(150));
    stub.was_written(160).unwrap();
    stub.give_up(155..160).unwrap();
    assert_eq!(stub.reserve(10), Ok(160), "the file is longer by now");
}
