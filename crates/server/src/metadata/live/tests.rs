//! Whether it is known that a file lies within its first stripe.

use super::super::reclaim::tests::{SERVERS, STRIPE_BYTES, open};
use super::*;
use forebay_wire::{Caller, FileKind, MetadataService, NewObject, OpenFlags};
use std::ffi::OsStr;

const NAME: &str = "f";

fn caller() -> Caller {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Caller { uid, gid, pid: 1 }
}

/// Makes a file and opens it for writing.
fn make(tree: &Tree) -> (Attr, Arc<dyn Stub>) {
    let object = NewObject { caller: caller(), mode: FileKind::Regular.mode_bits() | 0o644, rdev: 0 };
    MetadataService::create(tree, Ino::ROOT, OsStr::new(NAME), &object, OpenFlags::READ_WRITE).unwrap()
}

fn open_again(tree: &Tree, ino: Ino) -> Arc<dyn Stub> {
    MetadataService::open(tree, caller(), ino, OpenFlags::READ_WRITE).unwrap()
}

/// Writes to the substripe file that is first on a server.
fn write(tree: &Tree, stub: &dyn Stub, slot: u32) {
    let forebay_wire::Placement::Striped { file, layout } = stub.placement() else { panic!("not striped") };
    let span = forebay_wire::Span { substripe: 0, offset: 0, at: 0, len: 1 };
    let share = tree.data_of(&layout, slot).unwrap().share(file, layout.substripes());
    assert_eq!(share.write(&[span], b"x"), Ok(1));
}

fn close(stub: Arc<dyn Stub>) {
    OpenFile::is_closed(&*stub, true);
}

fn spread(tree: &Tree, ino: Ino) -> Spread {
    tree.opened(ino).expect("it is open").spread()
}

fn in_a_tree(test: impl FnOnce(&Arc<Tree>)) {
    let directory = tempfile::tempdir().unwrap();
    for position in 0..SERVERS {
        std::fs::create_dir(directory.path().join(position.to_string())).unwrap();
    }
    let (tree, nodes) = open(directory.path());
    test(&tree);
    drop(tree);
    nodes.into_iter().for_each(|node| node.close().unwrap());
}

#[test]
fn a_file_lies_within_its_first_stripe_until_somebody_says_otherwise() {
    in_a_tree(|tree| {
        let (attr, stub) = make(tree);
        write(tree, &*stub, 0);
        stub.will_change(STRIPE_BYTES).unwrap();
        assert_eq!(spread(tree, attr.ino), Spread::First);
        assert_eq!(stub.sync(true), Ok(Spread::First));
        close(stub);
        let again = open_again(tree, attr.ino);
        assert_eq!(spread(tree, attr.ino), Spread::First, "all who wrote it have said what they did");
        let other = open_again(tree, attr.ino);
        other.will_change(STRIPE_BYTES + 1).unwrap();
        assert_eq!(again.sync(true), Ok(Spread::Any), "another one writes elsewhere");
        write(tree, &*other, 1);
        close(other);
        assert_eq!(again.sync(true), Ok(Spread::Any), "and did, until he closed it");
        close(again);
        let again = open_again(tree, attr.ino);
        assert_eq!(spread(tree, attr.ino), Spread::Any, "it lies on both");
        close(again);
    });
}

#[test]
fn who_goes_without_a_word_leaves_a_file_that_may_lie_anywhere() {
    in_a_tree(|tree| {
        let (attr, stub) = make(tree);
        write(tree, &*stub, 0);
        drop(stub);
        let again = open_again(tree, attr.ino);
        assert_eq!(spread(tree, attr.ino), Spread::Any);
        close(again);
    });
}

#[test]
fn what_lies_on_another_server_only_is_not_taken_for_the_first() {
    in_a_tree(|tree| {
        let (attr, stub) = make(tree);
        stub.will_change(2 * STRIPE_BYTES).unwrap();
        write(tree, &*stub, 1);
        close(stub);
        let again = open_again(tree, attr.ino);
        assert_eq!(spread(tree, attr.ino), Spread::Any);
        assert_eq!(again.size(), Ok(STRIPE_BYTES + 1));
        close(again);
    });
}

#[test]
fn of_a_file_without_a_name_only_its_first_server_is_asked_to_remove_it() {
    in_a_tree(|tree| {
        for (is_far, slots) in [(false, Slots::One(0)), (true, Slots::Any)] {
            let (attr, stub) = make(tree);
            let reader = MetadataService::open(&**tree, caller(), attr.ino, OpenFlags::READ_ONLY).unwrap();
            let Some((file, _)) = tree.opened(attr.ino).unwrap().striped() else { panic!("not striped") };
            write(tree, &*stub, 0);
            if is_far {
                stub.will_change(2 * STRIPE_BYTES).unwrap();
                write(tree, &*stub, 1);
            }
            MetadataService::unlink(&**tree, caller(), Ino::ROOT, OsStr::new(NAME)).unwrap();
            close(stub);
            assert_eq!(tree.places().end(file), slots);
            tree.places().settled(file, slots);
            drop(reader);
            MetadataService::forget(&**tree, attr.ino, 1);
            tree.finish_removals(std::time::Duration::from_secs(60));
            let left: usize = tree.data.iter().map(|data| data.list(0).unwrap().entries.len()).sum();
            assert_eq!(left, 0);
        }
    });
}
