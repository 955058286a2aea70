//! Directories that still have something in work.
//!
//! A directory's times (and a mode without write permission) can only be set when nothing is made in it any more. Each node
//! counts what is outstanding: the walker while it reads the directory, each entry, each sub-directory. Whoever takes the count
//! to zero sets the attributes and does the same for the directory above. So nodes live only above entries in flight.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::run::Run;
use super::{attributes, leftover};
use crate::tree::Metadata;

/// See the module.
pub struct Node {
    /// Path in the source tree.
    pub source: PathBuf,
    /// Path in the destination tree.
    pub target: PathBuf,
    /// Whether this run has made the target.
    pub is_fresh: bool,
    /// Held by a worker while it makes a batch of files in the target; no other lock is taken inside but the trees' own.
    pub gate: Mutex<()>,
    parent: Option<Arc<Node>>,
    /// Whether everything the request puts into the target passes through this node. Not so for named files, of which several
    /// may go into one directory.
    pub is_whole: bool,
    /// Attributes to give at the end; `None` leaves the target as it is.
    apply: Option<Metadata>,
    outstanding: AtomicUsize,
}

/// A directory of the destination.
pub struct Target {
    pub path: PathBuf,
    /// Whether this run has made it.
    pub is_fresh: bool,
    /// See [`Node::is_whole`].
    pub is_whole: bool,
}

impl Node {
    /// A directory with one count, the maker's. The directory above is counted up.
    pub fn new(
        parent: Option<Arc<Self>>,
        source: PathBuf,
        target: Target,
        apply: Option<Metadata>,
    ) -> Arc<Self> {
        if let Some(parent) = &parent {
            parent.enter();
        }
        let Target { path: target, is_fresh, is_whole } = target;
        let (gate, outstanding) = (Mutex::new(()), AtomicUsize::new(1));
        Arc::new(Self { source, target, is_fresh, is_whole, gate, parent, apply, outstanding })
    }

    /// One more outstanding. Only by somebody who holds a count.
    pub fn enter(&self) {
        self.outstanding.fetch_add(1, Ordering::Relaxed);
    }

    /// One less; at zero the directory is finished, and so perhaps the ones above.
    pub fn leave(self: &Arc<Self>, run: &Run<'_>) {
        let mut node = Arc::clone(self);
        while node.outstanding.fetch_sub(1, Ordering::AcqRel) == 1 {
            leftover::sweep(run, &node);
            if let Some(found) = &node.apply {
                attributes::finish_directory(run, &node.source, &node.target, found);
            }
            match &node.parent {
                Some(parent) => node = Arc::clone(parent),
                None => return,
            }
        }
    }
}
