//! Directories that are listed because many names were looked for in vain in them: who makes files in a directory that was there
//! before looks each name up first, and is told that it is not there. After a few such answers the names are asked for, all
//! at once, and from then on it is known here which are not there, for as long as [`super::fresh`] can tell.
//!
//! Order of events: the number of names being made is noted, the directory is granted, it is listed. What others make from
//! the grant on they announce; what this client was making when the listing began is noted once more when it is made.
//!
//! A directory that cannot be learned, since it is large, changed by others, or may not be listed by who asks, is not tried
//! again for a while. Any thread; the lock is not held while the server is asked.

use super::directory::RemoteDirectory;
use super::home::Home;
use forebay_wire::message::{Credentials, MetadataRequest, Name};
use forebay_wire::{Directory, Ino};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Names looked for in vain before an empty directory is listed.
const MISSES_MIN: usize = 4;
/// Names of a directory whose listing costs as much as one question.
const NAMES_PER_MISS: usize = 16;
/// A larger directory is not listed to the end.
const NAMES_MAX: usize = 4096;
/// What could not be learned is not tried again for so long.
const PAUSE: Duration = Duration::from_secs(10);
/// Directories counted; when there are more, all are forgotten.
const DIRECTORIES_MAX: usize = 256;

struct Misses {
    count: usize,
    /// So many are worth a listing.
    worth: usize,
    not_before: Option<Instant>,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Lacking {
    directories: Mutex<HashMap<Ino, Misses>>,
}

impl Lacking {
    fn lock(&self) -> MutexGuard<'_, HashMap<Ino, Misses>> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name of a directory that is not known was looked for in vain; `true` when it is time to learn it.
    fn missed(&self, directory: Ino) -> bool {
        let mut directories = self.lock();
        if directories.len() >= DIRECTORIES_MAX {
            directories.clear();
        }
        let fresh = Misses { count: 0, worth: MISSES_MIN, not_before: None };
        let misses = directories.entry(directory).or_insert(fresh);
        misses.count += 1;
        if misses.count < misses.worth || misses.not_before.is_some_and(|at| Instant::now() < at) {
            return false;
        }
        misses.count = 0;
        true
    }

    /// It had so many names; `None`: it could not be learned.
    fn tried(&self, directory: Ino, names: Option<usize>) {
        if let Some(misses) = self.lock().get_mut(&directory) {
            match names {
                Some(names) => misses.worth = MISSES_MIN + names / NAMES_PER_MISS,
                None => misses.not_before = Some(Instant::now() + PAUSE),
            }
        }
    }
}

/// A name of a directory was not there, as the server says.
pub(crate) fn missed(home: &Arc<Home>, who: &Credentials, directory: Ino) {
    if !home.fresh.knows(directory) && home.lacking.missed(directory) {
        let names = learn(home, who, directory);
        home.lacking.tried(directory, names);
    }
}

/// Learns which names a directory has, and says how many.
fn learn(home: &Arc<Home>, who: &Credentials, directory: Ino) -> Option<usize> {
    let life = home.held.life();
    let making = home.fresh.begin(home.validity.now());
    let attr = home.ask_attr(&MetadataRequest::GetAttr { ino: directory }).ok()?;
    if attr.valid_ms == 0 {
        return None;
    }
    // To list it changes its time.
    let _changing = home.recent.changing([directory]);
    let names = list(home, who, directory)?;
    let count = names.len();
    // A server that was started anew meanwhile knows of no grant.
    if life != home.held.life() {
        return None;
    }
    home.fresh.known(directory, making, attr.valid_ms, names);
    home.fresh.knows(directory).then_some(count)
}

/// All names, unless there are too many.
fn list(home: &Arc<Home>, who: &Credentials, directory: Ino) -> Option<HashSet<Name>> {
    let listing = RemoteDirectory::open(Arc::clone(home), who.clone(), directory).ok()?;
    let mut names = HashSet::new();
    let mut take = |name: Option<Name>| {
        names.extend(name);
        names.len() < NAMES_MAX
    };
    listing.read(0, &mut |entry| take(Name::new(entry.name))).ok()?;
    (names.len() < NAMES_MAX).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Ino = Ino(7);

    fn misses_until_it_is_time(lacking: &Lacking) -> usize {
        (1..).find(|_| lacking.missed(HERE)).unwrap()
    }

    #[test]
    fn a_large_directory_takes_more_misses() {
        let lacking = Lacking::default();
        assert_eq!(misses_until_it_is_time(&lacking), MISSES_MIN);
        lacking.tried(HERE, Some(100 * NAMES_PER_MISS));
        assert_eq!(misses_until_it_is_time(&lacking), MISSES_MIN + 100);
    }

    #[test]
    fn what_could_not_be_learned_is_left_alone_for_a_while() {
        let lacking = Lacking::default();
        misses_until_it_is_time(&lacking);
        lacking.tried(HERE, None);
        assert!((0..10 * MISSES_MIN).all(|_| !lacking.missed(HERE)));
        lacking.lock().get_mut(&HERE).unwrap().not_before = Some(Instant::now());
        assert!(lacking.missed(HERE));
    }
}
