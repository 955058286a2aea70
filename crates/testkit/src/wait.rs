//! Awaiting a condition, with a limit.
//!
//! A test never sleeps for a guessed time: it awaits what it needs and says what it waited for when that never comes.

use std::time::{Duration, Instant};

/// Time between two looks at the condition.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// The condition did not come true within the limit.
#[derive(Debug, thiserror::Error)]
#[error("{awaited} did not happen within {limit:?}")]
pub struct NeverHappened {
    /// What was awaited.
    pub awaited: String,
    /// How long.
    pub limit: Duration,
}

/// Looks at `condition` until it holds, at most for `limit`.
pub fn wait_until(
    awaited: &str,
    limit: Duration,
    condition: impl FnMut() -> bool,
) -> Result<(), NeverHappened> {
    wait_until_every(LOOK_AGAIN_AFTER, awaited, limit, condition)
}

/// The same for a condition that costs something to look at.
pub fn wait_until_every(
    pause: Duration,
    awaited: &str,
    limit: Duration,
    mut condition: impl FnMut() -> bool,
) -> Result<(), NeverHappened> {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > limit {
            return Err(NeverHappened { awaited: awaited.to_owned(), limit });
        }
        std::thread::sleep(pause);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_looked_at_until_it_holds() {
        let mut looks = 0;
        wait_until("the third look", Duration::from_secs(10), || {
            looks += 1;
            looks == 3
        })
        .unwrap();
        assert_eq!(looks, 3);
    }

    #[test]
    fn what_never_happens_is_named() {
        let never = wait_until("the impossible", Duration::ZERO, || false).unwrap_err();
        assert!(never.to_string().contains("the impossible"));
    }
}
