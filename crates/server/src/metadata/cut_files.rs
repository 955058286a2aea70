//! Files with a cut that may not be on the disks of all servers of their content.
//!
//! Of a file that nobody has open for writing the stub says how long it is. A server of its content that loses its power loses a cut
//! that is not synced, and has more than the stub says then: whoever only looks at the file would see one end, and who opens it for
//! writing another. So such files are remembered here until all servers have the cut on their disks. Who uses the content of one
//! meanwhile has its servers asked first, and has it cut once more if it reaches further than it did when it was closed; nobody can
//! have written it since. No other file costs a request.
//!
//! A thread syncs what is remembered, [`SYNCED_AFTER`] its last close: not at once, as what is cut is often cut again soon, or
//! removed. Where the sync is answered out of another memory than the one that had the cut, it is cut once more, too. What is open for
//! writing is left alone: its length is asked of its servers, and who syncs it is to be told what was lost.
//!
//! If a writer is gone without a word, a late request of his may still make the file longer, and nobody can tell that from a cut that
//! is lost. Such a file is synced, and never cut once more; nor is one whose servers are asked for its length all the same.
//!
//! Of a shared tree only, and of files of which another machine may have something: what the home's own machine loses it loses with
//! the stub.
//!
//! Order of events: a cut is made, server by server; the file is remembered; its stub is cut. A killed process forgets all: the next one
//! takes no stub's word for a length before it asked the servers ([`super::reach`]). A process that ends in good order while files are
//! remembered has the next one do the same.
//!
//! Any thread may call. Lock order: the state of a file, then what is here, which is held for memory operations only.

use super::cuts::{cut_again, memories_of, shares_of};
use super::worker::Worker;
use forebay_model::layout::Layout;
use forebay_wire::{DataService, FileId, Result};
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A file is synced so long after it was closed.
const SYNCED_AFTER: Duration = Duration::from_secs(5);
/// Files remembered, at most: who cuts one more syncs it himself.
const FILES_MAX: usize = 65_536;

/// A cut of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) layout: Layout,
    /// Stands for the memories that have it.
    pub(super) memories: NonZeroU64,
    /// What the file was cut to, or had when it was closed last; `None`: it is never cut once more.
    pub(super) length: Option<u64>,
}

struct CutFile {
    cut: Cut,
    /// Its place among those that wait for their sync, and since when: not of one that is open for writing, or is being synced.
    waits: Option<(u64, Instant)>,
}

#[derive(Default)]
struct Files {
    of: HashMap<FileId, CutFile>,
    /// Who waits, by place.
    waiting: BTreeMap<u64, FileId>,
    places: u64,
    /// Is being synced.
    at_work: Option<FileId>,
    is_over: bool,
    thread: Worker,
}

impl Files {
    fn waits_no_more(&mut self, file: FileId) {
        let waits = self.of.get_mut(&file).and_then(|known| known.waits.take());
        if let Some((place, _)) = waits {
            self.waiting.remove(&place);
        }
    }

    /// Waits for its sync, behind all others.
    fn wait(&mut self, file: FileId) {
        self.waits_no_more(file);
        let Some(known) = self.of.get_mut(&file) else { return };
        self.places += 1;
        known.waits = Some((self.places, Instant::now()));
        self.waiting.insert(self.places, file);
    }

    fn forget(&mut self, file: FileId) {
        self.waits_no_more(file);
        self.of.remove(&file);
    }

    /// Who has waited for longest, and for how long.
    fn first(&self) -> Option<(FileId, Duration)> {
        let (_, file) = self.waiting.first_key_value()?;
        let (_, since) = self.of.get(file)?.waits?;
        Some((*file, since.elapsed()))
    }

    /// The same if he has waited for so long: he is being synced now.
    fn take_due(&mut self, after: Duration) -> Option<(FileId, Cut)> {
        let (file, _) = self.first().filter(|(_, waited)| *waited >= after)?;
        self.waits_no_more(file);
        self.at_work = Some(file);
        self.of.get(&file).map(|known| (file, known.cut))
    }
}

struct Inner {
    data: Vec<Arc<dyn DataService>>,
    synced_after: Duration,
    files: Mutex<Files>,
    /// Somebody waits for his sync, a sync has ended, or all is over.
    changed: Condvar,
}

/// See the module.
pub(super) struct CutFiles(Arc<Inner>);

impl CutFiles {
    pub(super) fn new(data: Vec<Arc<dyn DataService>>) -> CutFiles {
        CutFiles::synced_after(data, SYNCED_AFTER)
    }

    fn synced_after(data: Vec<Arc<dyn DataService>>, synced_after: Duration) -> CutFiles {
        let (files, changed) = (Mutex::default(), Condvar::new());
        CutFiles(Arc::new(Inner { data, synced_after, files, changed }))
    }

    /// A file was cut, which is open for writing or not; `false`: it is not remembered, there are too many.
    pub(super) fn add(&self, file: FileId, cut: Cut, is_open: bool) -> bool {
        let mut files = self.0.files();
        let is_full = files.of.len() >= FILES_MAX && !files.of.contains_key(&file);
        if is_full || !self.has_thread(&mut files) {
            return false;
        }
        files.waits_no_more(file);
        files.of.insert(file, CutFile { cut, waits: None });
        if !is_open {
            self.0.wait(&mut files, file);
        }
        true
    }

    /// There is a thread that syncs, made with the first file.
    fn has_thread(&self, files: &mut Files) -> bool {
        let inner = self.0.clone();
        !files.is_over && files.thread.is_there("cuts", move || inner.work())
    }

    /// It is going to be open for writing. A sync of it that is under way has ended then: it may cut the file, and what it finds
    /// lost is not hidden from who opens it.
    pub(super) fn opened(&self, file: FileId) {
        let files = self.0.files();
        let at_work = |files: &mut Files| files.at_work == Some(file);
        let mut files = self.0.changed.wait_while(files, at_work).unwrap_or_else(PoisonError::into_inner);
        // What could not be synced waits again.
        files.waits_no_more(file);
    }

    /// It is not open for writing after all.
    pub(super) fn is_not_opened(&self, file: FileId) {
        self.0.wait(&mut self.0.files(), file);
    }

    /// Nobody has it open for writing any more, and it has this length; `None`: it must not be cut once more.
    pub(super) fn closed(&self, file: FileId, length: Option<u64>) {
        let mut files = self.0.files();
        let Some(known) = files.of.get_mut(&file) else { return };
        known.cut.length = length;
        self.0.wait(&mut files, file);
    }

    /// All of it is on the disks, or gone.
    pub(super) fn forget(&self, file: FileId) {
        self.0.files().forget(file);
    }

    /// What is beyond this length, if nobody has it open for writing, was cut, and is to be cut once more.
    pub(super) fn length(&self, file: FileId) -> Option<u64> {
        self.0.files().of.get(&file)?.cut.length
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.files().of.is_empty()
    }
}

impl Drop for CutFiles {
    fn drop(&mut self) {
        let thread = {
            let mut files = self.0.files();
            files.is_over = true;
            std::mem::take(&mut files.thread)
        };
        self.0.changed.notify_all();
        thread.join();
    }
}

impl Inner {
    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, files: &mut Files, file: FileId) {
        files.wait(file);
        // Who comes behind others is not who is waited for.
        if files.waiting.len() == 1 {
            self.changed.notify_all();
        }
    }

    fn work(&self) {
        while let Some((file, cut)) = self.next() {
            let synced = self.sync(file, &cut);
            self.synced(file, synced);
        }
    }

    /// Waits for a file whose time has come, and takes it out; `None`: it is over.
    fn next(&self) -> Option<(FileId, Cut)> {
        let mut files = self.files();
        while !files.is_over {
            if let Some(due) = files.take_due(self.synced_after) {
                return Some(due);
            }
            files = self.wait_for_one(files);
        }
        None
    }

    fn wait_for_one<'a>(&self, files: MutexGuard<'a, Files>) -> MutexGuard<'a, Files> {
        match files.first() {
            Some((_, waited)) => {
                let waits = self.changed.wait_timeout(files, self.synced_after.saturating_sub(waited));
                waits.unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.changed.wait(files).unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Has the servers bring the cut to their disks, which they may have lost.
    fn sync(&self, file: FileId, cut: &Cut) -> Result<()> {
        let shares = shares_of(&self.data, file, &cut.layout)?;
        shares.iter().try_for_each(|share| share.sync(false))?;
        match cut.length {
            Some(length) if memories_of(&shares) != cut.memories => cut_again(&shares, &cut.layout, length),
            _ => Ok(()),
        }
    }

    /// Unless it was cut or removed meanwhile.
    fn synced(&self, file: FileId, synced: Result<()>) {
        let mut files = self.files();
        files.at_work = None;
        let is_same = files.of.get(&file).is_some_and(|known| known.waits.is_none());
        match synced {
            Ok(()) if is_same => files.forget(file),
            // It is tried again.
            Err(_) if is_same => files.wait(file),
            _ => {}
        }
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
