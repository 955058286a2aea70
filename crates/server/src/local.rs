//! The instance on this machine: its fragments opened by one process.

use forebay_model::layout::LayoutChoice;
use forebay_model::units::Bytes;
use forebay_wire::{DataService, MetadataService, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the capacity of a fragment is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceRule {
    /// The fragment's own file system has the size.
    Hard,
    /// The fragment shares a file system with others: allocated bytes are counted and refused beyond this.
    Metered(Bytes),
}

/// One fragment of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FragmentSpec {
    /// Directory that holds it.
    pub root: PathBuf,
    /// How its capacity is kept.
    pub space: SpaceRule,
}

/// Limits of a configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Longest file.
    pub max_file_size: Option<Bytes>,
    /// Most files created.
    pub max_files: Option<u64>,
}

/// One namespace of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceSpec {
    /// Name of its directory, `c<configuration id>`.
    pub name: String,
    /// Layout of new files, as far as the instance says.
    pub layout: LayoutChoice,
    /// Limits.
    pub limits: Limits,
}

/// The services of one namespace, for `forebay_client::Volume::new`.
pub struct Services {
    /// Names and attributes.
    pub metadata: Arc<dyn MetadataService>,
    /// Content, one for each fragment.
    pub data: Vec<Arc<dyn DataService>>,
}

/// The fragments of one instance, opened by this process and by no other at the same time.
pub struct Fragments {}

#[allow(unused_variables, missing_docs, clippy::unimplemented)]
impl Fragments {
    /// Opens, and makes the structure on disk where it is absent. `Busy` when another process has them open.
    pub fn open(specs: &[FragmentSpec]) -> Result<Arc<Fragments>> {
        unimplemented!()
    }
    /// The services of a namespace, which is made when absent. Space is shared by all namespaces.
    pub fn namespace(self: &Arc<Fragments>, spec: &NamespaceSpec) -> Result<Services> {
        unimplemented!()
    }
    /// Marks the fragments as cleanly closed. Everything that uses them must be gone.
    pub fn close(self: Arc<Fragments>) -> Result<()> {
        unimplemented!()
    }
}

/// The directory tree of a namespace within fragment 0; where files are inline it may be used directly (bind mount).
pub fn tree_path(fragment_root: &Path, namespace: &str) -> PathBuf {
    fragment_root.join("ns").join(namespace).join("tree")
}

/// Raises the soft limit of open files of this process to the hard limit and returns it.
pub fn raise_descriptor_limit() -> Result<u64> {
    unimplemented!()
}
