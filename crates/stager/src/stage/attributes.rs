//! Owner, mode, times and extended attributes.
//!
//! Order: extended attributes (they need write permission), owner (it clears set-id bits), mode, times (everything before
//! changes them).

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::entry::Entry;
use super::run::{Run, shown};
use crate::failure::Side;
use crate::report::WarningKind;
use crate::tree::{Cause, EntryKind, Metadata, ReadFile, SetMetadata, Shape, TreeError, WriteFile};

/// Set-user-id and set-group-id.
const SET_ID: u32 = 0o6000;

/// The mode to create with: the final one as far as that is safe, so that most files need no second call. A file that will be
/// given to somebody else stays closed until then. The writer can always write.
pub fn first_mode(run: &Run<'_>, found: &Metadata) -> u32 {
    let stays_ours = !run.privileged || found.uid == run.uid;
    if stays_ours { (found.mode & 0o777) | 0o600 } else { 0o600 }
}

/// Gives an entry of the target the owner, mode and times found at the source. `current` is what it has.
pub fn give(
    run: &Run<'_>,
    entry: &Entry,
    found: &Metadata,
    current: &Shape,
    set: &dyn Fn(&SetMetadata) -> Result<(), TreeError>,
) -> Result<(), TreeError> {
    give_at(run, &|| shown(run.source(), &entry.source()), found, current, set)
}

fn give_at(
    run: &Run<'_>,
    path: &dyn Fn() -> PathBuf,
    found: &Metadata,
    current: &Shape,
    set: &dyn Fn(&SetMetadata) -> Result<(), TreeError>,
) -> Result<(), TreeError> {
    let same = (found.uid, found.gid) == (current.uid, current.gid);
    let wanted = wanted_owner(run, found, current);
    let given = match wanted {
        Some(owner) if !same => give_owner(owner, set)?,
        _ => false,
    };
    if !same && !given && run.privileged {
        run.account.warn(WarningKind::OwnerNotKept, path());
    }
    let kept = same || (given && wanted == Some((found.uid, found.gid)));
    let mut mode = found.mode;
    if !kept && mode & SET_ID != 0 {
        mode &= !SET_ID;
        run.account.warn(WarningKind::SetIdNotKept, path());
    }
    let mode = (found.kind != EntryKind::Symlink && (given || mode != current.mode)).then_some(mode);
    set(&SetMetadata { owner: None, mode, times: Some((found.atime, found.mtime)) })
}

/// The owner and group that an entry can be given by this process, if they are not those that it would have anyway: root gives all,
/// others a group that they are in themselves. Other groups are not tried, for each would be a call that is refused.
fn wanted_owner(run: &Run<'_>, found: &Metadata, current: &Shape) -> Option<(u32, u32)> {
    if run.privileged {
        return Some((found.uid, found.gid));
    }
    (found.gid != current.gid && run.groups.contains(&found.gid)).then_some((current.uid, found.gid))
}

/// Whether owner and group could be given; false where the file system knows no owners.
fn give_owner(
    owner: (u32, u32),
    set: &dyn Fn(&SetMetadata) -> Result<(), TreeError>,
) -> Result<bool, TreeError> {
    let owner = SetMetadata { owner: Some(owner), ..SetMetadata::default() };
    match set(&owner) {
        Ok(()) => Ok(true),
        Err(TreeError {
            cause: Cause::NotPermitted | Cause::AccessDenied | Cause::Unsupported | Cause::Other { .. },
            ..
        }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A refusal of one attribute, which is warned of; anything else is a failure.
fn is_refusal(cause: Cause) -> bool {
    matches!(
        cause,
        Cause::Unsupported
            | Cause::NotPermitted
            | Cause::AccessDenied
            | Cause::NoSpace
            | Cause::Quota
            | Cause::Other { .. }
    )
}

/// Reads one attribute.
type Get<'g> = &'g dyn Fn(&OsStr) -> Result<Vec<u8>, TreeError>;
/// Sets one attribute.
type Set<'s> = &'s dyn Fn(&OsStr, &[u8]) -> Result<(), TreeError>;

/// Copies attributes one by one; true when all were taken.
fn copy_each(names: &[OsString], get: Get<'_>, set: Set<'_>) -> Result<bool, (Side, TreeError)> {
    let mut all = true;
    for name in names {
        let value = match get(name) {
            Err(TreeError { cause: Cause::NoAttribute, .. }) => continue,
            other => other.map_err(|error| (Side::Source, error))?,
        };
        match set(name, &value) {
            Err(error) if is_refusal(error.cause) => all = false,
            other => other.map_err(|error| (Side::Target, error))?,
        }
    }
    Ok(all)
}

/// Copies the extended attributes of a regular file; refused ones are warned of.
pub fn copy_xattrs(
    run: &Run<'_>,
    entry: &Entry,
    source: &dyn ReadFile,
    target: &dyn WriteFile,
) -> Result<(), (Side, TreeError)> {
    let names = source.xattr_names().map_err(|error| (Side::Source, error))?;
    let all = copy_each(&names, &|name| source.xattr(name), &|name, value| target.set_xattr(name, value))?;
    if !all {
        run.account.warn(WarningKind::XattrNotKept, shown(run.source(), &entry.source()));
    }
    Ok(())
}

/// Everything in the directory is done: gives it the attributes found when it was read.
pub fn finish_directory(run: &Run<'_>, source: &Path, target: &Path, found: &Metadata) {
    if run.stopping() {
        return;
    }
    let (from, to) = (run.source(), run.target());
    let copied = from.xattr_names(source).map_err(|error| (Side::Source, error)).and_then(|names| {
        copy_each(&names, &|name| from.xattr(source, name), &|name, value| to.set_xattr(target, name, value))
    });
    let done = copied.and_then(|all| {
        if !all {
            run.account.warn(WarningKind::XattrNotKept, shown(from, source));
        }
        let current = to.lstat(target).map_err(|error| (Side::Target, error))?.into();
        give_at(run, &|| shown(from, source), found, &current, &|change| to.set_metadata(target, change))
            .map_err(|error| (Side::Target, error))
    });
    match done {
        Ok(()) => {}
        Err((Side::Source, error)) => run.fail(run.source_failure(source, error)),
        Err((Side::Target, error)) => run.fail(run.target_failure(target, error, 0)),
    }
}
