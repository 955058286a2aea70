//! The content of a namespace on this server as it is served: shares that were used lately are kept, so that not every
//! request opens its substripe files anew.
//!
//! A file is removed while nobody is at it: who uses a share passes a gate together with others, who removes passes it
//! alone, after the share was taken out of the ones kept. A share in use is always among those kept, so all who use a file
//! pass the same gate. The metadata service of the namespace, if it is on this server too, has to remove files through
//! the same [`ServedData`], or their space would come back only when their shares are not kept any more.
//!
//! A client on this machine may be given descriptors, and then reads and writes past the service. Files given for writing
//! are remembered until they are removed: a sync of one is a sync of all there is of it, since nothing else knows what
//! was written.
//!
//! Any thread may call; the lock is held for memory operations only.

use crate::node::NodeData;
use forebay_wire::{
    DataService, Extent, FileId, FragmentAccount, FragmentSpace, FsError, Listing, Result, Share,
};
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

/// Shares kept, unless more are in use.
const KEPT_MAX: usize = 1024;

/// Files given for writing, at most. More are written through the service.
const GIVEN_MAX: usize = 65_536;

/// A file's share with its gate.
pub(crate) struct Kept {
    share: Arc<dyn Share>,
    substripes: u32,
    gate: RwLock<()>,
}

impl Kept {
    /// The share, as long as the guard is held.
    pub(crate) fn enter(&self) -> (&dyn Share, RwLockReadGuard<'_, ()>) {
        (&*self.share, self.gate.read().unwrap_or_else(PoisonError::into_inner))
    }
}

#[derive(Default)]
struct Table {
    kept: HashMap<FileId, (Arc<Kept>, u64)>,
    uses: u64,
}

/// See the module.
pub struct ServedData {
    data: Arc<NodeData>,
    table: Mutex<Table>,
    given: Mutex<HashSet<FileId>>,
}

impl ServedData {
    /// Serves this content.
    pub fn new(data: Arc<NodeData>) -> Arc<ServedData> {
        Arc::new(ServedData { data, table: Mutex::default(), given: Mutex::default() })
    }

    fn given(&self) -> MutexGuard<'_, HashSet<FileId>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Descriptors of the substripe files that are there, with their numbers; `make` is made if it is not there.
    pub(crate) fn give(
        &self,
        file: FileId,
        substripes: u32,
        write: bool,
        make: Option<u32>,
    ) -> Result<Vec<(u32, OwnedFd)>> {
        if write {
            let mut given = self.given();
            if given.len() >= GIVEN_MAX && !given.contains(&file) {
                return Err(FsError::Unsupported);
            }
            // Before: a sync that begins in between does more than it must.
            given.insert(file);
        }
        self.data.descriptors(file, substripes, write, make)
    }

    /// What was written to a file, by whom and how ever, is on disk afterwards.
    pub(crate) fn sync_file(&self, file: FileId, substripes: u32, data_only: bool) -> Result<()> {
        let kept = self.kept(file, substripes)?;
        let (share, _gate) = kept.enter();
        if self.given().contains(&file) {
            // All there is of it, so also what was written through the share; and so it will be at each later sync.
            return self.data.sync_given(file, substripes, data_only);
        }
        share.sync(data_only)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The share of a file, kept or new. Everybody has to mean the same number of substripes.
    pub(crate) fn kept(&self, file: FileId, substripes: u32) -> Result<Arc<Kept>> {
        let mut table = self.lock();
        table.uses += 1;
        let now = table.uses;
        if let Some((kept, used)) = table.kept.get_mut(&file) {
            *used = now;
            let same = kept.substripes == substripes;
            return if same { Ok(kept.clone()) } else { Err(FsError::InvalidArgument) };
        }
        table.make_room();
        let share = self.data.share(file, substripes);
        let kept = Arc::new(Kept { share, substripes, gate: RwLock::default() });
        table.kept.insert(file, (kept.clone(), now));
        Ok(kept)
    }
}

impl Table {
    /// Drops the half that was not used for longest, but for what is in use now.
    fn make_room(&mut self) {
        if self.kept.len() < KEPT_MAX {
            return;
        }
        let mut uses: Vec<u64> = self.kept.values().map(|(_, used)| *used).collect();
        let (_, middle, _) = uses.select_nth_unstable(KEPT_MAX / 2);
        let middle = *middle;
        self.kept.retain(|_, (kept, used)| *used >= middle || Arc::strong_count(kept) > 1);
    }
}

impl DataService for ServedData {
    fn share(&self, file: FileId, substripes: u32) -> Arc<dyn Share> {
        self.data.share(file, substripes)
    }

    fn remove(&self, file: FileId, substripes: u32) -> Result<()> {
        self.given().remove(&file);
        let kept = self.lock().kept.remove(&file);
        if let Some((kept, _)) = kept {
            // Whoever is at it comes to his end; nobody new comes, since it is not kept any more.
            drop(kept.gate.write().unwrap_or_else(PoisonError::into_inner));
        }
        self.data.remove(file, substripes)
    }

    fn blocks(&self, file: FileId, substripe: u32) -> Result<u64> {
        self.data.blocks(file, substripe)
    }

    fn extents(&self, file: FileId, substripes: u32) -> Result<Vec<Extent>> {
        self.data.extents(file, substripes)
    }

    fn list(&self, cookie: u64) -> Result<Listing> {
        self.data.list(cookie)
    }

    fn space(&self) -> Result<FragmentSpace> {
        self.data.space()
    }

    fn account(&self) -> Result<FragmentAccount> {
        self.data.account()
    }

    fn sync(&self) -> Result<()> {
        self.data.sync()
    }
}
