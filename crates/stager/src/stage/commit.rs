//! From the temporary to the final name, and the disk.
//!
//! - **Stage-out, durable**: a finished file waits in a group; a full group is synced as a whole, then every file of it is
//!   renamed. One sync for thousands of files, and no old target is given up before the new content is on disk. A final sync
//!   makes the names durable.
//! - **A few files**: each is synced by itself, renamed, and its directory synced; nothing else of the file system is touched.
//! - **Stage-in, durable**: renamed at once (a crash before the end means that the stage is done again), one sync at the end.
//! - **Not durable**: renamed at once.
//!
//! A crash between sync and rename leaves temporary files; between renames, some targets new and some old, each whole.
//! Files of a group: at most [`GROUP_FILES_MAX`], some 500 bytes each plus the paths.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::Buffer;
use super::copy;
use super::entry::Entry;
use super::journal::Record;
use super::links::Key;
use super::run::Run;
use super::taken;
use crate::failure::ItemFailure;
use crate::request::{Direction, StageRequest, What};
use crate::tree::{Metadata, SyncPoint, TreeError};

/// A group is synced when it has this many files ...
const GROUP_FILES_MAX: usize = 8192;
/// ... or this many bytes.
const GROUP_BYTES_MAX: u64 = 1 << 30;
/// Up to so many files are synced one by one.
const FEW_FILES: usize = 8;

/// A complete file under its temporary name.
pub struct Finished {
    pub entry: Entry,
    pub key: Option<Key>,
    pub target: PathBuf,
    pub temporary: PathBuf,
    pub size: u64,
    pub record: Option<Record>,
    /// Which attempt at the file it is, from 1.
    pub attempt: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Never,
    Each,
    GroupFirst,
    AtEnd,
}

/// See the module.
pub struct Commit<'r> {
    order: Order,
    group: Mutex<Group>,
    /// One for each file system written to.
    points: Mutex<Vec<(u64, Arc<dyn SyncPoint + 'r>)>>,
    /// Held while the points are synced. The error of a sync that nobody waited for: every later one has it too, because the
    /// kernel tells it only once.
    broken: Mutex<Option<TreeError>>,
}

#[derive(Default)]
struct Group {
    files: Vec<Finished>,
    bytes: u64,
}

impl<'r> Commit<'r> {
    pub fn new(request: &StageRequest<'_>, durable: bool) -> Self {
        let few = match &request.what {
            What::File(_) => true,
            What::List { pairs } => pairs.len() <= FEW_FILES,
            What::Directory(_) => false,
        };
        let order = match (durable, few, request.direction) {
            (false, _, _) => Order::Never,
            (true, true, _) => Order::Each,
            (true, false, Direction::Out) => Order::GroupFirst,
            (true, false, Direction::In) => Order::AtEnd,
        };
        Self { order, group: Mutex::default(), points: Mutex::default(), broken: Mutex::default() }
    }

    /// Whether every file is synced by itself.
    pub fn syncs_each(&self) -> bool {
        self.order == Order::Each
    }

    /// Whether the stage ends with everything on disk.
    pub fn is_durable(&self) -> bool {
        self.order != Order::Never
    }

    /// Whether the stage ends with one sync of everything, as opposed to syncs before files are put in place.
    pub fn syncs_all(&self) -> bool {
        self.order == Order::AtEnd
    }

    /// Before anything is written below `directory`.
    pub fn will_write(&self, run: &Run<'r>, directory: &Path, found: &Metadata) -> Result<(), TreeError> {
        if matches!(self.order, Order::Never | Order::Each) {
            return Ok(());
        }
        let mut points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
        if !points.iter().any(|(device, _)| *device == found.device) {
            points.push((found.device, run.target().sync_point(directory)?.into()));
        }
        Ok(())
    }

    /// A directory was made in `parent`.
    pub fn made_in(&self, run: &Run<'r>, parent: &Path) -> Result<(), TreeError> {
        if self.order == Order::Each { run.target().sync_dir(parent) } else { Ok(()) }
    }

    /// Takes over a finished file.
    pub fn add(&self, run: &Run<'r>, finished: Finished, buffer: &mut Buffer) {
        if self.order != Order::GroupFirst {
            return self.place(run, finished, buffer);
        }
        let full = {
            let mut group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
            group.bytes += finished.size;
            group.files.push(finished);
            let is_full = group.files.len() >= GROUP_FILES_MAX || group.bytes >= GROUP_BYTES_MAX;
            is_full.then(|| std::mem::take(&mut *group))
        };
        if let Some(group) = full {
            self.place_group(run, group, buffer);
        }
    }

    fn place_group(&self, run: &Run<'r>, group: Group, buffer: &mut Buffer) {
        if let Err(error) = self.sync_points() {
            for finished in group.files {
                let failure = run.target_failure(&finished.target, error, finished.size);
                self.lose(run, finished, failure);
            }
            return;
        }
        for finished in group.files {
            self.place(run, finished, buffer);
        }
    }

    fn place(&self, run: &Run<'r>, finished: Finished, buffer: &mut Buffer) {
        let tree = run.target();
        let named = match finished.temporary == finished.target {
            true => Ok(()),
            false => tree.rename(&finished.temporary, &finished.target),
        };
        if let Err(error) = named
            && taken::may_be_tried_again(error, finished.attempt)
        {
            run.account.bytes_done.take_back(finished.size);
            return copy::again(run, finished, buffer);
        }
        let renamed = named.and_then(|()| match self.order {
            Order::Each => tree.sync_dir(finished.target.parent().unwrap_or(Path::new(""))),
            _ => Ok(()),
        });
        if let Err(error) = renamed {
            let failure = run.target_failure(&finished.target, error, finished.size);
            return self.lose(run, finished, failure);
        }
        run.account.files.add(1);
        run.account.bytes.add(finished.size);
        if self.syncs_all() {
            run.early.made(if finished.size > copy::LARGE_BYTES { 0 } else { finished.size });
        }
        if let (Some(journal), Some(record)) = (&run.journal, &finished.record)
            && let Err(failure) = journal.add(&finished.target, record)
        {
            run.fail_wholly(failure);
        }
        copy::in_place(run, &finished.entry, finished.key, buffer);
    }

    fn lose(&self, run: &Run<'r>, finished: Finished, failure: ItemFailure) {
        let _ = run.target().unlink(&finished.temporary);
        run.account.bytes_done.take_back(finished.size);
        copy::give_up(run, &finished.entry, finished.key, failure);
    }

    /// Puts everything in place that is complete. Links copied on the way come back as new members of the group.
    pub fn flush(&self, run: &Run<'r>) {
        let mut buffer = Buffer::new();
        loop {
            let group = std::mem::take(&mut *self.group.lock().unwrap_or_else(PoisonError::into_inner));
            if group.files.is_empty() {
                return;
            }
            self.place_group(run, group, &mut buffer);
        }
    }

    /// Removes what is complete but not in place.
    pub fn discard(&self, run: &Run<'r>) {
        let group = std::mem::take(&mut *self.group.lock().unwrap_or_else(PoisonError::into_inner));
        for finished in group.files {
            let _ = run.target().unlink(&finished.temporary);
        }
    }

    /// Everything in place reaches the disk.
    pub fn sync(&self, run: &Run<'r>) {
        if let Err(error) = self.sync_points() {
            run.fail_wholly(run.target_failure(Path::new(""), error, 0));
        }
    }

    /// Brings the sync at the end forward, for what is there now.
    pub fn sync_early(&self) {
        // An error is met again by the sync at the end.
        let _ = self.sync_points();
    }

    fn sync_points(&self) -> Result<(), TreeError> {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = *broken {
            return Err(error);
        }
        let points: Vec<_> = {
            let points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
            points.iter().map(|(_, point)| Arc::clone(point)).collect()
        };
        let synced = points.iter().try_for_each(|point| point.sync());
        synced.inspect_err(|error| *broken = Some(*error))
    }
}
