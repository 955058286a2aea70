//! The instance on this machine: its fragments opened by one process.
//!
//! Order of events at open: every fragment is locked; the identity records are checked, or written if the instance is
//! new; if the last process did not close the instance, or the machine was started anew since, all files are walked
//! ([`crate::recover`]); the record says that the instance is open. A crash at any point means that the next open walks.
//!
//! Any thread may call.

use crate::data::LocalData;
use crate::descriptors::DataDescriptors;
use crate::fragment::state::{self, State};
use crate::fragment::{Fragment, NAMESPACES, identity, make_directory};
use crate::host::host;
use crate::ids::FileIds;
use crate::metadata::Tree;
use crate::recover;
use forebay_model::layout::{LayoutChoice, SERVERS_MAX};
use forebay_model::units::Bytes;
use forebay_wire::{DataService, FsError, MetadataService, Result};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

pub use crate::descriptors::raise_descriptor_limit;

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
    /// Most regular files created.
    pub max_files: Option<u64>,
}

/// One namespace of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceSpec {
    /// Name of its directory, `c<configuration id>`: letters, digits, `-` and `_`.
    pub name: String,
    /// Layout of new files, as far as the instance says.
    pub layout: LayoutChoice,
    /// Limits.
    pub limits: Limits,
}

/// The services of one namespace.
#[derive(Clone)]
pub struct Services {
    /// Names and attributes.
    pub metadata: Arc<dyn MetadataService>,
    /// Content, one for each fragment.
    pub data: Vec<Arc<dyn DataService>>,
}

/// The fragments of one instance, opened by this process and by no other at the same time.
pub struct Fragments {
    fragments: Vec<Arc<Fragment>>,
    ids: FileIds,
    descriptors: Arc<DataDescriptors>,
    /// Files created, by namespace, of those that are not open.
    created: Mutex<BTreeMap<String, u64>>,
    /// Something was left behind that only a walk finds.
    walk: AtomicBool,
}

impl Fragments {
    /// Opens, and makes the structure on disk where it is absent. `Busy` when another process has them open.
    pub fn open(specs: &[FragmentSpec]) -> Result<Arc<Fragments>> {
        if specs.is_empty() || specs.len() > SERVERS_MAX as usize {
            return Err(FsError::InvalidArgument);
        }
        let open = |spec: &FragmentSpec| match spec.space {
            SpaceRule::Hard => Fragment::open(&spec.root, None),
            SpaceRule::Metered(capacity) => Fragment::open(&spec.root, Some(capacity.0)),
        };
        let fragments = specs.iter().map(open).collect::<Result<Vec<_>>>()?;
        identity::check_or_write(&fragments)?;
        let (state, next_file) = state::read(&fragments)?;
        let state = match state {
            Some(state) => state,
            None => recover::walk(&fragments, next_file)?,
        };
        for (fragment, used) in fragments.iter().zip(&state.used) {
            fragment.meter.start_at(*used);
        }
        Ok(Arc::new(Fragments {
            ids: FileIds::start(&fragments[0], state.next_file)?,
            fragments: fragments.into_iter().map(Arc::new).collect(),
            descriptors: Arc::new(DataDescriptors::new()),
            created: Mutex::new(state.created),
            walk: AtomicBool::new(false),
        }))
    }

    /// The services of a namespace, which is made when absent. Space is shared by all namespaces. One namespace may be
    /// open only once at a time.
    pub fn namespace(self: &Arc<Fragments>, spec: &NamespaceSpec) -> Result<Services> {
        check_namespace_name(&spec.name)?;
        let mut data = Vec::new();
        let mut first = None;
        for fragment in &self.fragments {
            let namespaces = make_directory(&fragment.root, NAMESPACES, 0o700)?;
            let namespace = make_directory(&namespaces, &spec.name, 0o700)?;
            data.push(LocalData::open(fragment.clone(), &namespace, self.descriptors.clone())?);
            first.get_or_insert(namespace);
        }
        let namespace = first.ok_or(FsError::InvalidArgument)?;
        let created = self.opened_namespace(&spec.name)?;
        let tree = Tree::open(self.clone(), &namespace, data.clone(), spec, created);
        if tree.is_err() {
            self.closed_namespace(&spec.name, created);
        }
        let services = data.into_iter().map(|data| data as Arc<dyn DataService>).collect();
        Ok(Services { metadata: tree?, data: services })
    }

    /// Closes the fragments and records their counters, so that the next open need not walk. `Busy` while volumes or
    /// services of them are still in use; the fragments stay open by those, and the next open walks.
    pub fn close(self: Arc<Fragments>) -> Result<()> {
        let fragments = Arc::try_unwrap(self).map_err(|_| FsError::Busy)?;
        if fragments.walk.load(SeqCst) {
            return Ok(());
        }
        let used = fragments.fragments.iter().map(|fragment| fragment.meter.used()).collect();
        let created = fragments.created.into_inner().unwrap_or_else(PoisonError::into_inner);
        let state = State::counters(fragments.ids.next(), used, created);
        state::write_closed(&fragments.fragments[0], state)
    }

    /// The fragment that holds the names.
    pub(crate) fn first(&self) -> &Fragment {
        &self.fragments[0]
    }

    pub(crate) fn ids(&self) -> &FileIds {
        &self.ids
    }

    /// Something could not be removed: the next open has to look for it.
    pub(crate) fn walk_next_time(&self) {
        self.walk.store(true, SeqCst);
    }

    fn opened_namespace(&self, name: &str) -> Result<u64> {
        /// In place of a count: the namespace is open.
        const OPEN: u64 = u64::MAX;
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        match created.insert(name.to_owned(), OPEN) {
            Some(OPEN) => Err(FsError::Busy),
            count => Ok(count.unwrap_or(0)),
        }
    }

    /// A namespace is no longer in use.
    pub(crate) fn closed_namespace(&self, name: &str, count: u64) {
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        created.insert(name.to_owned(), count);
    }
}

fn check_namespace_name(name: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !name.is_empty() && name.len() <= 64 && name.chars().all(fits) {
        Ok(())
    } else {
        Err(FsError::InvalidArgument)
    }
}

/// The directory tree of a namespace within fragment 0; where files are inline it may be used directly (bind mount).
pub fn tree_path(fragment_root: &Path, namespace: &str) -> PathBuf {
    fragment_root.join(NAMESPACES).join(namespace).join("tree")
}

/// Makes the directory tree of a namespace for direct use, without the file system in between, and returns its path.
/// Such a fragment is never opened as [`Fragments`].
pub fn prepare_tree(fragment_root: &Path, namespace: &str) -> Result<PathBuf> {
    check_namespace_name(namespace)?;
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let root = rustix::fs::open(fragment_root, flags, Mode::empty()).map_err(host("open fragment"))?;
    let namespaces = make_directory(&root, NAMESPACES, 0o700)?;
    let namespace_directory = make_directory(&namespaces, namespace, 0o700)?;
    make_directory(&namespace_directory, "tree", 0o755)?;
    Ok(tree_path(fragment_root, namespace))
}
