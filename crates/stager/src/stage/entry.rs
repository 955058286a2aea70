//! One name on its way through the queue.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use super::node::Node;
use crate::tree::{EntryKind, Metadata};

/// A name in a source directory that is not itself a directory. A clone is cheap and holds no count of its own.
#[derive(Clone)]
pub struct Entry {
    /// Its directory; holds one of the directory's counts until [`Node::leave`].
    pub dir: Arc<Node>,
    /// Its name there.
    pub name: Arc<OsStr>,
    /// Its name at the target when that is another.
    pub renamed: Option<Arc<OsStr>>,
    /// What the directory said it is.
    pub kind: Option<EntryKind>,
    /// Named in the request: must be a regular file.
    pub named: bool,
}

impl Entry {
    /// Path in the source tree.
    pub fn source(&self) -> PathBuf {
        self.dir.source.join(&*self.name)
    }

    /// Path in the destination tree.
    pub fn target(&self) -> PathBuf {
        self.dir.target.join(self.renamed.as_deref().unwrap_or(&self.name))
    }
}

/// An entry with the attributes found; none when it is a regular file as far as the directory knows, and is looked at when it
/// is opened.
pub struct Looked {
    pub entry: Entry,
    pub found: Option<Metadata>,
}
