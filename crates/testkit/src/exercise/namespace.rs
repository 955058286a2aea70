//! Lockstep: the same random operations on the directory under test and on a local one, every answer compared.

use super::discrepancies::one_word;
use super::operation::{self, Operation};
use super::side::{Seen, Side};
use super::tree::Tree;
use super::{Deviation, History};
use crate::posix::check;
use crate::random::Random;
use rustix::io::Result;
use std::path::{Path, PathBuf};

/// Operations between two comparisons of the whole trees.
const COMPARE_EVERY: u64 = 400;

/// A run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The directory under test, empty.
    pub under: PathBuf,
    /// The same directory through other mounts: operations go through one or the other, and all must show the same.
    pub also_under: Vec<PathBuf>,
    /// The local directory, empty.
    pub beside: PathBuf,
    /// What decides the operations.
    pub seed: u64,
    /// How many.
    pub operations: u64,
}

/// What a run without deviation did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Operations that were done.
    pub done: u64,
    /// Operations that both sides refused with the same error.
    pub refused: u64,
    /// Paths in the tree at its greatest.
    pub paths: usize,
}

/// Runs it, until the first deviation.
pub fn run(run: &Run) -> std::result::Result<Summary, Deviation> {
    Lockstep::start(run)
        .map_err(|what| Deviation { seed: run.seed, number: 0, what, history: History::default() })?
        .go(run)
}

struct Lockstep {
    under: Side,
    beside: Side,
    random: Random,
    history: History,
    summary: Summary,
}

impl Lockstep {
    fn start(run: &Run) -> std::result::Result<Lockstep, String> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| unreadable(&path, error)
        };
        Ok(Lockstep {
            under: Side::over(&run.under, &run.also_under, run.seed).map_err(failed(&run.under))?,
            beside: Side::new(&run.beside).map_err(failed(&run.beside))?,
            random: Random::new(run.seed),
            history: History::default(),
            summary: Summary::default(),
        })
    }

    fn go(mut self, run: &Run) -> std::result::Result<Summary, Deviation> {
        for number in 0..run.operations {
            let operation = operation::next(&mut self.random);
            // A fifo connects processes that reach it through the same mount, and no others.
            if matches!(operation, Operation::Fifo { .. }) && !run.also_under.is_empty() {
                continue;
            }
            self.history.push(number, &operation);
            let mut found = self.step(&operation);
            if found.is_ok() && (number + 1) % COMPARE_EVERY == 0 {
                found = self.compare(run);
            }
            found.map_err(|what| self.deviation(run, number, what))?;
        }
        // And once more when the last descriptor is closed: that is when unlinked files go.
        self.under.close_all();
        self.beside.close_all();
        self.compare(run).map_err(|what| self.deviation(run, run.operations, what))?;
        Ok(self.summary)
    }

    fn step(&mut self, operation: &Operation) -> std::result::Result<(), String> {
        let expected = self.beside.apply(operation).map_err(one_word);
        let found = self.under.apply(operation).map_err(one_word);
        if found != expected {
            let answers = (answer(&found), answer(&expected));
            return Err(format!("{operation:?}\n  under test {}\n  beside     {}", answers.0, answers.1));
        }
        match found {
            Ok(_) => self.summary.done += 1,
            Err(_) => self.summary.refused += 1,
        }
        Ok(())
    }

    fn compare(&mut self, run: &Run) -> std::result::Result<(), String> {
        for under in std::iter::once(&run.under).chain(&run.also_under) {
            let paths = compare(under, &run.beside);
            let paths = paths.map_err(|what| format!("through {}: {what}", under.display()))?;
            self.summary.paths = self.summary.paths.max(paths);
        }
        Ok(())
    }

    fn deviation(&self, run: &Run, number: u64, what: String) -> Deviation {
        Deviation { seed: run.seed, number, what, history: self.history.clone() }
    }
}

/// Compares two whole trees; how many paths they have, or where they differ.
pub fn compare(under: &Path, beside: &Path) -> std::result::Result<usize, String> {
    let read = |path: &Path| Tree::read(path).map_err(|error| unreadable(path, error));
    let (found, expected) = (read(under)?, read(beside)?);
    match found.difference(&expected) {
        None => Ok(found.len()),
        Some(difference) => Err(format!("the trees differ at {difference}")),
    }
}

fn unreadable(path: &Path, error: rustix::io::Errno) -> String {
    format!("{} cannot be read: {}", path.display(), check::name(error))
}

fn answer(result: &Result<Seen>) -> String {
    match result {
        Err(error) => check::name(*error),
        Ok(Seen::Bytes(bytes)) if bytes.len() > 100 => format!("{} bytes {:?}...", bytes.len(), &bytes[..20]),
        Ok(seen) => format!("{seen:?}"),
    }
}
