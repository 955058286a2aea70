//! Collects findings while a script is read.
//!
//! Invariants: at most [`REPORT_MAX`] errors and as many warnings are kept, and one more says that there were more, so
//! that a damaged script of any size cannot fill the memory or the terminal.

use super::{Code, Diagnostic, Severity};

/// Most errors, and most warnings, that are told of one script.
pub const REPORT_MAX: usize = 1_000;

/// A place in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

/// The findings so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

impl Report {
    /// Adds a finding about `text`.
    pub fn add(&mut self, code: Code, place: Place, text: &[u8], expected: impl Into<String>) {
        self.push(code, place, text, expected.into(), None);
    }

    /// Adds a finding with something to do about it.
    pub fn suggest(
        &mut self,
        code: Code,
        place: Place,
        text: &[u8],
        expected: impl Into<String>,
        suggestion: impl Into<String>,
    ) {
        self.push(code, place, text, expected.into(), Some(suggestion.into()));
    }

    /// Adds a finding whose suggestion may be missing.
    pub fn push(
        &mut self,
        code: Code,
        place: Place,
        text: &[u8],
        expected: String,
        suggestion: Option<String>,
    ) {
        let severity = code.severity();
        let (kept, more) = match severity {
            Severity::Error => (&mut self.errors, Code::TooMany),
            Severity::Warning => (&mut self.warnings, Code::MoreWarnings),
        };
        let Place { line, column } = place;
        let text = String::from_utf8_lossy(text).into_owned();
        let found = Diagnostic { severity, line, column, text, expected, suggestion, code };
        match kept.len() {
            0..REPORT_MAX => kept.push(found),
            REPORT_MAX => kept.push(Diagnostic {
                text: "findings".to_string(),
                expected: format!("at most {REPORT_MAX}; the rest is not shown"),
                suggestion: None,
                code: more,
                ..found
            }),
            _ => {}
        }
    }

    /// Warnings and errors, each in the order of the text.
    pub fn finish(mut self) -> (Vec<Diagnostic>, Vec<Diagnostic>) {
        for kept in [&mut self.warnings, &mut self.errors] {
            kept.sort_by_key(|found| (found.line, found.column));
        }
        (self.warnings, self.errors)
    }
}
