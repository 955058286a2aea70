//! Directories of which it is known which names may be in them: a name that certainly is not there needs no question. Whoever
//! unpacks an archive, copies a tree or makes files of his own looks each new name up before making it.
//!
//! A directory becomes known when it is made here, for then it is empty, or when it was listed here from start to end under
//! a grant ([`super::lacking`]). From then on it is granted to this client without a break ([`Fresh::extend`]), so that
//! others announce what they make in it, which ends the knowledge ([`super::validity`]); and what this client makes is
//! noted before the server is asked, and once more when it has answered: what was under way while the directory was listed
//! is noted by the second. A name that was removed here is taken out, unless one was made in this directory meanwhile,
//! which may be the same.
//!
//! A name may be made here in a directory that is just being made, by somebody who found it in a listing. So the last makings
//! in directories that are not known are kept, and a directory that is among them is not taken up.
//!
//! Any thread; the lock is held for memory operations only.

use super::validity::{Moment, Validity};
use super::word::Word;
use forebay_wire::Ino;
use forebay_wire::message::Name;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Directories known at a time; when there are more, all are forgotten.
const DIRECTORIES_MAX: usize = 1024;
/// Names of all directories; with more all are forgotten.
const NAMES_MAX: usize = 65_536;
/// Makings in directories that are not known.
const STRAYS_MAX: usize = 256;

struct Directory {
    /// The grant, since before it was made or listed.
    word: Word,
    names: HashSet<Name>,
    /// The last name made in it, or that it became known, by number.
    making: u64,
}

#[derive(Default)]
struct Inner {
    directories: HashMap<Ino, Directory>,
    /// Names of all of them.
    names: usize,
    strays: VecDeque<Ino>,
    /// How many there were.
    strayed: u64,
    /// How many names were made, and directories became known.
    makings: u64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Fresh {
    inner: Mutex<Inner>,
}

/// A directory that is being made or listed.
#[derive(Clone, Copy)]
pub(crate) struct Making {
    asked: Moment,
    strayed: u64,
}

/// A name that is being removed: what had been made before.
#[derive(Clone, Copy)]
pub(crate) struct Removing(u64);

/// A name that is being made: see [`Fresh::making`].
pub(crate) struct MakingName<'a> {
    fresh: &'a Fresh,
    directory: Ino,
    name: &'a Name,
}

impl Drop for MakingName<'_> {
    fn drop(&mut self) {
        self.fresh.may_have(self.directory, self.name);
    }
}

impl Inner {
    fn forget(&mut self, directory: Ino) {
        if let Some(known) = self.directories.remove(&directory) {
            self.names -= known.names.len();
        }
    }

    fn forget_all(&mut self) {
        self.directories.clear();
        self.names = 0;
    }
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
        self.known(ino, making, valid_ms, HashSet::new());
    }

    /// It has these names, and is granted for so long from the asking.
    pub(crate) fn known(&self, ino: Ino, making: Making, valid_ms: u32, names: HashSet<Name>) {
        let mut inner = self.lock();
        let since = (inner.strayed - making.strayed) as usize;
        let is_known = since <= inner.strays.len() && !inner.strays.iter().take(since).any(|at| *at == ino);
        let Some(word) = Word::given(valid_ms, making.asked).filter(|_| is_known) else { return };
        inner.forget(ino);
        if inner.directories.len() >= DIRECTORIES_MAX || inner.names + names.len() > NAMES_MAX {
            inner.forget_all();
        }
        inner.names += names.len();
        inner.makings += 1;
        let making = inner.makings;
        inner.directories.insert(ino, Directory { word, names, making });
    }

    /// A name may be in a directory from now on. To be held from before the server is asked to make it until it has answered.
    pub(crate) fn making<'a>(&'a self, directory: Ino, name: &'a Name) -> MakingName<'a> {
        self.may_have(directory, name);
        MakingName { fresh: self, directory, name }
    }

    fn may_have(&self, directory: Ino, name: &Name) {
        let mut inner = self.lock();
        let inner = &mut *inner;
        if inner.names >= NAMES_MAX {
            inner.forget_all();
        }
        inner.makings += 1;
        match inner.directories.get_mut(&directory) {
            Some(known) => {
                known.making = inner.makings;
                if known.names.insert(name.clone()) {
                    inner.names += 1;
                }
            }
            None => {
                inner.strayed += 1;
                inner.strays.truncate(STRAYS_MAX - 1);
                inner.strays.push_front(directory);
            }
        }
    }

    /// Before the server is asked to remove a name.
    pub(crate) fn removing(&self) -> Removing {
        Removing(self.lock().makings)
    }

    /// It was removed.
    pub(crate) fn removed(&self, directory: Ino, name: &Name, removing: Removing) {
        let mut inner = self.lock();
        let Some(known) = inner.directories.get_mut(&directory) else { return };
        if known.making <= removing.0 && known.names.remove(name) {
            inner.names -= 1;
        }
    }

    /// An answer about a directory came that is granted for so long from the asking. Only one that came before the grant so
    /// far ended goes on from it: the server may have given it long after the asking.
    pub(crate) fn extend(&self, directory: Ino, asked: Moment, valid_ms: u32) {
        let mut inner = self.lock();
        let Some(known) = inner.directories.get_mut(&directory) else { return };
        if !known.word.lasts() {
            inner.forget(directory);
        } else if let Some(given) = Word::given(valid_ms, asked) {
            known.word.extend(given);
        }
    }

    /// A directory is gone, or its number is given back.
    pub(crate) fn forget(&self, directory: Ino) {
        self.lock().forget(directory);
    }

    /// Any directory may be gone.
    pub(crate) fn forget_all(&self) {
        self.lock().forget_all();
    }

    /// It is known which names a directory may have.
    pub(crate) fn knows(&self, directory: Ino) -> bool {
        self.lock().directories.get(&directory).is_some_and(|known| known.word.lasts())
    }

    /// The name is certainly not there.
    pub(crate) fn lacks(&self, directory: Ino, name: &Name, validity: &Validity) -> bool {
        let inner = self.lock();
        let known = inner.directories.get(&directory);
        known.is_some_and(|known| known.word.holds(directory, validity) && !known.names.contains(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::time::Duration;

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
    fn a_name_that_was_removed_is_lacking_unless_one_was_made_meanwhile() {
        let validity = Validity::default();
        let fresh = made(&validity, LONG_MS);
        drop(fresh.making(HERE, &name("a")));
        let removing = fresh.removing();
        fresh.removed(HERE, &name("a"), removing);
        assert!(lacks(&fresh, &validity, "a"));
        let removing = fresh.removing();
        let again = name("a");
        let making = fresh.making(HERE, &again);
        fresh.removed(HERE, &name("a"), removing);
        assert!(!lacks(&fresh, &validity, "a"), "it may have been made after it was removed");
        let removing = fresh.removing();
        drop(making);
        fresh.removed(HERE, &name("a"), removing);
        assert!(!lacks(&fresh, &validity, "a"), "it was being made");
    }

    #[test]
    fn what_was_removed_before_a_listing_says_nothing_of_it() {
        let validity = Validity::default();
        let fresh = made(&validity, LONG_MS);
        let removing = fresh.removing();
        let listed = fresh.begin(validity.now());
        fresh.known(HERE, listed, LONG_MS, HashSet::from([name("a")]));
        fresh.removed(HERE, &name("a"), removing);
        assert!(!lacks(&fresh, &validity, "a"), "it may have been made before the listing");
        assert!(lacks(&fresh, &validity, "b"));
    }

    #[test]
    fn what_was_being_made_when_a_listing_began_is_known_when_it_is_made() {
        let validity = Validity::default();
        let fresh = Fresh::default();
        let early = name("a");
        let making = fresh.making(HERE, &early);
        let listed = fresh.begin(validity.now());
        fresh.known(HERE, listed, LONG_MS, HashSet::new());
        assert!(fresh.knows(HERE));
        drop(making);
        assert!(!lacks(&fresh, &validity, "a"));
    }

    #[test]
    fn too_many_names_are_forgotten() {
        let validity = Validity::default();
        let fresh = made(&validity, LONG_MS);
        (0..NAMES_MAX).for_each(|number| fresh.may_have(HERE, &name(&number.to_string())));
        assert!(lacks(&fresh, &validity, "a"));
        fresh.may_have(HERE, &name("one more"));
        assert!(!fresh.knows(HERE));
        assert_eq!(fresh.lock().names, 0);
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
