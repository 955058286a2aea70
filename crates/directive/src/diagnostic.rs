//! What is wrong, or doubtful, in a script: where, what, what was expected, what to do.

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The script does what it says, but perhaps not what was meant.
    Warning,
    /// The script is refused.
    Error,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
    /// The text that it is about.
    pub text: String,
    /// What would have been right.
    pub expected: String,
    /// What to write instead.
    pub suggestion: Option<String>,
    /// Stable name of the kind of finding.
    pub code: Code,
}

/// Kinds of findings; stable names for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The word after `#DW` or `#BB` is no command.
    UnknownCommand,
}
