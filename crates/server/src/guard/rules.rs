//! Who may do what to an object with these attributes, as Linux's own file systems have it. Pure.

use forebay_wire::{Attr, FileKind, FsError, Result, SetAttr, SetTime};

/// Permission to read.
pub const READ: u32 = 4;
/// Permission to write.
pub const WRITE: u32 = 2;
/// Permission to execute, or to search a directory.
pub const EXECUTE: u32 = 1;

const S_ISUID: u32 = 0o4000;
const S_ISGID: u32 = 0o2000;
const S_ISVTX: u32 = 0o1000;
const S_IXGRP: u32 = 0o0010;
const ANY_EXECUTE: u32 = 0o0111;

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

impl Person {
    /// The user whom no rule holds.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    fn is_in(&self, group: u32) -> bool {
        self.gid == group || self.groups.contains(&group)
    }

    fn owns(&self, attr: &Attr) -> bool {
        self.is_root() || self.uid == attr.uid
    }
}

/// All of the wanted permissions are there.
pub fn access(attr: &Attr, person: &Person, wanted: u32) -> Result<()> {
    let allowed = if person.is_root() {
        // What nobody may execute root may not execute either.
        let runs = attr.kind == FileKind::Directory || attr.mode & ANY_EXECUTE != 0;
        READ | WRITE | if runs { EXECUTE } else { 0 }
    } else if person.uid == attr.uid {
        attr.mode >> 6
    } else if person.is_in(attr.gid) {
        attr.mode >> 3
    } else {
        attr.mode
    };
    if allowed & wanted == wanted { Ok(()) } else { Err(FsError::AccessDenied) }
}

/// What may be removed from a directory depends on whose it is.
pub fn is_sticky(directory: &Attr) -> bool {
    directory.mode & S_ISVTX != 0
}

/// From a sticky directory everybody removes his own, and its owner anything.
pub fn sticky(directory: &Attr, victim: &Attr, person: &Person) -> Result<()> {
    let is_free = !is_sticky(directory) || person.owns(victim) || person.owns(directory);
    if is_free { Ok(()) } else { Err(FsError::NotPermitted) }
}

/// Extended attributes of a sticky directory are changed by its owner only.
pub fn sticky_attribute(attr: &Attr, person: &Person) -> Result<()> {
    let is_shared = attr.kind == FileKind::Directory && attr.mode & S_ISVTX != 0;
    if is_shared && !person.owns(attr) { Err(FsError::NotPermitted) } else { Ok(()) }
}

/// Devices are root's, except the character device 0:0: to Linux it is the mark of a removed name in an overlay.
pub fn device(person: &Person, mode: u32, rdev: u32) -> Result<()> {
    let is_device = match FileKind::from_mode(mode) {
        Some(FileKind::CharDevice) => rdev != 0,
        kind => kind == Some(FileKind::BlockDevice),
    };
    if is_device && !person.is_root() { Err(FsError::NotPermitted) } else { Ok(()) }
}

/// The mode that a new object that is no directory gets: a program that runs as a group that its directory hands down is
/// made by members only.
pub fn mode_of_new(directory: &Attr, person: &Person, mode: u32) -> u32 {
    let runs_as_group = mode & (S_ISGID | S_IXGRP) == S_ISGID | S_IXGRP;
    let is_free = person.is_root() || person.is_in(directory.gid);
    if runs_as_group && directory.mode & S_ISGID != 0 && !is_free { mode & !S_ISGID } else { mode }
}

/// What of a change of attributes is carried out. `writes`: it is done through a file that is open for writing.
pub fn change(attr: &Attr, person: &Person, change: &SetAttr, writes: bool) -> Result<SetAttr> {
    set_id(attr, person, change, writes)?;
    let (asked, mut change) = (change.mode, *change);
    if change.size.is_some() {
        if !writes {
            access(attr, person, WRITE)?;
        }
        // As a write by a user without privilege does.
        change.kill_suid_sgid |= !person.is_root();
    }
    owner(attr, person, &change)?;
    if change.mode.is_none() && (change.size.is_some() || change.uid.is_some() || change.gid.is_some()) {
        change.mode = mode_without_group(attr, person);
    }
    times(attr, person, &change)?;
    if let Some(mode) = asked {
        if !person.owns(attr) {
            return Err(FsError::NotPermitted);
        }
        let group = change.gid.unwrap_or(attr.gid);
        let keeps_group = person.is_root() || person.is_in(group);
        change.mode = Some(if keeps_group { mode } else { mode & !S_ISGID });
    }
    Ok(change)
}

/// That the set-id bits go and nothing else is for who owns the file or writes it.
fn set_id(attr: &Attr, person: &Person, change: &SetAttr, writes: bool) -> Result<()> {
    let only_bits = *change == SetAttr { kill_suid_sgid: true, ..SetAttr::default() };
    let is_set = attr.kind != FileKind::Directory && attr.mode & (S_ISUID | S_ISGID) != 0;
    if only_bits && is_set && !writes && !person.owns(attr) { Err(FsError::NotPermitted) } else { Ok(()) }
}

/// The mode that is left when somebody who is not of its group writes a file or gives it away, if more goes than the
/// tree takes by itself: the set-group-id bit of what is no program.
fn mode_without_group(attr: &Attr, person: &Person) -> Option<u32> {
    let is_kept = person.is_root() || person.is_in(attr.gid) || attr.kind == FileKind::Directory;
    let is_set = attr.mode & (S_ISGID | S_IXGRP) == S_ISGID;
    (is_set && !is_kept).then_some(attr.mode & !(S_ISUID | S_ISGID))
}

/// Owners give a file to their groups, root gives it to anybody.
fn owner(attr: &Attr, person: &Person, change: &SetAttr) -> Result<()> {
    if person.is_root() {
        return Ok(());
    }
    let is_owner = person.uid == attr.uid;
    let user = change.uid.is_none_or(|uid| is_owner && uid == attr.uid);
    let group = change.gid.is_none_or(|gid| is_owner && (gid == attr.gid || person.is_in(gid)));
    if user && group { Ok(()) } else { Err(FsError::NotPermitted) }
}

/// Everybody who may write sets both times to now; anything else is the owner's. A cut sets the time of the content by
/// itself.
fn times(attr: &Attr, person: &Person, change: &SetAttr) -> Result<()> {
    let now = Some(SetTime::Now);
    if (change.atime, change.mtime) == (None, None) || person.owns(attr) {
        return Ok(());
    }
    if change.size.is_some() && change.atime.is_none() && change.mtime == now {
        return Ok(());
    }
    if (change.atime, change.mtime) == (now, now) {
        return access(attr, person, WRITE);
    }
    Err(FsError::NotPermitted)
}
