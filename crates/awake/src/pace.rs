//! Whether calls come so fast that sleeping processors would delay them. Pure.

use std::time::{Duration, Instant};

/// Calls that are looked at together.
pub(crate) const CALLS: u32 = 16;
/// They are many if they come within this time, which is one in three milliseconds: to be woken several times costs a tenth of that.
pub(crate) const WITHIN: Duration = Duration::from_millis(50);

/// When [`CALLS`] calls had come the last time.
#[derive(Debug, Default)]
pub(crate) struct Pace(Option<Instant>);

impl Pace {
    /// [`CALLS`] more have come: whether that was fast.
    pub(crate) fn is_fast(&mut self, now: Instant) -> bool {
        self.0.replace(now).is_some_and(|last| now.duration_since(last) <= WITHIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_many_only_if_they_follow_each_other_quickly() {
        let (mut pace, begin) = (Pace::default(), Instant::now());
        assert!(!pace.is_fast(begin), "nobody knows when the first came");
        assert!(pace.is_fast(begin + WITHIN));
        assert!(!pace.is_fast(begin + WITHIN * 3));
        assert!(pace.is_fast(begin + WITHIN * 3 + Duration::from_micros(1)));
    }
}
