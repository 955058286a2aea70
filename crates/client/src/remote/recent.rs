//! Attributes of directories as the last change of a name in them left them.
//!
//! A kernel asks for the attributes of a directory before each change of a name in it, since the change before made those
//! that it has invalid. So they are asked for together with each change, and the next question is answered from here.
//!
//! What is kept was looked at after a change by this client and before any other: every operation that may change a directory
//! says so before it asks the server and after it has the answer, and what was learned in between by others that were under
//! way at the same time is not kept. The same words say which attributes of other objects, that were asked for beforehand
//! ([`super::ahead`]), are not to be shown. Changes that other clients make, and the end of the term, are [`super::validity`]'s
//! business. Any thread; the lock is held for memory operations only.

use super::asked::Asked;
use super::validity::{Moment, Validity};
use forebay_wire::{Attr, Ino};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Directories remembered; when there are more, all are forgotten.
const DIRECTORIES_MAX: usize = 1024;

#[derive(Default)]
struct Entry {
    /// Begins and ends of changes so far.
    step: u64,
    known: Option<(Attr, Moment)>,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<Ino, Entry>,
    step: u64,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Recent {
    inner: Mutex<Inner>,
    /// What this client changes.
    changes: Validity,
}

/// A change under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step(u64);

impl Recent {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before a question: see [`Recent::was_changed`].
    pub(crate) fn now(&self, others: &Validity) -> Asked {
        Asked::now(others, &self.changes)
    }

    /// This client began to change an object, or ended, since then.
    pub(crate) fn was_changed(&self, ino: Ino, since: Asked) -> bool {
        since.was_changed_here(ino, &self.changes)
    }

    /// The names in a directory, or its attributes, are going to be changed by this client.
    pub(crate) fn begin(&self, directory: Ino) -> Step {
        self.changes.announced(directory);
        let mut inner = self.lock();
        if inner.entries.len() >= DIRECTORIES_MAX {
            inner.entries.clear();
        }
        inner.step += 1;
        let step = inner.step;
        inner.entries.insert(directory, Entry { step, known: None });
        Step(step)
    }

    /// They were, or were not. `known`: what was seen afterwards, and the moment before it was asked for.
    pub(crate) fn end(&self, directory: Ino, begun: Step, known: Option<(Attr, Moment)>) {
        self.changes.announced(directory);
        let mut inner = self.lock();
        inner.step += 1;
        let step = inner.step;
        // If it is not there, what is known now may be older than what made it go.
        if let Some(entry) = inner.entries.get_mut(&directory) {
            let was_alone = entry.step == begun.0;
            *entry = Entry { step, known: known.filter(|_| was_alone) };
        }
    }

    fn forget_all(&self) {
        self.changes.all_announced();
        self.lock().entries.clear();
    }

    fn forget(&self, directory: Ino) {
        self.changes.announced(directory);
        self.lock().entries.remove(&directory);
    }

    /// Operations on these are under way, as long as the result is held: nothing is known of them, before and after.
    pub(crate) fn changing<const N: usize>(&self, objects: [Ino; N]) -> Changing<'_, N> {
        objects.into_iter().for_each(|ino| self.forget(ino));
        Changing { recent: self, objects }
    }

    /// The same of whatever there is.
    pub(crate) fn changing_all(&self) -> ChangingAll<'_> {
        self.forget_all();
        ChangingAll(self)
    }

    /// The attributes, if they may still be shown.
    pub(crate) fn get(&self, directory: Ino, validity: &Validity) -> Option<Attr> {
        let (attr, asked) = self.lock().entries.get(&directory)?.known?;
        let attr = validity.shown(attr, None, asked);
        (attr.valid_ms > 0).then_some(attr)
    }
}

/// See [`Recent::changing`].
pub(crate) struct Changing<'a, const N: usize> {
    recent: &'a Recent,
    objects: [Ino; N],
}

impl<const N: usize> Drop for Changing<'_, N> {
    fn drop(&mut self) {
        self.objects.into_iter().for_each(|ino| self.recent.forget(ino));
    }
}

/// See [`Recent::changing_all`].
pub(crate) struct ChangingAll<'a>(&'a Recent);

impl Drop for ChangingAll<'_> {
    fn drop(&mut self) {
        self.0.forget_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remote::samples;
    use forebay_wire::FileKind;

    const HERE: Ino = Ino(7);

    fn attr(size: u64) -> Attr {
        Attr { size, kind: FileKind::Directory, nlink: 2, ..samples::attr(HERE.0) }
    }

    fn size(recent: &Recent, validity: &Validity) -> Option<u64> {
        recent.get(HERE, validity).map(|attr| attr.size)
    }

    #[test]
    fn what_one_change_after_the_other_left_is_known() {
        let (recent, validity) = (Recent::default(), Validity::default());
        for seen in 1..3 {
            let step = recent.begin(HERE);
            assert_eq!(size(&recent, &validity), None, "it is being changed");
            recent.end(HERE, step, Some((attr(seen), validity.now())));
            assert_eq!(size(&recent, &validity), Some(seen));
        }
        validity.announced(HERE);
        assert_eq!(size(&recent, &validity), None, "another client changes it");
    }

    #[test]
    fn of_changes_at_the_same_time_nothing_is_known() {
        let (recent, validity) = (Recent::default(), Validity::default());
        // Whichever the server made first, and whichever ends first here.
        for first_ends_first in [true, false] {
            let (first, second) = (recent.begin(HERE), recent.begin(HERE));
            let order = if first_ends_first { [first, second] } else { [second, first] };
            for step in order {
                recent.end(HERE, step, Some((attr(1), validity.now())));
            }
            assert_eq!(size(&recent, &validity), None);
        }
    }

    #[test]
    fn a_change_of_another_kind_under_way_keeps_what_is_learned_out() {
        let (recent, validity) = (Recent::default(), Validity::default());
        let step = recent.begin(HERE);
        drop(recent.changing_all());
        recent.end(HERE, step, Some((attr(1), validity.now())));
        assert_eq!(size(&recent, &validity), None);
    }
}
