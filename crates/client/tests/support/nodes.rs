//! An instance whose fragments are opened one by one, as several servers do, with any number of volumes over its tree.

use super::*;
use forebay_server::node::{NodeInstance, NodeSpec, Tree};
use std::time::Duration;

/// The word for the instance of the tests.
const INSTANCE: &str = "5eed";

pub struct Nodes {
    pub nodes: Vec<Arc<NodeInstance>>,
    pub tree: Arc<Tree>,
    pub data: Vec<Arc<dyn DataService>>,
    pub shape: Shape,
    /// Position of the fragment that holds the names.
    pub home: usize,
    pub directory: tempfile::TempDir,
}

pub fn node_spec(directory: &Path, shape: &Shape, position: usize) -> NodeSpec {
    let root = directory.join(format!("fragment{position}"));
    std::fs::create_dir_all(&root).unwrap();
    let (position, servers) = (position as u32, shape.fragments as u32);
    NodeSpec { root, instance: INSTANCE.into(), space: shape.space, position, servers }
}

impl Nodes {
    pub fn new(shape: Shape, home: usize) -> Nodes {
        Nodes::open(tempfile::tempdir().unwrap(), shape, home)
    }

    pub fn open(directory: tempfile::TempDir, shape: Shape, home: usize) -> Nodes {
        let open = |n: usize| NodeInstance::open(&node_spec(directory.path(), &shape, n)).unwrap();
        let nodes: Vec<_> = (0..shape.fragments).map(open).collect();
        let data: Vec<Arc<dyn DataService>> =
            nodes.iter().map(|node| node.data("c1").unwrap() as Arc<dyn DataService>).collect();
        let spec = NamespaceSpec { name: "c1".into(), layout: shape.layout, limits: shape.limits };
        let tree = nodes[home].tree(&spec, data.clone()).unwrap();
        Nodes { nodes, tree, data, shape, home, directory }
    }

    pub fn volume(&self) -> Volume {
        Volume::new(self.tree.clone(), self.data.clone())
    }

    /// Closes all nodes; nobody may use their volumes any more.
    pub fn close(self) -> (tempfile::TempDir, Shape, usize) {
        let Nodes { nodes, tree, data, shape, home, directory } = self;
        drop((tree, data));
        nodes.into_iter().for_each(|node| node.close().unwrap());
        (directory, shape, home)
    }

    pub fn reopen(self) -> Nodes {
        let (directory, shape, home) = self.close();
        Nodes::open(directory, shape, home)
    }

    /// Forgets to close, as a process that is killed.
    pub fn reopen_uncleanly(self) -> Nodes {
        let Nodes { nodes, tree, data, shape, home, directory } = self;
        drop((tree, data, nodes));
        Nodes::open(directory, shape, home)
    }

    /// As if all processes were killed: nothing of theirs is closed or settled, only their locks are gone. What they hold
    /// stays in memory until the test ends.
    pub fn killed(self) -> (tempfile::TempDir, Shape, usize) {
        let Nodes { nodes, tree, data, shape, home, directory } = self;
        std::mem::forget((nodes, tree, data));
        for index in 0..shape.fragments {
            // Another inode: the lock of the one before does not count.
            std::fs::remove_file(directory.path().join(format!("fragment{index}/lock"))).unwrap();
        }
        (directory, shape, home)
    }

    /// Substripe files on all fragments, when those of files without a name are removed.
    pub fn substripe_files(&self) -> usize {
        self.tree.finish_removals(Duration::from_secs(60));
        let count = |data: &Arc<dyn DataService>| {
            let (mut count, mut cookie) = (0, Some(0));
            while let Some(at) = cookie {
                let listing = data.list(at).unwrap();
                count += listing.entries.len();
                cookie = listing.next;
            }
            count
        };
        self.data.iter().map(count).sum()
    }
}
