//! Removal of the content of files that lost their last name, where some of it is on other servers.
//!
//! The going of the name has to be on disk before content on another machine goes ([`super::remove`]), and whoever removes a name does
//! not wait for that: it is noted here, and a thread does it a moment later for all that came in the meantime, with one wait
//! for the disk. Who needs the space, or asks how much there is, has it done at once ([`Removals::carry_out`]).
//!
//! Order of events, and what a crash after each leaves:
//! 1. the name is gone, the removal noted: content without a stub, or, if the power went, the file as it was;
//! 2. the names are synced: content without a stub;
//! 3. the content is removed, server by server: as much of it as is left.
//!
//! Content without a stub is removed by the walk and the sweep at the next start. What cannot be removed here is left to them too.
//!
//! Any thread may call. Lock order: `carrying`, then the queue, which is held for memory operations only. Nothing of the tree may be
//! held.

use super::places::Slots;
use super::worker::Worker;
use crate::home::Home;
use forebay_model::layout::Layout;
use forebay_wire::{DataService, FileId};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long removals are gathered.
const GATHER: Duration = Duration::from_millis(20);
/// Removals noted, at most: who adds one more does them.
const WAITING_MAX: usize = 1024;

/// Content to be removed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Removal {
    pub(super) file: FileId,
    pub(super) layout: Layout,
    pub(super) slots: Slots,
}

impl Removal {
    /// Some of it may be on another server than this.
    pub(super) fn is_elsewhere(&self, position: u32) -> bool {
        self.slots.of(&self.layout).any(|slot| self.layout.server(slot) != position)
    }

    /// Removes it. What cannot be removed is left to the walk at the next start.
    pub(super) fn make(&self, home: &Home, data: &[Arc<dyn DataService>]) {
        for slot in self.slots.of(&self.layout) {
            let Some(server) = data.get(self.layout.server(slot) as usize) else { continue };
            if server.remove(self.file, self.layout.substripes()).is_err() {
                home.walk_next_time();
            }
        }
    }
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Removal>,
    /// Some were taken out and are being made.
    is_at_work: bool,
    is_over: bool,
    thread: Worker,
}

struct Inner {
    home: Arc<Home>,
    data: Vec<Arc<dyn DataService>>,
    queue: Mutex<Queue>,
    /// Something came, went, or is over.
    changed: Condvar,
    carrying: Mutex<()>,
}

/// See the module.
pub(super) struct Removals(Arc<Inner>);

impl Removals {
    pub(super) fn new(home: Arc<Home>, data: Vec<Arc<dyn DataService>>) -> Removals {
        let (queue, changed, carrying) = (Mutex::default(), Condvar::new(), Mutex::new(()));
        Removals(Arc::new(Inner { home, data, queue, changed, carrying }))
    }

    /// A name is gone: its content goes later.
    pub(super) fn add(&self, removal: Removal) {
        let is_full = {
            let mut queue = self.0.queue();
            queue.waiting.push(removal);
            if queue.waiting.len() == 1 {
                self.0.changed.notify_all();
            }
            queue.waiting.len() >= WAITING_MAX || !self.has_thread(&mut queue)
        };
        if is_full {
            self.carry_out();
        }
    }

    /// There is a thread for it, made with the first removal.
    fn has_thread(&self, queue: &mut Queue) -> bool {
        let inner = self.0.clone();
        !queue.is_over && queue.thread.is_there("removals", move || inner.work())
    }

    /// All that were noted are made when this returns; whether there were any.
    pub(super) fn carry_out(&self) -> bool {
        self.0.carry_out()
    }

    /// Waits until all are made, but no longer than this.
    pub(super) fn finish(&self, within: Duration) {
        let end = Instant::now() + within;
        let mut queue = self.0.queue();
        while !queue.waiting.is_empty() || queue.is_at_work {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.0.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Removals {
    fn drop(&mut self) {
        let thread = {
            let mut queue = self.0.queue();
            queue.is_over = true;
            std::mem::take(&mut queue.thread)
        };
        self.0.changed.notify_all();
        thread.join();
        self.0.carry_out();
    }
}

impl Inner {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while self.gathered() {
            self.carry_out();
        }
    }

    /// Waits for removals, and a moment for more of them; `false`: it is over.
    fn gathered(&self) -> bool {
        let idle = |queue: &mut Queue| queue.waiting.is_empty() && !queue.is_over;
        let queue = self.changed.wait_while(self.queue(), idle).unwrap_or_else(PoisonError::into_inner);
        let gathering = |queue: &mut Queue| !queue.is_over;
        let waited = self.changed.wait_timeout_while(queue, GATHER, gathering);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_over
    }

    fn carry_out(&self) -> bool {
        let _carrying = self.carrying.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = {
            let mut queue = self.queue();
            queue.is_at_work = !queue.waiting.is_empty();
            std::mem::take(&mut queue.waiting)
        };
        if taken.is_empty() {
            return false;
        }
        match self.home.fragment.sync_names() {
            Ok(()) => taken.iter().for_each(|removal| removal.make(&self.home, &self.data)),
            Err(_) => self.home.walk_next_time(),
        }
        self.queue().is_at_work = false;
        self.changed.notify_all();
        true
    }
}
