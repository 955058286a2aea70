//! Whoever keeps an object keeps the whole tree: nothing is kept that nobody will ask for.

use super::super::altered::Altered;
use super::super::reclaim::Claim;
use super::super::reclaim::tests::{end, ground, me, open, open_over};
use super::super::remove::Remains;
use super::*;
use crate::deeds::Deed;
use crate::metadata::Tree;
use forebay_wire::{
    Attr, DataService, FileKind, FsError, MetadataService, NewObject, OpenFlags, RenameMode, Stub,
};
use std::ffi::OsStr;

fn make(tree: &Tree, name: &str) -> (Attr, Arc<dyn Stub>) {
    let object = NewObject { caller: me(), mode: FileKind::Regular.mode_bits() | 0o644, rdev: 0 };
    MetadataService::create(tree, Ino::ROOT, OsStr::new(name), &object, OpenFlags::READ_WRITE).unwrap()
}

fn put_in_place(tree: &Tree, from: &str, to: &str) {
    let (from, to) = ((Ino::ROOT, OsStr::new(from)), (Ino::ROOT, OsStr::new(to)));
    tree.rename(from, to, RenameMode::Replace, &Deed::UNNOTED).unwrap();
}

#[test]
fn a_file_whose_number_is_given_back_while_it_is_replaced_is_not_kept() {
    let ground = ground();
    let (tree, nodes) = open(ground.path());
    let (attr, stub) = make(&tree, "old");
    drop(stub);
    {
        // What a rename over it does, and in the middle of that the last who held its number goes.
        let directory = tree.directory(Ino::ROOT).unwrap();
        let object = tree.object_at(&directory, OsStr::new("old")).unwrap();
        let kept = tree.hold_stub(&object);
        assert!(kept.is_some());
        MetadataService::forget(&*tree, attr.ino, 1);
        let mut remains = Remains::default();
        tree.keep(&object, kept, &mut remains);
        tree.clear(remains);
    }
    end(tree, nodes);
}

#[test]
fn nothing_is_kept_once_the_server_ends() {
    let ground = ground();
    let (tree, nodes) = open(ground.path());
    let ((_, old), (_, new)) = (make(&tree, "old"), make(&tree, "new"));
    drop((old, new));
    tree.leave();
    // A request that was under way, whose session has not ended yet.
    put_in_place(&tree, "new", "old");
    end(tree, nodes);
}

#[test]
fn a_file_without_a_name_that_is_claimed_while_the_server_ends_is_left_to_the_next() {
    let ground = ground();
    let (tree, nodes) = open(ground.path());
    let (attr, stub) = make(&tree, "f");
    MetadataService::unlink(&*tree, me(), Ino::ROOT, OsStr::new("f")).unwrap();
    tree.leave();
    drop(stub);
    end(tree, nodes);

    let claim =
        Claim { ino: attr.ino, generation: attr.generation, parent: Ino::ROOT, name: "f".into(), count: 1 };
    let (tree, nodes) = open(ground.path());
    tree.leave();
    assert!(tree.reclaim(&claim).is_err());
    end(tree, nodes);

    let (tree, nodes) = open(ground.path());
    assert_eq!(tree.reclaim(&claim).map(|attr| attr.ino), Ok(attr.ino));
    tree.leave();
    end(tree, nodes);
}

/// A local file system gives numbers again at once: what was kept under one before says nothing of how old it is.
#[test]
fn a_number_that_was_kept_before_is_not_taken_for_the_oldest() {
    let node = || Kept::Node(Arc::new(std::fs::File::open("/").unwrap().into()));
    let farewells = Farewells::default();
    assert!(farewells.keep(Ino(1), node()).is_empty());
    for _ in 0..2 * KEPT_MAX {
        assert!(farewells.keep(Ino(2), node()).is_empty());
        assert!(farewells.get(Ino(1)).is_some() && farewells.get(Ino(2)).is_some());
        assert!(farewells.take(Ino(2)).is_some());
    }
    for number in 0..KEPT_MAX as u64 - 1 {
        assert!(farewells.keep(Ino(100 + number), node()).is_empty());
    }
    assert_eq!(farewells.keep(Ino(3), node()).len(), 1);
    assert!(farewells.get(Ino(1)).is_none() && farewells.get(Ino(100)).is_some(), "the oldest goes");
}

/// What happens once, in the middle of something else.
type Meanwhile = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Runs something when it is asked how far a file reaches, and does not answer.
fn interrupted(service: Arc<dyn DataService>, meanwhile: &Meanwhile) -> Arc<dyn DataService> {
    let meanwhile = meanwhile.clone();
    let before_extents = move || match meanwhile.lock().unwrap().take() {
        Some(meanwhile) => {
            meanwhile();
            Err(FsError::Unreachable)
        }
        None => Ok(()),
    };
    let over_share = Box::new(|share| share);
    Arc::new(Altered { service, before_extents: Box::new(before_extents), over_share })
}

#[test]
fn a_file_that_is_replaced_while_a_lookup_of_it_fails_is_not_kept() {
    let ground = ground();
    let meanwhile = Meanwhile::default();
    let (tree, nodes) = open_over(ground.path(), |_, service| interrupted(service, &meanwhile));
    let ((old, writer), (_, new)) = (make(&tree, "old"), make(&tree, "new"));
    drop(new);
    // Written elsewhere too, so that its length is asked for.
    writer.will_change(u64::from(u32::MAX)).unwrap();
    tree.bare().end(tree.opened(old.ino).and_then(|stub| stub.annotation().striped).unwrap().0);
    MetadataService::forget(&*tree, old.ino, 1);
    let other = tree.clone();
    *meanwhile.lock().unwrap() = Some(Box::new(move || put_in_place(&other, "new", "old")));
    assert_eq!(tree.lookup(Ino::ROOT, OsStr::new("old")), Err(FsError::Unreachable));
    assert!(meanwhile.lock().unwrap().is_none());
    drop(writer);
    end(tree, nodes);
}
