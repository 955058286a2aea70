//! How much was written within a span of time that moves on.
//!
//! The span is cut into [`SLOTS`] slots of whole seconds. What is written counts in the slot of its moment, until the whole
//! slot is out of the span: for the length of the window, and at most one slot longer.
//!
//! Invariant: `sum` is the sum over the slots. When writes beyond the limit are refused, no moment has more than the limit
//! in its window. A clock that is set back counts what is written in the latest slot there is.

use super::log::{Event, Log};
use super::poisoned;
use forebay_model::limits::WriteWindow;
use forebay_model::units::Bytes;
use forebay_wire::WindowAccount;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

/// Slots of a window.
const SLOTS: u64 = 64;

/// What was written, slot by slot, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sums {
    /// Seconds of a slot.
    slot_s: u64,
    /// Number of the slot, counted from the epoch, and bytes.
    slots: VecDeque<(u64, u64)>,
    /// The most that was ever in one window.
    high_water: u64,
}

/// See the module.
pub(super) struct Window {
    rule: WriteWindow,
    limit: u64,
    counted: Mutex<Counted>,
    log: Log,
}

struct Counted {
    sums: Sums,
    sum: u64,
}

impl Window {
    /// A window of a fragment of this size that goes on from what was counted before. What was counted for another length
    /// of window is taken over as far as its slots are the same; other slots count from the start of the new window.
    pub(super) fn new(rule: WriteWindow, capacity: u64, before: Sums) -> Window {
        let slot_s = rule.length_s.div_ceil(SLOTS).max(1);
        let slots =
            before.slots.iter().map(|(slot, bytes)| (slot * before.slot_s / slot_s, *bytes)).collect();
        let sums = Sums { slot_s, slots, high_water: before.high_water };
        let sum = sums.slots.iter().fold(0u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let limit = rule.limit(Bytes(capacity)).0;
        Window { rule, limit, counted: Mutex::new(Counted { sums, sum }), log: Log::new(Event::WriteWindow) }
    }

    fn counted(&self, now_s: u64) -> MutexGuard<'_, Counted> {
        let mut counted = self.counted.lock().unwrap_or_else(poisoned);
        counted.move_on(now_s, self.rule.length_s);
        counted
    }

    /// Counts a write, if it may be made.
    pub(super) fn admit(&self, now_s: u64, bytes: u64) -> bool {
        let mut counted = self.counted(now_s);
        let sum = counted.sum.saturating_add(bytes);
        let is_beyond = sum > self.limit;
        if is_beyond && self.rule.policy.refuses() {
            drop(counted);
            self.tell(sum);
            return false;
        }
        counted.add(now_s, bytes);
        drop(counted);
        if is_beyond {
            self.tell(sum);
        }
        true
    }

    fn tell(&self, sum: u64) {
        if self.rule.policy.logs() {
            let (limit, length_s) = (self.limit, self.rule.length_s);
            self.log.say(format_args!(
                "{sum} bytes would be written within {length_s} s, the write window allows {limit}"
            ));
        }
    }

    /// So much of what was counted last was not written.
    pub(super) fn take_back(&self, bytes: u64) {
        let mut counted = self.counted.lock().unwrap_or_else(poisoned);
        let mut left = bytes;
        let Counted { sums, sum } = &mut *counted;
        for (_, slot) in sums.slots.iter_mut().rev() {
            let taken = left.min(*slot);
            *slot -= taken;
            *sum -= taken;
            left -= taken;
        }
    }

    pub(super) fn account(&self, now_s: u64) -> WindowAccount {
        let counted = self.counted(now_s);
        WindowAccount {
            length_s: self.rule.length_s,
            limit: self.limit,
            written: counted.sum,
            high_water: counted.sums.high_water,
            policy: self.rule.policy,
        }
    }

    pub(super) fn sums(&self, now_s: u64) -> Sums {
        self.counted(now_s).sums.clone()
    }
}

impl Counted {
    /// Forgets what is out of the window.
    fn move_on(&mut self, now_s: u64, length_s: u64) {
        let slot_s = self.sums.slot_s;
        while let Some((slot, bytes)) = self.sums.slots.front().copied() {
            let ended_s = slot.saturating_add(1).saturating_mul(slot_s);
            if ended_s.saturating_add(length_s) > now_s {
                return;
            }
            self.sums.slots.pop_front();
            self.sum = self.sum.saturating_sub(bytes);
        }
    }

    fn add(&mut self, now_s: u64, bytes: u64) {
        let slot = now_s / self.sums.slot_s;
        match self.sums.slots.back_mut() {
            Some((last, sum)) if *last >= slot => *sum = sum.saturating_add(bytes),
            _ => self.sums.slots.push_back((slot, bytes)),
        }
        self.sum = self.sum.saturating_add(bytes);
        self.sums.high_water = self.sums.high_water.max(self.sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_model::limits::Policy;
    use proptest::prelude::*;

    fn window(length_s: u64, policy: Policy) -> Window {
        Window::new(WriteWindow { length_s, multiplier: 2, policy }, 500, Sums::default())
    }

    #[test]
    fn a_write_stops_counting_when_it_is_out_of_the_window() {
        let window = window(128, Policy::Error);
        assert!(window.admit(1_000_001, 600));
        assert!(window.admit(1_000_100, 400));
        assert!(!window.admit(1_000_100, 1));
        assert!(!window.admit(1_000_129, 1), "the slot of the first write still reaches into the window");
        assert!(window.admit(1_000_130, 600));
        assert!(!window.admit(1_000_130, 1));
        let account = window.account(1_000_130);
        assert_eq!((account.written, account.high_water, account.limit), (1000, 1000, 1000));
        assert_eq!(window.account(2_000_000).written, 0);
    }

    #[test]
    fn what_was_not_written_is_taken_back_and_a_logged_limit_refuses_nothing() {
        let strict = window(10, Policy::Both);
        assert!(strict.admit(5, 900));
        strict.take_back(300);
        assert!(strict.admit(5, 400) && !strict.admit(5, 1));
        let lenient = window(10, Policy::Log);
        assert!(lenient.admit(5, 900) && lenient.admit(5, 900));
        assert_eq!(lenient.account(6).written, 1800);
    }

    #[test]
    fn it_goes_on_after_a_restart_also_with_another_length() {
        let first = window(64, Policy::Error);
        assert!(first.admit(1000, 1000));
        let same = Window::new(first.rule, 500, first.sums(1000));
        assert!(!same.admit(1050, 1));
        assert!(same.admit(1065, 1));
        let longer = WriteWindow { length_s: 6400, ..first.rule };
        let longer = Window::new(longer, 500, first.sums(1000));
        assert!(!longer.admit(7000, 1), "it counts for the new length");
        assert!(longer.admit(8000, 1));
    }

    proptest! {
        /// Against a list of all writes.
        #[test]
        fn no_moment_sees_more_than_the_limit_nor_refuses_without_need(
            length_s in 1u64..300,
            steps in proptest::collection::vec((0u64..80, 1u64..700), 1..200),
        ) {
            let window = window(length_s, Policy::Error);
            let slot_s = length_s.div_ceil(SLOTS).max(1);
            let (mut now, mut written) = (10_000, Vec::<(u64, u64)>::new());
            for (wait, bytes) in steps {
                now += wait;
                let within = |span: u64| -> u64 {
                    written.iter().filter(|(at, _)| at + span > now).map(|(_, bytes)| *bytes).sum()
                };
                let (exact, most) = (within(length_s), within(length_s + slot_s));
                let admitted = window.admit(now, bytes);
                if admitted {
                    prop_assert!(exact + bytes <= 1000);
                    written.push((now, bytes));
                } else {
                    prop_assert!(most + bytes > 1000);
                }
            }
        }
    }
}
