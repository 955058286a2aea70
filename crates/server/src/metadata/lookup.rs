//! From numbers and names to objects and their attributes. Changes nothing on disk.

use super::Tree;
use super::annotation::{ATTRIBUTE, Annotation, TEXT_MAX};
use super::farewells::Kept;
use super::stub::LocalStub;
use super::table::Link;
use crate::fragment::DIRECTORY;
use crate::host::host;
use forebay_wire::{Attr, FileKind, FsError, Ino, MetadataService, Result, Sharing, Timestamp};
use rustix::fs::{AtFlags, Mode, OFlags, Stat, StatxFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// Longest name in bytes.
pub(crate) const NAME_MAX: usize = 255;
/// Request size that suits a striped file, in bytes.
const STRIPED_BLOCK_SIZE: u32 = 128 << 10;
/// Mark of a regular file whose stub is annotated.
const FILE_MARK: u32 = 0o1000;
/// Mark of a directory that is annotated.
const DIRECTORY_MARK: u32 = 0o4000;

const PATH_ONLY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const INSPECT: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A name in an open directory.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) directory: Arc<OwnedFd>,
    pub(super) name: OsString,
}

/// How an object is reached.
pub(super) enum Reach {
    Stub(Arc<LocalStub>),
    Place(Place),
    /// A descriptor that stands for an object without a name.
    Node(Arc<OwnedFd>),
}

/// An object with what is known of it.
pub(super) struct Object {
    pub(super) reach: Reach,
    pub(super) kind: FileKind,
    pub(super) stat: Stat,
    pub(super) annotation: Annotation,
}

/// A descriptor that is borrowed or our own.
pub(super) enum Opened {
    Stub(Arc<LocalStub>),
    Own(OwnedFd),
}

impl AsFd for Opened {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Opened::Stub(stub) => stub.descriptor(),
            Opened::Own(fd) => fd.as_fd(),
        }
    }
}

impl Object {
    /// Its stub, if it is open, was changed.
    pub(super) fn touched(&self) {
        if let Reach::Stub(stub) = &self.reach {
            stub.touched();
        }
    }

    /// Opens a regular file or directory to read or change its extended attributes.
    pub(super) fn open(&self) -> Result<Opened> {
        match &self.reach {
            Reach::Stub(stub) => Ok(Opened::Stub(stub.clone())),
            Reach::Place(place) => inspect(&place.directory, &place.name).map(Opened::Own),
            Reach::Node(node) if self.kind == FileKind::Directory => {
                inspect(node, OsStr::new(".")).map(Opened::Own)
            }
            Reach::Node(_) => Err(FsError::Stale),
        }
    }
}

/// The mark that this kind of object carries when it is annotated; 0 for kinds that never are.
pub(super) fn mark_of(kind: FileKind) -> u32 {
    match kind {
        FileKind::Regular => FILE_MARK,
        FileKind::Directory => DIRECTORY_MARK,
        _ => 0,
    }
}

/// A stub says more than its own attributes.
pub(crate) fn is_marked(stat: &Stat) -> bool {
    FileKind::from_mode(stat.st_mode).is_some_and(|kind| stat.st_mode & mark_of(kind) != 0)
}

pub(super) fn kind_of(stat: &Stat) -> Result<FileKind> {
    FileKind::from_mode(stat.st_mode).ok_or(FsError::Damaged { what: "an object of unknown kind" })
}

/// The mode that users see.
pub(super) fn visible_mode(stat: &Stat, kind: FileKind, annotation: &Annotation) -> u32 {
    annotation.mode.unwrap_or(stat.st_mode & 0o7777 & !mark_of(kind))
}

/// Refuses what cannot be a name.
pub(super) fn check_name(name: &OsStr) -> Result<()> {
    let bytes = name.as_bytes();
    if bytes.len() > NAME_MAX {
        return Err(FsError::NameTooLong);
    }
    let impossible = bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/');
    if impossible || bytes.contains(&0) { Err(FsError::InvalidArgument) } else { Ok(()) }
}

pub(super) fn stat_at(directory: &OwnedFd, name: &OsStr) -> Result<Stat> {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(host("stat"))
}

pub(super) fn inspect(directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd> {
    rustix::fs::openat(directory, name, INSPECT, Mode::empty()).map_err(host("open to inspect"))
}

/// What an open stub or directory says. One without the attribute, though marked, says nothing.
pub(super) fn read_annotation(fd: BorrowedFd<'_>) -> Result<Annotation> {
    let mut text = [0; TEXT_MAX];
    match rustix::fs::fgetxattr(fd, ATTRIBUTE, &mut text) {
        Ok(length) => Annotation::parse(&text[..length]),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(Annotation::default()),
        Err(errno) => Err(host("read the attribute of a stub")(errno)),
    }
}

impl Tree {
    /// The descriptor of a directory.
    pub(super) fn directory(&self, ino: Ino) -> Result<Arc<OwnedFd>> {
        if ino == Ino::ROOT {
            return Ok(self.root.clone());
        }
        if let Some(directory) = self.directories.get(ino) {
            return Ok(directory);
        }
        let (mut directory, names) = self.way_to(ino)?;
        for name in names.iter().rev() {
            let next = rustix::fs::openat(&directory, name, PATH_ONLY, Mode::empty())
                .map_err(host("open directory"))?;
            directory = Arc::new(next);
        }
        let stat = rustix::fs::fstat(&directory).map_err(host("stat of directory"))?;
        if self.number(stat.st_ino) != ino {
            return Err(FsError::Stale);
        }
        self.directories.put(ino, directory.clone());
        Ok(directory)
    }

    /// An open directory above `ino`, and the names from `ino` up to it.
    fn way_to(&self, ino: Ino) -> Result<(Arc<OwnedFd>, Vec<OsString>)> {
        let table = self.table();
        let mut names = Vec::new();
        let mut at = ino;
        loop {
            if at == Ino::ROOT {
                return Ok((self.root.clone(), names));
            }
            if let Some(directory) = self.directories.get(at) {
                return Ok((directory, names));
            }
            let link = table.get(at).and_then(|entry| entry.links.first()).ok_or(FsError::Stale)?;
            names.push(link.name.clone());
            at = link.parent;
        }
    }

    /// A name of an object.
    pub(super) fn place(&self, ino: Ino) -> Result<Place> {
        if ino == Ino::ROOT {
            return Ok(Place { directory: self.root.clone(), name: OsString::from(".") });
        }
        let link = self.table().get(ino).and_then(|entry| entry.links.first()).cloned();
        let Link { parent, name } = link.ok_or(FsError::Stale)?;
        Ok(Place { directory: self.directory(parent)?, name })
    }

    /// What is under a name, of which the stub has caught up with what is lent.
    pub(super) fn stat_now(&self, directory: &OwnedFd, name: &OsStr) -> Result<Stat> {
        let stat = stat_at(directory, name)?;
        if self.lent.load(SeqCst) == 0 {
            return Ok(stat);
        }
        match self.opened(self.number(stat.st_ino)) {
            Some(stub) => stub.catch_up().and_then(|()| stat_at(directory, name)),
            None => Ok(stat),
        }
    }

    /// The stub of a number, if it is open.
    pub(super) fn opened(&self, ino: Ino) -> Option<Arc<LocalStub>> {
        self.open_stubs().get(&ino)?.upgrade()
    }

    /// There is one. Where a lock is held that dropping the last holder of it takes.
    pub(super) fn is_opened(&self, ino: Ino) -> bool {
        self.open_stubs().get(&ino).is_some_and(|stub| stub.strong_count() > 0)
    }

    /// The object of a number.
    pub(super) fn object(&self, ino: Ino) -> Result<Object> {
        if let Some(stub) = self.opened(ino) {
            stub.catch_up()?;
            let stat = rustix::fs::fstat(stub.descriptor()).map_err(host("stat"))?;
            let annotation = stub.annotation();
            return Ok(Object { reach: Reach::Stub(stub), kind: FileKind::Regular, stat, annotation });
        }
        if let Some(Kept::Node(node) | Kept::File(node)) = self.farewells.get(ino) {
            let stat = rustix::fs::fstat(&node).map_err(host("stat"))?;
            let annotation = self.table().get(ino).and_then(|entry| entry.annotation).unwrap_or_default();
            return Ok(Object { kind: kind_of(&stat)?, reach: Reach::Node(node), stat, annotation });
        }
        let place = self.place(ino)?;
        let stat = match self.directories.get(ino) {
            // Whoever changes names in it had it opened: no way to walk.
            Some(directory) => rustix::fs::fstat(&directory).map_err(host("stat of directory"))?,
            None => stat_at(&place.directory, &place.name)?,
        };
        if self.number(stat.st_ino) != ino {
            return Err(FsError::Stale);
        }
        let annotation = self.annotation(&place.directory, &place.name, &stat)?;
        Ok(Object { kind: kind_of(&stat)?, reach: Reach::Place(place), stat, annotation })
    }

    /// What the stub under a name says, remembered or read.
    pub(super) fn annotation(&self, directory: &OwnedFd, name: &OsStr, stat: &Stat) -> Result<Annotation> {
        if !is_marked(stat) {
            return Ok(Annotation::default());
        }
        let ino = self.number(stat.st_ino);
        if let Some(annotation) = self.table().get(ino).and_then(|entry| entry.annotation) {
            return Ok(annotation);
        }
        let annotation = read_annotation(inspect(directory, name)?.as_fd())?;
        self.table().annotate(ino, Some(annotation));
        Ok(annotation)
    }

    /// Attributes of an object that was just found under a name: counts a reference.
    pub(super) fn found(
        &self,
        parent: Ino,
        directory: &OwnedFd,
        name: &OsStr,
        stat: &Stat,
        annotation: Annotation,
    ) -> Result<Attr> {
        let birth = || self.birth(directory, name);
        self.refer(Link { parent, name: name.to_owned() }, stat, annotation, birth)
    }

    /// The same with a way to ask when the object came into being, which nobody needs to know of one that is known.
    pub(super) fn refer(
        &self,
        link: Link,
        stat: &Stat,
        annotation: Annotation,
        birth: impl FnOnce() -> Result<Option<u64>>,
    ) -> Result<Attr> {
        let attr = self.attr(stat, &annotation)?;
        let known = self.table().found_again(attr.ino, &link, annotation);
        let generation = match known {
            Some(generation) => generation,
            None => {
                let birth = birth()?;
                self.table().found(attr.ino, link, annotation, birth)
            }
        };
        Ok(Attr { generation, ..attr })
    }

    /// Attributes as users see them, without the generation.
    pub(super) fn attr(&self, stat: &Stat, annotation: &Annotation) -> Result<Attr> {
        let kind = kind_of(stat)?;
        let time = |secs: i64, nanos: u64| Timestamp { secs, nanos: nanos as u32 };
        let mut attr = Attr {
            ino: self.number(stat.st_ino),
            size: stat.st_size as u64,
            blocks: stat.st_blocks as u64,
            atime: time(stat.st_atime, stat.st_atime_nsec),
            mtime: time(stat.st_mtime, stat.st_mtime_nsec),
            ctime: time(stat.st_ctime, stat.st_ctime_nsec),
            kind,
            mode: visible_mode(stat, kind, annotation),
            nlink: stat.st_nlink as u32,
            uid: stat.st_uid,
            gid: stat.st_gid,
            rdev: stat.st_rdev as u32,
            block_size: stat.st_blksize as u32,
            generation: 0,
            valid_ms: Attr::VALID_ALWAYS,
        };
        if annotation.striped.is_some() {
            attr.blocks = match self.sharing {
                Sharing::Sole => self.blocks(attr.size, annotation)?,
                // Whoever asks gets more by `Tree::refined`.
                Sharing::Shared => self.known_blocks(&attr),
            };
            attr.block_size = STRIPED_BLOCK_SIZE;
            if let Some(stub) = self.opened(attr.ino) {
                stub.was_looked_at();
            }
        }
        if self.sharing == Sharing::Shared {
            attr.valid_ms = 0;
            // Its last name is in the directory of those that have none.
            if kind == FileKind::Regular && self.opened(attr.ino).is_some_and(|stub| stub.is_nameless()) {
                attr.nlink = 0;
            }
        }
        Ok(attr)
    }

    /// Allocated blocks of a striped file: of those substripe files that a file of this length can have.
    pub(super) fn blocks(&self, size: u64, annotation: &Annotation) -> Result<u64> {
        let Some((file, layout)) = annotation.striped else { return Ok(0) };
        let mut blocks = 0;
        for substripe in layout.all_substripes().filter(|s| layout.share_len(*s, size) > 0) {
            if let Some(data) = self.data.get(layout.server(substripe.slot) as usize) {
                blocks += data.blocks(file, substripe.index)?;
            }
        }
        Ok(blocks)
    }

    pub(crate) fn lookup(&self, parent: Ino, name: &OsStr) -> Result<Attr> {
        let before = self.settlings();
        let (attr, annotation) = self.find(parent, name)?;
        let refined = self.refined(attr, &annotation, before);
        if refined.is_err() {
            MetadataService::forget(self, attr.ino, 1);
        }
        refined
    }

    /// The same with attributes as the stub alone has them: no other server is asked.
    pub(super) fn find(&self, parent: Ino, name: &OsStr) -> Result<(Attr, Annotation)> {
        check_name(name)?;
        let _order = self.shared();
        let directory = self.directory(parent)?;
        let stat = self.stat_now(&directory, name)?;
        let annotation = self.annotation(&directory, name, &stat)?;
        Ok((self.found(parent, &directory, name, &stat, annotation)?, annotation))
    }

    /// When an object came into being, as its generation: what a client holds over a restart is known again by it. Where
    /// nobody holds anything over a restart, or the local file system does not know: `None`.
    pub(super) fn birth(&self, directory: &OwnedFd, name: &OsStr) -> Result<Option<u64>> {
        self.birth_by(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// The same of a file that is open.
    pub(super) fn birth_of(&self, fd: BorrowedFd<'_>) -> Result<Option<u64>> {
        self.birth_by(fd, OsStr::new(""), AtFlags::EMPTY_PATH)
    }

    fn birth_by(&self, at: BorrowedFd<'_>, name: &OsStr, flags: AtFlags) -> Result<Option<u64>> {
        const NANOS: u64 = 1_000_000_000;
        if self.sharing == Sharing::Sole {
            return Ok(None);
        }
        let stat = rustix::fs::statx(at, name, flags, StatxFlags::BTIME).map_err(host("stat of birth"))?;
        let is_known = stat.stx_mask & StatxFlags::BTIME.bits() != 0;
        let birth = (stat.stx_btime.tv_sec as u64).wrapping_mul(NANOS) + u64::from(stat.stx_btime.tv_nsec);
        Ok(is_known.then_some(birth))
    }

    pub(super) fn getattr(&self, ino: Ino) -> Result<Attr> {
        let before = self.settlings();
        let (attr, annotation) = {
            let _order = self.shared();
            let object = match self.object(ino) {
                Ok(object) => object,
                Err(FsError::Stale) => return self.farewell(ino).ok_or(FsError::Stale),
                Err(error) => return Err(error),
            };
            (self.attr_with_generation(ino, &object.stat, &object.annotation)?, object.annotation)
        };
        self.refined(attr, &annotation, before)
    }

    /// Attributes as the stub alone has them: owner and permissions are right, the length may not be.
    pub(crate) fn own_attr(&self, ino: Ino) -> Result<Attr> {
        let _order = self.shared();
        match self.object(ino) {
            Ok(object) => self.attr(&object.stat, &object.annotation),
            Err(FsError::Stale) => self.farewell(ino).ok_or(FsError::Stale),
            Err(error) => Err(error),
        }
    }

    /// The same of a name, without a reference.
    pub(crate) fn peek(&self, parent: Ino, name: &OsStr) -> Result<Attr> {
        check_name(name)?;
        let _order = self.shared();
        let directory = self.directory(parent)?;
        let stat = self.stat_now(&directory, name)?;
        let annotation = self.annotation(&directory, name, &stat)?;
        self.attr(&stat, &annotation)
    }

    pub(super) fn attr_with_generation(
        &self,
        ino: Ino,
        stat: &Stat,
        annotation: &Annotation,
    ) -> Result<Attr> {
        let attr = self.attr(stat, annotation)?;
        let generation = self.table().get(ino).map_or(0, |entry| entry.generation);
        Ok(Attr { generation, ..attr })
    }

    /// Last attributes of an object that lost its names while somebody still held its number.
    fn farewell(&self, ino: Ino) -> Option<Attr> {
        self.table().get(ino).and_then(|entry| entry.farewell)
    }

    pub(super) fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        let _order = self.shared();
        let buffer = Vec::with_capacity(256);
        let target = match (self.place(ino), self.farewells.get(ino)) {
            // Removed or replaced since it was looked up.
            (Err(FsError::Stale), Some(Kept::Node(node))) => rustix::fs::readlinkat(&*node, "", buffer),
            (found, _) => {
                let place = found?;
                rustix::fs::readlinkat(&place.directory, &place.name, buffer)
            }
        };
        Ok(target.map_err(host("read symbolic link"))?.into_bytes())
    }

    /// Opens a directory for listing or syncing.
    pub(super) fn open_listing(&self, ino: Ino) -> Result<OwnedFd> {
        let _order = self.shared();
        let directory = match (self.directory(ino), self.farewells.get(ino)) {
            // Removed, and still the working directory of somebody.
            (Err(FsError::Stale), Some(Kept::Node(node))) => node,
            (found, _) => found?,
        };
        rustix::fs::openat(&directory, ".", DIRECTORY, Mode::empty()).map_err(host("open directory"))
    }
}
