//! Names: look up, make, link, rename and remove.
//!
//! Every answer with an entry counts one reference of the kernel on its object, as the volume does.

use crate::adapter::Adapter;
use crate::errno;
use crate::translate;
use forebay_fusedev::reply::{DoneReply, EntryReply, LinkReply};
use forebay_fusedev::request::{MakeNode, Rename};
use forebay_fusedev::{Context, Errno};
use forebay_wire::{Attr, Ino, RenameMode, Result};
use std::ffi::OsStr;
use std::path::Path;

fn answer_entry(adapter: &Adapter, entry: Result<Attr>, reply: EntryReply) {
    match entry {
        Ok(attr) => reply.entry(&adapter.entry(&attr)),
        Err(error) => reply.refuse(errno::of(error)),
    }
}

pub(crate) fn answer_done(done: Result<()>, reply: DoneReply) {
    match done {
        Ok(()) => reply.done(),
        Err(error) => reply.refuse(errno::of(error)),
    }
}

pub(crate) fn lookup(adapter: &Adapter, context: &Context, name: &OsStr, reply: EntryReply) {
    let found = adapter.volume.lookup(translate::caller(context), translate::ino(context), name);
    answer_entry(adapter, found, reply);
}

pub(crate) fn readlink(adapter: &Adapter, context: &Context, reply: LinkReply) {
    match adapter.volume.readlink(translate::ino(context)) {
        Ok(target) => reply.target(&target),
        Err(error) => reply.refuse(errno::of(error)),
    }
}

/// The kernel has applied the umask to the mode.
pub(crate) fn mknod(adapter: &Adapter, context: &Context, new: &MakeNode<'_>, reply: EntryReply) {
    let (caller, parent) = (translate::caller(context), translate::ino(context));
    answer_entry(adapter, adapter.volume.mknod(caller, parent, new.name, new.mode, new.rdev), reply);
}

pub(crate) fn mkdir(adapter: &Adapter, context: &Context, new: &MakeNode<'_>, reply: EntryReply) {
    let (caller, parent) = (translate::caller(context), translate::ino(context));
    answer_entry(adapter, adapter.volume.mkdir(caller, parent, new.name, new.mode), reply);
}

pub(crate) fn symlink(adapter: &Adapter, context: &Context, name: &OsStr, target: &OsStr, reply: EntryReply) {
    let (caller, parent) = (translate::caller(context), translate::ino(context));
    answer_entry(adapter, adapter.volume.symlink(caller, parent, name, Path::new(target)), reply);
}

pub(crate) fn link(adapter: &Adapter, context: &Context, from: Ino, name: &OsStr, reply: EntryReply) {
    let linked = adapter.volume.link(translate::caller(context), from, translate::ino(context), name);
    answer_entry(adapter, linked, reply);
}

pub(crate) fn unlink(adapter: &Adapter, context: &Context, name: &OsStr, reply: DoneReply) {
    answer_done(adapter.volume.unlink(translate::caller(context), translate::ino(context), name), reply);
}

pub(crate) fn rmdir(adapter: &Adapter, context: &Context, name: &OsStr, reply: DoneReply) {
    answer_done(adapter.volume.rmdir(translate::caller(context), translate::ino(context), name), reply);
}

pub(crate) fn rename(adapter: &Adapter, context: &Context, asked: &Rename<'_>, reply: DoneReply) {
    let Some(mode) = rename_mode(asked.flags) else { return reply.refuse(Errno::INVAL) };
    let (caller, from, to) = (translate::caller(context), translate::ino(context), Ino(asked.new_parent));
    answer_done(adapter.volume.rename(caller, from, asked.name, to, asked.new_name, mode), reply);
}

/// Whiteouts belong to layered file systems; flags that exclude each other never get past the kernel.
fn rename_mode(flags: u32) -> Option<RenameMode> {
    match flags {
        0 => Some(RenameMode::Replace),
        libc::RENAME_NOREPLACE => Some(RenameMode::NoReplace),
        libc::RENAME_EXCHANGE => Some(RenameMode::Exchange),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_renames_are_taken() {
        assert_eq!(rename_mode(0), Some(RenameMode::Replace));
        assert_eq!(rename_mode(libc::RENAME_NOREPLACE), Some(RenameMode::NoReplace));
        assert_eq!(rename_mode(libc::RENAME_EXCHANGE), Some(RenameMode::Exchange));
        assert_eq!(rename_mode(libc::RENAME_WHITEOUT), None);
    }
}
