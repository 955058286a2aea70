//! Findings as a person reads them.
//!
//! Nothing of the script reaches the terminal as a control character.

use super::Diagnostic;

/// Characters of a source line that are shown around a finding.
const EXCERPT_CHARS: usize = 160;

/// The text with control characters as escapes.
pub(super) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// The source line with a caret below each character of the offending text.
pub(super) fn excerpt(found: &Diagnostic, source: &[u8]) -> String {
    let line = source.split(|byte| *byte == b'\n').nth(found.line - 1).unwrap_or_default();
    let line = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned();
    // One column each, so that the caret stays below its character.
    let chars: Vec<char> = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let start = (found.column - 1).min(chars.len());
    let first = (start + 1).saturating_sub(EXCERPT_CHARS / 2);
    let last = (first + EXCERPT_CHARS).min(chars.len());
    let carets = found.text.chars().count().clamp(1, (last - start).max(1));
    let number = found.line.to_string();
    let margin = " ".repeat(number.len());
    let shown: String = chars[first..last].iter().collect();
    format!(
        " {number} | {}\n {margin} | {}{}\n",
        shown.trim_end(),
        " ".repeat(start - first),
        "^".repeat(carets)
    )
}
