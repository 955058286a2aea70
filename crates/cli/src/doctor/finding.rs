//! What was found, and what to do about it.

use serde::Serialize;
use std::fmt;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// As it should be.
    Good,
    /// It works, but perhaps not as it is meant.
    Doubtful,
    /// It does not work.
    Bad,
}

impl Grade {
    fn mark(self) -> &'static str {
        match self {
            Grade::Good => "ok  ",
            Grade::Doubtful => "warn",
            Grade::Bad => "FAIL",
        }
    }
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub grade: Grade,
    /// What was looked at.
    pub subject: &'static str,
    /// What was found.
    pub found: String,
    /// What to change, an imperative; empty when all is good.
    pub change: String,
}

impl Finding {
    /// All is good.
    pub fn good(subject: &'static str, found: impl Into<String>) -> Finding {
        Finding { grade: Grade::Good, subject, found: found.into(), change: String::new() }
    }

    /// It may be meant otherwise.
    pub fn doubtful(subject: &'static str, found: impl Into<String>, change: impl Into<String>) -> Finding {
        Finding { grade: Grade::Doubtful, subject, found: found.into(), change: change.into() }
    }

    /// It does not work.
    pub fn bad(subject: &'static str, found: impl Into<String>, change: impl Into<String>) -> Finding {
        Finding { grade: Grade::Bad, subject, found: found.into(), change: change.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:<11} {}", self.grade.mark(), self.subject, self.found)?;
        if self.change.is_empty() { Ok(()) } else { write!(f, "\n                 -> {}", self.change) }
    }
}
