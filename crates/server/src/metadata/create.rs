//! Making names: regular files, directories, symbolic links, special files, hard links.
//!
//! Order of events when a regular file is made, and what a crash after each leaves:
//! 1. the stub is made exclusively, with the mark in its mode if it is to be striped: an empty file of the servers' own
//!    user; marked without an attribute it counts as inline, and loses the mark when it is opened;
//! 2. its owner and group are set;
//! 3. the attribute that says where its content is, is set: an empty striped file;
//! 4. its mode is made final.
//!
//! Nobody is told the name before all is done (in a shared tree nobody looks meanwhile: see [`Tree::making`]), and a failure after step 1 removes the stub again and
//! waits until that is on the disk: a crash brings no name back whose making was refused. A directory or special
//! file is made, then given its owner, then its mode, likewise.

use super::Tree;
use super::annotation::{ATTRIBUTE, Annotation};
use super::lookup::{Place, check_name, mark_of, read_annotation, stat_at};
use super::stub::LocalStub;
use super::table::Link;
use crate::deeds::{Alone, Deed, Intent, What};
use crate::descriptors::is_for_others;
use crate::fragment::DIRECTORY;
use crate::host::host;
use forebay_model::layout::{Layout, LayoutChoice};
use forebay_wire::{Attr, Caller, FileKind, FsError, Ino, NewObject, Result, Sharing};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid, XattrFlags};
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

const CREATE: OFlags =
    OFlags::RDWR.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const S_ISGID: u32 = 0o2000;

/// The permission bits that the servers need of an object when they run without privilege.
pub(super) fn needed_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::Regular => 0o600,
        FileKind::Directory => 0o700,
        _ => 0,
    }
}

impl Tree {
    /// Splits the mode that users are to see into the stub's own and what has to be said in its annotation.
    pub(super) fn split_mode(&self, kind: FileKind, mode: u32, annotation: Annotation) -> (u32, Annotation) {
        let mode = mode & 0o7777;
        let needed = if self.privileged { 0 } else { needed_bits(kind) };
        let shadowed = mode & mark_of(kind) != 0 || mode & needed != needed;
        let annotation = Annotation { mode: shadowed.then_some(mode), ..annotation };
        let mark = if annotation.is_empty() { 0 } else { mark_of(kind) };
        ((mode & !mark_of(kind)) | needed | mark, annotation)
    }

    /// Begins to make a name. Who may ask for it again has to know whether the name was there before: one that was not, and is
    /// after the end of the process, was made, and nobody has seen it.
    fn begin_making<'a>(
        &self,
        deed: &Deed<'a>,
        what: What,
        ino: Ino,
        (directory, parent, name): (&OwnedFd, Ino, &OsStr),
    ) -> Result<Alone<'a>> {
        if deed.is_noted() {
            match stat_at(directory, name) {
                Ok(_) => return Err(FsError::Exists),
                Err(FsError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(deed.alone(Intent::of(what, ino, parent, name)))
    }

    /// A new object is there: it is told to the table, and written down before anybody sees it.
    fn made(
        &self,
        making: Alone<'_>,
        parent: Ino,
        place: &Place,
        stat: &Stat,
        annotation: Annotation,
    ) -> Result<Attr> {
        let attr = self.found(parent, &place.directory, &place.name, stat, annotation)?;
        making.done([attr.ino.0, 0, 0, 0]);
        Ok(attr)
    }

    pub(crate) fn mknod(
        &self,
        parent: Ino,
        name: &OsStr,
        object: &NewObject,
        deed: &Deed<'_>,
    ) -> Result<Attr> {
        check_name(name)?;
        match FileKind::from_mode(object.mode) {
            Some(FileKind::Regular) => self.create(parent, name, object, deed).map(|(attr, _stub)| attr),
            Some(FileKind::Directory | FileKind::Symlink) => Err(FsError::InvalidArgument),
            None if object.mode & !0o7777 == 0 => {
                let mode = object.mode | FileKind::Regular.mode_bits();
                let object = NewObject { mode, ..*object };
                self.create(parent, name, &object, deed).map(|(attr, _stub)| attr)
            }
            None => Err(FsError::InvalidArgument),
            Some(kind) => self.make_special(parent, name, kind, object, deed),
        }
    }

    fn make_special(
        &self,
        parent: Ino,
        name: &OsStr,
        kind: FileKind,
        object: &NewObject,
        deed: &Deed<'_>,
    ) -> Result<Attr> {
        let _order = self.making();
        self.fragment().writable()?;
        let directory = self.directory(parent)?;
        let file_type = FileType::from_raw_mode(kind.mode_bits());
        let mode = Mode::from_raw_mode(object.mode & 0o777);
        let making = self.begin_making(deed, What::Make, Ino(0), (&directory, parent, name))?;
        rustix::fs::mknodat(&directory, name, file_type, mode, u64::from(object.rdev))
            .map_err(host("make a special file"))?;
        let place = Place { directory, name: name.to_owned() };
        let finish = || {
            let stat = self.set_owner_of_new(&place, object.caller)?;
            self.set_mode_of_new(&place, stat, object.mode & 0o7777)
        };
        let stat = finish().map_err(|error| self.undo(&place, AtFlags::empty(), error))?;
        self.made(making, parent, &place, &stat, Annotation::default())
    }

    pub(crate) fn mkdir(
        &self,
        parent: Ino,
        name: &OsStr,
        object: &NewObject,
        deed: &Deed<'_>,
    ) -> Result<Attr> {
        check_name(name)?;
        let _order = self.making();
        self.fragment().writable()?;
        let directory = self.directory(parent)?;
        let (stub_mode, annotation) =
            self.split_mode(FileKind::Directory, object.mode, Annotation::default());
        let making = self.begin_making(deed, What::Make, Ino(0), (&directory, parent, name))?;
        rustix::fs::mkdirat(&directory, name, Mode::RWXU).map_err(host("make a directory"))?;
        let place = Place { directory, name: name.to_owned() };
        let finish = || {
            let stat = self.set_owner_of_new(&place, object.caller)?;
            let inherited = stat.st_mode & S_ISGID;
            let annotation = Annotation { mode: annotation.mode.map(|mode| mode | inherited), ..annotation };
            if !annotation.is_empty() {
                let new = rustix::fs::openat(&place.directory, &place.name, DIRECTORY, Mode::empty())
                    .map_err(host("open the new directory"))?;
                write_annotation(new.as_fd(), &annotation)?;
            }
            Ok((self.set_mode_of_new(&place, stat, stub_mode | inherited)?, annotation))
        };
        let (stat, annotation) = finish().map_err(|error| self.undo(&place, AtFlags::REMOVEDIR, error))?;
        self.made(making, parent, &place, &stat, annotation)
    }

    pub(crate) fn symlink(
        &self,
        parent: Ino,
        name: &OsStr,
        target: &Path,
        caller: Caller,
        deed: &Deed<'_>,
    ) -> Result<Attr> {
        check_name(name)?;
        let _order = self.making();
        self.fragment().writable()?;
        let directory = self.directory(parent)?;
        let making = self.begin_making(deed, What::Make, Ino(0), (&directory, parent, name))?;
        rustix::fs::symlinkat(target, &directory, name).map_err(host("make a symbolic link"))?;
        let place = Place { directory, name: name.to_owned() };
        let stat = self.set_owner_of_new(&place, caller);
        let stat = stat.map_err(|error| self.undo(&place, AtFlags::empty(), error))?;
        self.made(making, parent, &place, &stat, Annotation::default())
    }

    pub(crate) fn create(
        &self,
        parent: Ino,
        name: &OsStr,
        object: &NewObject,
        deed: &Deed<'_>,
    ) -> Result<(Attr, Arc<LocalStub>)> {
        check_name(name)?;
        let _order = self.making();
        self.fragment().writable()?;
        let directory = self.directory(parent)?;
        let making = self.begin_making(deed, What::Make, Ino(0), (&directory, parent, name))?;
        self.count_created()?;
        let made = self.make_stub(parent, directory.clone(), name, object);
        if made.is_err() {
            self.uncount_created();
        }
        let (fd, stat, annotation) = made?;
        if let (Sharing::Shared, Some((file, _))) = (self.sharing, annotation.striped) {
            self.bare().made(file);
        }
        let tree = self.itself.upgrade().ok_or(FsError::Stale)?;
        let stub = self.adopt(LocalStub::of_new(tree, fd, &stat, annotation));
        let link = Link { parent, name: name.to_owned() };
        let attr = self.refer(link, &stat, annotation, || self.birth_of(stub.descriptor()))?;
        making.done([attr.ino.0, 0, 0, 0]);
        Ok((attr, stub))
    }

    fn make_stub(
        &self,
        parent: Ino,
        directory: Arc<OwnedFd>,
        name: &OsStr,
        object: &NewObject,
    ) -> Result<(OwnedFd, Stat, Annotation)> {
        let annotation = self.new_content(self.new_files_of(parent)?)?;
        let (stub_mode, annotation) = self.split_mode(FileKind::Regular, object.mode, annotation);
        // Step 3 needs a stub that its owner may write.
        let fd = rustix::fs::openat(&directory, name, CREATE, Mode::from_raw_mode(stub_mode | 0o600))
            .map_err(host("create a file"))?;
        let place = Place { directory, name: name.to_owned() };
        let finish = || match is_for_others(&fd) {
            true => Err(FsError::TooManyOpenFiles),
            false => self.finish_stub(&fd, &place, stub_mode, &annotation, object.caller),
        };
        let stat = finish().map_err(|error| self.undo(&place, AtFlags::empty(), error))?;
        Ok((fd, stat, annotation))
    }

    fn finish_stub(
        &self,
        fd: &OwnedFd,
        place: &Place,
        stub_mode: u32,
        annotation: &Annotation,
        caller: Caller,
    ) -> Result<Stat> {
        let new = rustix::fs::fstat(fd).map_err(host("stat of a new file"))?;
        let (uid, gid) = self.owner_to_set(place, &new, caller)?;
        let is_given_away = uid.is_some() || gid.is_some();
        if is_given_away {
            rustix::fs::fchown(fd, uid, gid).map_err(host("set the owner of a new file"))?;
        }
        if !annotation.is_empty() {
            write_annotation(fd.as_fd(), annotation)?;
        }
        // A change of owner takes these bits away.
        let mode = new.st_mode & if is_given_away { 0o1777 } else { 0o7777 };
        if mode != stub_mode {
            rustix::fs::fchmod(fd, Mode::from_raw_mode(stub_mode))
                .map_err(host("set the mode of a new file"))?;
        }
        if !is_given_away && annotation.is_empty() && mode == stub_mode {
            return Ok(new);
        }
        // Each of these has changed the time of the last change, which is shown from the first answer on.
        rustix::fs::fstat(fd).map_err(host("stat of a new file"))
    }

    /// The stub of a number is open from now on. If somebody else opened it meanwhile, his is the one.
    pub(super) fn adopt(&self, stub: Arc<LocalStub>) -> Arc<LocalStub> {
        let ino = stub.number();
        let mut open = self.open_stubs();
        match open.get(&ino).and_then(std::sync::Weak::upgrade) {
            Some(earlier) => {
                // Dropping ours takes the lock.
                drop(open);
                earlier
            }
            None => {
                open.insert(ino, Arc::downgrade(&stub));
                stub
            }
        }
    }

    /// What the stub of a new file has to say of its content. Nothing if it is inline, because its layout puts all of it
    /// on the fragment of the stubs; but a stripe size of its own is remembered.
    pub(super) fn new_content(&self, choice: LayoutChoice) -> Result<Annotation> {
        let servers = self.data.len() as u32;
        let asked = choice.or(self.defaults);
        let settle = |id: u64| asked.settle(servers, id).map_err(|_| FsError::InvalidArgument);
        let is_inline = |layout: &Layout| layout.is_whole() && layout.server(0) == self.home.position;
        let stripe_size = choice.stripe_size.filter(|size| Some(*size) != self.defaults.stripe_size);
        let new_files = LayoutChoice { stripe_size, ..LayoutChoice::default() };
        let inline = Annotation { new_files, ..Annotation::default() };
        if servers == 1 && is_inline(&settle(0)?) {
            return Ok(inline);
        }
        let file = self.home.take_id()?;
        let layout = settle(file.0)?;
        if is_inline(&layout) {
            return Ok(inline);
        }
        Ok(Annotation { striped: Some((file, layout)), ..Annotation::default() })
    }

    /// The layout that new files of a directory get, as far as the directory says.
    pub(super) fn new_files_of(&self, parent: Ino) -> Result<LayoutChoice> {
        if let Some(annotation) = self.table().get(parent).and_then(|entry| entry.annotation) {
            return Ok(annotation.new_files);
        }
        let directory = self.directory(parent)?;
        let stat = rustix::fs::fstat(&directory).map_err(host("stat of directory"))?;
        let annotation = if super::is_marked(&stat) {
            let open = rustix::fs::openat(&directory, ".", DIRECTORY, Mode::empty())
                .map_err(host("open directory"))?;
            read_annotation(open.as_fd())?
        } else {
            Annotation::default()
        };
        self.table().annotate(parent, Some(annotation));
        Ok(annotation.new_files)
    }

    /// The owner and group that a new object has to be given: the caller's, but the group that a set-group-id
    /// directory hands down stays.
    fn owner_to_set(&self, place: &Place, new: &Stat, caller: Caller) -> Result<(Option<Uid>, Option<Gid>)> {
        let uid = (new.st_uid != caller.uid).then(|| Uid::from_raw(caller.uid));
        if new.st_gid == caller.gid {
            return Ok((uid, None));
        }
        let parent = rustix::fs::fstat(&place.directory).map_err(host("stat of directory"))?;
        let inherited = parent.st_mode & S_ISGID != 0;
        Ok((uid, (!inherited).then(|| Gid::from_raw(caller.gid))))
    }

    /// Removes an object that could not be finished. It is new and nobody knows it, so nothing of a user's is lost. The removal is
    /// waited for, as nobody expects a name after a power cut that he was refused.
    fn undo(&self, place: &Place, flags: AtFlags, error: FsError) -> FsError {
        match rustix::fs::unlinkat(&place.directory, &place.name, flags) {
            Ok(()) => self.fragment().sync_names().err().unwrap_or(error),
            Err(errno) => host("remove a new object that could not be finished")(errno),
        }
    }

    fn set_owner_of_new(&self, place: &Place, caller: Caller) -> Result<Stat> {
        let stat = stat_at(&place.directory, &place.name)?;
        let (uid, gid) = self.owner_to_set(place, &stat, caller)?;
        if uid.is_none() && gid.is_none() {
            return Ok(stat);
        }
        rustix::fs::chownat(&place.directory, &place.name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(host("set the owner of a new object"))?;
        stat_at(&place.directory, &place.name)
    }

    fn set_mode_of_new(&self, place: &Place, stat: Stat, mode: u32) -> Result<Stat> {
        if stat.st_mode & 0o7777 == mode {
            return Ok(stat);
        }
        rustix::fs::chmodat(&place.directory, &place.name, Mode::from_raw_mode(mode), AtFlags::empty())
            .map_err(host("set the mode of a new object"))?;
        stat_at(&place.directory, &place.name)
    }

    /// One system call, under the exclusive lock: the table learns of the name before anybody can remove it.
    pub(crate) fn link(&self, ino: Ino, parent: Ino, name: &OsStr, deed: &Deed<'_>) -> Result<Attr> {
        check_name(name)?;
        let before = self.settlings();
        let (attr, annotation) = self.link_here(ino, parent, name, deed)?;
        // It is done, whatever the data services say.
        Ok(self.refined(attr, &annotation, before).unwrap_or(attr))
    }

    fn link_here(&self, ino: Ino, parent: Ino, name: &OsStr, deed: &Deed<'_>) -> Result<(Attr, Annotation)> {
        let _order = self.exclusive();
        self.fragment().writable()?;
        let from = self.place(ino).map_err(|error| match error {
            FsError::Stale => FsError::NotFound,
            other => other,
        })?;
        let directory = self.directory(parent)?;
        let linking = self.begin_making(deed, What::Link, ino, (&directory, parent, name))?;
        rustix::fs::linkat(&from.directory, &from.name, &directory, name, AtFlags::empty())
            .map_err(host("link"))?;
        linking.done([ino.0, 0, 0, 0]);
        let stat = self.stat_now(&directory, name)?;
        debug_assert_eq!(self.number(stat.st_ino), ino, "the table and the tree agree");
        let annotation = self.annotation(&directory, name, &stat)?;
        let attr = self.attr(&stat, &annotation)?;
        let link = Link { parent, name: name.to_owned() };
        let birth = self.birth(&directory, name)?;
        let generation = self.table().found(ino, link, annotation, birth);
        Ok((Attr { generation, ..attr }, annotation))
    }
}

/// Sets the attribute of a stub or directory.
pub(super) fn write_annotation(fd: std::os::fd::BorrowedFd<'_>, annotation: &Annotation) -> Result<()> {
    rustix::fs::fsetxattr(fd, ATTRIBUTE, annotation.to_text().as_bytes(), XattrFlags::empty())
        .map_err(host("write the attribute of a stub"))
}
