//! What a process said last, for errors: the end of its log, bounded.

use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Most lines carried.
const LINES_MAX: usize = 4;
/// Most bytes looked at.
const BYTES_MAX: u64 = 2 << 10;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tail {
    lines: Vec<String>,
}

impl Tail {
    /// Size of a log: where the next words begin.
    pub(super) fn mark(log: &Path) -> u64 {
        std::fs::metadata(log).map_or(0, |meta| meta.len())
    }

    /// What was said after a mark. A log that cannot be read says nothing.
    pub(super) fn since(log: &Path, mark: u64) -> Tail {
        let mut bytes = Vec::new();
        let read = File::open(log).and_then(|mut file| {
            let size = file.metadata()?.len();
            // A log that was turned is new from its beginning.
            let mark = if mark > size { 0 } else { mark };
            file.seek(SeekFrom::Start(mark.max(size.saturating_sub(BYTES_MAX))))?;
            file.take(BYTES_MAX).read_to_end(&mut bytes)
        });
        if read.is_err() {
            return Tail::default();
        }
        let text = String::from_utf8_lossy(&bytes);
        let words = text.lines().map(|line| line.trim().trim_start_matches("forebay: "));
        let mut lines: Vec<String> = words
            .filter(|line| !line.is_empty())
            .rev()
            .take(LINES_MAX)
            .map(|line| line.chars().filter(|letter| !letter.is_control()).collect())
            .collect();
        lines.reverse();
        Tail { lines }
    }
}

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lines.as_slice() {
            [] => f.write_str("it said nothing"),
            lines => write!(f, "it said: {}", lines.join(" / ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_after_the_mark_are_carried() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("log");
        assert_eq!(Tail::since(&log, 0).to_string(), "it said nothing");
        std::fs::write(&log, "old\n").unwrap();
        let mark = Tail::mark(&log);
        assert_eq!(Tail::since(&log, mark).to_string(), "it said nothing");
        let many: String = (0..1000).map(|number| format!("forebay: line {number}\u{1b}[31m\n")).collect();
        std::fs::write(&log, format!("old\n{many}")).unwrap();
        let said = Tail::since(&log, mark).to_string();
        assert!(said.ends_with("/ line 999[31m") && !said.contains("old"), "{said}");
        assert_eq!(said.matches(" / ").count(), LINES_MAX - 1);
    }
}
