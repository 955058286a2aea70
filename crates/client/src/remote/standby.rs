//! Directories that stay open at the server for a moment after they were closed here.
//!
//! Who makes a name durable opens its directory, syncs it and closes it, and does so for the next name again: three questions,
//! of which the sync is the only one that somebody wants. So a directory that was synced and not listed is not closed at the server
//! at once, and the next one of the same user who opens it gets it.
//!
//! The server looks at the permission when it opens a directory. One that stands by is given to nobody once a change of the directory was
//! announced, or asked for here, since it was opened, nor later than [`OPEN_FOR`] after that; within this time it is closed too, at
//! the next look. A kernel asks for the directory's mode as it is and looks at it by itself, each time.
//!
//! Any thread; the lock is held for memory operations only. What a server that was started anew does not know is opened again by who
//! uses it ([`super::directory`]).

use super::asked::Asked;
use super::held::Life;
use super::validity::Validity;
use forebay_wire::Ino;
use forebay_wire::message::Credentials;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A directory is given to nobody later than this after it was opened.
const OPEN_FOR: Duration = Duration::from_secs(1);
/// Directories that stand by, at most: each is open at the server.
const DIRECTORIES_MAX: usize = 16;

/// A directory that is open at the server.
pub(crate) struct OpenDirectory {
    pub(crate) who: Credentials,
    pub(crate) ino: Ino,
    pub(crate) handle: u64,
    pub(crate) life: Life,
    pub(crate) asked: Asked,
}

impl OpenDirectory {
    fn is_of(&self, who: &Credentials, ino: Ino) -> bool {
        let Credentials { uid, gid, pid: _, groups } = &self.who;
        self.ino == ino && *uid == who.uid && *gid == who.gid && *groups == who.groups
    }

    fn is_overdue(&self) -> bool {
        self.asked.others.at().elapsed() >= OPEN_FOR
    }
}

/// See the module.
#[derive(Default)]
pub(crate) struct Standby {
    directories: Mutex<Vec<OpenDirectory>>,
    /// Changes of attributes that this client asks for.
    changes: Validity,
}

/// Attributes are being changed by this client, until this is dropped.
pub(crate) struct Changing<'a> {
    changes: &'a Validity,
    ino: Ino,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.changes.announced(self.ino);
    }
}

impl Standby {
    fn lock(&self) -> MutexGuard<'_, Vec<OpenDirectory>> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before a directory is opened.
    pub(crate) fn now(&self, others: &Validity) -> Asked {
        Asked::now(others, &self.changes)
    }

    /// The attributes of an object are going to be changed. To be held until the server has answered: what is opened before that may
    /// have been opened before the change.
    pub(crate) fn changing(&self, ino: Ino) -> Changing<'_> {
        self.changes.announced(ino);
        Changing { changes: &self.changes, ino }
    }

    /// One that this user may have.
    pub(crate) fn take(&self, who: &Credentials, ino: Ino, others: &Validity) -> Option<OpenDirectory> {
        let mut directories = self.lock();
        let may_have = |open: &OpenDirectory| {
            let is_changed = others.was_announced(ino, open.asked.others)
                || open.asked.was_changed_here(ino, &self.changes);
            open.is_of(who, ino) && !open.is_overdue() && !is_changed
        };
        let at = directories.iter().rposition(may_have)?;
        Some(directories.swap_remove(at))
    }

    /// It was closed here. Returns it if it is to be closed at the server too.
    pub(crate) fn keep(&self, open: OpenDirectory) -> Option<OpenDirectory> {
        let mut directories = self.lock();
        if open.is_overdue() || directories.len() >= DIRECTORIES_MAX {
            return Some(open);
        }
        directories.push(open);
        None
    }

    /// Those that are to be closed at the server by now.
    pub(crate) fn overdue(&self) -> Vec<OpenDirectory> {
        self.lock().extract_if(.., |open| open.is_overdue()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Ino = Ino(7);

    fn who(uid: u32, pid: u32) -> Credentials {
        Credentials { uid, gid: 1, pid, groups: Vec::new() }
    }

    fn open(standby: &Standby, others: &Validity) -> OpenDirectory {
        let life = Life { boot: 1, incarnation: 1 };
        OpenDirectory { who: who(10, 1), ino: HERE, handle: 5, life, asked: standby.now(others) }
    }

    fn kept() -> (Standby, Validity) {
        let (standby, others) = (Standby::default(), Validity::default());
        assert!(standby.keep(open(&standby, &others)).is_none());
        (standby, others)
    }

    #[test]
    fn another_process_of_the_same_user_gets_it_once() {
        let (standby, others) = kept();
        assert!(standby.take(&who(11, 1), HERE, &others).is_none(), "another user");
        assert!(standby.take(&who(10, 2), Ino(8), &others).is_none(), "another directory");
        assert!(standby.take(&who(10, 2), HERE, &others).is_some_and(|open| open.handle == 5));
        assert!(standby.take(&who(10, 2), HERE, &others).is_none());
    }

    #[test]
    fn what_was_opened_before_a_change_is_given_to_nobody() {
        let (standby, others) = kept();
        others.announced(HERE);
        assert!(standby.take(&who(10, 1), HERE, &others).is_none());
        let (standby, others) = kept();
        let changing = standby.changing(HERE);
        assert!(standby.take(&who(10, 1), HERE, &others).is_none());
        // Opened while the change is under way: before it, or after.
        assert!(standby.keep(open(&standby, &others)).is_none());
        drop(changing);
        assert!(standby.take(&who(10, 1), HERE, &others).is_none());
    }

    #[test]
    fn what_was_opened_long_ago_is_closed() {
        let (standby, others) = kept();
        assert!(standby.overdue().is_empty());
        std::thread::sleep(OPEN_FOR);
        assert!(standby.take(&who(10, 1), HERE, &others).is_none());
        assert_eq!(standby.overdue().len(), 1);
        assert!(standby.overdue().is_empty());
    }

    #[test]
    fn no_more_stand_by_than_may() {
        let (standby, others) = (Standby::default(), Validity::default());
        let returned = (0..DIRECTORIES_MAX + 3).filter_map(|_| standby.keep(open(&standby, &others))).count();
        assert_eq!(returned, 3);
    }
}
