//! Entries that are not regular files with content of their own.
//!
//! As files they are made under a temporary name and renamed, so that a target is the old or the new one.

use std::path::Path;

use super::copy;
use super::entry::Entry;
use super::run::{Run, shown};
use super::{Buffer, attributes, taken, worker};
use crate::failure::ItemFailure;
use crate::report::WarningKind;
use crate::tree::{Cause, Metadata, TreeError};

/// Makes an entry under the temporary name of `target`.
fn make(run: &Run<'_>, target: &Path, how: &dyn Fn(&Path) -> Result<(), TreeError>) -> Result<(), TreeError> {
    let temporary = run.temporary(target);
    taken::made_anew(run, &temporary, || how(&temporary))
}

/// Makes an entry and puts it in place.
fn place(
    run: &Run<'_>,
    entry: &Entry,
    found: &Metadata,
    how: &dyn Fn(&Path) -> Result<(), TreeError>,
) -> Result<(), ItemFailure> {
    let target = entry.target();
    let placed = taken::tried_again(|| {
        make(run, &target, how)?;
        put(run, entry, &target, found)
    });
    placed.map_err(|error| run.target_failure(&target, error, 0))
}

/// Gives attributes and the final name; on failure our temporary entry goes.
fn put(run: &Run<'_>, entry: &Entry, target: &Path, found: &Metadata) -> Result<(), TreeError> {
    let temporary = run.temporary(target);
    let done = run.target().lstat(&temporary).and_then(|current| {
        attributes::give(run, entry, found, &current.into(), &|change| {
            run.target().set_metadata(&temporary, change)
        })?;
        run.target().rename(&temporary, target)
    });
    done.inspect_err(|_| {
        let _ = run.target().unlink(&temporary);
    })
}

/// Makes a symbolic link as it is, wherever it leads.
pub fn symlink(run: &Run<'_>, entry: &Entry, found: &Metadata) {
    let source = entry.source();
    let text = match run.source().read_link(&source) {
        Ok(text) => text,
        Err(error) => return worker::leave(run, entry, Some(run.source_failure(&source, error))),
    };
    let done = place(run, entry, found, &|path| run.target().symlink(path, &text))
        .inspect(|()| run.account.symlinks.add(1));
    worker::leave(run, entry, done.err());
}

/// Makes a fifo; nobody opens it.
pub fn fifo(run: &Run<'_>, entry: &Entry, found: &Metadata) {
    let mode = attributes::first_mode(run, found);
    let done = place(run, entry, found, &|path| run.target().make_fifo(path, mode))
        .inspect(|()| run.account.fifos.add(1));
    worker::leave(run, entry, done.err());
}

/// Leaves a socket or device out.
pub fn skip(run: &Run<'_>, entry: &Entry) {
    run.account.warn(WarningKind::SpecialSkipped, shown(run.source(), &entry.source()));
    worker::leave(run, entry, None);
}

/// Notes that a hard link became a file of its own.
pub fn warn_link_copied(run: &Run<'_>, entry: &Entry) {
    run.account.warn(WarningKind::LinkCopied, shown(run.source(), &entry.source()));
}

/// Makes an entry a hard link to a target already in place; where that is not possible, a copy.
pub fn hard_link(run: &Run<'_>, entry: Entry, existing: &Path, buffer: &mut Buffer) {
    let target = entry.target();
    match link(run, existing, &target) {
        Ok(()) => {
            run.account.hard_links.add(1);
            if let Ok(there) = run.target().lstat(&target) {
                run.account.bytes_done.add(there.size);
            }
            worker::leave(run, &entry, None);
        }
        Err(TreeError {
            cause: Cause::TooManyLinks | Cause::NotPermitted | Cause::Unsupported | Cause::CrossDevice,
            ..
        }) => {
            warn_link_copied(run, &entry);
            copy::separately(run, entry, buffer);
        }
        Err(error) => worker::leave(run, &entry, Some(run.target_failure(&target, error, 0))),
    }
}

fn link(run: &Run<'_>, existing: &Path, target: &Path) -> Result<(), TreeError> {
    let tree = run.target();
    match tree.link(existing, target) {
        Err(TreeError { cause: Cause::Exists, .. }) => {}
        other => return other,
    }
    // A rename between two names of one file does nothing and would leave the temporary name.
    let (first, there) = (tree.lstat(existing)?, tree.lstat(target)?);
    if (first.device, first.inode) == (there.device, there.inode) {
        return Ok(());
    }
    let temporary = run.temporary(target);
    taken::tried_again(|| {
        make(run, target, &|path| tree.link(existing, path))?;
        tree.rename(&temporary, target).inspect_err(|_| {
            let _ = tree.unlink(&temporary);
        })
    })
}
