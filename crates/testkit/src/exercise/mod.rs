//! Random operations against an oracle.
//!
//! * [`namespace`]: names, attributes and data, done in lockstep on the directory under test and on a local directory.
//!   Every answer is compared, errors too, and regularly the whole trees.
//! * [`single_file`]: everything that changes or reads the bytes of one file, against a vector of bytes.
//! * [`mapped`]: one file that several nodes map, read and write in turns, against what is promised of mapped files.
//!
//! The seed decides everything, so a failure is replayed by giving its seed again. What may differ from the local file
//! system is listed in one table, [`discrepancies::ALLOWED`], each with its reason.

pub mod discrepancies;
pub mod mapped;
pub mod namespace;
pub mod operation;
pub mod side;
pub mod single_file;
pub mod tree;

use std::collections::VecDeque;
use std::fmt::{self, Debug};

/// Operations shown with a failure.
const REMEMBERED: usize = 25;

/// Something was not as the oracle says.
#[derive(Debug, thiserror::Error)]
#[error("seed {seed}, operation {number}: {what}\nthe last operations were:\n{history}")]
pub struct Deviation {
    /// Replays the run.
    pub seed: u64,
    /// Operations done before the one that failed.
    pub number: u64,
    /// Both answers.
    pub what: String,
    /// What led there.
    pub history: History,
}

/// The last operations of a run.
#[derive(Clone, Debug, Default)]
pub struct History(VecDeque<String>);

impl History {
    fn push(&mut self, number: u64, operation: &impl Debug) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(format!("{number:6} {operation:?}"));
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}
