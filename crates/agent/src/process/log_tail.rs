//! An instance process's log, and its end, for errors.
//!
//! The log goes with the instance, often before anybody can look at it, so an error carries what it said. Bounded in
//! lines and bytes; what cannot be read is told as such. [`note`] is for any thread of the process, [`LogTail`] for those
//! of attachments.

use crate::state_directory::StateDirectory;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

/// Most lines carried.
const LINES_LIMIT: usize = 8;
/// Most bytes looked at.
const BYTES_LIMIT: u64 = 4 << 10;
/// In the line with which a process opens its part of the log.
const MARK: &str = "-- instance process ";

/// What an instance process said last; empty if it said nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTail {
    lines: Vec<String>,
    unread: Option<String>,
}

/// Written by a process when it begins: what stands before it in the log is another one's.
pub(super) fn begin() {
    note(format_args!("{MARK}{} begins --", std::process::id()));
}

/// Writes a line to the log, which is the process's standard error. On a full disk it is lost, and nothing else.
pub(super) fn note(line: fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

impl LogTail {
    /// Those of the process that served an instance last.
    pub(crate) fn of(state: &StateDirectory) -> LogTail {
        match tail(&state.log()) {
            Ok(text) => LogTail { lines: last_lines(&text), unread: None },
            Err(error) => LogTail { lines: Vec::new(), unread: Some(error.to_string()) },
        }
    }

    /// The lines, the oldest first.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }
}

impl fmt::Display for LogTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.unread, self.lines.as_slice()) {
            (Some(error), _) => write!(f, "its log cannot be read ({error})"),
            (None, []) => f.write_str("it said nothing before"),
            (None, lines) => write!(f, "it said: {}", lines.join(" / ")),
        }
    }
}

fn tail(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(BYTES_LIMIT)))?;
    let mut bytes = Vec::new();
    file.take(BYTES_LIMIT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn last_lines(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text
        .lines()
        .rev()
        .take_while(|line| !line.contains(MARK))
        .filter(|line| !line.trim().is_empty())
        .take(LINES_LIMIT)
        .map(|line| line.trim_end().chars().filter(|letter| !letter.is_control()).collect())
        .collect();
    lines.reverse();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_model::ids::InstanceId;

    #[test]
    fn only_the_last_lines_of_the_latest_process_are_carried() {
        let instances = tempfile::tempdir().unwrap();
        let state = StateDirectory::new(instances.path(), InstanceId(7));
        assert!(LogTail::of(&state).to_string().contains("cannot be read"));
        state.make().unwrap();
        std::fs::write(state.log(), format!("older\n{MARK}1 begins\n")).unwrap();
        assert_eq!(LogTail::of(&state).to_string(), "it said nothing before");
        let many: String = (0..100_000).map(|number| format!("line {number}\u{1b}[31m\n")).collect();
        std::fs::write(state.log(), format!("{MARK}2 begins\n{many}")).unwrap();
        let words = LogTail::of(&state);
        assert_eq!(words.lines().len(), LINES_LIMIT);
        assert!(words.to_string().ends_with("/ line 99999[31m"), "{words}");
    }
}
