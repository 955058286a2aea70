//! Changing attributes.
//!
//! Order of events when several are changed: length, owner, mode, times; a crash in between leaves the first ones
//! changed. Within them:
//! * a striped file is cut from the substripe files first and from the stub then: after a crash in between it has its
//!   old length and reads as zeros where it was cut, as if parts of the cut had been zeroed before. The other way round
//!   the old bytes would come back when the file grows;
//! * it grows by its stub alone;
//! * a mode that users see but the stub cannot have is written to the annotation first and the stub's own mode is set
//!   then: before the stub is marked the annotation does not count.

use super::Tree;
use super::create::write_annotation;
use super::lookup::{Object, Reach, mark_of, visible_mode};
use crate::deeds::Deed;
use crate::host::host;
use forebay_wire::{Attr, FileKind, FsError, Ino, Result, SetAttr, SetTime, Sharing, Stub};
use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};
use std::os::fd::{AsFd, AsRawFd};

/// First value of a deed that goes on by giving the stub of a number a length; the number and the length follow.
pub(crate) const CUT: u64 = 1;

const S_ISUID: u32 = 0o4000;
const S_ISGID: u32 = 0o2000;
const S_IXGRP: u32 = 0o0010;

impl Tree {
    pub(crate) fn setattr(&self, ino: Ino, change: &SetAttr, deed: &Deed<'_>) -> Result<Attr> {
        let changed = self.set_attributes(ino, change, deed);
        match changed {
            Ok(_) => deed.done([0; 4]),
            Err(_) => deed.failed(),
        }
        changed
    }

    fn set_attributes(&self, ino: Ino, change: &SetAttr, deed: &Deed<'_>) -> Result<Attr> {
        self.fragment().writable()?;
        if let Some(size) = change.size {
            self.set_length(ino, size, deed)?;
        }
        let before = self.settlings();
        let attr = match (self.sharing, change.mtime) {
            (Sharing::Shared, Some(_)) => self.set_time(ino, change)?,
            _ => self.set_others(ino, change)?,
        };
        self.refined(attr.0, &attr.1, before)
    }

    /// What belongs to [`Tree::setattr`] when the time of the content is set and others write it.
    fn set_time(&self, ino: Ino, change: &SetAttr) -> Result<(Attr, super::Annotation)> {
        let object = self.visible(ino)?;
        match object.annotation.striped {
            Some(_) => self.open_stub(ino)?.setting_time(|| self.set_others(ino, change)),
            None => self.set_others(ino, change),
        }
    }

    fn visible(&self, ino: Ino) -> Result<Object> {
        let _order = self.shared();
        self.object(ino)
    }

    /// Everything but the length.
    fn set_others(&self, ino: Ino, change: &SetAttr) -> Result<(Attr, super::Annotation)> {
        let _order = self.shared();
        if change.uid.is_some() || change.gid.is_some() {
            self.set_owner(&self.object(ino)?, change)?;
        }
        if let Some(mode) = change.mode {
            self.set_mode(&self.object(ino)?, mode)?;
        }
        if change.kill_suid_sgid {
            self.drop_bits(&self.object(ino)?)?;
        }
        if change.atime.is_some() || change.mtime.is_some() {
            self.set_times(&self.object(ino)?, change)?;
        }
        let object = self.object(ino)?;
        Ok((self.attr_with_generation(ino, &object.stat, &object.annotation)?, object.annotation))
    }

    /// Takes the set-user-id bit away, and the set-group-id bit of an executable.
    pub(super) fn drop_suid_sgid(&self, ino: Ino) -> Result<()> {
        let _order = self.shared();
        self.drop_bits(&self.object(ino)?)
    }

    fn drop_bits(&self, object: &Object) -> Result<()> {
        // A fifo, socket or device has bits to lose as well; those of a directory mean something else and stay.
        if matches!(object.kind, FileKind::Directory | FileKind::Symlink) {
            return Ok(());
        }
        let mode = visible_mode(&object.stat, object.kind, &object.annotation);
        let mut kept = mode & !S_ISUID;
        if kept & S_IXGRP != 0 {
            kept &= !S_ISGID;
        }
        if kept == mode { Ok(()) } else { self.set_mode(object, kept) }
    }

    fn set_length(&self, ino: Ino, size: u64, deed: &Deed<'_>) -> Result<()> {
        if size > i64::MAX as u64 {
            return Err(FsError::InvalidArgument);
        }
        let stub = self.open_stub(ino)?;
        if size > stub.size()? {
            self.note_length(size);
            if size > self.max_file_size {
                return Err(FsError::FileTooLarge);
            }
        }
        let Some((file, layout)) = stub.annotation().striped else {
            deed.begin([CUT, ino.0, size, 0]);
            return stub.set_inline_length(size);
        };
        if size < stub.size()? {
            self.cut_content(&stub, file, &layout, size)?;
        }
        // What is left to do is one step of this fragment's.
        deed.begin([CUT, ino.0, size, 0]);
        stub.set_striped_length(size)
    }

    fn set_owner(&self, object: &Object, change: &SetAttr) -> Result<()> {
        let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
        match &object.reach {
            Reach::Stub(stub) => {
                let done = rustix::fs::fchown(stub.descriptor(), uid, gid);
                stub.touched();
                done
            }
            Reach::Place(place) => {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                rustix::fs::chownat(&place.directory, &place.name, uid, gid, flags)
            }
            Reach::Node(node) => rustix::fs::chownat(node, "", uid, gid, AtFlags::EMPTY_PATH),
        }
        .map_err(host("set owner"))?;
        // The local file system took the bits from the stub's own mode; the one that users see has to follow.
        if object.annotation.mode.is_some() { self.drop_bits(object) } else { Ok(()) }
    }

    pub(super) fn set_mode(&self, object: &Object, mode: u32) -> Result<()> {
        let (stub_mode, annotation) = self.split_mode(object.kind, mode, object.annotation);
        let chmod = || {
            let raw = Mode::from_raw_mode(stub_mode);
            match &object.reach {
                Reach::Stub(stub) => rustix::fs::fchmod(stub.descriptor(), raw),
                Reach::Place(place) => {
                    rustix::fs::chmodat(&place.directory, &place.name, raw, AtFlags::empty())
                }
                // A descriptor that only stands for an object is changed through its name in `/proc`.
                Reach::Node(node) => rustix::fs::chmod(format!("/proc/self/fd/{}", node.as_raw_fd()), raw),
            }
            .map_err(host("set mode"))
        };
        if object.kind == FileKind::Symlink {
            return Err(FsError::Unsupported);
        }
        if annotation != object.annotation {
            self.annotate(object, annotation, chmod)?;
        } else {
            chmod()?;
        }
        if let Reach::Stub(stub) = &object.reach {
            stub.changed(mode, annotation);
        }
        Ok(())
    }

    /// Changes what a stub says, and its own mode with it. The mode is marked exactly when there is something to say.
    pub(super) fn annotate(
        &self,
        object: &Object,
        annotation: super::Annotation,
        set_mode: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let fd = object.open()?;
        if annotation.is_empty() {
            set_mode()?;
            match rustix::fs::fremovexattr(fd.as_fd(), super::ATTRIBUTE) {
                Ok(()) | Err(rustix::io::Errno::NODATA) => {}
                Err(errno) => return Err(host("remove the attribute of a stub")(errno)),
            }
        } else {
            write_annotation(fd.as_fd(), &annotation)?;
            set_mode()?;
        }
        self.table().annotate(self.number(object.stat.st_ino), Some(annotation));
        if let Reach::Stub(stub) = &object.reach {
            stub.changed(visible_mode(&object.stat, object.kind, &annotation), annotation);
        }
        Ok(())
    }

    /// Changes what a stub says without changing the mode that users see.
    pub(super) fn annotate_keeping_mode(&self, object: &Object, annotation: super::Annotation) -> Result<()> {
        let visible = visible_mode(&object.stat, object.kind, &object.annotation);
        let (stub_mode, annotation) = self.split_mode(object.kind, visible, annotation);
        debug_assert_eq!(stub_mode & mark_of(object.kind) != 0, !annotation.is_empty());
        let chmod = || {
            let fd = object.open()?;
            rustix::fs::fchmod(fd.as_fd(), Mode::from_raw_mode(stub_mode)).map_err(host("set mode"))
        };
        self.annotate(object, annotation, chmod)
    }

    fn set_times(&self, object: &Object, change: &SetAttr) -> Result<()> {
        let spec = |time: Option<SetTime>| match time {
            None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
            Some(SetTime::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
            Some(SetTime::At(at)) => Timespec { tv_sec: at.secs, tv_nsec: at.nanos as _ },
        };
        let times = Timestamps { last_access: spec(change.atime), last_modification: spec(change.mtime) };
        match &object.reach {
            Reach::Stub(stub) => stub.set_times(&times),
            Reach::Node(node) => rustix::fs::utimensat(node, "", &times, AtFlags::EMPTY_PATH),
            Reach::Place(place) => {
                let flags = AtFlags::SYMLINK_NOFOLLOW;
                rustix::fs::utimensat(&place.directory, &place.name, &times, flags)
            }
        }
        .map_err(host("set times"))
    }
}
