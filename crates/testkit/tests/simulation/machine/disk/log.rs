//! Names and attributes of a disk: as they are on it for certain, and the log of what was changed since.
//!
//! The log is one, and its order is kept, as that of XFS and ext4: after the power went the disk has its first so many
//! records. A sync of an object brings everything up to the last record about it to the disk.

use forebay_testkit::Random;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;

/// Number of a file or directory.
pub type Node = u64;

/// What is known of a file or directory beside names and content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// With the kind.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub extended: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Something that one record says.
#[derive(Clone, Debug)]
pub enum Effect {
    Name {
        directory: Node,
        name: OsString,
        node: Option<Node>,
    },
    Attributes {
        node: Node,
        attributes: Attributes,
    },
    /// Its length, what is allocated of it, or its times.
    Extent {
        node: Node,
    },
}

/// Names and attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    pub names: BTreeMap<(Node, OsString), Node>,
    pub attributes: BTreeMap<Node, Attributes>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Log {
    durable: Tree,
    /// Number of the first record.
    first: u64,
    records: VecDeque<Vec<Effect>>,
}

fn is_about(effect: &Effect, node: Node) -> bool {
    match effect {
        Effect::Name { directory, node: named, .. } => *directory == node || *named == Some(node),
        Effect::Attributes { node: changed, .. } | Effect::Extent { node: changed } => *changed == node,
    }
}

impl Tree {
    fn apply(&mut self, record: Vec<Effect>) {
        for effect in record {
            match effect {
                Effect::Name { directory, name, node: Some(node) } => {
                    self.names.insert((directory, name), node);
                }
                Effect::Name { directory, name, node: None } => {
                    self.names.remove(&(directory, name));
                }
                Effect::Attributes { node, attributes } => {
                    self.attributes.insert(node, attributes);
                }
                Effect::Extent { .. } => {}
            }
        }
    }
}

impl Log {
    /// All of it is on the disk.
    pub fn of(durable: Tree) -> Log {
        Log { durable, ..Log::default() }
    }

    /// One change, all of it or nothing; returns its number.
    pub fn add(&mut self, record: Vec<Effect>) -> u64 {
        self.records.push_back(record);
        self.first + self.records.len() as u64 - 1
    }

    /// Everything up to the last record about an object is on the disk from now on; `None`: about any.
    pub fn sync(&mut self, node: Option<Node>) {
        let is_last =
            |record: &Vec<Effect>| node.is_none_or(|node| record.iter().any(|effect| is_about(effect, node)));
        let count = self.records.iter().rposition(is_last).map_or(0, |last| last + 1);
        self.keep(count);
    }

    fn keep(&mut self, count: usize) {
        self.records.drain(..count).for_each(|record| self.durable.apply(record));
        self.first += count as u64;
    }

    /// As everybody sees it.
    pub fn current(&self) -> Tree {
        let mut tree = self.durable.clone();
        self.records.iter().cloned().for_each(|record| tree.apply(record));
        tree
    }

    /// The power goes: returns what is left, and the number of the first record that is not.
    pub fn crash(mut self, dice: &mut Random) -> (Tree, u64) {
        let count = match dice.below(3) {
            0 => 0,
            1 => self.records.len(),
            _ => dice.below(self.records.len() as u64 + 1) as usize,
        };
        self.keep(count);
        (self.durable, self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, node: Option<Node>) -> Vec<Effect> {
        vec![Effect::Name { directory: 1, name: name.into(), node }]
    }

    fn made() -> Log {
        let mut log = Log::default();
        for (name, node) in [("a", 2), ("b", 3), ("c", 4)] {
            log.add(named(name, Some(node)));
        }
        log
    }

    #[test]
    fn the_disk_has_the_begin_of_the_log() {
        let mut dice = Random::new(3);
        let mut counts: Vec<usize> = (0..100).map(|_| made().crash(&mut dice).0.names.len()).collect();
        counts.sort();
        counts.dedup();
        assert_eq!(counts, [0, 1, 2, 3]);
        let (tree, first) = made().crash(&mut Random::new(8));
        assert_eq!(tree.names.len() as u64, first);
    }

    #[test]
    fn a_sync_of_an_object_is_one_of_all_before() {
        let mut dice = Random::new(3);
        for _ in 0..100 {
            let mut log = made();
            log.sync(Some(3));
            assert!(log.crash(&mut dice).0.names.len() >= 2);
            let mut log = made();
            log.sync(None);
            assert_eq!(log.crash(&mut dice).0.names.len(), 3);
        }
    }
}
