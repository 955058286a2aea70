//! Descriptors of directories, a bounded number of them.
//!
//! They are opened with `O_PATH`: to reach names through them needs search permission only, as for any path walk. A
//! cached descriptor stays right when its directory is renamed; when the directory is removed it is dropped.
//!
//! Any thread may call; the lock is never held during a system call.

use forebay_wire::Ino;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module.
pub(crate) struct Directories {
    limit: usize,
    cache: Mutex<Cache>,
}

#[derive(Default)]
struct Cache {
    clock: u64,
    open: HashMap<Ino, (Arc<OwnedFd>, u64)>,
}

impl Directories {
    pub(crate) fn new(limit: usize) -> Directories {
        Directories { limit, cache: Mutex::default() }
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, ino: Ino) -> Option<Arc<OwnedFd>> {
        let mut cache = self.cache();
        cache.clock += 1;
        let now = cache.clock;
        let (directory, used) = cache.open.get_mut(&ino)?;
        *used = now;
        Some(directory.clone())
    }

    pub(crate) fn put(&self, ino: Ino, directory: Arc<OwnedFd>) {
        let mut cache = self.cache();
        cache.clock += 1;
        let now = cache.clock;
        cache.open.insert(ino, (directory, now));
        if cache.open.len() > self.limit {
            // The older half goes at once, so that the cost of finding it is shared by many.
            let mut ages: Vec<u64> = cache.open.values().map(|(_, used)| *used).collect();
            let half = ages.len() / 2;
            let (_, middle, _) = ages.select_nth_unstable(half);
            let middle = *middle;
            cache.open.retain(|_, (_, used)| *used >= middle);
        }
    }

    pub(crate) fn remove(&self, ino: Ino) {
        self.cache().open.remove(&ino);
    }
}
