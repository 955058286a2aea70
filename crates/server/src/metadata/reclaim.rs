//! Files of a shared tree that are open without a name, and what clients hold over a restart of the server.
//!
//! The stub of a file that loses its last name while a client has it open is kept, under its number, in a directory beside
//! the tree, until the last close. After a restart clients claim what they hold, by number, generation and the name they
//! know; what has another name is looked for ([`super::whereabouts`]), and what has none and nobody claimed in time is removed.
//!
//! Order of events of a claim: nothing changes on disk. Of the removal: the stub, then the substripe files; a crash in
//! between leaves substripe files without a stub, which the walk and the sweep at the next open remove.

use super::Tree;
use super::lookup::{Object, Place, kind_of, stat_at};
use super::stub::LocalStub;
use crate::content::Accounting;
use crate::host::host;
use forebay_wire::{Attr, FileKind, FsError, Ino, MetadataService, Result};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, MutexGuard, PoisonError};

/// What a client says that it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Its number.
    pub ino: Ino,
    /// And generation.
    pub generation: u64,
    /// The directory it was last seen in, which has been claimed before.
    pub parent: Ino,
    /// And its name there; one that nothing has, if none is known.
    pub name: OsString,
    /// References.
    pub count: u64,
}

fn name_of(ino: Ino) -> String {
    format!("{:016x}", ino.0)
}

fn number_of(name: &[u8]) -> Option<Ino> {
    let text = std::str::from_utf8(name).ok()?;
    let ino = Ino(u64::from_str_radix(text, 16).ok()?);
    (name_of(ino) == text).then_some(ino)
}

impl Tree {
    fn reclaimed(&self) -> MutexGuard<'_, std::collections::HashMap<Ino, Arc<LocalStub>>> {
        self.reclaimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_open_with_last_name(&self, object: &Object) -> bool {
        let is_last = object.kind == FileKind::Regular && object.stat.st_nlink == 1;
        is_last && self.opened(self.number(object.stat.st_ino)).is_some()
    }

    /// Where the stub goes of a file whose last name is about to go, if it has to be kept.
    pub(super) fn unlinked_place(&self, object: &Object) -> Option<(&OwnedFd, String)> {
        let unlinked = self.unlinked.as_ref()?;
        self.is_open_with_last_name(object).then(|| (unlinked, name_of(self.number(object.stat.st_ino))))
    }

    /// Gives a file that is about to be replaced a place there, if it has to be kept.
    pub(super) fn keep_unlinked(
        &self,
        directory: &OwnedFd,
        name: &OsStr,
        object: &Object,
    ) -> Result<Option<Ino>> {
        let Some((unlinked, own)) = self.unlinked_place(object) else { return Ok(None) };
        match rustix::fs::linkat(directory, name, unlinked, own, AtFlags::empty()) {
            Ok(()) | Err(Errno::EXIST) => Ok(Some(self.number(object.stat.st_ino))),
            Err(errno) => Err(host("keep the stub of an open file")(errno)),
        }
    }

    /// Removes the stub of a file without a name. What cannot be removed goes at the next start.
    pub(super) fn forget_unlinked(&self, ino: Ino) {
        let Some(unlinked) = &self.unlinked else { return };
        match rustix::fs::unlinkat(unlinked, name_of(ino), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(_) => self.home.walk_next_time(),
        }
    }

    /// Gives a client the references back that it held before a restart; attributes are those of the stub alone. `Stale` when the
    /// object is gone. Where it is not under that name any more, and has not lost all, it is looked for ([`super::whereabouts`]).
    pub fn reclaim(&self, claim: &Claim) -> Result<Attr> {
        if claim.ino == Ino::ROOT {
            return self.getattr(Ino::ROOT);
        }
        if let Some(attr) = self.reclaim_named(claim)? {
            return Ok(attr);
        }
        match self.reclaim_nameless(claim) {
            Err(FsError::Stale) => self.reclaim_anywhere(claim)?.ok_or(FsError::Stale),
            reclaimed => reclaimed,
        }
    }

    fn reclaim_nameless(&self, claim: &Claim) -> Result<Attr> {
        let _order = self.exclusive();
        let unlinked = self.unlinked.as_ref().ok_or(FsError::Stale)?;
        let birth = self.birth(unlinked, OsStr::new(&name_of(claim.ino))).map_err(|error| match error {
            FsError::NotFound => FsError::Stale,
            other => other,
        })?;
        if birth != Some(claim.generation) {
            return Err(FsError::Stale);
        }
        let stub = self.open_unlinked(claim.ino)?.ok_or(FsError::Stale)?;
        // Before anything can fail: dropping the last stub of a file without a name removes it.
        self.keep_reclaimed(claim.ino, stub)?;
        let object = self.object(claim.ino)?;
        let attr = Attr { generation: claim.generation, ..self.attr(&object.stat, &object.annotation)? };
        self.table().found_nameless(claim.ino, attr, object.annotation, claim.count);
        Ok(attr)
    }

    /// Holds a file without a name until it is opened. Refused when the server ends: then it is left to the next one.
    fn keep_reclaimed(&self, ino: Ino, stub: Arc<LocalStub>) -> Result<()> {
        let mut reclaimed = self.reclaimed();
        // Under the lock: whoever ends the server says so first, and empties it then.
        if self.is_left.load(SeqCst) {
            drop(reclaimed);
            drop(stub);
            return Err(FsError::Unreachable);
        }
        let before = reclaimed.insert(ino, stub);
        drop(reclaimed);
        drop(before);
        Ok(())
    }

    /// Of an object that has this name; `None`: it has not.
    pub(super) fn reclaim_named(&self, claim: &Claim) -> Result<Option<Attr>> {
        let attr = match self.find(claim.parent, &claim.name) {
            Ok((attr, _)) => attr,
            Err(FsError::NotFound | FsError::NotDirectory | FsError::Stale) => return Ok(None),
            Err(error) => return Err(error),
        };
        if (attr.ino, attr.generation) == (claim.ino, claim.generation) {
            self.table().refer(attr.ino, claim.count.saturating_sub(1));
            return Ok(Some(attr));
        }
        MetadataService::forget(self, attr.ino, 1);
        Ok(None)
    }

    /// Opens the stub of a file without a name; `None` when there is none.
    fn open_unlinked(&self, ino: Ino) -> Result<Option<Arc<LocalStub>>> {
        if let Some(stub) = self.opened(ino) {
            return Ok(stub.is_nameless().then_some(stub));
        }
        let Some(unlinked) = &self.unlinked else { return Ok(None) };
        let name = OsString::from(name_of(ino));
        let stat = match stat_at(unlinked, &name) {
            Err(FsError::NotFound) => return Ok(None),
            stat => stat?,
        };
        if self.number(stat.st_ino) != ino || kind_of(&stat)? != FileKind::Regular || stat.st_nlink != 1 {
            return Ok(None);
        }
        let annotation = self.annotation(unlinked, &name, &stat)?;
        let directory = unlinked.try_clone().map_err(|_| FsError::TooManyOpenFiles)?;
        let place = Place { directory: Arc::new(directory), name };
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&place.directory, &place.name, flags, Mode::empty())
            .map_err(host("open a file"))?;
        let tree = self.itself.upgrade().ok_or(FsError::Stale)?;
        let stub = self.adopt(LocalStub::new(tree, fd, &stat, annotation, Accounting::default()));
        stub.lost_its_name();
        Ok(Some(stub))
    }

    /// Clients that were there before the start are awaited, until [`Tree::claims_are_over`]. Before anything is served.
    pub fn await_claims(&self) {
        self.unsettled().await_claims();
    }

    /// The server ends while a client has a file open for writing: it may be written before the next start knows of it.
    pub fn is_written_on(&self) {
        self.home.walk_next_time();
    }

    /// The server ends while clients still have files open: those without a name are left to the next start, where they
    /// can be claimed. Only of a shared tree.
    pub fn leave(&self) {
        self.is_left.store(true, SeqCst);
        // Outside the locks: each of them holds the tree. What a request that is still under way would add is not kept.
        let claimed: Vec<_> = self.reclaimed().drain().collect();
        drop((claimed, self.farewells.end()));
        self.forget_whereabouts();
    }

    pub(super) fn leaves_unlinked(&self) -> bool {
        self.unlinked.is_some() && self.is_left.load(SeqCst)
    }

    /// A file without a name is left to the next start. One that was replaced while nobody had it open, and somebody its number, is not
    /// among those that can be claimed: nothing leads to its content any more but the walk.
    pub(super) fn left_unlinked(&self, ino: Ino) {
        let is_there = |unlinked| stat_at(unlinked, OsStr::new(&name_of(ino))).is_ok();
        if !self.unlinked.as_ref().is_some_and(is_there) {
            self.home.walk_next_time();
        }
    }

    /// Clients that were there before the start have come, or lost what they had: nothing is kept for them any more but files without a
    /// name, which [`Tree::end_claims`] removes. Does nothing the second time.
    pub fn claims_are_over(&self) {
        self.unsettled().claims_are_over();
        self.forget_whereabouts();
        if let Some(reservations) = self.reservations.get() {
            reservations.claims_are_over(|ino| self.is_opened(ino));
        }
    }

    /// The time for claims is over: what has no name and nobody opened goes. Returns how many files went.
    pub fn end_claims(&self) -> Result<u64> {
        self.claims_are_over();
        // Dropped outside the lock: the last holder removes the content.
        let claimed: Vec<_> = self.reclaimed().drain().collect();
        drop(claimed);
        let Some(unlinked) = &self.unlinked else { return Ok(0) };
        let mut removed = 0;
        for entry in Dir::read_from(unlinked).map_err(host("list the files without a name"))? {
            let entry = entry.map_err(host("list the files without a name"))?;
            let Some(ino) = number_of(entry.file_name().to_bytes()) else { continue };
            let leftover = {
                let _order = self.exclusive();
                match self.opened(ino) {
                    Some(_) => continue,
                    None => self.open_unlinked(ino)?,
                }
            };
            match leftover {
                Some(stub) => drop(stub),
                // A second name of a file that was not replaced after all.
                None => self.forget_unlinked(ino),
            }
            removed += 1;
        }
        Ok(removed)
    }
}

#[cfg(test)]
pub(super) mod tests;
