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

#[cfg(test)]
mod altered;
mod annotation;
mod attributes;
mod bare;
mod create;
mod cut_files;
mod cuts;
mod directories;
mod farewells;
mod layout_attributes;
mod listing;
mod live;
mod loan;
mod lookup;
mod places;
mod reach;
mod reclaim;
mod removals;
mod remove;
mod rename;
mod service;
mod settle;
mod stub;
mod sweep;
mod table;
mod whereabouts;
mod worker;
mod xattr;

use crate::deeds::Reservations;
use crate::fragment::{Fragment, make_directory};
use crate::home::Home;
use crate::host::host;
use crate::limits::log::{Event, Log};
use crate::local::{Limits, NamespaceSpec, open_namespace};
use bare::Bare;
use cut_files::CutFiles;
use directories::Directories;
use farewells::Farewells;
use forebay_model::layout::{Layout, LayoutChoice};
use forebay_wire::{DataService, FileId, FsError, Ino, Moved, Result, Sharing};
use places::Places;
use reach::Unsettled;
use removals::{Removal, Removals};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
};
use std::time::Duration;
use stub::LocalStub;
use sweep::Walk;
use table::Table;
use whereabouts::Whereabouts;

pub use live::OpenFile;
pub use reclaim::Claim;

pub(crate) use annotation::{ATTRIBUTE, Annotation, TEXT_MAX};
pub(crate) use attributes::CUT;
pub(crate) use lookup::is_marked;
pub(crate) use stub::APPEND;

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
    limits: Limits,
    /// Longest file, if longer ones are refused.
    max_file_size: u64,
    too_long: Log,
    too_many: Log,
    created: AtomicU64,
    /// What was read and written by those who do not use the tree any more.
    moved: Mutex<Moved>,
    /// And by the only one who does.
    reported: Mutex<Moved>,
    /// The servers run as root: no permission bit of a stub stands in their way.
    privileged: bool,
    /// Files that others may have made longer than their stub says.
    unsettled: Mutex<Unsettled>,
    /// How often a file was settled.
    settlings: AtomicU64,
    /// Files that no data service knows of.
    bare: Mutex<Bare>,
    /// On which servers files have something.
    places: Mutex<Places>,
    /// Files with a cut that may not be on the disks of all servers.
    cut_files: CutFiles,
    removals: Removals,
    walk: Mutex<Option<Walk>>,
    /// Stubs of files of a shared tree that lost their last name while they are open.
    unlinked: Option<OwnedFd>,
    /// Those of them that were claimed again after a restart, until they are opened or the time for it is over.
    reclaimed: Mutex<HashMap<Ino, Arc<LocalStub>>>,
    /// Where objects are, if one was claimed by a name that it does not have.
    whereabouts: Mutex<Option<Whereabouts>>,
    /// Files without a name are left to the next start.
    is_left: AtomicBool,
    /// What is reserved at the ends of files, where that is written down.
    reservations: OnceLock<Arc<Reservations>>,
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
        let moved = home.moved(&spec.name);
        let walk = home.take_walked(&spec.name).map(|stubs| Walk { stubs, below: home.next_id() });
        let unsettled =
            walk.as_ref().map_or_else(Unsettled::default, |walk| Unsettled::all_below(walk.below));
        let (cut_files, removals) = (CutFiles::new(data.clone()), Removals::new(home.clone(), data.clone()));
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
            limits: spec.limits,
            max_file_size: spec.limits.enforced_file_size(),
            too_long: Log::new(Event::FileSize),
            too_many: Log::new(Event::FileCount),
            moved: Mutex::new(moved),
            reported: Mutex::default(),
            created: AtomicU64::new(created),
            privileged: rustix::process::geteuid().is_root(),
            unsettled: Mutex::new(unsettled),
            settlings: AtomicU64::new(0),
            bare: Mutex::default(),
            places: Mutex::default(),
            cut_files,
            removals,
            walk: Mutex::new(walk),
            unlinked,
            reclaimed: Mutex::default(),
            whereabouts: Mutex::default(),
            is_left: AtomicBool::new(false),
            reservations: OnceLock::new(),
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

    fn bare(&self) -> MutexGuard<'_, Bare> {
        self.bare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a stub's inode number.
    fn number(&self, st_ino: u64) -> Ino {
        if st_ino == self.root_number { Ino::ROOT } else { Ino(st_ino) }
    }

    /// The length of files is limited, or watched.
    fn limits_length(&self) -> bool {
        self.limits.max_file_size.is_some()
    }

    /// The limits of the namespace.
    pub fn given_limits(&self) -> &Limits {
        &self.limits
    }

    /// Layout of a new file of a directory that says nothing of it.
    pub fn default_layout(&self) -> Option<Layout> {
        self.defaults.settle(self.data.len() as u32, 0).ok()
    }

    /// A file gets this long, or would have: told if that is beyond the limit.
    fn note_length(&self, length: u64) {
        let Some(most) = self.limits.max_file_size.filter(|most| length > most.0) else { return };
        if self.limits.policies.file_size.logs() {
            let (name, most) = (&self.name, most.0);
            self.too_long.say(format_args!("a file of {name} of {length} bytes, the largest size is {most}"));
        }
    }

    /// What was read and written since the namespace was made, but for what those have told who use it over a network.
    pub fn moved(&self) -> Moved {
        let moved = *self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        moved.and(*self.reported.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// One who used the tree does not any more, and read and wrote so much.
    pub(crate) fn add_moved(&self, moved: Moved) {
        let mut sum = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        *sum = sum.and(moved);
    }

    /// Counts a regular file that is about to be created.
    fn count_created(&self) -> Result<()> {
        let most = self.limits.max_files.unwrap_or(u64::MAX);
        let policy = self.limits.policies.file_count;
        let may_be = |created: u64| (created < most || !policy.refuses()).then_some(created + 1);
        let counted = self.created.fetch_update(Relaxed, Relaxed, may_be);
        let (Ok(created) | Err(created)) = counted;
        if created >= most && policy.logs() {
            self.too_many
                .say(format_args!("{created} files were created in {}, the limit is {most}", self.name));
        }
        counted.map(|_| ()).map_err(|_| FsError::TooManyFiles)
    }

    /// Takes the count back of a file that was not created after all.
    fn uncount_created(&self) {
        self.created.fetch_sub(1, Relaxed);
    }

    /// Removes the substripe files of a file that has no stub any more, and had this length; in a shared tree, where some are on
    /// other servers, a moment later ([`removals`]). What cannot be removed is left to the walk at the next open.
    fn purge(&self, file: FileId, layout: Layout, length: u64) {
        self.unsettled().gone(file);
        self.cut_files.forget(file);
        let slots = self.places().end(file);
        if self.bare().end(file) {
            return;
        }
        let removal = Removal { file, layout, slots };
        // A power cut may bring the name back as long as its going is not on disk; then it is to have its content. One without a
        // length has none, where nobody but us writes and nothing is written in place.
        let is_empty = length == 0 && self.sharing == Sharing::Sole && layout.substripes() > 1;
        let waits = removal.is_elsewhere(self.home.position) && !is_empty;
        if waits && self.sharing == Sharing::Shared {
            return self.removals.add(removal);
        }
        if waits && self.fragment().sync_names().is_err() {
            self.home.walk_next_time();
            return;
        }
        removal.make(&self.home, &self.data);
    }

    /// The content of files that lost their names is gone afterwards, unless a server that has some of it does not answer in
    /// this time.
    pub fn finish_removals(&self, within: Duration) {
        self.removals.finish(within);
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let is_walked = self.walk.get_mut().unwrap_or_else(PoisonError::into_inner).is_none();
        if !is_walked || !self.unsettled().is_none() || !self.cut_files.is_empty() {
            self.home.walk_next_time();
        }
        self.home.closed_namespace(&self.name, self.created.load(Relaxed), self.moved());
    }
}
