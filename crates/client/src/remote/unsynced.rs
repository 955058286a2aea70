//! Whether what was written through a file is still there to be synced.
//!
//! A write that a server has answered is in the memory of its machine. When the machine loses its power before a sync, the server
//! comes back without it, takes the session up again, and a sync that it answers then covers what is left. Whoever asked for
//! it must be told: so the memory in which the oldest unsynced write was answered is remembered, and a sync answered out of
//! another one fails, once.
//!
//! Any thread may call. The lock is held for memory operations only.

use super::held::Life;
use forebay_wire::{FsError, Result, boot};
use rustix::io::Errno;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the sync of a file fails with whose unsynced part a machine has lost.
const LOST: FsError = FsError::Host {
    operation: "a storage node lost its power before it was synced",
    errno: Errno::IO.raw_os_error(),
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    /// The memory that has what was written first.
    memory: Option<u64>,
    writes: u64,
    /// The one that the last sync was answered out of.
    answered: Option<u64>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Unsynced(Mutex<State>);

/// What a sync that begins has to cover.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Covered(State);

impl Unsynced {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something was written, which a server has answered in this life.
    pub(crate) fn wrote(&self, life: Life) {
        let mut state = self.lock();
        state.memory.get_or_insert(boot::memory(life.boot));
        state.writes += 1;
    }

    /// The memory that has the oldest part that is not synced, or else the one that the last sync was answered out of.
    pub(crate) fn memory(&self) -> Option<u64> {
        let state = self.lock();
        state.memory.or(state.answered)
    }

    /// A sync is going to be asked for.
    pub(crate) fn sync_begins(&self) -> Covered {
        Covered(*self.lock())
    }

    /// It was answered.
    pub(crate) fn synced(&self, covered: Covered, life: Life) -> Result<()> {
        let now = boot::memory(life.boot);
        let mut state = self.lock();
        state.answered = Some(now);
        // What was written meanwhile may not be covered; what was before is, or is told to be lost. If nothing was before, what was
        // meanwhile may be lost already, and is told by the next one.
        state.memory = match (state.writes != covered.0.writes, covered.0.memory) {
            (false, _) => None,
            (true, Some(_)) => Some(now),
            (true, None) => state.memory,
        };
        if covered.0.memory.is_some_and(|memory| memory != now) { Err(LOST) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(memory: u64, process: u64) -> Life {
        Life { boot: boot::number(memory, process), incarnation: 1 }
    }

    fn sync(of: &Unsynced, life: Life) -> Result<()> {
        of.synced(of.sync_begins(), life)
    }

    #[test]
    fn a_killed_server_has_lost_nothing() {
        let unsynced = Unsynced::default();
        unsynced.wrote(life(1, 1));
        assert_eq!(sync(&unsynced, life(1, 2)), Ok(()));
        assert_eq!(sync(&unsynced, life(2, 3)), Ok(()), "nothing was written since");
    }

    #[test]
    fn a_machine_that_lost_its_memory_is_told_of_once() {
        let unsynced = Unsynced::default();
        unsynced.wrote(life(1, 1));
        unsynced.wrote(life(2, 2));
        assert_eq!(sync(&unsynced, life(2, 2)), Err(LOST));
        assert_eq!(sync(&unsynced, life(2, 2)), Ok(()));
    }

    #[test]
    fn the_memory_is_that_of_the_oldest_part_and_then_that_of_the_sync() {
        let unsynced = Unsynced::default();
        assert_eq!(unsynced.memory(), None);
        unsynced.wrote(life(1, 1));
        unsynced.wrote(life(2, 2));
        assert_eq!(unsynced.memory(), Some(1));
        assert_eq!(sync(&unsynced, life(3, 3)), Err(LOST));
        assert_eq!(unsynced.memory(), Some(3));
        unsynced.wrote(life(4, 4));
        assert_eq!(unsynced.memory(), Some(4));
    }

    #[test]
    fn what_is_written_during_a_sync_is_not_covered() {
        let unsynced = Unsynced::default();
        unsynced.wrote(life(1, 1));
        let covered = unsynced.sync_begins();
        unsynced.wrote(life(1, 1));
        assert_eq!(unsynced.synced(covered, life(1, 1)), Ok(()));
        assert_eq!(sync(&unsynced, life(2, 2)), Err(LOST));
    }

    /// The sync covered nothing that was lost, and the next one cannot cover it.
    #[test]
    fn what_is_written_and_lost_during_a_sync_is_told_by_the_next_one() {
        let unsynced = Unsynced::default();
        let covered = unsynced.sync_begins();
        unsynced.wrote(life(1, 1));
        assert_eq!(unsynced.synced(covered, life(2, 2)), Ok(()));
        assert_eq!(sync(&unsynced, life(2, 2)), Err(LOST));
        assert_eq!(sync(&unsynced, life(2, 2)), Ok(()));
    }
}
