//! What an earlier process was doing when it was killed: done, or not.
//!
//! Called at the start, before anybody is served: names and lengths are as the killed process left them.
//!
//! * A change of names was one step of the local file system. Whether it was made is seen: the name is gone, or stands for
//!   another object, or for the one that was moved.
//! * Something new was not there before and nobody has seen it, since the lock of the tree was not given back. It may be
//!   half made, so it is removed, and who asks for it again has it made anew. Only what is empty is removed.
//! * Of an append the place is known, not how much was written: the file is made as long as if all had been, and who asks
//!   again writes at that place.
//! * A length that was to be set is set, and what appends had reserved behind it is given back.
//!
//! Each step can be made twice: a crash in the middle, or a start that fails, leaves the rest to the next start. Nothing is
//! known of numbers yet, so directories and files are looked for in the whole tree; that is done only when
//! something was left open, which needs a kill within microseconds.

use super::Tree;
use super::attributes::CUT;
use super::lookup::stat_at;
use super::stub::APPEND;
use super::xattr::{digest, has};
use crate::deeds::{Deeds, Intent, SessionDeeds, Values, What};
use crate::fragment::DIRECTORY;
use crate::host::host;
use crate::recover::find_name;
use forebay_wire::message::SessionId;
use forebay_wire::{FileKind, FsError, Ino, Result};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Longest value of an extended attribute, in bytes.
const VALUE_MAX: usize = 65536;

fn io(error: std::io::Error) -> FsError {
    FsError::Host { operation: "settle deeds", errno: error.raw_os_error().unwrap_or_default() }
}

impl Tree {
    /// Settles what was left open, and keeps reservations with the deeds from now on.
    pub(crate) fn settle_deeds(&self, deeds: &Deeds, sessions: &BTreeSet<SessionId>) -> Result<()> {
        // Set once: a tree is at home in one place.
        let _ = self.reservations.set(deeds.reservations());
        if let Some(left) = deeds.left_open().map_err(io)? {
            let done = self.settle_alone(&left.intent)?;
            deeds.settled(&left, done).map_err(io)?;
        }
        for session in sessions {
            let Some(known) = deeds.known(*session).map_err(io)? else { continue };
            for (slot, _, values) in known.begun() {
                self.settle_begun(&known, slot, values)?;
            }
        }
        Ok(())
    }

    /// Whether it was done.
    fn settle_alone(&self, intent: &Intent<'_>) -> Result<Option<Values>> {
        let name = &*intent.from.1;
        if matches!(intent.what, What::SetAttribute | What::RemoveAttribute) {
            let Some(object) = self.open_anywhere(intent.ino)? else { return Ok(None) };
            let is_done = match intent.what {
                What::RemoveAttribute => !has(object.as_fd(), name)?,
                _ => value_of(&object, name)?.is_some_and(|value| digest(&value) == intent.other),
            };
            return Ok(is_done.then_some([0; 4]));
        }
        let Some(directory) = self.open_anywhere(intent.from.0)? else { return Ok(None) };
        let there = self.standing(&directory, name)?;
        let is_done = match intent.what {
            What::Make => return self.unmake(&directory, name).map(|()| None),
            What::Link => there == Some(intent.ino),
            What::Remove => there != Some(intent.ino),
            What::Rename | What::Exchange => {
                let Some(target) = self.open_anywhere(intent.to.0)? else { return Ok(None) };
                // Two names of one object stay: then nothing was done, and doing it again does nothing.
                there != Some(intent.ino) && self.standing(&target, &intent.to.1)? == Some(intent.ino)
            }
            What::SetAttribute | What::RemoveAttribute => false,
        };
        let values = if intent.what == What::Link { [intent.ino.0, 0, 0, 0] } else { [0; 4] };
        Ok(is_done.then_some(values))
    }

    fn settle_begun(&self, deeds: &SessionDeeds, slot: u16, values: Values) -> Result<()> {
        let [what, ino, place, length] = values;
        let Some(stub) = self.open_anywhere(Ino(ino))? else {
            deeds.forget(slot);
            return Ok(());
        };
        let size = rustix::fs::fstat(&stub).map_err(host("stat"))?.st_size as u64;
        match what {
            CUT => {
                rustix::fs::ftruncate(&stub, place).map_err(host("set the length of a stub"))?;
                self.reservations.get().into_iter().for_each(|all| all.was_cut(Ino(ino)));
            }
            // Nothing of it was written.
            APPEND if size <= place => deeds.forget(slot),
            APPEND => {
                let end = size.max(place.saturating_add(length));
                rustix::fs::ftruncate(&stub, end).map_err(host("set the length of a stub"))?;
            }
            _ => deeds.forget(slot),
        }
        Ok(())
    }

    /// Removes what was half made. It is new, empty, and nobody knows it.
    fn unmake(&self, directory: &OwnedFd, name: &OsStr) -> Result<()> {
        let stat = match stat_at(directory, name) {
            Err(FsError::NotFound) => return Ok(()),
            stat => stat?,
        };
        let flags = match FileKind::from_mode(stat.st_mode) {
            Some(FileKind::Directory) => AtFlags::REMOVEDIR,
            Some(FileKind::Regular) if stat.st_size > 0 || stat.st_nlink > 1 => return Ok(()),
            _ => AtFlags::empty(),
        };
        match rustix::fs::unlinkat(directory, name, flags) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY) => Ok(()),
            Err(errno) => Err(host("remove a new object that was not finished")(errno)),
        }
    }

    fn standing(&self, directory: &OwnedFd, name: &OsStr) -> Result<Option<Ino>> {
        match stat_at(directory, name) {
            Ok(stat) => Ok(Some(self.number(stat.st_ino))),
            Err(FsError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens an object of the tree, or of those without a name, by its number alone.
    fn open_anywhere(&self, ino: Ino) -> Result<Option<OwnedFd>> {
        let again = |fd: &OwnedFd| rustix::fs::openat(fd, ".", DIRECTORY, Mode::empty());
        if ino == Ino::ROOT {
            return again(&self.root).map(Some).map_err(host("open directory"));
        }
        let roots = [Some(&*self.root), self.unlinked.as_ref()];
        for root in roots.into_iter().flatten() {
            let found = find_below(again(root).map_err(host("open directory"))?, ino)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

/// Looks for a number in a tree.
fn find_below(root: OwnedFd, ino: Ino) -> Result<Option<OwnedFd>> {
    find_name(root, |directory, name, stat| {
        let is_directory = FileKind::from_mode(stat.st_mode) == Some(FileKind::Directory);
        (stat.st_ino == ino.0).then(|| open_object(directory, name, is_directory)).transpose()
    })
}

fn open_object(directory: BorrowedFd<'_>, name: &CStr, is_directory: bool) -> Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let flags = if is_directory { DIRECTORY } else { flags };
    rustix::fs::openat(directory, name, flags, Mode::empty()).map_err(host("open an object to settle it"))
}

fn value_of(object: &OwnedFd, name: &OsStr) -> Result<Option<Vec<u8>>> {
    let mut value = vec![0; VALUE_MAX];
    match rustix::fs::fgetxattr(object, name, &mut value[..]) {
        Ok(length) => value.truncate(length),
        Err(Errno::NODATA) => return Ok(None),
        Err(errno) => return Err(host("get extended attribute")(errno)),
    }
    Ok(Some(value))
}

#[cfg(test)]
mod tests;
