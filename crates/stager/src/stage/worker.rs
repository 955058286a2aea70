//! What a worker does with a task.

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
            Task::Copy(chunk) => chunk.into_iter().for_each(|looked| place(run, looked, &mut buffer)),
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

fn place(run: &Run<'_>, looked: Looked, buffer: &mut [u8]) {
    if run.stopping() {
        return;
    }
    let Looked { entry, found } = looked;
    if entry.named && found.kind != EntryKind::Regular {
        let path = shown(run.source(), &entry.source());
        let failure = ItemFailure { path, reason: Reason::NotRegularFile { kind: found.kind } };
        return leave(run, &entry, Some(failure));
    }
    match found.kind {
        EntryKind::Regular => copy::regular(run, entry, &found, buffer),
        EntryKind::Symlink => special::symlink(run, &entry, &found),
        EntryKind::Fifo => special::fifo(run, &entry, &found),
        EntryKind::Socket | EntryKind::CharDevice | EntryKind::BlockDevice => special::skip(run, &entry),
        // It was something else when the directory was read.
        EntryKind::Directory => {
            let reason = Reason::SourceChanged { attempts: 1 };
            leave(run, &entry, Some(ItemFailure { path: shown(run.source(), &entry.source()), reason }));
        }
    }
}
