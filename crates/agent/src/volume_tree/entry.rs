//! Attributes of an entry, translated both ways.

use super::resolve::Held;
use super::set_times;
use forebay_client::{Handle, Volume};
use forebay_stager::tree::{EntryKind, Metadata, SetMetadata, Stamp};
use forebay_wire::{Attr, FileKind, Ino, Result, SetAttr, Timestamp};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// Attributes with which the layout of a file is shown and chosen: the instance's business, not the user's data.
const LAYOUT_PREFIX: &[u8] = b"user.dwfs.";
/// Unit of the block counts of `stat`.
const STAT_BLOCK: u64 = 512;

/// The stager's form. One namespace is one device.
pub(crate) fn metadata(attr: &Attr) -> Metadata {
    Metadata {
        kind: kind(attr.kind),
        device: 0,
        inode: attr.ino.0,
        links: u64::from(attr.nlink),
        mode: attr.mode,
        uid: attr.uid,
        gid: attr.gid,
        size: attr.size,
        allocated: attr.blocks * STAT_BLOCK,
        atime: stamp(attr.atime),
        mtime: stamp(attr.mtime),
        ctime: stamp(attr.ctime),
    }
}

/// The same for kinds.
pub(crate) fn kind(kind: FileKind) -> EntryKind {
    match kind {
        FileKind::Regular => EntryKind::Regular,
        FileKind::Directory => EntryKind::Directory,
        FileKind::Symlink => EntryKind::Symlink,
        FileKind::Fifo => EntryKind::Fifo,
        FileKind::Socket => EntryKind::Socket,
        FileKind::CharDevice => EntryKind::CharDevice,
        FileKind::BlockDevice => EntryKind::BlockDevice,
    }
}

fn stamp(time: Timestamp) -> Stamp {
    Stamp { secs: time.secs, nanos: time.nanos }
}

fn timestamp(stamp: Stamp) -> Timestamp {
    Timestamp { secs: stamp.secs, nanos: stamp.nanos }
}

/// Owner, mode, times, one after the other: a change of owner clears the set-id bits.
pub(crate) fn set_metadata(
    volume: &Volume,
    entry: &Held,
    handle: Option<Handle>,
    change: &SetMetadata,
) -> Result<()> {
    let set = |change: &SetAttr| volume.setattr(super::caller(), entry.ino(), handle, change).map(drop);
    if let Some((uid, gid)) = change.owner {
        set(&SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() })?;
    }
    if let Some(mode) = change.mode.filter(|_| entry.attr.kind != FileKind::Symlink) {
        set_mode(volume, entry.ino(), handle, mode)?;
    }
    if let Some((atime, mtime)) = change.times {
        set(&set_times(timestamp(atime), timestamp(mtime)))?;
    }
    Ok(())
}

/// Sets the permission bits.
pub(crate) fn set_mode(volume: &Volume, ino: Ino, handle: Option<Handle>, mode: u32) -> Result<()> {
    let change = SetAttr { mode: Some(mode), ..SetAttr::default() };
    volume.setattr(super::caller(), ino, handle, &change).map(drop)
}

/// Text of a symbolic link.
pub(crate) fn read_link(volume: &Volume, ino: Ino) -> Result<PathBuf> {
    Ok(PathBuf::from(OsString::from_vec(volume.readlink(ino)?)))
}

/// Names of the user's extended attributes.
pub(crate) fn xattr_names(volume: &Volume, ino: Ino) -> Result<Vec<OsString>> {
    let names = volume.listxattr(super::caller(), ino)?;
    let users = |name: &&[u8]| !name.is_empty() && !name.starts_with(LAYOUT_PREFIX);
    Ok(names.split(|byte| *byte == 0).filter(users).map(|name| OsStr::from_bytes(name).to_owned()).collect())
}
