//! What a worker does with a task.

use std::sync::Arc;

use super::copy::Due;
use super::entry::{Entry, Looked};
use super::queue::Task;
use super::run::{Run, shown};
use super::{PIECE_BYTES, copy, special};
use crate::failure::{ItemFailure, Reason};
use crate::tree::EntryKind;

/// Works until nothing is left. `index` counts from 0; a worker whose index is not allowed at the moment waits.
pub fn work(run: &Run<'_>, index: usize) {
    let mut buffer = vec![0; PIECE_BYTES];
    let allowed = || index < run.workers();
    while let Some(task) = run.queue.take(&allowed, &|| run.stopping()) {
        match task {
            Task::Range(file, range) => copy::range(run, &file, range, &mut buffer),
            Task::Look(chunk) => look(run, chunk),
            Task::Copy(chunk) => copy_chunk(run, chunk, &mut buffer),
        }
        run.queue.done();
    }
}

fn look(run: &Run<'_>, chunk: Vec<Entry>) {
    let mut ready = Vec::with_capacity(chunk.len());
    for entry in chunk {
        if run.stopping() {
            return;
        }
        let path = entry.source();
        match run.source().lstat(&path) {
            Ok(found) => {
                if found.kind == EntryKind::Regular {
                    run.account.bytes_found.add(found.size);
                }
                ready.push(Looked { entry, found });
            }
            Err(error) => leave(run, &entry, Some(run.source_failure(&path, error))),
        }
        run.account.entries_looked.add(1);
    }
    run.queue.push_ready(ready);
}

/// An entry is done with, one way or the other.
pub fn leave(run: &Run<'_>, entry: &Entry, failure: Option<ItemFailure>) {
    if let Some(failure) = failure {
        run.fail(failure);
    }
    run.account.entries_done.add(1);
    entry.dir.leave(run);
}

/// Files of a batch, at most.
const BATCH_MAX: usize = 16;
/// Files open in the batches of all workers; each has two descriptors, and 1024 are what a process may have by default.
const BATCHED_MAX: usize = 192;

/// Places a chunk; small regular files of one directory in batches.
fn copy_chunk(run: &Run<'_>, chunk: Vec<Looked>, buffer: &mut [u8]) {
    let batch_max = (BATCHED_MAX / run.workers()).clamp(1, BATCH_MAX);
    let mut batch: Vec<Due> = Vec::with_capacity(batch_max);
    for looked in chunk {
        let is_large = looked.found.size > PIECE_BYTES as u64;
        if let Some(due) = place(run, looked, buffer) {
            if batch.first().is_some_and(|first| !Arc::ptr_eq(&first.entry.dir, &due.entry.dir)) {
                copy::batch(run, std::mem::take(&mut batch), buffer);
            }
            batch.push(due);
            if is_large || batch.len() >= batch_max {
                copy::batch(run, std::mem::take(&mut batch), buffer);
            }
        }
    }
    copy::batch(run, batch, buffer);
}

/// Does what an entry needs, except copying a file: that is due.
fn place(run: &Run<'_>, looked: Looked, buffer: &mut [u8]) -> Option<Due> {
    if run.stopping() {
        return None;
    }
    let Looked { entry, found } = looked;
    if entry.named && found.kind != EntryKind::Regular {
        let path = shown(run.source(), &entry.source());
        let failure = ItemFailure { path, reason: Reason::NotRegularFile { kind: found.kind } };
        leave(run, &entry, Some(failure));
        return None;
    }
    match found.kind {
        EntryKind::Regular => return copy::due(run, entry, &found, buffer),
        EntryKind::Symlink => special::symlink(run, &entry, &found),
        EntryKind::Fifo => special::fifo(run, &entry, &found),
        EntryKind::Socket | EntryKind::CharDevice | EntryKind::BlockDevice => special::skip(run, &entry),
        // It was something else when the directory was read.
        EntryKind::Directory => {
            let reason = Reason::SourceChanged { attempts: 1 };
            leave(run, &entry, Some(ItemFailure { path: shown(run.source(), &entry.source()), reason }));
        }
    }
    None
}
