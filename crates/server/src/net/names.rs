//! Requests that look names up, make, move and remove them.

use super::home::Changing;
use super::requests::Asking;
use super::settle;
use forebay_wire::message::{Changed, Credentials, Name, Target};
use forebay_wire::{Attr, FileKind, FsError, Ino, MetadataService, NewObject, RenameMode, Result};
use std::path::Path;

pub(crate) fn lookup(asking: &Asking<'_>, who: &Credentials, parent: Ino, name: &Name) -> Result<Attr> {
    let valid_ms = asking.home.grant_names(parent, asking.session);
    let attr = asking.guard(who).lookup(who.caller(), parent, name.as_os_str())?;
    asking.found(valid_ms, attr)
}

pub(crate) fn mknod(
    asking: &Asking<'_>,
    who: &Credentials,
    parent: Ino,
    name: &Name,
    mode: u32,
    rdev: u32,
) -> Result<Attr> {
    let kind = FileKind::from_mode(mode).ok_or(FsError::InvalidArgument)?;
    let object = NewObject { caller: who.caller(), mode, rdev };
    let make = || asking.changing(who).mknod(parent, name.as_os_str(), &object);
    made(asking, who, parent, name, &[], make, |attr| settle::looks_new(attr, who, kind))
}

pub(crate) fn mkdir(
    asking: &Asking<'_>,
    who: &Credentials,
    parent: Ino,
    name: &Name,
    mode: u32,
) -> Result<Attr> {
    let object = NewObject { caller: who.caller(), mode, rdev: 0 };
    let make = || asking.changing(who).mkdir(parent, name.as_os_str(), &object);
    made(asking, who, parent, name, &[], make, |attr| settle::looks_new(attr, who, FileKind::Directory))
}

pub(crate) fn symlink(
    asking: &Asking<'_>,
    who: &Credentials,
    parent: Ino,
    name: &Name,
    target: &Target,
) -> Result<Attr> {
    let make = || {
        asking.changing(who).symlink(who.caller(), parent, name.as_os_str(), Path::new(target.as_os_str()))
    };
    let is_ours = |attr: &Attr| {
        let points_there = asking.tree().readlink(attr.ino).is_ok_and(|there| there == target.as_bytes());
        points_there && settle::looks_new(attr, who, FileKind::Symlink)
    };
    made(asking, who, parent, name, &[], make, is_ours)
}

pub(crate) fn link(
    asking: &Asking<'_>,
    who: &Credentials,
    ino: Ino,
    parent: Ino,
    name: &Name,
) -> Result<Attr> {
    let make = || asking.changing(who).link(who.caller(), ino, parent, name.as_os_str());
    made(asking, who, parent, name, &[ino], make, |attr| attr.ino == ino)
}

/// Removes a name, of a directory or of anything else.
pub(crate) fn remove(
    asking: &Asking<'_>,
    who: &Credentials,
    parent: Ino,
    name: &Name,
    directory: bool,
) -> Result<()> {
    asking.await_others()?;
    let object = object_of(asking, parent, name);
    let _changing = change_name(asking, parent, name, object.as_slice());
    let removed = if directory {
        asking.changing(who).rmdir(who.caller(), parent, name.as_os_str())
    } else {
        asking.changing(who).unlink(who.caller(), parent, name.as_os_str())
    };
    match removed {
        Err(FsError::NotFound) if asking.is_repeated => Ok(()),
        removed => removed,
    }
}

pub(crate) fn rename(
    asking: &Asking<'_>,
    who: &Credentials,
    from: &(Ino, Name),
    to: &(Ino, Name),
    mode: RenameMode,
    expected: Option<Ino>,
) -> Result<()> {
    asking.await_others()?;
    let (source, target) = (attr_of(asking, from.0, &from.1), attr_of(asking, to.0, &to.1));
    let moving: Vec<Ino> =
        [&source, &target].into_iter().flatten().filter(is_directory).map(|attr| attr.ino).collect();
    let (source, target) = (source.map(|attr| attr.ino), target.map(|attr| attr.ino));
    if asking.is_repeated && expected.is_some() && source != expected && target == expected {
        return Ok(());
    }
    let mut items = vec![Changed::Entry(from.0, from.1.clone()), Changed::Entry(to.0, to.1.clone())];
    items.extend([from.0, to.0].map(Changed::Attributes));
    items.extend(source.into_iter().chain(target).map(Changed::Attributes));
    let carried = match mode {
        RenameMode::Exchange => vec![(from, to), (to, from)],
        RenameMode::Replace | RenameMode::NoReplace => vec![(from, to)],
    };
    let _changing = asking.home.change_and_move(asking.session, items, &carried, &moving);
    asking.changing(who).rename(who.caller(), (from.0, from.1.as_os_str()), (to.0, to.1.as_os_str()), mode)
}

/// Makes something under a new name, which changes these objects.
fn made(
    asking: &Asking<'_>,
    who: &Credentials,
    parent: Ino,
    name: &Name,
    objects: &[Ino],
    make: impl FnOnce() -> Result<Attr>,
    is_ours: impl Fn(&Attr) -> bool,
) -> Result<Attr> {
    let changing = change_name(asking, parent, name, objects);
    let attr = settled(asking, who, parent, name, make(), is_ours)?;
    drop(changing);
    asking.found(asking.home.grant_names(parent, asking.session), attr)
}

/// What a repeated request made before, if that can be known; else the outcome as it is.
pub(crate) fn settled(
    asking: &Asking<'_>,
    who: &Credentials,
    parent: Ino,
    name: &Name,
    outcome: Result<Attr>,
    is_ours: impl Fn(&Attr) -> bool,
) -> Result<Attr> {
    if outcome != Err(FsError::Exists) || !asking.is_repeated {
        return outcome;
    }
    let there = asking.guard(who).lookup(who.caller(), parent, name.as_os_str())?;
    if is_ours(&there) {
        return Ok(there);
    }
    asking.tree().forget(there.ino, 1);
    outcome
}

/// A name of a directory changes, and with it the directory and the objects that it stands for.
pub(crate) fn change_name<'a>(
    asking: &Asking<'a>,
    parent: Ino,
    name: &Name,
    objects: &[Ino],
) -> Changing<'a> {
    let mut items = vec![Changed::Entry(parent, name.clone()), Changed::Attributes(parent)];
    items.extend(objects.iter().copied().map(Changed::Attributes));
    asking.home.change(asking.session, items)
}

/// What a name stands for, to tell others of its change. When it stands for something else a moment later, two clients
/// change the name at the same time; a third may then show the link count of the loser's object until its grant ends.
fn object_of(asking: &Asking<'_>, parent: Ino, name: &Name) -> Option<Ino> {
    attr_of(asking, parent, name).map(|attr| attr.ino)
}

fn attr_of(asking: &Asking<'_>, parent: Ino, name: &Name) -> Option<Attr> {
    asking.home.hosted.metadata.peek(parent, name.as_os_str()).ok()
}

fn is_directory(attr: &&Attr) -> bool {
    attr.kind == FileKind::Directory
}
