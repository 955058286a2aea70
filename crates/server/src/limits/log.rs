//! Limits that were reached, told on standard error, which is the log of every process that serves.
//!
//! One line for each limit at a time: what happens within [`PAUSE`] of a line is counted and told with the next one.

use super::poisoned;
use std::fmt;
use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Every line begins with this.
pub const LIMIT_REACHED: &str = "limit reached: ";
/// Between two lines about one limit.
const PAUSE: Duration = Duration::from_secs(10);

/// Which limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    WriteWindow,
    FileSize,
    FileCount,
}

impl Event {
    fn name(self) -> &'static str {
        match self {
            Event::WriteWindow => "write window",
            Event::FileSize => "file size",
            Event::FileCount => "file count",
        }
    }
}

/// The lines about one limit.
pub(crate) struct Log {
    event: Event,
    said: Mutex<(Option<Instant>, u64)>,
}

impl Log {
    pub(crate) fn new(event: Event) -> Log {
        Log { event, said: Mutex::new((None, 0)) }
    }

    /// It was reached. On a full disk the line is lost, and nothing else.
    pub(crate) fn say(&self, what: fmt::Arguments<'_>) {
        let Some(unsaid) = self.is_time(Instant::now()) else { return };
        let more = if unsaid == 0 { String::new() } else { format!(" ({unsaid} more since the last line)") };
        let _ = writeln!(std::io::stderr().lock(), "{LIMIT_REACHED}{}: {what}{more}", self.event.name());
    }

    /// How many were not told since the last line; `None`: this one is not told either.
    fn is_time(&self, now: Instant) -> Option<u64> {
        let mut said = self.said.lock().unwrap_or_else(poisoned);
        if said.0.is_some_and(|last| now.saturating_duration_since(last) < PAUSE) {
            said.1 += 1;
            return None;
        }
        said.0 = Some(now);
        Some(std::mem::take(&mut said.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_one_line_and_a_number() {
        let (log, begin) = (Log::new(Event::FileSize), Instant::now());
        assert_eq!(log.is_time(begin), Some(0));
        assert_eq!(log.is_time(begin + PAUSE / 2), None);
        assert_eq!(log.is_time(begin + PAUSE / 2), None);
        assert_eq!(log.is_time(begin + PAUSE), Some(2));
        assert_eq!(log.is_time(begin + 3 * PAUSE), Some(0));
    }
}
