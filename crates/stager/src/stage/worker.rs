//! What a worker does with a task.

use std::sync::Arc;

use super::copy::Due;
use super::entry::{Entry, Looked};
use super::queue::Task;
use super::run::{Run, shown};
use super::{Buffer, copy, special};
use crate::failure::{ItemFailure, Reason};
use crate::tree::EntryKind;

/// Works until nothing is left. `index` counts from 0; a worker whose index is not allowed at the moment waits.
pub fn work(run: &Run<'_>, index: usize) {
    let mut buffer = Buffer::new();
    let allowed = || index < run.workers();
    while let Some(task) = run.queue.take(index, &allowed, &|| run.stopping()) {
        match task {
            Task::Range(file, range) => copy::range(run, &file, range, &mut buffer),
            Task::Look(chunk) if run.looks_ahead() => look(run, chunk),
            Task::Look(chunk) => copy_chunk(run, unlooked(run, chunk), &mut buffer),
            Task::Copy(chunk) => copy_chunk(run, chunk, &mut buffer),
        }
        run.queue.done();
    }
}

/// Looks at entries, so that the totals are known before they are copied.
fn look(run: &Run<'_>, chunk: Vec<Entry>) {
    let ready = chunk.into_iter().map_while(|entry| (!run.stopping()).then(|| look_at(run, entry))).flatten();
    run.queue.push_ready(ready.collect());
}

fn look_at(run: &Run<'_>, entry: Entry) -> Option<Looked> {
    let path = entry.source();
    let found = run.source().lstat(&path);
    run.account.entries_looked.add(1);
    match found {
        Ok(found) => {
            if found.kind == EntryKind::Regular {
                run.account.bytes_found.add(found.size);
            }
            Some(Looked { entry, found: Some(found) })
        }
        Err(error) => {
            leave(run, &entry, Some(run.source_failure(&path, error)));
            None
        }
    }
}

/// Entries to be copied without having been looked at, except where that is needed to know what to do.
fn unlooked(run: &Run<'_>, chunk: Vec<Entry>) -> Vec<Looked> {
    let pass = |entry: Entry| match entry.kind {
        Some(EntryKind::Regular) => Some(Looked { entry, found: None }),
        _ => look_at(run, entry),
    };
    chunk.into_iter().filter_map(pass).collect()
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
/// A file above this ends its batch: copying it takes longer than waiting for the directory.
const BATCHED_BYTES: u64 = 1 << 20;
/// Files open in the batches of all workers; each has two descriptors, and 1024 are what a process may have by default.
const BATCHED_MAX: usize = 192;

/// Places a chunk; small regular files of one directory in batches.
fn copy_chunk(run: &Run<'_>, chunk: Vec<Looked>, buffer: &mut Buffer) {
    let batch_max = (BATCHED_MAX / run.workers()).clamp(1, BATCH_MAX);
    let mut batch: Vec<Due> = Vec::with_capacity(batch_max);
    for looked in chunk {
        let is_large = looked.found.is_some_and(|found| found.size > BATCHED_BYTES);
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
fn place(run: &Run<'_>, looked: Looked, buffer: &mut Buffer) -> Option<Due> {
    if run.stopping() {
        return None;
    }
    let Looked { entry, found } = looked;
    let Some(found) = found else { return Some(Due::unlooked(entry)) };
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
