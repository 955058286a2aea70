//! The instance on this machine: its fragments opened by one process.
//!
//! Order of events at open: every fragment is locked; the identity records are checked, or written if the instance is
//! new; if the last process did not close the instance, or the machine was started anew since, all files are walked
//! ([`crate::recover`]); the record says that the instance is open. A crash at any point means that the next open walks.
//!
//! Any thread may call.

use crate::data::LocalData;
use crate::descriptors::DataDescriptors;
use crate::fragment::state;
use crate::fragment::{Fragment, NAMESPACES, identity, make_directory};
use crate::home::Home;
use crate::host::host;
use crate::ids::{FileIds, Loss};
use crate::metadata::Tree;
use crate::recover;
use forebay_model::layout::{LayoutChoice, SERVERS_MAX};
use forebay_model::limits::{Policies, WriteWindow};
use forebay_model::units::Bytes;
use forebay_wire::{DataService, FragmentAccount, FsError, MetadataService, Result, Sharing};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::descriptors::raise_descriptor_limit;
pub use crate::limits::log::LIMIT_REACHED;

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
    /// What happens when one of them is reached.
    pub policies: Policies,
}

impl Limits {
    /// Longest file that is not refused.
    pub fn enforced_file_size(&self) -> u64 {
        let enforced = self.max_file_size.filter(|_| self.policies.file_size.refuses());
        enforced.map_or(i64::MAX as u64, |size| size.0)
    }
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
    home: Arc<Home>,
    descriptors: Arc<DataDescriptors>,
}

impl Fragments {
    /// Opens, and makes the structure on disk where it is absent. `Busy` when another process has them open.
    pub fn open(specs: &[FragmentSpec]) -> Result<Arc<Fragments>> {
        if specs.is_empty() || specs.len() > SERVERS_MAX as usize {
            return Err(FsError::InvalidArgument);
        }
        let fragments = specs.iter().map(open_fragment).collect::<Result<Vec<_>>>()?;
        identity::check_or_write(&fragments)?;
        fragments[1..].iter().try_for_each(state::forget)?;
        let (state, next_file) = state::read(&fragments)?;
        let state = match state {
            Some(state) => state,
            None => recover::walk(&fragments, recover::Extent::Whole, next_file)?.state,
        };
        for (fragment, used) in fragments.iter().zip(&state.used) {
            fragment.meter.start_at(*used);
        }
        let fragments: Vec<Arc<Fragment>> = fragments.into_iter().map(Arc::new).collect();
        let ids = FileIds::start(&fragments[0], state.next_file, Loss::Found)?;
        let moved = state.moved();
        let counters = (state.created, moved);
        let home = Home::new(fragments[0].clone(), 0, ids, counters, BTreeMap::new());
        let descriptors = Arc::new(DataDescriptors::new());
        Ok(Arc::new(Fragments { home: Arc::new(home), fragments, descriptors }))
    }

    /// What is written to the fragments is held against a window from now on; their sizes in order. To be called before
    /// any namespace is opened.
    pub fn limit_writes(&self, rule: WriteWindow, capacities: &[Bytes]) -> Result<()> {
        if capacities.len() != self.fragments.len() {
            return Err(FsError::InvalidArgument);
        }
        let mut pairs = self.fragments.iter().zip(capacities);
        pairs.try_for_each(|(fragment, capacity)| fragment.limit_writes(rule, Some(capacity.0)))
    }

    /// What is counted of the fragments, in order.
    pub fn accounts(&self) -> Result<Vec<FragmentAccount>> {
        self.fragments.iter().map(|fragment| fragment.account()).collect()
    }

    /// The services of a namespace, which is made when absent. Space is shared by all namespaces. One namespace may be
    /// open only once at a time.
    pub fn namespace(self: &Arc<Fragments>, spec: &NamespaceSpec) -> Result<Services> {
        check_namespace_name(&spec.name)?;
        let mut data: Vec<Arc<dyn DataService>> = Vec::new();
        for fragment in &self.fragments {
            let namespace = open_namespace(fragment, &spec.name)?;
            data.push(LocalData::open(fragment.clone(), &namespace, self.descriptors.clone())?);
        }
        let metadata = Tree::open(self.home.clone(), Sharing::Sole, data.clone(), spec)?;
        Ok(Services { metadata, data })
    }

    /// Closes the fragments and records their counters, so that the next open need not walk. `Busy` while volumes or
    /// services of them are still in use; the fragments stay open by those, and the next open walks.
    pub fn close(self: Arc<Fragments>) -> Result<()> {
        let fragments = Arc::try_unwrap(self).map_err(|_| FsError::Busy)?;
        fragments.fragments.iter().for_each(|fragment| fragment.traffic.save(&fragment.root));
        let used = fragments.fragments.iter().map(|fragment| fragment.meter.used()).collect();
        fragments.home.close(used)
    }
}

/// Opens a fragment's directory and locks it.
pub(crate) fn open_fragment(spec: &FragmentSpec) -> Result<Fragment> {
    match spec.space {
        SpaceRule::Hard => Fragment::open(&spec.root, None),
        SpaceRule::Metered(capacity) => Fragment::open(&spec.root, Some(capacity.0)),
    }
}

/// The directory of a namespace on a fragment, made when absent.
pub(crate) fn open_namespace(fragment: &Fragment, name: &str) -> Result<std::os::fd::OwnedFd> {
    let namespaces = make_directory(&fragment.root, NAMESPACES, 0o700)?;
    make_directory(&namespaces, name, 0o700)
}

pub(crate) fn check_namespace_name(name: &str) -> Result<()> {
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
