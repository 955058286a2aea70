//! The metadata service over a tree of stub files on the home fragment of a namespace.
//!
//! The namespace is a real directory tree. Directories, symbolic links, fifos and the like are themselves; a regular
//! file is a *stub*: it holds the content if the file is inline, and otherwise only the attributes and, as a sparse
//! file, the length of content that lies in substripe files. The process is the only one that changes the tree.
//!
//! Locks, in the order in which they may be taken: the lock of the tree (shared to look, to create and to change
//! attributes; exclusive to remove, rename and link, so that the table of numbers and the tree never disagree), then the
//! table, the directory cache and the list of open stubs, each of which is held for memory operations only.
//!
//! The order of events of each change, and what a crash after each event leaves, stands in the module of the operation:
//! [`create`], [`remove`], [`rename`], [`attributes`], [`stub`].

mod annotation;
mod attributes;
mod create;
mod directories;
mod farewells;
mod layout_attributes;
mod listing;
mod live;
mod loan;
mod lookup;
mod reach;
mod reclaim;
mod remove;
mod rename;
mod service;
mod stub;
mod sweep;
mod table;
mod xattr;

use crate::fragment::{Fragment, make_directory};
use crate::home::Home;
use crate::host::host;
use crate::local::{NamespaceSpec, open_namespace};
use directories::Directories;
use farewells::Farewells;
use forebay_model::layout::{Layout, LayoutChoice};
use forebay_wire::{DataService, FileId, FsError, Ino, Result, Sharing};
use reach::Unsettled;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use stub::LocalStub;
use sweep::Walk;
use table::Table;

pub use live::OpenFile;
pub use reclaim::Claim;

pub(crate) use annotation::{ATTRIBUTE, Annotation, TEXT_MAX};
pub(crate) use lookup::is_marked;

/// The directory, beside the tree, of the stubs that have no name and are open.
pub(crate) const UNLINKED: &str = "open";
/// Directory descriptors kept open, at most.
const DIRECTORIES_MAX: usize = 1024;

/// The lock of the tree while something is made; see [`Tree::making`].
enum Making<'a> {
    Together(#[expect(dead_code, reason = "held until dropped")] RwLockReadGuard<'a, ()>),
    Alone(#[expect(dead_code, reason = "held until dropped")] RwLockWriteGuard<'a, ()>),
}

/// One namespace; see the module.
pub struct Tree {
    home: Arc<Home>,
    sharing: Sharing,
    root: Arc<OwnedFd>,
    root_number: u64,
    order: RwLock<()>,
    table: Mutex<Table>,
    directories: Directories,
    farewells: Farewells,
    open: Mutex<HashMap<Ino, Weak<LocalStub>>>,
    data: Vec<Arc<dyn DataService>>,
    name: String,
    defaults: LayoutChoice,
    max_file_size: u64,
    max_files: u64,
    created: AtomicU64,
    /// The servers run as root: no permission bit of a stub stands in their way.
    privileged: bool,
    /// Files that others may have made longer than their stub says.
    unsettled: Mutex<Unsettled>,
    walk: Mutex<Option<Walk>>,
    /// Stubs of files of a shared tree that lost their last name while they are open.
    unlinked: Option<OwnedFd>,
    /// Those of them that were claimed again after a restart, until they are opened or the time for it is over.
    reclaimed: Mutex<HashMap<Ino, Arc<LocalStub>>>,
    /// Files without a name are left to the next start.
    is_left: AtomicBool,
    /// Loans of files ([`loan`]).
    lent: AtomicUsize,
    itself: Weak<Tree>,
}

impl Tree {
    /// Opens a namespace on its home fragment, made when absent; `data` are the data services of all fragments, in order.
    pub(crate) fn open(
        home: Arc<Home>,
        sharing: Sharing,
        data: Vec<Arc<dyn DataService>>,
        spec: &NamespaceSpec,
    ) -> Result<Arc<Tree>> {
        // The defaults have to be possible for this number of fragments; which file it is does not matter.
        spec.layout.settle(data.len() as u32, 0).map_err(|_| FsError::InvalidArgument)?;
        let namespace = open_namespace(&home.fragment, &spec.name)?;
        let root = make_directory(&namespace, "tree", 0o755)?;
        let unlinked = match sharing {
            Sharing::Sole => None,
            Sharing::Shared => Some(make_directory(&namespace, UNLINKED, 0o700)?),
        };
        let stat = rustix::fs::fstat(&root).map_err(host("stat of the tree"))?;
        let directories = (crate::descriptors::descriptor_limit() / 16).min(DIRECTORIES_MAX);
        let created = home.opened_namespace(&spec.name)?;
        let walk = home.take_walked(&spec.name).map(|stubs| Walk { stubs, below: home.next_id() });
        let unsettled =
            walk.as_ref().map_or_else(Unsettled::default, |walk| Unsettled::all_below(walk.below));
        Ok(Arc::new_cyclic(|itself| Tree {
            home,
            sharing,
            root: Arc::new(root),
            root_number: stat.st_ino,
            order: RwLock::new(()),
            table: Mutex::new(Table::new()),
            directories: Directories::new(directories),
            farewells: Farewells::default(),
            open: Mutex::default(),
            data,
            name: spec.name.clone(),
            defaults: spec.layout,
            max_file_size: spec.limits.max_file_size.map_or(i64::MAX as u64, |size| size.0),
            max_files: spec.limits.max_files.unwrap_or(u64::MAX),
            created: AtomicU64::new(created),
            privileged: rustix::process::geteuid().is_root(),
            unsettled: Mutex::new(unsettled),
            walk: Mutex::new(walk),
            unlinked,
            reclaimed: Mutex::default(),
            is_left: AtomicBool::new(false),
            lent: AtomicUsize::new(0),
            itself: itself.clone(),
        }))
    }

    fn fragment(&self) -> &Fragment {
        &self.home.fragment
    }

    fn shared(&self) -> RwLockReadGuard<'_, ()> {
        self.order.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held while something is made. What is half made must not be found by another client: in the only mount of a
    /// namespace the kernel sees to that.
    fn making(&self) -> Making<'_> {
        match self.sharing {
            Sharing::Sole => Making::Together(self.shared()),
            Sharing::Shared => Making::Alone(self.exclusive()),
        }
    }

    fn exclusive(&self) -> RwLockWriteGuard<'_, ()> {
        self.order.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_stubs(&self) -> MutexGuard<'_, HashMap<Ino, Weak<LocalStub>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unsettled(&self) -> MutexGuard<'_, Unsettled> {
        self.unsettled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a stub's inode number.
    fn number(&self, st_ino: u64) -> Ino {
        if st_ino == self.root_number { Ino::ROOT } else { Ino(st_ino) }
    }

    /// Files may not be as long as the local file system lets them.
    fn limits_length(&self) -> bool {
        self.max_file_size != i64::MAX as u64
    }

    /// Counts a regular file that is about to be created.
    fn count_created(&self) -> Result<()> {
        let below_limit = |created: u64| (created < self.max_files).then_some(created + 1);
        match self.created.fetch_update(Relaxed, Relaxed, below_limit) {
            Ok(_) => Ok(()),
            Err(_) => Err(FsError::TooManyFiles),
        }
    }

    /// Takes the count back of a file that was not created after all.
    fn uncount_created(&self) {
        self.created.fetch_sub(1, Relaxed);
    }

    /// Removes the substripe files of a file that has no stub any more. What cannot be removed is left to the walk at
    /// the next open.
    fn purge(&self, file: FileId, layout: Layout) {
        self.unsettled().remove(file);
        for slot in 0..layout.stripe_count() {
            let removed = match self.data.get(layout.server(slot) as usize) {
                Some(data) => data.remove(file, layout.substripes()),
                None => Ok(()),
            };
            if removed.is_err() {
                self.home.walk_next_time();
            }
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let is_walked = self.walk.get_mut().unwrap_or_else(PoisonError::into_inner).is_none();
        if !is_walked || !self.unsettled().is_none() {
            self.home.walk_next_time();
        }
        self.home.closed_namespace(&self.name, self.created.load(Relaxed));
    }
}
