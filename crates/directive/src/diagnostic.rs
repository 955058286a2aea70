//! What is wrong, or doubtful, in a script: where, what, what was expected, what to do.
//!
//! Invariants: a code has one severity and one title, for ever; lines and columns count from 1, columns in
//! characters (a byte that is not UTF-8 is one character). Pure; any thread may call it.

mod code;
mod render;
mod report;

pub use code::{Code, Severity};
pub(crate) use report::{Place, Report};

use serde::Serialize;
use std::fmt;

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Line, from 1.
    pub line: usize,
    /// Column, from 1, in characters.
    pub column: usize,
    /// The text that it is about, as written.
    pub text: String,
    /// What would have been right, to be read after "expected".
    pub expected: String,
    /// What to do, an imperative or a question.
    pub suggestion: Option<String>,
    /// Stable name of the kind of finding.
    pub code: Code,
}

impl Diagnostic {
    /// The sentence without place and severity.
    pub fn message(&self) -> String {
        let mut message = self.code.title().to_string();
        if !self.text.is_empty() {
            message.push_str(&format!(": `{}`", render::visible(&self.text)));
        }
        message.push_str(&format!("; expected {}", render::visible(&self.expected)));
        if let Some(suggestion) = &self.suggestion {
            message.push_str(&format!("; {}", render::visible(suggestion)));
        }
        message
    }

    /// `file:line:column: error: ...`, the line of `source` it is about, and a caret below the place.
    pub fn render(&self, file: &str, source: &[u8]) -> String {
        format!("{}:{self}\n{}", render::visible(file), render::excerpt(self, source))
    }
}

impl fmt::Display for Diagnostic {
    /// `line:column: error: message [code]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {} [{}]", self.line, self.column, self.severity, self.message(), self.code)
    }
}

#[cfg(test)]
mod tests;
