//! A client of a namespace, as its metadata service knows it: what it holds, and what it is told.
//!
//! A session outlives its connections by a grace time, so that a client whose network failed finds everything as it was.
//! When it ends, all it holds is released at once, by [`super::home`]. A request that is still under way then finds the
//! session ended and holds nothing.
//!
//! Any thread may call; the lock is held for memory operations only. What is taken out is dropped by the caller: a file
//! without a name is removed by that.

use super::outbox::Outbox;
use super::slots::Slots;
use crate::deeds::SessionDeeds;
use crate::locks;
use forebay_wire::message::{CallbackRequest, Credentials, Reply, SessionId};
use forebay_wire::{Directory, FsError, Ino, Moved, OpenFlags, Result, Stub};
use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::{BuildHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Open files and directories of one session, at most.
const HANDLES_MAX: usize = 65_536;

/// No handle gets a higher number.
const NUMBER_MAX: u64 = 1 << 62;

/// So many bits of the first number are drawn by lot: higher ones are left for all that follow.
const FIRST_NUMBER_BITS: u32 = 61;

/// Where the numbers of handles begin in this life of a session. A file that a client had open in an earlier life, and that is
/// gone, still has its number there: were it given to another file, what is meant for the one would reach the other.
fn first_number() -> u64 {
    RandomState::new().build_hasher().finish() >> (u64::BITS - FIRST_NUMBER_BITS)
}

/// An answer with what it carries.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    /// The first `length` bytes are carried; the rest is whatever the buffer held before.
    buffer: Vec<u8>,
    length: usize,
}

impl Answer {
    /// Carries the first bytes of a buffer.
    pub(crate) fn with(reply: Reply, buffer: Vec<u8>, length: usize) -> Answer {
        let length = length.min(buffer.len());
        Answer { reply, buffer, length }
    }

    /// What it carries.
    pub(crate) fn bulk(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    /// The buffer, for the next answer.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Answer {
        Answer { reply, buffer: Vec::new(), length: 0 }
    }
}

/// A file that a client has open.
#[derive(Clone)]
pub(crate) struct OpenFile {
    pub(crate) ino: Ino,
    pub(crate) flags: OpenFlags,
    pub(crate) stub: Arc<dyn Stub>,
}

/// A directory that a client has open.
#[derive(Clone)]
pub(crate) struct OpenDirectory {
    pub(crate) ino: Ino,
    pub(crate) directory: Arc<dyn Directory>,
    /// Who opened it: entries are looked up for him.
    pub(crate) who: Credentials,
}

/// What counting a reference came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Referred {
    /// The session has the tree's reference now.
    First,
    /// It had one already: the tree's is to be given back.
    Again,
    /// The session is over: it is to be given back too.
    Over,
}

/// What a session holds.
#[derive(Default)]
pub(crate) struct Holdings {
    pub(crate) references: HashMap<Ino, u64>,
    pub(crate) files: HashMap<u64, OpenFile>,
    pub(crate) directories: HashMap<u64, OpenDirectory>,
    next_handle: u64,
    is_over: bool,
}

/// See the module.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    /// Its number among the sessions of the namespace.
    pub(crate) number: locks::Session,
    /// Its machine, for messages.
    pub(crate) node: String,
    /// It was there before the server started.
    pub(crate) came_back: bool,
    pub(crate) slots: Slots<Answer>,
    /// What was done for it, for the next process; none where nobody is awaited after a start.
    pub(crate) deeds: Option<SessionDeeds>,
    pub(crate) outbox: Outbox<CallbackRequest>,
    holdings: Mutex<Holdings>,
    moved: Mutex<Moved>,
}

impl Session {
    pub(crate) fn new(
        id: SessionId,
        number: locks::Session,
        node: String,
        came_back: bool,
        deeds: Option<SessionDeeds>,
    ) -> Session {
        let (slots, outbox) = (Slots::new(), Outbox::new());
        let (holdings, moved) = (Mutex::new(Holdings::new()), Mutex::default());
        Session { id, number, node, came_back, slots, deeds, outbox, holdings, moved }
    }

    /// The client says what it has read and written since the session began.
    pub(crate) fn report(&self, moved: Moved) {
        *self.moved.lock().unwrap_or_else(PoisonError::into_inner) = moved;
    }

    /// What it said last.
    pub(crate) fn moved(&self) -> Moved {
        *self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Holdings> {
        self.holdings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a reference. The tree has one for all that a session has to an object.
    pub(crate) fn refer(&self, ino: Ino) -> Referred {
        self.set_references(ino, |held| held.saturating_add(1))
    }

    fn set_references(&self, ino: Ino, count: impl FnOnce(u64) -> u64) -> Referred {
        let mut holdings = self.lock();
        if holdings.is_over {
            return Referred::Over;
        }
        let held = holdings.references.entry(ino).or_default();
        let is_first = *held == 0;
        *held = count(*held);
        if is_first { Referred::First } else { Referred::Again }
    }

    /// The client was given this object, and has not given it back: others it may not name.
    pub(crate) fn holds(&self, ino: Ino) -> bool {
        let holdings = self.lock();
        ino == Ino::ROOT
            || holdings.references.contains_key(&ino)
            || holdings.files.values().any(|file| file.ino == ino)
            || holdings.directories.values().any(|directory| directory.ino == ino)
    }

    /// A client says how many references it has: what it claimed before, on a connection that broke, is among them.
    pub(crate) fn claim(&self, ino: Ino, count: u64) -> Referred {
        self.set_references(ino, |held| held.max(count))
    }

    /// Takes references back; `true`: the last of them, and the tree's is to be given back.
    #[must_use]
    pub(crate) fn unrefer(&self, ino: Ino, count: u64) -> bool {
        let mut holdings = self.lock();
        let Entry::Occupied(mut held) = holdings.references.entry(ino) else { return false };
        *held.get_mut() = held.get().saturating_sub(count);
        let is_last = *held.get() == 0;
        if is_last {
            held.remove();
        }
        is_last
    }

    /// Opens a file under a number, a new one unless `number` says which.
    pub(crate) fn open(&self, file: OpenFile, number: Option<u64>) -> Result<u64> {
        let mut holdings = self.lock();
        let number = holdings.number(number)?;
        match holdings.files.entry(number) {
            // A reclaim that is made twice.
            Entry::Occupied(same) if same.get().ino == file.ino => Ok(number),
            Entry::Occupied(_) => Err(FsError::InvalidArgument),
            Entry::Vacant(place) => {
                place.insert(file);
                Ok(number)
            }
        }
    }

    pub(crate) fn file(&self, number: u64) -> Result<OpenFile> {
        self.lock().files.get(&number).cloned().ok_or(FsError::BadHandle)
    }

    /// Takes a file out, and says whether it was the last that the session has open of this object.
    pub(crate) fn close(&self, number: u64) -> Option<(OpenFile, bool)> {
        let mut holdings = self.lock();
        let file = holdings.files.remove(&number)?;
        let is_last = !holdings.files.values().any(|other| other.ino == file.ino);
        Some((file, is_last))
    }

    pub(crate) fn open_directory(&self, directory: OpenDirectory) -> Result<u64> {
        let mut holdings = self.lock();
        let number = holdings.number(None)?;
        holdings.directories.insert(number, directory);
        Ok(number)
    }

    pub(crate) fn directory(&self, number: u64) -> Result<OpenDirectory> {
        self.lock().directories.get(&number).cloned().ok_or(FsError::BadHandle)
    }

    pub(crate) fn close_directory(&self, number: u64) -> Option<OpenDirectory> {
        self.lock().directories.remove(&number)
    }

    /// Open files, and those of them that may be written.
    pub(crate) fn opened(&self) -> Vec<(Ino, bool)> {
        self.lock().files.values().map(|file| (file.ino, file.flags.writable())).collect()
    }

    /// The session is over: takes out all that it held.
    pub(crate) fn end(&self) -> Holdings {
        self.outbox.close();
        let mut holdings = self.lock();
        let held = std::mem::take(&mut *holdings);
        holdings.is_over = true;
        held
    }
}

impl Holdings {
    fn new() -> Holdings {
        Holdings { next_handle: first_number(), ..Holdings::default() }
    }

    /// The number for a new handle.
    fn number(&mut self, wanted: Option<u64>) -> Result<u64> {
        if self.is_over {
            return Err(FsError::Stale);
        }
        if self.files.len() + self.directories.len() >= HANDLES_MAX {
            return Err(FsError::TooManyOpenFiles);
        }
        if wanted.is_some_and(|wanted| wanted > NUMBER_MAX) {
            return Err(FsError::InvalidArgument);
        }
        Ok(wanted.unwrap_or_else(|| self.next_number()))
    }

    /// A number that nobody has, and nobody had in an earlier life: those taken up again do not change where new ones are.
    fn next_number(&mut self) -> u64 {
        loop {
            self.next_handle += 1;
            let number = self.next_handle;
            if !self.files.contains_key(&number) && !self.directories.contains_key(&number) {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_an_earlier_life_is_nobody_elses_in_this_one() {
        let mut earlier = Holdings::new();
        let lost: Vec<u64> = (0..3).map(|_| earlier.number(None).unwrap()).collect();
        let mut later = Holdings::new();
        // One of them was found again, under its number.
        assert_eq!(later.number(Some(lost[0])), Ok(lost[0]));
        assert!((0..3).all(|_| !lost.contains(&later.number(None).unwrap())));
    }
}
