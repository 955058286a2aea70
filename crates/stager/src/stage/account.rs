//! What has been done, found, warned of and failed so far.
//!
//! Counters are written by all threads without order between them; lists are cut at the number the options name, their totals
//! are not.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::failure::{ItemFailure, StageFailure};
use crate::report::{StageReport, Warning, WarningKind};

/// A count all threads add to.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    pub fn take_back(&self, amount: u64) {
        self.0.fetch_sub(amount, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// See the module.
#[derive(Default)]
pub struct Account {
    listed_max: usize,
    tolerant: bool,
    wholly: AtomicBool,
    failures: Mutex<Listed<ItemFailure>>,
    warnings: Mutex<Listed<Warning>>,
    /// Bytes copied, holes counted.
    pub bytes_done: Count,
    /// Bytes found.
    pub bytes_found: Count,
    /// Entries done, successfully or not.
    pub entries_done: Count,
    /// Entries found.
    pub entries_found: Count,
    /// Entries looked at.
    pub entries_looked: Count,
    pub bytes: Count,
    pub bytes_moved: Count,
    pub files: Count,
    pub files_skipped: Count,
    pub bytes_skipped: Count,
    pub directories: Count,
    pub symlinks: Count,
    pub hard_links: Count,
    pub fifos: Count,
    pub changed_retries: Count,
}

struct Listed<T> {
    total: u64,
    first: Vec<T>,
}

impl<T> Default for Listed<T> {
    fn default() -> Self {
        Self { total: 0, first: Vec::new() }
    }
}

impl<T> Listed<T> {
    fn add(&mut self, item: T, listed_max: usize) {
        self.total += 1;
        if self.first.len() < listed_max {
            self.first.push(item);
        }
    }
}

impl Account {
    pub fn new(listed_max: usize, tolerant: bool) -> Self {
        // The first failure is always kept: it is the stage's reason.
        Self { listed_max: listed_max.max(1), tolerant, ..Self::default() }
    }

    /// Notes a failed item; true when that ends the stage.
    pub fn fail(&self, failure: ItemFailure) -> bool {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).add(failure, self.listed_max);
        !self.tolerant
    }

    /// Notes a failure that ends even a tolerant stage; it becomes the first.
    pub fn fail_wholly(&self, failure: ItemFailure) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.wholly.swap(true, Ordering::AcqRel) {
            failures.first.insert(0, failure);
            failures.first.truncate(self.listed_max);
            failures.total += 1;
        }
    }

    pub fn warn(&self, kind: WarningKind, path: PathBuf) {
        let warning = Warning { kind, path };
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).add(warning, self.listed_max);
    }

    pub fn failures_total(&self) -> u64 {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).total
    }

    /// Whether the stage is a failure.
    pub fn has_failed(&self) -> bool {
        self.wholly.load(Ordering::Acquire) || (!self.tolerant && self.failures_total() > 0)
    }

    pub fn bytes_total(&self) -> u64 {
        self.bytes_found.get()
    }

    pub fn bytes_done(&self) -> u64 {
        self.bytes_done.get()
    }

    /// The account as a report, or as the failure it is.
    pub fn into_result(self, elapsed: Duration) -> Result<StageReport, StageFailure> {
        let failed = self.has_failed();
        let failures = self.failures.into_inner().unwrap_or_else(PoisonError::into_inner);
        let warnings = self.warnings.into_inner().unwrap_or_else(PoisonError::into_inner);
        let report = StageReport {
            bytes: self.bytes.get(),
            bytes_moved: self.bytes_moved.get(),
            files: self.files.get(),
            files_skipped: self.files_skipped.get(),
            bytes_skipped: self.bytes_skipped.get(),
            directories: self.directories.get(),
            symlinks: self.symlinks.get(),
            hard_links: self.hard_links.get(),
            fifos: self.fifos.get(),
            changed_retries: self.changed_retries.get(),
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            warnings_total: warnings.total,
            warnings: warnings.first,
            failures_total: failures.total,
            failures: failures.first,
        };
        match report.failures.first().cloned().filter(|_| failed) {
            None => Ok(report),
            Some(first) => {
                let (failures, failures_total) = (report.failures.clone(), report.failures_total);
                Err(StageFailure { first, failures_total, failures, report: Box::new(report) })
            }
        }
    }
}
