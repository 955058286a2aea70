//! Progress of a staging, shown as it goes.
//!
//! On a terminal one line is rewritten; elsewhere (a log file, a pipe) a whole line is written now and then, so that a
//! log stays readable. `line` is pure; [`ProgressLine`] owns the pen and may be called from any of the stager's threads.

use super::figures::{count, duration, size};
use forebay_stager::StageProgress;
use std::io::{IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two lines where there is no terminal.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// The text of a snapshot: `stage in 2/9: 1.5 GiB of 4.0 GiB, 120 of 300 files, 1.2 GiB/s, 2.10 s left`.
pub fn line(title: &str, progress: &StageProgress) -> String {
    let at_least = if progress.walked { "" } else { "at least " };
    let mut text = format!(
        "{title}: {} of {at_least}{}, {} of {}, {}/s",
        size(progress.bytes_done),
        size(progress.bytes_total),
        progress.files_done,
        count(progress.files_total, "file"),
        size(progress.bytes_per_second),
    );
    if let Some(left_ms) = progress.left_ms {
        text.push_str(&format!(", {} left", duration(Duration::from_millis(left_ms))));
    }
    text
}

/// Writes the progress of one staging to standard error.
#[derive(Debug)]
pub struct ProgressLine {
    title: String,
    terminal: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    last: Instant,
    drawn: bool,
}

impl ProgressLine {
    /// A line for a staging called `title`.
    pub fn new(title: String) -> ProgressLine {
        let state = State { last: Instant::now(), drawn: false };
        ProgressLine { title, terminal: std::io::stderr().is_terminal(), state: Mutex::new(state) }
    }

    /// Shows a snapshot, or leaves it out when the last one is too fresh.
    pub fn show(&self, progress: &StageProgress) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.terminal && state.last.elapsed() < PLAIN_INTERVAL {
            return;
        }
        state.last = Instant::now();
        let text = line(&self.title, progress);
        let mut pen = std::io::stderr().lock();
        // Progress that cannot be shown (a closed pipe) is no reason to stop a staging.
        let _ = if self.terminal { write!(pen, "\r\x1b[K{text}") } else { writeln!(pen, "forebay: {text}") };
        let _ = pen.flush();
        state.drawn = self.terminal;
    }

    /// Clears a half-written line, before anything else is printed.
    pub fn end(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.drawn) {
            let mut pen = std::io::stderr().lock();
            let _ = write!(pen, "\r\x1b[K");
            let _ = pen.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_at_least_until_the_walk_is_done() {
        let walking = StageProgress {
            bytes_done: 1 << 20,
            bytes_total: 4 << 20,
            files_done: 1,
            files_total: 4,
            bytes_per_second: 1 << 20,
            ..StageProgress::default()
        };
        assert_eq!(
            line("stage in 1/2", &walking),
            "stage in 1/2: 1.0 MiB of at least 4.0 MiB, 1 of 4 files, 1.0 MiB/s"
        );
        let known = StageProgress { walked: true, left_ms: Some(3000), ..walking };
        assert_eq!(
            line("stage in 1/2", &known),
            "stage in 1/2: 1.0 MiB of 4.0 MiB, 1 of 4 files, 1.0 MiB/s, 3.00 s left"
        );
    }
}
