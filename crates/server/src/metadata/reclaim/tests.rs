//! What is left of files without a name when a home of several fragments ends.

use crate::deeds::Deed;
use crate::local::{Limits, NamespaceSpec};
use crate::metadata::Tree;
use crate::node::{NodeInstance, NodeSpec, SpaceRule};
use forebay_model::layout::LayoutChoice;
use forebay_wire::{
    Caller, DataService, FileId, FileKind, Ino, MetadataService, NewObject, Placement, RenameMode, Span,
    Stub as _,
};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const SERVERS: u32 = 2;
pub(crate) const STRIPE_BYTES: u64 = 4096;

/// Who runs the tests.
pub(crate) fn me() -> Caller {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Caller { uid, gid, pid: 1 }
}

/// Empty fragments, one in each directory.
pub(crate) fn ground() -> tempfile::TempDir {
    let ground = tempfile::tempdir().unwrap();
    (0..SERVERS).for_each(|n| std::fs::create_dir(ground.path().join(n.to_string())).unwrap());
    ground
}

/// Nobody holds the tree any more when this returns.
pub(crate) fn end(tree: Arc<Tree>, nodes: impl IntoIterator<Item = Arc<NodeInstance>>) {
    drop(tree);
    nodes.into_iter().for_each(|node| assert_eq!(node.close(), Ok(())));
}

pub(crate) fn open(directory: &Path) -> (Arc<Tree>, [Arc<NodeInstance>; SERVERS as usize]) {
    open_over(directory, |_, data| data)
}

/// The same with something over the data service of each position.
pub(crate) fn open_over(
    directory: &Path,
    over: impl Fn(usize, Arc<dyn DataService>) -> Arc<dyn DataService>,
) -> (Arc<Tree>, [Arc<NodeInstance>; SERVERS as usize]) {
    let nodes = [0, 1].map(|position| {
        let root = directory.join(position.to_string());
        let space = SpaceRule::Hard;
        NodeInstance::open(&NodeSpec { root, instance: "ab".into(), space, position, servers: SERVERS })
            .unwrap()
    });
    let layout = LayoutChoice {
        stripe_size: Some(STRIPE_BYTES),
        stripe_count: Some(SERVERS),
        first_server: Some(0),
        substripes: Some(1),
    };
    let spec = NamespaceSpec { name: "c1".into(), layout, limits: Limits::default() };
    let all = nodes.iter().enumerate();
    let data = all.map(|(position, node)| over(position, node.data("c1").unwrap())).collect();
    (nodes[0].tree(&spec, data).unwrap(), nodes)
}

/// Makes a file with content on both servers, closed.
fn make(tree: &Arc<Tree>, nodes: &[Arc<NodeInstance>], name: &str) -> FileId {
    let object = NewObject { caller: me(), mode: FileKind::Regular.mode_bits() | 0o644, rdev: 0 };
    let (attr, stub) = tree.create(Ino::ROOT, OsStr::new(name), &object, &Deed::UNNOTED).unwrap();
    let Placement::Striped { file, .. } = stub.placement() else { panic!("{name} is not striped") };
    for node in nodes {
        let spans = [Span { substripe: 0, offset: 0, at: 0, len: STRIPE_BYTES as usize }];
        node.data("c1").unwrap().share(file, 1).write(&spans, &[7; STRIPE_BYTES as usize]).unwrap();
    }
    stub.was_written(STRIPE_BYTES * u64::from(SERVERS)).unwrap();
    drop(stub);
    tree.table().forget(attr.ino, 1);
    file
}

fn contents(directory: &Path, file: FileId) -> Vec<PathBuf> {
    let of = |position: u32| {
        directory.join(position.to_string()).join("ns/c1/data").join(crate::data::substripe_path(file, 0))
    };
    (0..SERVERS).map(of).filter(|path| path.exists()).collect()
}

#[test]
fn a_replaced_file_whose_number_is_held_leaves_nothing_when_the_server_ends() {
    let directory = ground();
    let (tree, nodes) = open(directory.path());
    let (old, new) = (make(&tree, &nodes, "old"), make(&tree, &nodes, "new"));
    // A kernel knows the number of the old one, and nobody has it open.
    let held = tree.lookup(Ino::ROOT, OsStr::new("old")).unwrap();
    let names = [(Ino::ROOT, OsStr::new("new")), (Ino::ROOT, OsStr::new("old"))];
    tree.rename(names[0], names[1], RenameMode::Replace, &Deed::UNNOTED).unwrap();
    tree.leave();
    // The sessions end after that, and with them what they hold.
    MetadataService::forget(&*tree, held.ino, 1);
    end(tree, nodes);

    let (tree, nodes) = open(directory.path());
    tree.sweep().unwrap();
    end(tree, nodes);
    assert_eq!(contents(directory.path(), new).len(), SERVERS as usize);
    assert_eq!(contents(directory.path(), old), Vec::<PathBuf>::new());
}
