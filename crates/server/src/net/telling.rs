//! Who waits for the word of whom, about names of which directories.
//!
//! A kernel that changes a name of a directory holds the directory's lock until the change is made, and cannot forget another name there
//! before. So a client whose own change waits for the word of another gives its word about a name of the same directory only when that one's
//! change is made. Who comes second learns it here, and does not wait for what can wait.
//!
//! Any thread; the lock is held for memory operations only. Nothing of this survives a crash.

use crate::locks::Session;
use forebay_wire::Ino;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
struct Telling {
    number: u64,
    by: Session,
    told: Vec<Session>,
    directories: Vec<Ino>,
}

#[derive(Debug, Default)]
struct Inner {
    under_way: Vec<Telling>,
    last: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Tellings(Mutex<Inner>);

/// Somebody waits until this is dropped.
pub(crate) struct Waits<'a> {
    tellings: &'a Tellings,
    number: u64,
    /// Who waits for him already, and gives no word before he goes on.
    pub(crate) stuck: Vec<Session>,
}

impl Tellings {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client that changes names of these directories is going to wait for the word of others.
    pub(crate) fn begin(&self, by: Session, told: Vec<Session>, directories: Vec<Ino>) -> Waits<'_> {
        let mut inner = self.lock();
        let waits_for_him = |other: &&Telling| {
            other.told.contains(&by) && other.directories.iter().any(|at| directories.contains(at))
        };
        let stuck = inner.under_way.iter().filter(waits_for_him).map(|other| other.by).collect();
        inner.last += 1;
        let number = inner.last;
        inner.under_way.push(Telling { number, by, told, directories });
        Waits { tellings: self, number, stuck }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.tellings.lock().under_way.retain(|telling| telling.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_waited_for_by_another_in_the_same_directory_learns_it() {
        let tellings = Tellings::default();
        let begin = |by, told, at| tellings.begin(Session(by), vec![Session(told)], vec![Ino(at)]);
        let first = begin(1, 2, 7);
        assert_eq!(first.stuck, []);
        assert_eq!(begin(2, 1, 8).stuck, [], "another directory");
        assert_eq!(begin(3, 1, 7).stuck, [], "nobody waits for this one");
        assert_eq!(begin(2, 1, 7).stuck, [Session(1)]);
        drop(first);
        assert_eq!(begin(2, 1, 7).stuck, []);
    }
}
