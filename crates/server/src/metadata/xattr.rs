//! Extended attributes: the users' own are the stub's, the layout is shown as some, the internal one is hidden.
//!
//! `user.*` and `trusted.*` are kept on regular files and directories, as local file systems do. `security.*` and
//! `system.*` are not: capabilities of programs and access control lists would have to be kept by every write and
//! checked by every open; asking for a `security.*` one costs nothing, because kernels do it often. Each change is one
//! system call.

use super::Tree;
use super::layout_attributes::{Part, RESERVED};
use super::lookup::Object;
use crate::deeds::{Deed, Intent, What};
use crate::host::host;
use forebay_wire::{FileKind, FsError, Ino, Result, XattrMode};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;

/// Longest value and longest list of names, in bytes: the kernel's own limit.
const XATTR_MAX: usize = 65536;
/// Longest name of an attribute, in bytes.
const XATTR_NAME_MAX: usize = 255;

enum Name {
    Users,
    Layout(Part),
    Hidden,
    Security,
    Other,
}

fn classify(name: &OsStr) -> Name {
    let bytes = name.as_bytes();
    if let Some(part) = Part::of(name) {
        Name::Layout(part)
    } else if bytes.starts_with(RESERVED) {
        Name::Hidden
    } else if bytes.starts_with(b"user.") || bytes.starts_with(b"trusted.") {
        Name::Users
    } else if bytes.starts_with(b"security.") {
        Name::Security
    } else {
        Name::Other
    }
}

/// The attribute is there, whatever its value.
pub(super) fn has(fd: BorrowedFd<'_>, name: &OsStr) -> Result<bool> {
    match rustix::fs::fgetxattr(fd, name, &mut [0; 0]) {
        Ok(_) => Ok(true),
        Err(Errno::NODATA) => Ok(false),
        Err(errno) => Err(host("look for an extended attribute")(errno)),
    }
}

/// Tells values apart (FNV-1a).
pub(super) fn digest(value: &[u8]) -> u64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    value.iter().fold(BASIS, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(PRIME))
}

fn can_have(object: &Object) -> bool {
    matches!(object.kind, FileKind::Regular | FileKind::Directory)
}

impl Tree {
    pub(super) fn getxattr(&self, ino: Ino, name: &OsStr) -> Result<Vec<u8>> {
        match classify(name) {
            Name::Security | Name::Hidden => return Err(FsError::NoAttribute),
            Name::Other => return Err(FsError::Unsupported),
            Name::Users | Name::Layout(_) => {}
        }
        let _order = self.shared();
        let object = self.object(ino)?;
        if let Name::Layout(part) = classify(name) {
            return self.layout_part(&object, part);
        }
        if !can_have(&object) {
            return Err(FsError::NoAttribute);
        }
        let fd = object.open()?;
        let mut value = vec![0; 512];
        let mut got = rustix::fs::fgetxattr(fd.as_fd(), name, &mut value[..]);
        if got == Err(Errno::RANGE) {
            value.resize(XATTR_MAX, 0);
            got = rustix::fs::fgetxattr(fd.as_fd(), name, &mut value[..]);
        }
        value.truncate(got.map_err(host("get extended attribute"))?);
        Ok(value)
    }

    pub(crate) fn setxattr(
        &self,
        ino: Ino,
        name: &OsStr,
        value: &[u8],
        mode: XattrMode,
        deed: &Deed<'_>,
    ) -> Result<()> {
        match classify(name) {
            Name::Layout(part) => {
                return self.set_layout_part(ino, part, Some(value), mode).map(|()| deed.done([0; 4]));
            }
            Name::Hidden => return Err(FsError::NotPermitted),
            Name::Security | Name::Other => return Err(FsError::Unsupported),
            Name::Users if name.len() > XATTR_NAME_MAX => return Err(FsError::NameTooLong),
            Name::Users => {}
        }
        self.fragment().writable()?;
        let _order = self.making();
        let object = self.object(ino)?;
        if !can_have(&object) {
            return Err(FsError::NotPermitted);
        }
        let flags = match mode {
            XattrMode::Any => XattrFlags::empty(),
            XattrMode::Create => XattrFlags::CREATE,
            XattrMode::Replace => XattrFlags::REPLACE,
        };
        let fd = object.open()?;
        // One that has to be new is known to be ours by that it was not there.
        if deed.is_noted() && mode == XattrMode::Create && has(fd.as_fd(), name)? {
            return Err(FsError::Exists);
        }
        let intent = Intent { other: digest(value), ..Intent::of(What::SetAttribute, ino, Ino(0), name) };
        let setting = deed.alone(intent);
        let set = rustix::fs::fsetxattr(fd.as_fd(), name, value, flags);
        object.touched();
        set.map_err(host("set extended attribute"))?;
        setting.done([0; 4]);
        Ok(())
    }

    pub(super) fn listxattr(&self, ino: Ino) -> Result<Vec<u8>> {
        let _order = self.shared();
        let object = self.object(ino)?;
        if !can_have(&object) {
            return Ok(Vec::new());
        }
        let fd = object.open()?;
        let mut names = vec![0; 1024];
        let mut got = rustix::fs::flistxattr(fd.as_fd(), &mut names[..]);
        if got == Err(Errno::RANGE) {
            names.resize(XATTR_MAX, 0);
            got = rustix::fs::flistxattr(fd.as_fd(), &mut names[..]);
        }
        names.truncate(got.map_err(host("list extended attributes"))?);
        let shown = names.split_inclusive(|byte| *byte == 0).filter(|name| {
            matches!(classify(OsStr::from_bytes(name.strip_suffix(&[0]).unwrap_or(name))), Name::Users)
        });
        Ok(shown.flatten().copied().collect())
    }

    pub(crate) fn removexattr(&self, ino: Ino, name: &OsStr, deed: &Deed<'_>) -> Result<()> {
        match classify(name) {
            Name::Layout(part) => {
                return self.set_layout_part(ino, part, None, XattrMode::Any).map(|()| deed.done([0; 4]));
            }
            Name::Hidden => return Err(FsError::NotPermitted),
            Name::Security | Name::Other => return Err(FsError::Unsupported),
            Name::Users => {}
        }
        self.fragment().writable()?;
        let _order = self.making();
        let object = self.object(ino)?;
        if !can_have(&object) {
            return Err(FsError::NoAttribute);
        }
        let fd = object.open()?;
        if deed.is_noted() && !has(fd.as_fd(), name)? {
            return Err(FsError::NoAttribute);
        }
        let removing = deed.alone(Intent::of(What::RemoveAttribute, ino, Ino(0), name));
        let removed = rustix::fs::fremovexattr(fd.as_fd(), name);
        object.touched();
        removed.map_err(host("remove extended attribute"))?;
        removing.done([0; 4]);
        Ok(())
    }
}
