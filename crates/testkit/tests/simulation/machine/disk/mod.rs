//! Disks that lose what was not synced when their power goes.
//!
//! A disk is a directory of real files. All calls that change one are seen here ([`calls`]); what each did is written down beside
//! what is known to be on the disk ([`log`], [`content`]). When the power goes, a seed chooses among what a local file system
//! with one log (XFS, ext4) may have on its disk then, and the real files are made that ([`ground`]).
//!
//! Nothing is written down for the times of files: they are as the kernel has them.
//!
//! Called by the thread whose turn it is; nothing of the product runs meanwhile. Before each crash the real files are held
//! against what was written down: a call that nobody here knows cannot go unseen.

mod calls;
mod content;
mod ground;
mod log;

use super::schedule;
use content::{Change, Content};
use forebay_testkit::Random;
use log::{Effect, Log, Node};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

pub(super) use calls::{around, hides_a_link, named, shown_kind};

/// The directory of files that the product maps.
const MAPPED: &str = "sessions.deeds";

/// See the module.
struct Disk {
    root: PathBuf,
    /// Where files without a name are.
    kept: PathBuf,
    log: Log,
    contents: BTreeMap<Node, Content>,
    /// Everything that was ever on it since the last crash.
    nodes: BTreeSet<Node>,
    /// What has a name in `kept`.
    in_kept: BTreeSet<Node>,
}

static DISKS: Mutex<Vec<Disk>> = Mutex::new(Vec::new());

fn with<T>(look: impl FnOnce(&mut Vec<Disk>) -> T) -> T {
    look(&mut DISKS.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Disk {
    fn read(root: PathBuf, kept: PathBuf) -> Disk {
        let found = ground::read(&root);
        let nodes = found.tree.attributes.keys().copied().collect();
        let log = Log::of(found.tree);
        Disk { root, kept, log, contents: found.contents, nodes, in_kept: BTreeSet::new() }
    }

    fn add(&mut self, record: Vec<Effect>) -> u64 {
        self.log.add(record)
    }

    fn change(&mut self, node: Node, change: Change) {
        self.contents.entry(node).or_default().change(change);
    }

    fn sync(&mut self, node: Node) {
        self.log.sync(Some(node));
        if let Some(content) = self.contents.get_mut(&node) {
            content.sync();
        }
    }

    fn sync_all(&mut self) {
        self.log.sync(None);
        self.contents.values_mut().for_each(Content::sync);
    }

    /// Stores to files that are mapped are no calls: what they hold when somebody looks counts as written.
    fn notice_stores(&mut self) {
        let found = ground::read(&self.root);
        let is_mapped =
            |parent: &Node| found.tree.names.iter().any(|((_, name), node)| node == parent && name == MAPPED);
        let mapped: Vec<Node> = found
            .tree
            .names
            .iter()
            .filter(|((parent, _), _)| is_mapped(parent))
            .map(|(_, node)| *node)
            .collect();
        for node in mapped {
            if let Some(content) = found.contents.get(&node) {
                self.change(node, Change::Write { offset: 0, bytes: content.current() });
            }
        }
    }

    /// What was written down is what is there.
    fn compare(&self) {
        let (found, known) = (ground::read(&self.root), self.log.current());
        assert_eq!(found.tree.names, known.names, "names of {:?} were changed by calls unseen", self.root);
        for (node, attributes) in &found.tree.attributes {
            let known = known.attributes.get(node);
            assert_eq!(
                known,
                Some(attributes),
                "attributes of {node} of {:?}, changed by calls unseen",
                self.root
            );
        }
        for (node, content) in &found.contents {
            let known = self.contents.get(node).map(Content::current);
            assert!(
                known == Some(content.current()),
                "{node} of {:?} was changed by calls unseen",
                self.root
            );
        }
    }

    fn crash(mut self, dice: &mut Random) -> Disk {
        self.notice_stores();
        self.compare();
        let (tree, lost_from) = self.log.crash(dice);
        let left = |(node, content): (&Node, &Content)| {
            (*node, content.after_crash(|record| record < lost_from, dice))
        };
        let contents = self.contents.iter().map(left).collect();
        ground::write(&self.root, &self.kept, &tree, &contents);
        Disk::read(self.root, self.kept)
    }
}

/// A directory is a disk from now on, and everything in it is on the disk. `kept`: an empty directory beside it.
pub fn add(root: &Path, kept: &Path) {
    schedule::aside(|| {
        with(|disks| disks.push(Disk::read(root.to_owned(), kept.to_owned())));
    });
}

/// The power of a disk goes and comes back. Nobody has it in use.
pub fn crash(root: &Path) {
    let seed = schedule::with(|schedule| schedule.dice.bits());
    schedule::aside(|| {
        with(|disks| {
            let at = disks.iter().position(|disk| disk.root == root).expect("a disk");
            let disk = disks.swap_remove(at);
            disks.push(disk.crash(&mut Random::new(seed)));
        });
    });
}
