//! Directories that were made here a moment ago, and which names may be in them: a name that certainly is not there needs no
//! question. Whoever unpacks an archive or copies a tree looks each new name up before making it.
//!
//! Of a new directory all is known: it is empty. From then on it is granted to this client without a break ([`Fresh::extend`]),
//! so that others announce what they make in it, which ends the knowledge ([`super::validity`]); and what this client makes is
//! noted before the server is asked. Names are only ever added: one that was removed is asked for again.
//!
//! A name may be made here in a directory that is just being made, by somebody who found it in a listing. So the last makings
//! in directories that are not known are kept, and a directory that is among them is not taken up.
//!
//! Any thread; the lock is held for memory operations only.

use super::validity::{Moment, Validity};
use forebay_wire::Ino;
use forebay_wire::message::Name;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Directories known at a time; when there are more, all are forgotten.
const DIRECTORIES_MAX: usize = 1024;
/// Names of one directory; with more it is not known any more.
const NAMES_MAX: usize = 65_536;
/// Makings in directories that are not known.
const STRAYS_MAX: usize = 256;

struct Directory {
    /// Before it was made.
    asked: Moment,
    /// The grant lasts so long.
    until: Instant,
    /// Hashes: two names with the same one only mean a question more.
    names: HashSet<u64>,
}

#[derive(Default)]
struct Inner {
    directories: HashMap<Ino, Directory>,
    strays: VecDeque<Ino>,
    /// How many there were.
    strayed: u64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Fresh {
    inner: Mutex<Inner>,
    hashing: RandomState,
}

/// A directory that is being made.
#[derive(Clone, Copy)]
pub(crate) struct Making {
    asked: Moment,
    strayed: u64,
}

impl Fresh {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before a directory is asked for.
    pub(crate) fn begin(&self, asked: Moment) -> Making {
        Making { asked, strayed: self.lock().strayed }
    }

    /// It was made, and is granted for so long from the asking.
    pub(crate) fn made(&self, ino: Ino, making: Making, valid_ms: u32) {
        let mut inner = self.lock();
        let since = (inner.strayed - making.strayed) as usize;
        let is_known = since <= inner.strays.len() && !inner.strays.iter().take(since).any(|at| *at == ino);
        if valid_ms == 0 || !is_known {
            return;
        }
        if inner.directories.len() >= DIRECTORIES_MAX {
            inner.directories.clear();
        }
        let until = making.asked.at() + Duration::from_millis(valid_ms.into());
        inner.directories.insert(ino, Directory { asked: making.asked, until, names: HashSet::new() });
    }

    /// A name may be in a directory from now on. Before the server is asked to make it.
    pub(crate) fn may_have(&self, directory: Ino, name: &Name) {
        let hash = self.hashing.hash_one(name);
        let mut inner = self.lock();
        match inner.directories.get_mut(&directory) {
            Some(known) if known.names.len() < NAMES_MAX => {
                known.names.insert(hash);
            }
            known => {
                if known.is_some() {
                    inner.directories.remove(&directory);
                }
                inner.strayed += 1;
                inner.strays.truncate(STRAYS_MAX - 1);
                inner.strays.push_front(directory);
            }
        }
    }

    /// An answer about a directory came that is granted for so long from the asking. Only one that came before the grant so
    /// far ended goes on from it: the server may have given it long after the asking.
    pub(crate) fn extend(&self, directory: Ino, asked: Moment, valid_ms: u32) {
        let mut inner = self.lock();
        let Some(known) = inner.directories.get_mut(&directory) else { return };
        if Instant::now() < known.until {
            known.until = known.until.max(asked.at() + Duration::from_millis(valid_ms.into()));
        } else {
            inner.directories.remove(&directory);
        }
    }

    /// A directory is gone, or its number is given back.
    pub(crate) fn forget(&self, directory: Ino) {
        self.lock().directories.remove(&directory);
    }

    /// Any directory may be gone.
    pub(crate) fn forget_all(&self) {
        self.lock().directories.clear();
    }

    /// The name is certainly not there.
    pub(crate) fn lacks(&self, directory: Ino, name: &Name, validity: &Validity) -> bool {
        let inner = self.lock();
        inner.directories.get(&directory).is_some_and(|known| {
            Instant::now() < known.until
                && !validity.was_announced(directory, known.asked)
                && !known.names.contains(&self.hashing.hash_one(name))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;

    const HERE: Ino = Ino(7);
    const LONG_MS: u32 = 100_000;

    fn name(text: &str) -> Name {
        Name::new(OsStr::new(text)).unwrap()
    }

    fn lacks(fresh: &Fresh, validity: &Validity, text: &str) -> bool {
        fresh.lacks(HERE, &name(text), validity)
    }

    fn made(validity: &Validity, valid_ms: u32) -> Fresh {
        let fresh = Fresh::default();
        let making = fresh.begin(validity.now());
        fresh.made(HERE, making, valid_ms);
        fresh
    }

    #[test]
    fn a_new_directory_lacks_what_nobody_made() {
        let validity = Validity::default();
        let fresh = made(&validity, LONG_MS);
        assert!(lacks(&fresh, &validity, "a"));
        fresh.may_have(HERE, &name("a"));
        assert!(!lacks(&fresh, &validity, "a") && lacks(&fresh, &validity, "b"));
        assert!(!fresh.lacks(Ino(8), &name("b"), &validity), "another directory");
        validity.announced(HERE);
        assert!(!lacks(&fresh, &validity, "b"), "others make names in it");
    }

    #[test]
    fn what_ends_the_knowledge() {
        let validity = Validity::default();
        assert!(!lacks(&made(&validity, 0), &validity, "a"), "it was not granted");
        let fresh = made(&validity, 1);
        std::thread::sleep(Duration::from_millis(2));
        assert!(!lacks(&fresh, &validity, "a"), "the grant ended");
        fresh.extend(HERE, validity.now(), LONG_MS);
        assert!(!lacks(&fresh, &validity, "a"), "there was a time without a grant");
        let fresh = made(&validity, LONG_MS);
        fresh.extend(HERE, validity.now(), 0);
        assert!(lacks(&fresh, &validity, "a"), "the grant so far lasts");
        fresh.forget(HERE);
        assert!(!lacks(&fresh, &validity, "a"));
    }

    #[test]
    fn a_name_made_before_the_directory_was_known_keeps_it_from_being_known() {
        let validity = Validity::default();
        for (others, is_known) in [(0, false), (STRAYS_MAX, false), (1, false)] {
            let fresh = Fresh::default();
            let making = fresh.begin(validity.now());
            fresh.may_have(HERE, &name("early"));
            (0..others).for_each(|other| fresh.may_have(Ino(100 + other as u64), &name("x")));
            fresh.made(HERE, making, LONG_MS);
            assert_eq!(lacks(&fresh, &validity, "early"), is_known, "{others}");
        }
        let fresh = Fresh::default();
        fresh.may_have(HERE, &name("of the one that had the number before"));
        let making = fresh.begin(validity.now());
        fresh.may_have(Ino(9), &name("x"));
        fresh.made(HERE, making, LONG_MS);
        assert!(lacks(&fresh, &validity, "a"));
    }
}
