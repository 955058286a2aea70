//! Messages for the log of the serving process, where the kernel takes no answer (release, forget).
//!
//! At most [`PER_MINUTE`] lines a minute go out over all threads; what was held back is counted in the next line.
//! Thread-safe, never blocks on anything but standard error itself.

use std::fmt::Display;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const PER_MINUTE: u32 = 20;
const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, PartialEq)]
enum Verdict {
    Say { held_back: u64 },
    HoldBack,
}

struct Budget {
    since: Option<Instant>,
    said: u32,
    held_back: u64,
}

impl Budget {
    const fn new() -> Budget {
        Budget { since: None, said: 0, held_back: 0 }
    }

    fn ask(&mut self, now: Instant) -> Verdict {
        if self.since.is_none_or(|since| now.duration_since(since) >= MINUTE) {
            (self.since, self.said) = (Some(now), 0);
        }
        if self.said >= PER_MINUTE {
            self.held_back += 1;
            return Verdict::HoldBack;
        }
        self.said += 1;
        Verdict::Say { held_back: std::mem::take(&mut self.held_back) }
    }
}

static BUDGET: Mutex<Budget> = Mutex::new(Budget::new());

/// Writes one line about `operation` that failed without anybody to tell.
pub(crate) fn complain(operation: &str, error: &dyn Display) {
    let mut budget = BUDGET.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    match budget.ask(Instant::now()) {
        Verdict::Say { held_back: 0 } => eprintln!("dwfs: {operation}: {error}"),
        Verdict::Say { held_back } => {
            eprintln!("dwfs: {operation}: {error} (after {held_back} messages not shown)")
        }
        Verdict::HoldBack => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_back_after_the_limit_and_counts() {
        let mut budget = Budget::new();
        let start = Instant::now();
        for _ in 0..PER_MINUTE {
            assert_eq!(budget.ask(start), Verdict::Say { held_back: 0 });
        }
        assert_eq!(budget.ask(start), Verdict::HoldBack);
        assert_eq!(budget.ask(start), Verdict::HoldBack);
        assert_eq!(budget.ask(start + MINUTE), Verdict::Say { held_back: 2 });
        assert_eq!(budget.ask(start + MINUTE), Verdict::Say { held_back: 0 });
    }
}
