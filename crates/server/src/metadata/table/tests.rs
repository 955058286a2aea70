//! The table against what must hold after every step of a random life.

use super::*;
use forebay_wire::{FileKind, Timestamp};
use proptest::prelude::*;

fn link(parent: u64, name: &str) -> Link {
    Link { parent: Ino(parent), name: name.into() }
}

fn attr(nlink: u32) -> Attr {
    let zero = Timestamp::default();
    Attr {
        ino: Ino(9),
        size: 0,
        blocks: 0,
        atime: zero,
        mtime: zero,
        ctime: zero,
        kind: FileKind::Regular,
        mode: 0,
        nlink,
        uid: 0,
        gid: 0,
        rdev: 0,
        block_size: 0,
        generation: 0,
        valid_ms: Attr::VALID_ALWAYS,
    }
}

fn check(table: &Table) {
    for (ino, entry) in &table.entries {
        let children: usize =
            table.entries.values().map(|e| e.links.iter().filter(|l| l.parent == *ino).count()).sum();
        assert_eq!(entry.children as usize, children, "{ino:?}");
        assert!(entry.references > 0 || entry.children > 0, "{ino:?} is not needed");
    }
}

#[test]
fn directories_are_kept_for_what_is_below_them() {
    let mut table = Table::new();
    table.found(Ino(2), link(1, "d"), Annotation::default(), None);
    table.found(Ino(3), link(2, "e"), Annotation::default(), None);
    table.found(Ino(4), link(3, "f"), Annotation::default(), None);
    table.forget(Ino(2), 1);
    table.forget(Ino(3), 1);
    check(&table);
    assert_eq!(table.len(), 4);
    table.forget(Ino(4), 1);
    assert_eq!(table.len(), 1);
}

#[test]
fn a_number_used_again_gets_another_generation() {
    let mut table = Table::new();
    let first = table.found(Ino(9), link(1, "f"), Annotation::default(), None);
    assert_eq!(table.found(Ino(9), link(1, "f"), Annotation::default(), None), first);
    table.lost(Ino(9), Ino(1), OsStr::new("f"), attr(0));
    assert!(table.get(Ino(9)).unwrap().farewell.is_some());
    let second = table.found(Ino(9), link(1, "g"), Annotation::default(), None);
    assert_ne!(first, second);
    check(&table);
    // The references to the object before count on: the kernel gives all of them back.
    table.forget(Ino(9), 3);
    assert_eq!(table.len(), 1);
}

#[test]
fn another_name_of_a_living_object_keeps_its_generation() {
    let mut table = Table::new();
    let first = table.found(Ino(9), link(1, "f"), Annotation::default(), None);
    table.lost(Ino(9), Ino(1), OsStr::new("f"), attr(1));
    assert_eq!(table.found(Ino(9), link(1, "g"), Annotation::default(), None), first);
}

proptest! {
    #[test]
    fn counts_hold_in_any_life(steps in prop::collection::vec((0u8..4, 2u64..6, 1u64..6, 0u8..3, 1u64..3), 0..60)) {
        let mut table = Table::new();
        for (what, ino, parent, name, count) in steps {
            let name = ["x", "y", "z"][name as usize];
            // A directory is never below itself: parents have smaller numbers.
            let parent = parent.min(ino - 1);
            match what {
                0 => { table.found(Ino(ino), link(parent, name), Annotation::default(), None); }
                1 => { table.forget(Ino(ino), count); }
                2 => table.lost(Ino(ino), Ino(parent), OsStr::new(name), attr(0)),
                _ => table.moved(Ino(ino), Ino(parent), OsStr::new(name), link(1, "moved")),
            }
            check(&table);
        }
        for ino in 2..6 {
            table.forget(Ino(ino), u64::MAX);
        }
        prop_assert_eq!(table.len(), 1);
    }
}
