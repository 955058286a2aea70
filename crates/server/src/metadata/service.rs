//! The metadata service's face: each request to the module that carries it out.

use super::Tree;
use super::annotation::Annotation;
use super::listing::LocalDirectory;
use super::live::OpenFile;
use super::lookup::{Object, Place, Reach, is_marked, kind_of, mark_of};
use super::stub::LocalStub;
use crate::content::Accounting;
use crate::deeds::Deed;
use crate::descriptors::is_for_others;
use crate::host::host;
use forebay_model::layout::Layout;
use forebay_wire::{
    Attr, Caller, Directory, FileKind, FsError, Ino, MetadataService, Moved, NewObject, OpenFlags,
    RenameMode, Result, SetAttr, Sharing, Stub, WriteLimits, XattrMode,
};
use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

const STUB: OFlags = OFlags::NONBLOCK.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Tree {
    /// Opens the stub of a regular file, or returns the one that is open.
    pub(super) fn open_stub(&self, ino: Ino) -> Result<Arc<LocalStub>> {
        let _order = self.shared();
        if let Some(stub) = self.opened(ino) {
            return Ok(stub);
        }
        let object = self.object(ino)?;
        match object.kind {
            FileKind::Regular => {}
            FileKind::Directory => return Err(FsError::IsDirectory),
            _ => return Err(FsError::InvalidArgument),
        }
        match &object.reach {
            Reach::Stub(stub) => Ok(stub.clone()),
            Reach::Place(place) => self.open_stub_at(place, &object),
            Reach::Node(_) => Err(FsError::Stale),
        }
    }

    /// Creates a file and opens it.
    pub(crate) fn create_open(
        &self,
        parent: Ino,
        name: &OsStr,
        object: &NewObject,
        flags: OpenFlags,
        deed: &Deed<'_>,
    ) -> Result<(Attr, Arc<dyn Stub>)> {
        let (attr, stub) = self.create(parent, name, object, deed)?;
        Ok((attr, self.given(stub, flags)?))
    }

    /// What somebody holds who opened a file.
    fn opening(&self, stub: Arc<LocalStub>, flags: OpenFlags) -> Result<Arc<dyn Stub>> {
        if is_for_others(stub.descriptor()) {
            return Err(FsError::TooManyOpenFiles);
        }
        self.given(stub, flags)
    }

    /// The same of a stub whose descriptor was looked at.
    fn given(&self, stub: Arc<LocalStub>, flags: OpenFlags) -> Result<Arc<dyn Stub>> {
        Ok(match self.sharing {
            Sharing::Sole => stub,
            Sharing::Shared => Arc::new(OpenFile::new(stub, flags.writable())?),
        })
    }

    /// How often a file is open for writing.
    pub fn writers(&self, ino: Ino) -> u32 {
        self.opened(ino).map_or(0, |stub| stub.writers())
    }

    /// Opens the stub of a regular file under a name.
    pub(super) fn open_stub_at(&self, place: &Place, object: &Object) -> Result<Arc<LocalStub>> {
        let ino = self.number(object.stat.st_ino);
        if let Some(stub) = self.opened(ino) {
            return Ok(stub);
        }
        let open =
            |flags: OFlags| rustix::fs::openat(&place.directory, &place.name, STUB | flags, Mode::empty());
        let fd = match open(OFlags::RDWR) {
            // A stub that was not made by this file system may be read only.
            Err(Errno::ACCESS | Errno::ROFS) => open(OFlags::RDONLY),
            opened => opened,
        }
        .map_err(host("open a file"))?;
        let stat = rustix::fs::fstat(&fd).map_err(host("stat"))?;
        if self.number(stat.st_ino) != ino || kind_of(&stat)? != FileKind::Regular {
            return Err(FsError::Stale);
        }
        unmark_half_made(&fd, &stat, &object.annotation);
        let tree = self.itself.upgrade().ok_or(FsError::Stale)?;
        let stub = LocalStub::new(tree, fd, &stat, object.annotation, Accounting::default());
        Ok(self.adopt(stub))
    }
}

/// A stub that a crash left half made ([`super::create`]) is inline, and says so from its first open on: with a length and without its
/// data, as another crash may leave it, it would look like one that has lost the word about where its content is. One that has a
/// length already may have lost it, and stays as it is. Where it cannot be changed nothing worse happens than that.
fn unmark_half_made(stub: &OwnedFd, stat: &Stat, annotation: &Annotation) {
    if is_marked(stat) && annotation.is_empty() && stat.st_size == 0 {
        let mode = stat.st_mode & 0o7777 & !mark_of(FileKind::Regular);
        let _ = rustix::fs::fchmod(stub, Mode::from_raw_mode(mode));
    }
}

impl MetadataService for Tree {
    fn sharing(&self) -> Sharing {
        self.sharing
    }

    fn limits(&self) -> WriteLimits {
        WriteLimits { max_file_size: self.max_file_size }
    }

    fn lookup(&self, _by: Caller, parent: Ino, name: &OsStr) -> Result<Attr> {
        Tree::lookup(self, parent, name)
    }

    fn forget(&self, ino: Ino, count: u64) {
        let none_left = self.table().forget(ino, count);
        // Dropped here, outside the locks: it may be the last that keeps a file's content.
        drop(none_left.then(|| self.farewells.take(ino)));
    }

    fn getattr(&self, ino: Ino) -> Result<Attr> {
        Tree::getattr(self, ino)
    }

    fn setattr(&self, _by: Caller, ino: Ino, _through: Option<&dyn Stub>, change: &SetAttr) -> Result<Attr> {
        Tree::setattr(self, ino, change, &Deed::UNNOTED)
    }

    fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        Tree::readlink(self, ino)
    }

    fn mknod(&self, parent: Ino, name: &OsStr, object: &NewObject) -> Result<Attr> {
        Tree::mknod(self, parent, name, object, &Deed::UNNOTED)
    }

    fn create(
        &self,
        parent: Ino,
        name: &OsStr,
        object: &NewObject,
        flags: OpenFlags,
    ) -> Result<(Attr, Arc<dyn Stub>)> {
        self.create_open(parent, name, object, flags, &Deed::UNNOTED)
    }

    fn mkdir(&self, parent: Ino, name: &OsStr, object: &NewObject) -> Result<Attr> {
        Tree::mkdir(self, parent, name, object, &Deed::UNNOTED)
    }

    fn symlink(&self, by: Caller, parent: Ino, name: &OsStr, target: &Path) -> Result<Attr> {
        Tree::symlink(self, parent, name, target, by, &Deed::UNNOTED)
    }

    fn link(&self, _by: Caller, ino: Ino, parent: Ino, name: &OsStr) -> Result<Attr> {
        Tree::link(self, ino, parent, name, &Deed::UNNOTED)
    }

    fn unlink(&self, _by: Caller, parent: Ino, name: &OsStr) -> Result<()> {
        Tree::unlink(self, parent, name, &Deed::UNNOTED)
    }

    fn rmdir(&self, _by: Caller, parent: Ino, name: &OsStr) -> Result<()> {
        Tree::rmdir(self, parent, name, &Deed::UNNOTED)
    }

    fn rename(&self, _by: Caller, from: (Ino, &OsStr), to: (Ino, &OsStr), mode: RenameMode) -> Result<()> {
        Tree::rename(self, from, to, mode, &Deed::UNNOTED)
    }

    fn open(&self, _by: Caller, ino: Ino, flags: OpenFlags) -> Result<Arc<dyn Stub>> {
        self.opening(self.open_stub(ino)?, flags)
    }

    fn opendir(&self, _by: Caller, ino: Ino) -> Result<Box<dyn Directory>> {
        let fd = self.open_listing(ino)?;
        let tree = self.itself.upgrade().ok_or(FsError::Stale)?;
        Ok(Box::new(LocalDirectory::new(tree, ino, fd)))
    }

    fn getxattr(&self, _by: Caller, ino: Ino, name: &OsStr) -> Result<Vec<u8>> {
        Tree::getxattr(self, ino, name)
    }

    fn setxattr(&self, _by: Caller, ino: Ino, name: &OsStr, value: &[u8], mode: XattrMode) -> Result<()> {
        Tree::setxattr(self, ino, name, value, mode, &Deed::UNNOTED)
    }

    fn listxattr(&self, _by: Caller, ino: Ino) -> Result<Vec<u8>> {
        Tree::listxattr(self, ino)
    }

    fn removexattr(&self, _by: Caller, ino: Ino, name: &OsStr) -> Result<()> {
        Tree::removexattr(self, ino, name, &Deed::UNNOTED)
    }

    fn give_back(&self) -> bool {
        let was_kept = !self.farewells.take_files().is_empty();
        self.removals.carry_out() || was_kept
    }

    fn files_created(&self) -> u64 {
        self.created.load(Relaxed)
    }

    fn reported(&self) -> Moved {
        self.moved()
    }

    fn new_layout(&self) -> Option<Layout> {
        self.default_layout()
    }

    fn report(&self, moved: Moved) -> Result<()> {
        *self.reported.lock().unwrap_or_else(PoisonError::into_inner) = moved;
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.fragment().sync()
    }
}
