//! Rate and time left, from the counters and the time since the start. Pure arithmetic over samples.

use std::collections::VecDeque;
use std::time::Duration;

use super::account::Account;
use crate::report::StageProgress;

/// The rate is that of the last few seconds.
const WINDOW: Duration = Duration::from_secs(5);
/// Samples kept at most, whatever the interval.
const SAMPLES_MAX: usize = 64;

/// See the module.
#[derive(Default)]
pub struct Meter {
    samples: VecDeque<(Duration, u64)>,
}

impl Meter {
    /// The state at `elapsed` after the start.
    pub fn snapshot(&mut self, elapsed: Duration, walked: bool, account: &Account) -> StageProgress {
        let done = account.bytes_done.get();
        let total = account.bytes_found.get().max(done);
        let rate = self.rate(elapsed, done);
        let walked = walked && account.entries_looked.get() >= account.entries_found.get();
        let left_ms = (walked && rate > 0).then(|| (total - done).saturating_mul(1000) / rate);
        StageProgress {
            bytes_done: done,
            bytes_total: total,
            files_done: account.entries_done.get(),
            files_total: account.entries_found.get(),
            walked,
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            bytes_per_second: rate,
            left_ms,
        }
    }

    fn rate(&mut self, now: Duration, done: u64) -> u64 {
        if self.samples.is_empty() {
            self.samples.push_back((Duration::ZERO, 0));
        }
        while self.samples.len() > 1
            && self.samples.front().is_some_and(|(at, _)| now.saturating_sub(*at) > WINDOW)
        {
            self.samples.pop_front();
        }
        let (at, before) = self.samples.front().copied().unwrap_or_default();
        self.samples.push_back((now, done));
        if self.samples.len() > SAMPLES_MAX {
            self.samples.remove(1);
        }
        let milliseconds = u64::try_from(now.saturating_sub(at).as_millis()).unwrap_or(u64::MAX).max(1);
        done.saturating_sub(before).saturating_mul(1000) / milliseconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_follows_the_last_seconds_and_the_time_left_waits_for_the_walk() {
        let account = Account::new(1, false);
        account.bytes_found.add(20_000);
        let mut meter = Meter::default();
        account.bytes_done.add(1000);
        let early = meter.snapshot(Duration::from_secs(1), false, &account);
        assert_eq!((early.bytes_per_second, early.left_ms), (1000, None));
        for second in 2..=12 {
            meter.snapshot(Duration::from_secs(second), true, &account);
        }
        let stalled = meter.snapshot(Duration::from_secs(13), true, &account);
        assert_eq!((stalled.bytes_per_second, stalled.left_ms), (0, None));
        account.bytes_done.add(9000);
        let moving = meter.snapshot(Duration::from_secs(14), true, &account);
        assert_eq!(moving.bytes_per_second, 1800);
        assert_eq!(moving.left_ms, Some(10_000 * 1000 / 1800));
    }
}
