//! Objects are claimed wherever they are.

use super::super::reclaim::{
    self,
    tests::{me, open},
};
use super::*;
use crate::deeds::Deed;
use crate::node::NodeInstance;
use forebay_wire::{FileKind, NewObject, OpenFlags, RenameMode};
use std::sync::Arc;

struct Ground {
    tree: Arc<Tree>,
    nodes: [Arc<NodeInstance>; 2],
    directory: tempfile::TempDir,
}

fn new(kind: FileKind) -> NewObject {
    NewObject { caller: me(), mode: kind.mode_bits() | 0o755, rdev: 0 }
}

impl Ground {
    fn make() -> Ground {
        let directory = reclaim::tests::ground();
        let (tree, nodes) = open(directory.path());
        Ground { tree, nodes, directory }
    }

    /// The server ends, and another one awaits those who were there.
    fn again(self) -> Ground {
        let directory = self.end();
        let (tree, nodes) = open(directory.path());
        tree.await_claims();
        Ground { tree, nodes, directory }
    }

    fn end(self) -> tempfile::TempDir {
        self.tree.leave();
        reclaim::tests::end(self.tree, self.nodes);
        self.directory
    }

    fn mkdir(&self, parent: Ino, name: &str) -> Attr {
        let object = new(FileKind::Directory);
        MetadataService::mkdir(&*self.tree, parent, OsStr::new(name), &object).unwrap()
    }

    fn file(&self, parent: Ino, name: &str) -> Attr {
        let object = new(FileKind::Regular);
        MetadataService::create(&*self.tree, parent, OsStr::new(name), &object, OpenFlags::READ_WRITE)
            .unwrap()
            .0
    }

    fn mv(&self, from: (Ino, &str), to: (Ino, &str)) {
        let (from, to) = ((from.0, OsStr::new(from.1)), (to.0, OsStr::new(to.1)));
        self.tree.rename(from, to, RenameMode::Replace, &Deed::UNNOTED).unwrap();
    }

    fn claim(&self, claim: &Claim) -> Result<Ino> {
        self.tree.reclaim(claim).map(|attr| attr.ino)
    }
}

fn claim_of(attr: &Attr, parent: Ino, name: &str) -> Claim {
    Claim { ino: attr.ino, generation: attr.generation, parent, name: name.into(), count: 1 }
}

#[test]
fn what_was_moved_is_claimed_by_its_earlier_name() {
    let ground = Ground::make();
    let (upper, file) = (ground.mkdir(Ino::ROOT, "upper"), ground.file(Ino::ROOT, "f"));
    let lower = ground.mkdir(upper.ino, "lower");
    let other = ground.file(Ino::ROOT, "other");
    ground.mv((Ino::ROOT, "f"), (lower.ino, "g"));
    // Something else has its name.
    ground.mv((Ino::ROOT, "other"), (Ino::ROOT, "f"));
    ground.mv((upper.ino, "lower"), (Ino::ROOT, "moved"));
    let ground = ground.again();
    assert_eq!(ground.claim(&claim_of(&file, Ino::ROOT, "f")), Ok(file.ino));
    assert_eq!(ground.tree.own_attr(file.ino).map(|attr| attr.ino), Ok(file.ino), "it is known");
    assert_eq!(ground.claim(&claim_of(&lower, upper.ino, "lower")), Ok(lower.ino));
    assert_eq!(ground.claim(&claim_of(&other, Ino::ROOT, "?")), Ok(other.ino), "no name is known of it");
    for ino in [file.ino, lower.ino, other.ino] {
        ground.tree.forget(ino, 1);
    }
    assert_eq!(ground.tree.table().len(), 1, "nothing is known but the root");
    ground.end();
}

#[test]
fn what_is_moved_while_it_is_looked_for_is_found() {
    let ground = Ground::make();
    let (file, first) = (ground.file(Ino::ROOT, "f"), ground.file(Ino::ROOT, "first"));
    let ground = ground.again();
    assert_eq!(ground.claim(&claim_of(&first, Ino::ROOT, "?")), Ok(first.ino));
    let directory = ground.mkdir(Ino::ROOT, "d");
    ground.mv((Ino::ROOT, "f"), (directory.ino, "g"));
    assert_eq!(ground.claim(&claim_of(&file, Ino::ROOT, "f")), Ok(file.ino));
    ground.end();
}

#[test]
fn what_is_gone_is_not_found() {
    let ground = Ground::make();
    let (file, removed) = (ground.file(Ino::ROOT, "f"), ground.file(Ino::ROOT, "removed"));
    ground.tree.unlink(Ino::ROOT, OsStr::new("removed"), &Deed::UNNOTED).unwrap();
    let ground = ground.again();
    let reused = Claim { generation: file.generation + 1, ..claim_of(&file, Ino::ROOT, "?") };
    assert_eq!(ground.claim(&reused), Err(FsError::Stale), "another one with its number");
    assert!(ground.tree.whereabouts().is_some(), "the tree need not be listed again for that");
    assert_eq!(ground.claim(&claim_of(&removed, Ino::ROOT, "removed")), Err(FsError::Stale));
    // Nobody is awaited any more: the tree is not listed for who comes now.
    ground.tree.end_claims().unwrap();
    assert_eq!(ground.claim(&claim_of(&file, Ino::ROOT, "?")), Err(FsError::Stale));
    assert!(ground.tree.whereabouts().is_none());
    ground.end();
}
