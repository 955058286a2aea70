//! Work waiting for the workers.
//!
//! Three kinds, taken in this order: ranges of large files (so that an open file gets done), names to look at (so that totals
//! are known early, while there is room), entries to copy. Entries travel in chunks, because waking a thread costs more than
//! copying a small file.
//!
//! Workers are kept in different directories as far as there are some: two that make files in one directory wait for each other.
//! A worker stays where it was; else it goes where nobody is; else to the oldest chunk.
//!
//! Limits: [`NAMES_MAX`] names and [`READY_MAX`] entries wait, a few hundred bytes each plus the name; the walker waits when
//! the names are full, looking stops when the entries are.
//!
//! One lock; nobody does I/O while holding it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::copy::Large;
use super::entry::{Entry, Looked};
use super::node::Node;
use crate::request::StageOptions;

/// Names waiting to be looked at.
const NAMES_MAX: usize = 16 * 1024;
/// Entries waiting to be copied.
const READY_MAX: usize = 16 * 1024;
/// Chunks among which a worker looks for its directory.
const CHOICE_MAX: usize = 128;
/// How long a waiter sleeps at most before it looks whether it should stop.
const WAIT: Duration = Duration::from_millis(50);

/// The place of a worker that has done nothing yet.
const NOWHERE: usize = 0;

/// One piece of work.
pub enum Task<'r> {
    /// Bytes of a large file.
    Range(Arc<Large<'r>>, Range<u64>),
    /// Names whose attributes are wanted.
    Look(Vec<Entry>),
    /// Entries to copy.
    Copy(Vec<Looked>),
}

/// See the module.
pub struct Queue<'r> {
    state: Mutex<State<'r>>,
    /// Workers wait here for work.
    work: Condvar,
    /// The walker waits here for room.
    room: Condvar,
}

struct State<'r> {
    large: VecDeque<Arc<Large<'r>>>,
    names: VecDeque<Vec<Entry>>,
    names_count: usize,
    ready: VecDeque<Vec<Looked>>,
    ready_count: usize,
    /// In which directory each worker is, by the address of its node. A preference and nothing else: an address may be stale.
    places: [usize; StageOptions::WORKERS_MAX],
    /// Tasks taken and not done; they may still bring new work.
    busy: usize,
    waiting: usize,
    walked: bool,
}

impl<'r> Queue<'r> {
    pub fn new() -> Self {
        let state = State {
            large: VecDeque::new(),
            names: VecDeque::new(),
            names_count: 0,
            ready: VecDeque::new(),
            ready_count: 0,
            places: [NOWHERE; StageOptions::WORKERS_MAX],
            busy: 0,
            waiting: 0,
            walked: false,
        };
        Self { state: Mutex::new(state), work: Condvar::new(), room: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<'r>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands names over; waits for room. Names handed over while stopping are dropped.
    pub fn push_names(&self, chunk: Vec<Entry>, stopping: &dyn Fn() -> bool) {
        let mut state = self.lock();
        while state.names_count >= NAMES_MAX {
            if stopping() {
                return;
            }
            state = self.room.wait_timeout(state, WAIT).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.names_count += chunk.len();
        state.names.push_back(chunk);
        self.wake_one(&state);
    }

    /// Whether workers have nothing to do.
    pub fn is_starving(&self) -> bool {
        let state = self.lock();
        state.waiting > 0 && state.names.is_empty() && state.ready.is_empty()
    }

    /// Hands looked-at entries over.
    pub fn push_ready(&self, chunk: Vec<Looked>) {
        let mut state = self.lock();
        state.ready_count += chunk.len();
        state.ready.push_back(chunk);
        self.wake_one(&state);
    }

    /// Opens a large file to all workers.
    pub fn push_large(&self, file: Arc<Large<'r>>) {
        self.lock().large.push_back(file);
        self.work.notify_all();
    }

    /// Large files with ranges nobody took, after the workers have ended.
    pub fn left_over(&self) -> Vec<Arc<Large<'r>>> {
        self.lock().large.drain(..).collect()
    }

    /// The walker has handed over everything.
    pub fn walked(&self) {
        self.lock().walked = true;
        self.work.notify_all();
    }

    /// Whether [`walked`](Self::walked) was called.
    pub fn has_been_walked(&self) -> bool {
        self.lock().walked
    }

    /// Everybody looks whether to stop.
    pub fn wake_all(&self) {
        self.work.notify_all();
        self.room.notify_all();
    }

    fn wake_one(&self, state: &State<'_>) {
        if state.waiting > 0 {
            self.work.notify_one();
        }
    }

    /// The next task for a worker; waits for one. `None` when all is done or `stopping`. A worker that is not `allowed` waits.
    pub fn take(
        &self,
        worker: usize,
        allowed: &dyn Fn() -> bool,
        stopping: &dyn Fn() -> bool,
    ) -> Option<Task<'r>> {
        let mut state = self.lock();
        loop {
            if stopping() || state.is_over() {
                return None;
            }
            if allowed()
                && let Some(task) = state.next(worker)
            {
                state.busy += 1;
                if state.names_count < NAMES_MAX {
                    self.room.notify_one();
                }
                return Some(task);
            }
            state.waiting += 1;
            state = self.work.wait_timeout(state, WAIT).unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
    }

    /// A task taken is done.
    pub fn done(&self) {
        let mut state = self.lock();
        state.busy -= 1;
        if state.is_over() {
            self.work.notify_all();
        }
    }
}

impl<'r> State<'r> {
    fn is_over(&self) -> bool {
        self.walked
            && self.busy == 0
            && self.large.is_empty()
            && self.names.is_empty()
            && self.ready.is_empty()
    }

    fn next(&mut self, worker: usize) -> Option<Task<'r>> {
        while let Some(file) = self.large.front() {
            if let Some(range) = file.next_range() {
                return Some(Task::Range(Arc::clone(file), range));
            }
            self.large.pop_front();
        }
        if self.ready_count < READY_MAX
            && let Some(chunk) = choose(&mut self.names, &mut self.places, worker, |entry| &entry.dir)
        {
            self.names_count -= chunk.len();
            return Some(Task::Look(chunk));
        }
        let chunk = choose(&mut self.ready, &mut self.places, worker, |looked| &looked.entry.dir)?;
        self.ready_count -= chunk.len();
        Some(Task::Copy(chunk))
    }
}

/// Takes the chunk that suits a worker best, see the module, and notes where it is now.
fn choose<T>(
    chunks: &mut VecDeque<Vec<T>>,
    places: &mut [usize],
    worker: usize,
    directory: impl Fn(&T) -> &Arc<Node>,
) -> Option<Vec<T>> {
    let place = |chunk: &Vec<T>| chunk.first().map_or(NOWHERE, |first| Arc::as_ptr(directory(first)).addr());
    let nearby = || chunks.iter().take(CHOICE_MAX).map(place);
    let own = places.get(worker).copied().unwrap_or(NOWHERE);
    let index = nearby()
        .position(|at| at == own)
        .or_else(|| nearby().position(|at| !places.contains(&at)))
        .unwrap_or_default();
    let chunk = chunks.remove(index)?;
    if let Some(at) = places.get_mut(worker) {
        *at = place(&chunk);
    }
    Some(chunk)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::node::Target;
    use super::*;

    fn directory() -> Arc<Node> {
        Node::new(None, PathBuf::new(), Target { path: PathBuf::new(), is_fresh: true, is_whole: true }, None)
    }

    #[test]
    fn a_worker_stays_in_its_directory_and_keeps_away_from_others() {
        let (one, other) = (directory(), directory());
        let mut chunks: VecDeque<_> = [&one, &one, &other, &one].map(|dir| vec![Arc::clone(dir)]).into();
        let mut places = [NOWHERE; 2];
        let mut taken_by = |worker| {
            let chunk = choose(&mut chunks, &mut places, worker, |dir| dir)?;
            Some(if Arc::ptr_eq(&chunk[0], &one) { "one" } else { "other" })
        };
        assert_eq!(taken_by(0), Some("one"));
        assert_eq!(taken_by(1), Some("other"));
        assert_eq!(taken_by(0), Some("one"));
        assert_eq!(taken_by(1), Some("one"), "there is nothing else");
        assert_eq!(taken_by(0), None);
    }
}
