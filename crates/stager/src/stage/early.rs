//! The disk works while files are copied: a thread of a durable stage syncs what is there so far, again and again, so that little
//! is left for the sync that the stage ends with.
//!
//! It only ever brings forward what would be synced anyway: the large file that is written at the moment or, where the stage ends
//! with a sync of the whole file system, that. Nothing counts as durable because of it. An error it meets is not lost, although the
//! kernel tells it only once: a large file is spoiled by it, and [`Commit`](super::commit::Commit) remembers it for the next sync.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::copy::Large;
use super::run::Run;

/// Work for the disk that is worth a sync of its own, in bytes.
const STEP_BYTES: u64 = 128 << 20;
/// What making a file counts for.
const FILE_BYTES: u64 = 64 << 10;

/// See the module.
pub struct Early<'r> {
    state: Mutex<State<'r>>,
    changed: Condvar,
}

struct State<'r> {
    unsynced: u64,
    large: Option<Arc<Large<'r>>>,
    has_ended: bool,
}

/// Ends the thread of a stage when it is dropped.
pub struct Shift<'e, 'r>(&'e Early<'r>);

impl Drop for Shift<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.changed.notify_all();
    }
}

impl<'r> Early<'r> {
    pub fn new() -> Self {
        let state = State { unsynced: 0, large: None, has_ended: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<'r>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread works until this is dropped.
    pub fn shift(&self) -> Shift<'_, 'r> {
        Shift(self)
    }

    /// A small file is in place.
    pub fn made(&self, size: u64) {
        self.add(&mut self.lock(), size + FILE_BYTES);
    }

    /// A range of a large file is written.
    pub fn wrote(&self, file: &Arc<Large<'r>>, bytes: u64) {
        let mut state = self.lock();
        state.large = Some(Arc::clone(file));
        self.add(&mut state, bytes);
    }

    fn add(&self, state: &mut State<'r>, bytes: u64) {
        state.unsynced += bytes;
        if state.unsynced >= STEP_BYTES {
            self.changed.notify_one();
        }
    }

    /// The thread.
    pub fn work(&self, run: &Run<'r>) {
        while let Some(large) = self.due() {
            if run.commit.syncs_all() {
                run.commit.sync_early();
            } else if let Some(large) = large {
                large.sync_early(run);
            }
        }
    }

    /// Waits until there is something to sync; `None` at the end.
    #[expect(clippy::option_option, reason = "the end, and a step without a large file")]
    fn due(&self) -> Option<Option<Arc<Large<'r>>>> {
        let waits = |state: &mut State<'r>| state.unsynced < STEP_BYTES && !state.has_ended;
        let state = self.changed.wait_while(self.lock(), waits);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.unsynced = 0;
        let large = state.large.take();
        (!state.has_ended).then_some(large)
    }
}
