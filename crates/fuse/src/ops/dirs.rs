//! Reading directories.
//!
//! Entries stream from the volume into the reply until that is full; a directory of any length needs the memory of one
//! reply. Positions are the volume's own, so that a program may seek back to one later.

use crate::adapter::Adapter;
use crate::complaint::complain;
use crate::errno;
use crate::ops::names::answer_done;
use crate::translate;
use forebay_client::Handle;
use forebay_fusedev::reply::{DirectoryPlusReply, DirectoryReply, DoneReply, OpenReply};
use forebay_fusedev::request::Readdir;
use forebay_fusedev::{Context, OpenMode, Opened};
use forebay_wire::{Attr, Caller, FileKind, FsError, Ino, Result, Timestamp};
use std::ffi::{OsStr, OsString};

/// Entries taken from the volume before their attributes are looked up: about what a reply of one page holds.
const BATCH: usize = 24;

pub(crate) fn opendir(adapter: &Adapter, context: &Context, reply: OpenReply) {
    match adapter.volume.opendir(translate::caller(context), translate::ino(context)) {
        Ok(handle) => {
            adapter.opens.add_directory(handle);
            reply.opened(&Opened::new(handle.0, OpenMode::empty()));
        }
        Err(error) => reply.refuse(errno::of(error)),
    }
}

pub(crate) fn releasedir(adapter: &Adapter, handle: Handle, reply: DoneReply) {
    let released = match adapter.opens.remove_directory(handle) {
        true => adapter.volume.releasedir(handle),
        false => Err(FsError::BadHandle),
    };
    if let Err(error) = released {
        complain("closing a directory", &error);
    }
    reply.done();
}

pub(crate) fn fsyncdir(adapter: &Adapter, handle: Handle, data_only: bool, reply: DoneReply) {
    answer_done(adapter.volume.fsyncdir(handle, data_only), reply);
}

pub(crate) fn readdir(adapter: &Adapter, asked: &Readdir, mut reply: DirectoryReply<'_>) {
    let read = adapter.volume.readdir(Handle(asked.handle), asked.offset, &mut |entry| {
        reply.add(entry.ino.0, entry.next_cookie, translate::kind(entry.kind), entry.name)
    });
    match read {
        Ok(()) => reply.done(),
        Err(error) => reply.refuse(errno::of(error)),
    }
}

struct Listed {
    ino: Ino,
    kind: FileKind,
    name: OsString,
    next_cookie: u64,
    attr: Option<Attr>,
}

/// Entries with their attributes, so that a listing with sizes needs no request per name. Where the volume does not give
/// them with the names it is asked for them after it has handed out a batch: never from within its own listing.
pub(crate) fn readdirplus(
    adapter: &Adapter,
    context: &Context,
    asked: &Readdir,
    mut reply: DirectoryPlusReply<'_>,
) {
    let (caller, directory, handle) =
        (translate::caller(context), translate::ino(context), Handle(asked.handle));
    let mut cookie = asked.offset;
    loop {
        let batch = match batch(adapter, handle, cookie) {
            Ok(batch) => batch,
            // What is in the reply already is good; the error comes back when the kernel goes on from there.
            Err(_) if cookie != asked.offset => return reply.done(),
            Err(error) => return reply.refuse(errno::of(error)),
        };
        for (at, entry) in batch.iter().enumerate() {
            if !add(adapter, caller, directory, entry, &mut reply) {
                give_back(adapter, &batch[at..]);
                return reply.done();
            }
            cookie = entry.next_cookie;
        }
        if batch.len() < BATCH {
            return reply.done();
        }
    }
}

fn batch(adapter: &Adapter, handle: Handle, cookie: u64) -> Result<Vec<Listed>> {
    let mut batch = Vec::with_capacity(BATCH);
    let listed = adapter.volume.readdir_with_attributes(handle, cookie, &mut |entry, attr| {
        if batch.len() == BATCH {
            return false;
        }
        let (ino, kind, next_cookie) = (entry.ino, entry.kind, entry.next_cookie);
        batch.push(Listed { ino, kind, name: entry.name.to_owned(), next_cookie, attr: attr.copied() });
        true
    });
    if let Err(error) = listed {
        give_back(adapter, &batch);
        return Err(error);
    }
    Ok(batch)
}

/// Attributes that came with names count a reference each; those that are not handed on give it back.
fn give_back(adapter: &Adapter, entries: &[Listed]) {
    entries.iter().filter_map(|entry| entry.attr).for_each(|attr| adapter.volume.forget(attr.ino, 1));
}

/// Adds one entry; `false` when the reply is full and the entry is not in it. An entry with attributes counts one
/// reference of the kernel, except the directory itself and its parent, which it takes the names of only.
fn add(
    adapter: &Adapter,
    caller: Caller,
    directory: Ino,
    entry: &Listed,
    reply: &mut DirectoryPlusReply<'_>,
) -> bool {
    if is_self_or_parent(&entry.name) {
        return add_with(adapter, &name_only(entry), entry, reply);
    }
    if let Some(attr) = &entry.attr {
        return add_with(adapter, attr, entry, reply);
    }
    match adapter.volume.lookup(caller, directory, &entry.name) {
        Ok(attr) => {
            let fits = add_with(adapter, &attr, entry, reply);
            if !fits {
                adapter.volume.forget(attr.ino, 1);
            }
            fits
        }
        Err(FsError::NotFound) => true, // removed since it was listed
        // Who may read a directory and not search it sees the names and nothing more.
        Err(_) => {
            let kind = translate::kind(entry.kind);
            reply.add_name(entry.ino.0, entry.next_cookie, kind, &entry.name)
        }
    }
}

fn is_self_or_parent(name: &OsStr) -> bool {
    name == "." || name == ".."
}

fn add_with(adapter: &Adapter, attr: &Attr, entry: &Listed, reply: &mut DirectoryPlusReply<'_>) -> bool {
    reply.add(&adapter.entry(attr), entry.next_cookie, translate::kind(attr.kind), &entry.name)
}

/// Number and kind, the only parts of such an entry that the kernel looks at.
fn name_only(entry: &Listed) -> Attr {
    let epoch = Timestamp::default();
    Attr {
        ino: entry.ino,
        size: 0,
        blocks: 0,
        atime: epoch,
        mtime: epoch,
        ctime: epoch,
        kind: entry.kind,
        mode: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        block_size: 0,
        generation: 0,
        valid_ms: 0,
    }
}
