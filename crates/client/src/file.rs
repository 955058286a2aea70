//! A regular file that somebody has open: its stub, where its content is, and its gate.
//!
//! The gate orders those who write and those who change length or layout: reads and writes pass it together, whoever
//! cuts, punches, allocates or moves the content passes it alone. Those who show content to the kernel pass it together with
//! readers and take turns with writers ([`crate::turns`]). One file has one `File` in a volume, whatever the
//! number of handles.

use crate::turns::Turns;
use forebay_model::layout::Layout;
use forebay_wire::{DataService, FsError, Ino, Placement, Result, Share, Stub};
use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

/// Where the content of an open file is.
pub(crate) enum Body {
    /// In the stub.
    Inline,
    /// In substripe files.
    Striped(Striped),
}

/// The content of an open striped file.
pub(crate) struct Striped {
    pub(crate) turns: Turns,
    pub(crate) layout: Layout,
    /// One for each position of the file's ring of servers.
    pub(crate) shares: Box<[Arc<dyn Share>]>,
    /// A sync was told that all of them may have something. Only for what is asked for first.
    pub(crate) is_spread: AtomicBool,
}

/// See the module. The body is dropped before the stub of the open that made it: dropping the last stub of a file
/// without a name removes its content, which nobody may hold then.
pub(crate) struct File {
    body: RwLock<Body>,
    stub: Arc<dyn Stub>,
}

impl Body {
    fn of(placement: Placement, data: &[Arc<dyn DataService>]) -> Result<Body> {
        let Placement::Striped { file, layout } = placement else { return Ok(Body::Inline) };
        let share = |slot: u32| {
            let server = data.get(layout.server(slot) as usize);
            let server = server.ok_or(FsError::Damaged { what: "a layout names a missing fragment" })?;
            Ok(server.share(file, layout.substripes()))
        };
        let shares = (0..layout.stripe_count()).map(share).collect::<Result<_>>()?;
        let is_spread = AtomicBool::new(false);
        Ok(Body::Striped(Striped { turns: Turns::default(), layout, shares, is_spread }))
    }
}

impl File {
    /// Lets the caller read or write, together with others.
    pub(crate) fn together(&self) -> RwLockReadGuard<'_, Body> {
        self.body.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the caller change length or layout, alone.
    pub(crate) fn alone(&self) -> RwLockWriteGuard<'_, Body> {
        self.body.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs an operation that may move the content of an empty file. Nobody holds the old content meanwhile.
    pub(crate) fn moving(
        &self,
        data: &[Arc<dyn DataService>],
        operation: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let mut body = self.alone();
        *body = Body::Inline;
        let done = operation();
        *body = Body::of(self.stub.placement(), data)?;
        done
    }
}

const SHARDS: usize = 16;

/// The open files of a volume, by number.
#[derive(Default)]
pub(crate) struct Files {
    shards: [Mutex<HashMap<Ino, Weak<File>>>; SHARDS],
}

impl Files {
    fn shard(&self, ino: Ino) -> MutexGuard<'_, HashMap<Ino, Weak<File>>> {
        self.shards[ino.0 as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of a number if it is open.
    pub(crate) fn opened(&self, ino: Ino) -> Option<Arc<File>> {
        self.shard(ino).get(&ino).and_then(Weak::upgrade)
    }

    /// The file of a number that was just opened.
    pub(crate) fn get(
        &self,
        ino: Ino,
        data: &[Arc<dyn DataService>],
        stub: Arc<dyn Stub>,
    ) -> Result<Arc<File>> {
        let mut shard = self.shard(ino);
        if let Some(file) = shard.get(&ino).and_then(Weak::upgrade) {
            return Ok(file);
        }
        let body = RwLock::new(Body::of(stub.placement(), data)?);
        let file = Arc::new(File { body, stub });
        shard.insert(ino, Arc::downgrade(&file));
        Ok(file)
    }

    /// A handle of this file was dropped.
    pub(crate) fn dropped(&self, ino: Ino) {
        let mut shard = self.shard(ino);
        if shard.get(&ino).is_some_and(|file| file.strong_count() == 0) {
            shard.remove(&ino);
        }
    }
}
