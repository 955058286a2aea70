//! Moving names.
//!
//! Order of events, and what a crash after each leaves:
//! 0. in a shared tree a file that is open and is going to be replaced gets a second name among those that have none: that
//!    name alone, which the next start removes;
//! 1. the local file system moves the name, replacing or exchanging, in one step: never neither, never both;
//! 2. the table learns of it: memory only;
//! 3. the content of a replaced file is removed as in [`super::remove`].

use super::Tree;
use super::lookup::{Object, check_name};
use super::table::Link;
use crate::deeds::{Deed, Intent, What};
use crate::host::host;
use forebay_wire::{FsError, Ino, RenameMode, Result};
use rustix::fs::RenameFlags;
use std::ffi::OsStr;

impl Tree {
    pub(crate) fn rename(
        &self,
        from: (Ino, &OsStr),
        to: (Ino, &OsStr),
        mode: RenameMode,
        deed: &Deed<'_>,
    ) -> Result<()> {
        check_name(from.1)?;
        check_name(to.1)?;
        let remains = {
            let _order = self.exclusive();
            self.fragment().writable()?;
            let (source, target) = (self.directory(from.0)?, self.directory(to.0)?);
            let moved = self.object_at(&source, from.1)?;
            let replaced = match self.object_at(&target, to.1) {
                Err(FsError::NotFound) => None,
                found => Some(found?),
            };
            let flags = match mode {
                RenameMode::Replace => RenameFlags::empty(),
                RenameMode::NoReplace => RenameFlags::NOREPLACE,
                RenameMode::Exchange => RenameFlags::EXCHANGE,
            };
            let unlinked = match &replaced {
                // Two names of one object: nothing is replaced, and both stay.
                Some(other) if other.stat.st_ino == moved.stat.st_ino => None,
                Some(other) if mode == RenameMode::Replace => self.keep_unlinked(&target, to.1, other)?,
                _ => None,
            };
            let kept = match &replaced {
                Some(other) if mode == RenameMode::Replace => {
                    self.hold_stub(other).or_else(|| self.hold_node(&target, to.1, other))
                }
                _ => None,
            };
            let what = if mode == RenameMode::Exchange { What::Exchange } else { What::Rename };
            let other = replaced.as_ref().map(|other| self.number(other.stat.st_ino));
            let ino = self.number(moved.stat.st_ino);
            let moving = deed.alone(Intent::moving(what, ino, from, to, other));
            let renamed = rustix::fs::renameat_with(&source, from.1, &target, to.1, flags);
            if let Err(errno) = renamed {
                unlinked.into_iter().for_each(|ino| self.forget_unlinked(ino));
                return Err(host("rename")(errno));
            }
            moving.done([0; 4]);
            let mut remains = self.tell_table(from, to, mode, &moved, &replaced)?;
            if let (Some(remains), Some(other)) = (&mut remains, &replaced) {
                self.keep(other, kept, remains);
            }
            remains
        };
        if let Some(remains) = remains {
            self.clear(remains);
        }
        Ok(())
    }

    fn tell_table(
        &self,
        from: (Ino, &OsStr),
        to: (Ino, &OsStr),
        mode: RenameMode,
        moved: &Object,
        replaced: &Option<Object>,
    ) -> Result<Option<super::remove::Remains>> {
        let ino = self.number(moved.stat.st_ino);
        let link = |(parent, name): (Ino, &OsStr)| Link { parent, name: name.to_owned() };
        if replaced.as_ref().is_some_and(|object| self.number(object.stat.st_ino) == ino) {
            // Two names of one file: the local file system leaves both.
            return Ok(None);
        }
        let remains = match replaced {
            Some(other) if mode == RenameMode::Exchange => {
                self.table().moved(self.number(other.stat.st_ino), to.0, to.1, link(from));
                None
            }
            Some(other) => Some(self.lost_name(to.0, to.1, other)?),
            None => None,
        };
        self.table().moved(ino, from.0, from.1, link(to));
        Ok(remains)
    }
}
