//! Whether owners of byte ranges wait for each other in a circle.
//!
//! An owner waits for those whose locks are in the way of any of its waiting requests. A process with several threads is
//! one owner: it can be in a circle though one of its threads could still give a lock up. POSIX sees it the same way.

use super::Owner;
use super::file::FileLocks;
use super::queue::{Queue, Waiting};
use forebay_wire::{Ino, LockFamily};
use std::collections::{HashMap, HashSet};

/// The locks of all files by file and family.
pub(super) type Files = HashMap<(Ino, LockFamily), FileLocks>;

/// The request, waiting, would close a circle. `flock` never does.
pub(super) fn closes_circle(files: &Files, queue: &Queue, request: &Waiting) -> bool {
    if request.place().1 == LockFamily::File {
        return false;
    }
    let owner = request.owner();
    let mut seen = HashSet::new();
    let mut ahead: Vec<Owner> = waits_for(files, request).collect();
    while let Some(next) = ahead.pop() {
        if next == owner {
            return true;
        }
        if seen.insert(next) {
            let waiting = queue.of_owner(next).filter(|(_, waiting)| waiting.place().1 == LockFamily::Bytes);
            ahead.extend(waiting.flat_map(|(_, waiting)| waits_for(files, waiting)));
        }
    }
    false
}

/// The owners that a request has to wait for.
fn waits_for(files: &Files, waiting: &Waiting) -> impl Iterator<Item = Owner> {
    let (owner, request) = (waiting.owner(), waiting.request);
    let locks = files.get(&waiting.place()).into_iter();
    locks
        .flat_map(move |locks| locks.in_the_way(owner, request.kind, request.scope.range()))
        .map(|(owner, _)| owner)
}
