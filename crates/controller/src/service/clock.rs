//! The time of the core: that of the wall clock, but without its jumps.
//!
//! Agents are taken for lost when time passes without a word from them. So time must not jump when somebody sets the
//! clock, nor while this process was stopped: it goes on at its own pace and catches up slowly.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Longest time that passes between two looks. After a longer pause messages are read before more time passes.
const MAX_STEP: Duration = Duration::from_secs(2);
/// Of what it is behind, it gains so much with each second.
const GAIN_PER_SECOND: f64 = 0.5;

/// See the module.
pub struct Clock {
    now: f64,
    looked: Instant,
}

impl Clock {
    /// Begins with the wall clock.
    pub fn start() -> Clock {
        Clock { now: wall(), looked: Instant::now() }
    }

    /// Seconds since the epoch.
    pub fn now(&mut self) -> i64 {
        let passed = self.looked.elapsed();
        self.looked = Instant::now();
        self.now = advance(self.now, passed, wall());
        self.now as i64
    }
}

fn wall() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

fn advance(now: f64, passed: Duration, wall: f64) -> f64 {
    let passed = passed.min(MAX_STEP).as_secs_f64();
    let most = passed * GAIN_PER_SECOND;
    let next = now + passed;
    next + (wall - next).clamp(-most, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_at_its_own_pace_when_the_clock_is_set() {
        let second = Duration::from_secs(1);
        assert_eq!(advance(1_000.0, second, 1_001.0), 1_001.0);
        assert_eq!(advance(1_000.0, second, 9_000.0), 1_001.5);
        assert_eq!(advance(1_000.0, second, 0.0), 1_000.5);
        assert_eq!(advance(1_000.0, Duration::from_secs(500), 1_500.0), 1_003.0);
    }
}
