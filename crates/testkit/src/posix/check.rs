//! The checks a case makes, and their tally.
//!
//! A failed check is noted and the case goes on, so that one run shows all that is wrong; only a case that cannot go on
//! ends, by a panic that the runner notes too. The tally belongs to the thread; a forked child sends its own to its
//! parent.

use rustix::io::Errno;
use std::cell::RefCell;
use std::fmt::Debug;
use std::panic::Location;

/// What the checks of one case came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Checks made.
    pub checks: u64,
    /// One line for each that failed.
    pub failures: Vec<String>,
}

thread_local! {
    static TALLY: RefCell<Tally> = RefCell::default();
}

/// Hands out the tally and begins a new one.
pub fn take() -> Tally {
    TALLY.with(RefCell::take)
}

/// Adds what a child found.
pub fn add(other: Tally) {
    TALLY.with_borrow_mut(|tally| {
        tally.checks += other.checks;
        tally.failures.extend(other.failures);
    });
}

fn note(passed: bool, place: &Location<'_>, what: impl FnOnce() -> String) {
    TALLY.with_borrow_mut(|tally| {
        tally.checks += 1;
        if !passed {
            tally.failures.push(format!("{}:{}: {}", place.file(), place.line(), what()));
        }
    });
}

/// `found` must be `expected`.
#[track_caller]
pub fn same<T: Debug + PartialEq<U>, U: Debug>(found: T, expected: U) {
    let passed = found == expected;
    note(passed, Location::caller(), || format!("found {}, expected {}", short(&found), short(&expected)));
}

/// The call must be refused with exactly this error.
#[track_caller]
pub fn refused<T>(found: rustix::io::Result<T>, expected: Errno) {
    refused_with_one_of(found, &[expected]);
}

/// The call must be refused with one of these errors: where POSIX leaves the choice.
#[track_caller]
pub fn refused_with_one_of<T>(found: rustix::io::Result<T>, expected: &[Errno]) {
    let passed = found.as_ref().is_err_and(|error| expected.contains(error));
    note(passed, Location::caller(), || {
        let found = found.map_or_else(name, |_| "success".into());
        format!("found {found}, expected {:?}", expected.iter().map(|error| name(*error)).collect::<Vec<_>>())
    });
}

/// The call must succeed; the case ends if it does not.
#[track_caller]
pub fn granted<T>(found: rustix::io::Result<T>) -> T {
    let place = Location::caller();
    match found {
        Ok(value) => {
            note(true, place, String::new);
            value
        }
        Err(error) => panic!("{}:{}: found {}, expected success", place.file(), place.line(), name(error)),
    }
}

/// The statement must be true.
#[track_caller]
pub fn holds(statement: bool, what: &str) {
    note(statement, Location::caller(), || format!("not so: {what}"));
}

/// `ENOENT` and its like for the errors the suites meet, the number for others.
pub fn name(error: Errno) -> String {
    let text = std::io::Error::from(error).to_string();
    format!("errno {} ({text})", error.raw_os_error())
}

fn short(value: &impl Debug) -> String {
    const LONGEST: usize = 300;
    let text = format!("{value:?}");
    match text.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}... ({} characters)", &text[..cut], text.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_noted_and_do_not_end_the_case() {
        take();
        same(1, 2);
        refused(Ok(()), Errno::NOENT);
        refused(Err::<(), _>(Errno::ACCESS), Errno::NOENT);
        holds(false, "the moon is cheese");
        same("a", "a");
        let tally = take();
        assert_eq!((tally.checks, tally.failures.len()), (5, 4), "{tally:?}");
        assert!(tally.failures[3].contains("the moon is cheese"));
    }

    #[test]
    #[should_panic(expected = "errno 2")]
    fn a_call_that_must_succeed_ends_the_case() {
        granted(Err::<(), _>(Errno::NOENT));
    }
}
