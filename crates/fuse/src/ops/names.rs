//! Names: look up, make, link, rename and remove.
//!
//! Every answer with an entry counts one reference of the kernel on its object, as the volume does.

use crate::adapter::Adapter;
use crate::errno;
use crate::translate;
use forebay_wire::{Attr, RenameMode, Result};
use fuser::{Errno, INodeNo, RenameFlags, ReplyData, ReplyEmpty, ReplyEntry, Request};
use std::ffi::OsStr;
use std::path::Path;

/// Where and how something is made; `mode` has the umask applied by the kernel.
pub(crate) struct NewNode<'a> {
    pub parent: INodeNo,
    pub name: &'a OsStr,
    pub mode: u32,
}

fn answer_entry(adapter: &Adapter, entry: Result<Attr>, reply: ReplyEntry) {
    match entry {
        Ok(attr) => {
            reply.entry(&adapter.time_to_live(&attr), &adapter.show(&attr), translate::generation(&attr))
        }
        Err(error) => reply.error(errno::of(error)),
    }
}

pub(crate) fn answer_done(done: Result<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno::of(error)),
    }
}

pub(crate) fn lookup(adapter: &Adapter, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
    answer_entry(
        adapter,
        adapter.volume.lookup(translate::caller(request), translate::ino(parent), name),
        reply,
    );
}

pub(crate) fn readlink(adapter: &Adapter, ino: INodeNo, reply: ReplyData) {
    match adapter.volume.readlink(translate::ino(ino)) {
        Ok(target) => reply.data(&target),
        Err(error) => reply.error(errno::of(error)),
    }
}

pub(crate) fn mknod(adapter: &Adapter, request: &Request, new: NewNode, rdev: u32, reply: ReplyEntry) {
    let (caller, parent) = (translate::caller(request), translate::ino(new.parent));
    answer_entry(adapter, adapter.volume.mknod(caller, parent, new.name, new.mode, rdev), reply);
}

pub(crate) fn mkdir(adapter: &Adapter, request: &Request, new: NewNode, reply: ReplyEntry) {
    let (caller, parent) = (translate::caller(request), translate::ino(new.parent));
    answer_entry(adapter, adapter.volume.mkdir(caller, parent, new.name, new.mode), reply);
}

pub(crate) fn symlink(
    adapter: &Adapter,
    request: &Request,
    parent: INodeNo,
    name: &OsStr,
    target: &Path,
    reply: ReplyEntry,
) {
    let caller = translate::caller(request);
    answer_entry(adapter, adapter.volume.symlink(caller, translate::ino(parent), name, target), reply);
}

pub(crate) fn link(
    adapter: &Adapter,
    request: &Request,
    ino: INodeNo,
    new_parent: INodeNo,
    new_name: &OsStr,
    reply: ReplyEntry,
) {
    let linked = adapter.volume.link(
        translate::caller(request),
        translate::ino(ino),
        translate::ino(new_parent),
        new_name,
    );
    answer_entry(adapter, linked, reply);
}

pub(crate) fn unlink(adapter: &Adapter, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
    answer_done(adapter.volume.unlink(translate::caller(request), translate::ino(parent), name), reply);
}

pub(crate) fn rmdir(adapter: &Adapter, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
    answer_done(adapter.volume.rmdir(translate::caller(request), translate::ino(parent), name), reply);
}

pub(crate) fn rename(
    adapter: &Adapter,
    request: &Request,
    (parent, name): (INodeNo, &OsStr),
    (new_parent, new_name): (INodeNo, &OsStr),
    flags: RenameFlags,
    reply: ReplyEmpty,
) {
    let Some(mode) = rename_mode(flags) else { return reply.error(Errno::EINVAL) };
    let (from, to) = (translate::ino(parent), translate::ino(new_parent));
    answer_done(adapter.volume.rename(translate::caller(request), from, name, to, new_name, mode), reply);
}

/// Whiteouts belong to layered file systems; flags that exclude each other never get past the kernel.
fn rename_mode(flags: RenameFlags) -> Option<RenameMode> {
    if flags.is_empty() {
        Some(RenameMode::Replace)
    } else if flags == RenameFlags::RENAME_NOREPLACE {
        Some(RenameMode::NoReplace)
    } else if flags == RenameFlags::RENAME_EXCHANGE {
        Some(RenameMode::Exchange)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_renames_are_taken() {
        assert_eq!(rename_mode(RenameFlags::empty()), Some(RenameMode::Replace));
        assert_eq!(rename_mode(RenameFlags::RENAME_NOREPLACE), Some(RenameMode::NoReplace));
        assert_eq!(rename_mode(RenameFlags::RENAME_EXCHANGE), Some(RenameMode::Exchange));
        assert_eq!(rename_mode(RenameFlags::RENAME_WHITEOUT), None);
    }
}
