//! The stage itself: a walker feeds a bounded queue, workers look at the entries, copy them and put them in place.
//!
//! ```text
//!  walker --names--> [queue] --look--> [queue] --copy--> temporary name --commit--> final name
//!                                         \--- ranges of a large file, shared by all workers
//! ```
//!
//! Order of events for one file, and what a crash after each leaves:
//! 1. created under a temporary name beside the target: a temporary file, which the next run of the same stage replaces;
//! 2. content written, read back and compared; attributes set; source looked at again: the same;
//! 3. (durable stage-out) content on disk: the same;
//! 4. renamed over the target: the target is complete, the next run copies it again;
//! 5. noted in the journal: the next run skips it;
//! 6. attributes of its directory set when the last entry of the directory is done; everything on disk.
//!
//! So a target has its old or its new content and never half of one. Memory is bounded: see [`queue`] (entries in flight),
//! [`links`] (hard links whose other names are still to come), [`commit`] (files waiting for the disk), one [`Buffer`] per worker, and the directories on the way from the entries in flight up to the top.
//!
//! The calling thread reports progress and starts workers; it holds no lock while it calls the callback.

mod account;
mod attributes;
mod changed;
mod clone;
mod commit;
mod copy;
mod crew;
mod early;
mod entry;
mod journal;
mod leftover;
mod links;
mod locate;
mod meter;
mod node;
mod queue;
mod run;
mod similar;
mod special;
mod taken;
mod throttle;
mod walk;
mod worker;

use std::time::Instant;

use crate::cancel::CancelToken;
use crate::failure::{ItemFailure, StageFailure};
use crate::report::{StageProgress, StageReport};
use crate::request::{StageOptions, StageRequest};
use meter::Meter;
use run::Run;

/// Bytes read, checked and written at once: small enough to stay in a core's cache between the steps. The page cache takes a larger
/// one in blocks of memory so large that a virtual machine has often given them back to its host, and has to ask for them again page
/// by page.
pub(crate) const PIECE_BYTES: usize = 256 << 10;
/// Bytes read back at once, to be compared with the piece: what the nearest cache of a core holds.
const BACK_BYTES: usize = 32 << 10;

/// What a worker reads into.
struct Buffer {
    piece: Box<[u8]>,
    back: Box<[u8]>,
}

impl Buffer {
    fn new() -> Self {
        Self { piece: vec![0; PIECE_BYTES].into(), back: vec![0; BACK_BYTES].into() }
    }
}

/// Copies what `request` says. Blocks until it is done, failed or cancelled; every thread it started has ended then.
///
/// `progress` is called on the calling thread, at most once per [`StageOptions::progress_interval_ms`], and once at the end.
///
/// # Errors
/// See [`StageFailure`]. With [`StageOptions::tolerate_errors`] items that fail are in the report, and only a cancelled stage, a
/// failed sync and an unusable journal are failures.
pub fn stage(
    request: &StageRequest<'_>,
    options: &StageOptions,
    progress: &(dyn Fn(StageProgress) + Sync),
    cancel: &CancelToken,
) -> Result<StageReport, StageFailure> {
    let started = Instant::now();
    let run = match Run::new(request, options, cancel) {
        Ok(run) => run,
        Err(first) => return Err(failed_before_start(first)),
    };
    let mut meter = Meter::default();
    let mut report = |walked| progress(meter.snapshot(started.elapsed(), walked, &run.account));
    crew::work(&run, &mut report);
    run.finish();
    report(true);
    run.into_result(started.elapsed())
}

fn failed_before_start(first: ItemFailure) -> StageFailure {
    StageFailure { failures: vec![first.clone()], first, failures_total: 1, report: Box::default() }
}
