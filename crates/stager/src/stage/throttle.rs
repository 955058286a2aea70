//! The bandwidth limit: bytes are paid for with time before they are moved.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::run::Run;

/// Shared by all workers; the lock is held only for the arithmetic.
pub struct Throttle {
    started: Instant,
    /// When everything paid for so far will have been moved, from `started`.
    paid_until: Mutex<Duration>,
}

impl Throttle {
    pub fn new() -> Self {
        Self { started: Instant::now(), paid_until: Mutex::new(Duration::ZERO) }
    }

    /// Waits until `bytes` may be moved.
    pub fn pay(&self, run: &Run<'_>, bytes: u64) {
        let Some(rate) = run.bytes_per_second_max() else { return };
        let now = self.started.elapsed();
        let wait = {
            let mut paid_until = self.paid_until.lock().unwrap_or_else(PoisonError::into_inner);
            let (wait, until) = reserve(now, *paid_until, bytes, rate);
            *paid_until = until;
            wait
        };
        run.pause(wait);
    }
}

/// How long to wait, and until when the line is taken then. Time not used is not saved up.
fn reserve(now: Duration, paid_until: Duration, bytes: u64, rate: u64) -> (Duration, Duration) {
    let begin = paid_until.max(now);
    let cost = Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
    (begin - now, begin + cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_spaced_by_the_rate_and_idle_time_is_lost() {
        let second = Duration::from_secs(1);
        assert_eq!(reserve(second, Duration::ZERO, 500, 1000), (Duration::ZERO, Duration::from_millis(1500)));
        let busy = reserve(second, Duration::from_millis(1500), 1000, 1000);
        assert_eq!(busy, (Duration::from_millis(500), Duration::from_millis(2500)));
    }
}
