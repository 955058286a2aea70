//! Where an object is that is claimed by a name which it does not have.
//!
//! After a start clients claim what they hold by the names that they know ([`super::reclaim`]). An object may have another one: another
//! client moved it, or a power cut undid the rename or the removal that this client was told of. Then its number is looked for in
//! the whole tree: all directories are listed, and it is remembered where each number was seen until the claims are over. So the tree is
//! listed once, however many objects are claimed so.
//!
//! What is remembered is a hint. Clients that are back change names meanwhile: whoever takes a hint looks whether the object is there, and
//! has the tree listed again if it is not. What is not found was not there when the first claim came, and is gone.
//!
//! Changes nothing on disk. While the tree is listed no name is changed. Lock order: what is remembered, then the lock of the tree.

use super::Tree;
use super::reclaim::Claim;
use crate::fragment::DIRECTORY;
use crate::host::host;
use crate::recover::is_dot;
use forebay_wire::{Attr, FsError, Ino, MetadataService, Result};
use rustix::fs::{AtFlags, Dir, DirEntry, FileType, Mode};
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::{MutexGuard, PoisonError};

/// So often the tree is listed for one claim: the second time because somebody moved the object since the first.
const LISTED_MAX: usize = 2;

/// What came of looking for an object in the directory that its number was seen in.
enum Found {
    Claimed(Attr),
    /// Its number is there, and stands for another one now.
    Another,
    /// It is somewhere else since.
    Nothing,
}

/// The directories that everything is in.
#[derive(Debug, Default)]
pub(super) struct Whereabouts {
    /// The directory that a number was seen in.
    directories: HashMap<Ino, Ino>,
    /// The names of directories.
    names: HashMap<Ino, OsString>,
}

impl Whereabouts {
    /// Lists a tree. Iterative, with one open descriptor for each level: users make deep trees.
    fn list(root: OwnedFd) -> Result<Whereabouts> {
        let list = |directory: OwnedFd| Dir::new(directory).map_err(host("list a directory"));
        let mut found = Whereabouts::default();
        let mut open = vec![(Ino::ROOT, list(root)?)];
        while let Some((directory, entries)) = open.last_mut() {
            let Some(entry) = entries.next() else {
                open.pop();
                continue;
            };
            let entry = entry.map_err(host("list a directory"))?;
            if is_dot(entry.file_name()) {
                continue;
            }
            let ino = Ino(entry.ino());
            found.directories.insert(ino, *directory);
            let here = entries.fd().map_err(host("list a directory"))?;
            if is_directory(here, &entry)? {
                let below = rustix::fs::openat(here, entry.file_name(), DIRECTORY, Mode::empty());
                found.names.insert(ino, OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
                open.push((ino, list(below.map_err(host("open a directory"))?)?));
            }
        }
        Ok(found)
    }

    /// The directory that a number was seen in, and the names that lead to it from the root.
    fn way_to(&self, ino: Ino) -> Option<(Ino, Vec<OsString>)> {
        let directory = *self.directories.get(&ino)?;
        let (mut at, mut names) = (directory, Vec::new());
        while at != Ino::ROOT {
            names.push(self.names.get(&at)?.clone());
            at = *self.directories.get(&at)?;
        }
        names.reverse();
        Some((directory, names))
    }
}

/// Not every local file system says with a name what it stands for.
fn is_directory(here: BorrowedFd<'_>, entry: &DirEntry) -> Result<bool> {
    if entry.file_type() != FileType::Unknown {
        return Ok(entry.file_type() == FileType::Directory);
    }
    let stat =
        rustix::fs::statat(here, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW).map_err(host("stat"))?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

impl Tree {
    fn whereabouts(&self) -> MutexGuard<'_, Option<Whereabouts>> {
        self.whereabouts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nothing is looked for any more.
    pub(super) fn forget_whereabouts(&self) {
        let gone = self.whereabouts().take();
        drop(gone);
    }

    /// Claims an object wherever it is; `None`: it is nowhere. Only as long as claims are awaited: the tree is listed for it.
    pub(super) fn reclaim_anywhere(&self, claim: &Claim) -> Result<Option<Attr>> {
        for _ in 0..LISTED_MAX {
            if !self.unsettled().awaits_claims() {
                return Ok(None);
            }
            let Some((directory, names)) = self.way_now(claim.ino)? else { return Ok(None) };
            match self.reclaim_below(claim, directory, &names)? {
                Found::Claimed(attr) => return Ok(Some(attr)),
                Found::Another => return Ok(None),
                Found::Nothing => self.forget_whereabouts(),
            }
        }
        Ok(None)
    }

    fn way_now(&self, ino: Ino) -> Result<Option<(Ino, Vec<OsString>)>> {
        let mut known = self.whereabouts();
        let whereabouts = match known.take() {
            Some(whereabouts) => whereabouts,
            None => {
                let _order = self.shared();
                let root = rustix::fs::openat(&self.root, ".", DIRECTORY, Mode::empty());
                Whereabouts::list(root.map_err(host("open directory"))?)?
            }
        };
        Ok(known.insert(whereabouts).way_to(ino))
    }

    /// Claims what is in a directory to which these names lead. The directories on the way are known by what is claimed in them.
    fn reclaim_below(&self, claim: &Claim, directory: Ino, names: &[OsString]) -> Result<Found> {
        let mut way = Vec::new();
        let mut at = Ok(Ino::ROOT);
        for name in names {
            at = at.and_then(|at| self.find(at, name)).map(|(attr, _)| attr.ino);
            way.extend(at);
        }
        let claimed = match at {
            Ok(at) if at == directory => self.reclaim_in(claim, directory),
            Ok(_) | Err(FsError::NotFound | FsError::NotDirectory | FsError::Stale) => Ok(Found::Nothing),
            Err(error) => Err(error),
        };
        way.into_iter().for_each(|ino| self.forget(ino, 1));
        claimed
    }

    fn reclaim_in(&self, claim: &Claim, directory: Ino) -> Result<Found> {
        for entry in Dir::new(self.open_listing(directory)?).map_err(host("list a directory"))? {
            let entry = entry.map_err(host("list a directory"))?;
            if is_dot(entry.file_name()) || entry.ino() != claim.ino.0 {
                continue;
            }
            let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
            let there = Claim { parent: directory, name, ..claim.clone() };
            return Ok(self.reclaim_named(&there)?.map_or(Found::Another, Found::Claimed));
        }
        Ok(Found::Nothing)
    }
}

#[cfg(test)]
mod tests;
