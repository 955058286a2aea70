//! Removing names.
//!
//! Order of events when a file's last name goes, and what a crash after each leaves:
//! 1. the name is removed, and with it the stub, if nobody has the file open: substripe files without a stub, which the
//!    walk at the next open removes;
//! 2. where some of them are on other fragments, the removal is made durable: a power cut that brings the name back brings the
//!    file back, and not a name without its content. Whoever replaces a file by a rename relies on it;
//! 3. the substripe files are removed, or, if the file is open, when it is closed.
//!
//! In a shared tree nobody waits for 2 and 3 where substripe files are on other fragments: see [`super::removals`].
//!
//! In a shared tree an open file is held by other machines, which outlive a crash of this process: its stub is moved out
//! of the tree instead, in one step ([`super::reclaim`]), and removed when it is closed, before the substripe files.

use super::Tree;
use super::farewells::Kept;
use super::lookup::{Object, Place, Reach, check_name, kind_of};
use super::stub::LocalStub;
use crate::content::counted;
use crate::deeds::{Deed, Intent, What};
use crate::host::host;
use forebay_model::layout::Layout;
use forebay_wire::{Attr, FileId, FileKind, FsError, Ino, Result};
use rustix::fs::{AtFlags, Mode, OFlags};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// What is left to do when a name is gone: dropped or carried out after the lock of the tree is released.
#[derive(Default)]
pub(super) struct Remains {
    /// Held so that the last close does not happen under the lock.
    _open: Option<Arc<LocalStub>>,
    striped: Option<(FileId, Layout)>,
    /// Length of a striped file.
    length: u64,
    /// Bytes of an inline file that the meter has to forget.
    inline: u64,
    /// Objects that were kept and had to go.
    gone: Vec<Kept>,
}

impl Tree {
    pub(crate) fn unlink(&self, parent: Ino, name: &OsStr, deed: &Deed<'_>) -> Result<()> {
        check_name(name)?;
        let remains = {
            let _order = self.exclusive();
            self.fragment().writable()?;
            let directory = self.directory(parent)?;
            let object = self.object_at(&directory, name)?;
            if object.kind == FileKind::Directory {
                return Err(FsError::IsDirectory);
            }
            let kept = self.hold_node(&directory, name, &object);
            let ino = self.number(object.stat.st_ino);
            let removing = deed.alone(Intent::of(What::Remove, ino, parent, name));
            match self.unlinked_place(&object) {
                Some((unlinked, own)) => rustix::fs::renameat(&directory, name, unlinked, own),
                None => rustix::fs::unlinkat(&directory, name, AtFlags::empty()),
            }
            .map_err(host("unlink"))?;
            removing.done([0; 4]);
            let mut remains = self.lost_name(parent, name, &object)?;
            self.keep(&object, kept, &mut remains);
            remains
        };
        self.clear(remains);
        Ok(())
    }

    /// One system call, under the exclusive lock.
    pub(crate) fn rmdir(&self, parent: Ino, name: &OsStr, deed: &Deed<'_>) -> Result<()> {
        check_name(name)?;
        let remains = {
            let _order = self.exclusive();
            self.fragment().writable()?;
            let directory = self.directory(parent)?;
            let object = self.object_at(&directory, name)?;
            let kept = self.hold_node(&directory, name, &object);
            let ino = self.number(object.stat.st_ino);
            let removing = deed.alone(Intent::of(What::Remove, ino, parent, name));
            rustix::fs::unlinkat(&directory, name, AtFlags::REMOVEDIR).map_err(host("remove directory"))?;
            removing.done([0; 4]);
            let mut remains = self.lost_name(parent, name, &object)?;
            self.keep(&object, kept, &mut remains);
            remains
        };
        self.clear(remains);
        Ok(())
    }

    /// A descriptor that stands for an object whose last name is about to go while somebody holds its number. An open
    /// file needs none, its stub stands for it. Without one the last attributes answer for the object.
    pub(super) fn hold_node(&self, directory: &OwnedFd, name: &OsStr, object: &Object) -> Option<Kept> {
        let is_last = object.kind == FileKind::Directory || object.stat.st_nlink == 1;
        let ino = self.number(object.stat.st_ino);
        if !is_last || !self.table().is_held(ino) || self.opened(ino).is_some() {
            return None;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let node = Arc::new(rustix::fs::openat(directory, name, flags, Mode::empty()).ok()?);
        Some(if object.kind == FileKind::Regular { Kept::File(node) } else { Kept::Node(node) })
    }

    /// The same for a regular file that is about to be replaced: its stub, open.
    pub(super) fn hold_stub(&self, object: &Object) -> Option<Kept> {
        let ino = self.number(object.stat.st_ino);
        let is_last = object.kind == FileKind::Regular && object.stat.st_nlink == 1;
        if !is_last || !self.table().is_held(ino) {
            return None;
        }
        let Reach::Place(place) = &object.reach else { return None };
        self.open_stub_at(place, object).ok().map(Kept::Stub)
    }

    /// Keeps what was held of an object that lost its last name.
    pub(super) fn keep(&self, object: &Object, kept: Option<Kept>, remains: &mut Remains) {
        let Some(kept) = kept else { return };
        let ino = self.number(object.stat.st_ino);
        remains.gone = self.farewells.keep(ino, kept);
        // Whoever held the number may have given it back before there was anything to take.
        if !self.table().is_held(ino) {
            remains.gone.extend(self.farewells.take(ino));
        }
    }

    /// The object under a name, which is not necessarily known to anybody.
    pub(super) fn object_at(&self, directory: &Arc<OwnedFd>, name: &OsStr) -> Result<Object> {
        let stat = self.stat_now(directory, name)?;
        let annotation = self.annotation(directory, name, &stat)?;
        let place = Place { directory: directory.clone(), name: name.to_owned() };
        Ok(Object { reach: Reach::Place(place), kind: kind_of(&stat)?, stat, annotation })
    }

    /// Tells the table and an open stub that a name is gone from the tree.
    pub(super) fn lost_name(&self, parent: Ino, name: &OsStr, object: &Object) -> Result<Remains> {
        let ino = self.number(object.stat.st_ino);
        let is_directory = object.kind == FileKind::Directory;
        let nlink = if is_directory { 0 } else { object.stat.st_nlink.saturating_sub(1) as u32 };
        if is_directory {
            self.directories.remove(ino);
        }
        let attr = self.attr(&object.stat, &object.annotation);
        let attr = attr.map(|attr| Attr { nlink, ..attr });
        if let Ok(attr) = attr {
            self.table().lost(ino, parent, name, attr);
        }
        if nlink > 0 || object.kind != FileKind::Regular {
            return attr.map(|_| Remains::default());
        }
        let open = self.opened(ino);
        if let Some(stub) = &open {
            stub.lost_its_name();
            return Ok(Remains { _open: open, ..Remains::default() });
        }
        let inline = if object.annotation.striped.is_none() { counted(&object.stat) } else { 0 };
        let length = object.stat.st_size as u64;
        Ok(Remains { striped: object.annotation.striped, length, inline, ..Remains::default() })
    }

    /// Removes the content of a file whose last name is gone.
    pub(super) fn clear(&self, remains: Remains) {
        drop(remains.gone);
        if let Some((file, layout)) = remains.striped {
            self.purge(file, layout, remains.length);
        }
        if remains.inline > 0 && self.fragment().meter.counts() {
            self.fragment().meter.settle(remains.inline, 0, 0);
        }
    }
}
