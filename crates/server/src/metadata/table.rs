//! The numbers that somebody holds, and where their objects are.
//!
//! The servers hold no descriptor for a number (there may be a million of them and a thousand descriptors). They
//! remember names instead: for each number the (directory, name) pairs it was seen under. That is right as long as this
//! process is the only one that changes the tree and every change is told to the table under the lock of the tree.
//!
//! Invariants:
//! * an entry lives while it has references, or is the directory of another entry's link;
//! * an entry without links is of an object that lost all names we know; its last attributes answer for it;
//! * `children` of an entry is the number of links that name it as their directory;
//! * a number that is used again for another object gets another generation.
//!
//! Pure memory. The lock around it is never held during a system call.

use super::annotation::Annotation;
use forebay_wire::{Attr, Ino};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};

/// One name of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) parent: Ino,
    pub(crate) name: OsString,
}

/// What is remembered of one number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    references: u64,
    children: u64,
    pub(crate) generation: u64,
    pub(crate) links: Vec<Link>,
    /// Attributes when the last name that we knew went.
    pub(crate) farewell: Option<Attr>,
    /// What the stub says beyond its attributes, if that was read.
    pub(crate) annotation: Option<Annotation>,
    /// Space of a striped file that nobody writes, if somebody asked, in units of 512 bytes.
    pub(crate) blocks: Option<u64>,
}

impl Entry {
    /// Its object was never seen, or is another one with the number of one that is gone.
    fn is_new(&self) -> bool {
        let gone = self.farewell.is_some_and(|attr| attr.nlink == 0);
        self.generation == 0 || (gone && self.links.is_empty())
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Table {
    entries: HashMap<Ino, Entry>,
    generations: u64,
}

impl Table {
    pub(crate) fn new() -> Table {
        let root = Entry { references: 1, ..Entry::default() };
        Table { entries: HashMap::from([(Ino::ROOT, root)]), generations: 0 }
    }

    pub(crate) fn get(&self, ino: Ino) -> Option<&Entry> {
        self.entries.get(&ino)
    }

    /// Remembers what the stub of a number says, if the number is known.
    pub(crate) fn annotate(&mut self, ino: Ino, annotation: Option<Annotation>) {
        if let Some(entry) = self.entries.get_mut(&ino) {
            entry.annotation = annotation;
        }
    }

    /// Remembers the space of a striped file, if the number is known.
    pub(crate) fn set_blocks(&mut self, ino: Ino, blocks: Option<u64>) {
        if let Some(entry) = self.entries.get_mut(&ino) {
            entry.blocks = blocks;
        }
    }

    /// Counts references to an object that has no name any more, whose last attributes these are.
    pub(crate) fn found_nameless(&mut self, ino: Ino, attr: Attr, annotation: Annotation, count: u64) {
        let entry = self.entries.entry(ino).or_default();
        entry.references += count;
        entry.generation = attr.generation;
        entry.farewell = Some(attr);
        entry.annotation = Some(annotation);
    }

    /// Counts further references to a known number.
    pub(crate) fn refer(&mut self, ino: Ino, count: u64) {
        if let Some(entry) = self.entries.get_mut(&ino) {
            entry.references += count;
        }
    }

    /// Counts a reference to an object that was found under this name, and returns its generation: the one that is given,
    /// or one of our own.
    pub(crate) fn found(&mut self, ino: Ino, link: Link, annotation: Annotation, birth: Option<u64>) -> u64 {
        let parent = link.parent;
        let fresh = self.generations + 1;
        let entry = self.entries.entry(ino).or_default();
        if entry.is_new() {
            entry.generation = birth.unwrap_or(fresh);
            entry.blocks = None;
            self.generations = fresh;
        }
        entry.farewell = None;
        entry.references += 1;
        entry.annotation = Some(annotation);
        let generation = entry.generation;
        if !entry.links.contains(&link) {
            entry.links.push(link);
            self.entries.entry(parent).or_default().children += 1;
        }
        generation
    }

    /// The same of an object that is known; `None`, and nothing is counted, of one that is new to us.
    pub(crate) fn found_again(&mut self, ino: Ino, link: &Link, annotation: Annotation) -> Option<u64> {
        let is_new = self.entries.get(&ino).is_none_or(Entry::is_new);
        (!is_new).then(|| self.found(ino, link.clone(), annotation, None))
    }

    /// Gives references back. `true` when there are none left.
    pub(crate) fn forget(&mut self, ino: Ino, count: u64) -> bool {
        if ino == Ino::ROOT {
            return false;
        }
        let Some(entry) = self.entries.get_mut(&ino) else { return true };
        entry.references = entry.references.saturating_sub(count);
        let none_left = entry.references == 0;
        self.drop_if_unused(ino);
        none_left
    }

    /// Somebody holds a reference.
    pub(crate) fn is_held(&self, ino: Ino) -> bool {
        self.entries.get(&ino).is_some_and(|entry| entry.references > 0)
    }

    /// A name was removed, or taken over by another object. `attr` are the object's attributes without the name.
    pub(crate) fn lost(&mut self, ino: Ino, parent: Ino, name: &OsStr, attr: Attr) {
        let Some(entry) = self.entries.get_mut(&ino) else { return };
        let generation = entry.generation;
        if let Some(at) = position(entry, parent, name) {
            entry.links.swap_remove(at);
            self.release_parent(parent);
        }
        if let Some(entry) = self.entries.get_mut(&ino) {
            entry.farewell = Some(Attr { generation, ..attr }).filter(|_| entry.links.is_empty());
        }
        self.drop_if_unused(ino);
    }

    /// An object has another name instead of this one.
    pub(crate) fn moved(&mut self, ino: Ino, parent: Ino, name: &OsStr, to: Link) {
        let Some(entry) = self.entries.get_mut(&ino) else { return };
        let Some(at) = position(entry, parent, name) else { return };
        let new_parent = to.parent;
        if entry.links.contains(&to) {
            entry.links.swap_remove(at);
        } else {
            entry.links[at] = to;
            self.entries.entry(new_parent).or_default().children += 1;
        }
        self.release_parent(parent);
    }

    /// Numbers in the table.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn release_parent(&mut self, parent: Ino) {
        if let Some(entry) = self.entries.get_mut(&parent) {
            entry.children -= 1;
            self.drop_if_unused(parent);
        }
    }

    /// Removes an entry that nobody needs, and then its directories if it was the last to need them.
    fn drop_if_unused(&mut self, ino: Ino) {
        let mut candidates = vec![ino];
        while let Some(ino) = candidates.pop() {
            let unused = self.entries.get(&ino).is_some_and(|e| e.references == 0 && e.children == 0);
            if !unused {
                continue;
            }
            let links = self.entries.remove(&ino).map(|entry| entry.links).unwrap_or_default();
            for link in links {
                if let Some(parent) = self.entries.get_mut(&link.parent) {
                    parent.children -= 1;
                    candidates.push(link.parent);
                }
            }
        }
    }
}

fn position(entry: &Entry, parent: Ino, name: &OsStr) -> Option<usize> {
    entry.links.iter().position(|link| link.parent == parent && link.name == name)
}

#[cfg(test)]
mod tests;
