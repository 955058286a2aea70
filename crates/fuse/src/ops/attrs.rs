//! Attributes of objects and of the file system.

use crate::adapter::Adapter;
use crate::errno;
use crate::set_id::SET_ID;
use crate::translate;
use forebay_client::Handle;
use forebay_fusedev::reply::{AttrReply, StatfsReply};
use forebay_fusedev::request::{Getattr, Setattr};
use forebay_fusedev::{Context, Statfs};
use forebay_wire::{Attr, Caller, FileKind, FsError, Ino, Result, SetAttr};

fn answer(adapter: &Adapter, attr: Result<Attr>, reply: AttrReply) {
    match attr {
        Ok(attr) => reply.attr(adapter.time_to_live(&attr), &adapter.show(&attr)),
        Err(error) => reply.refuse(errno::of(error)),
    }
}

pub(crate) fn getattr(adapter: &Adapter, context: &Context, what: &Getattr, reply: AttrReply) {
    let attr = adapter.volume.getattr(translate::ino(context), what.handle.map(Handle));
    answer(adapter, attr, reply);
}

pub(crate) fn setattr(adapter: &Adapter, context: &Context, asked: &Setattr, reply: AttrReply) {
    let change = SetAttr {
        mode: asked.mode.map(|mode| mode & 0o7777),
        uid: asked.uid,
        gid: asked.gid,
        size: asked.size,
        atime: asked.atime.map(translate::set_time),
        mtime: asked.mtime.map(translate::set_time),
        ctime: asked.ctime.map(translate::timestamp),
        kill_suid_sgid: adapter.kills_privileges() && loses_set_id(asked),
    };
    let (caller, ino) = (translate::caller(context), translate::ino(context));
    let changed = may_take_set_id(adapter, caller, ino, asked)
        .and_then(|()| adapter.volume.setattr(caller, ino, asked.handle.map(Handle), &change));
    answer(adapter, changed, reply);
}

/// The kernel asks for a chown to nobody and no group whoever calls it: that the set-id bits go with it, which is a change
/// of the mode, it leaves to the file system. So who may change the mode is looked at here.
fn may_take_set_id(adapter: &Adapter, caller: Caller, ino: Ino, asked: &Setattr) -> Result<()> {
    if caller.uid == 0 || !changes_nothing(asked) || asked.kill_suid_sgid {
        return Ok(());
    }
    let attr = adapter.volume.getattr(ino, asked.handle.map(Handle))?;
    let takes = attr.kind != FileKind::Directory && attr.mode & SET_ID != 0;
    if takes && attr.uid != caller.uid { Err(FsError::NotPermitted) } else { Ok(()) }
}

/// A change of owner clears the set-id bits, and a change of size where the kernel says so (by somebody without the
/// capability). A request without any change is what the kernel makes of a chown to nobody and no group: all that is left
/// of it is that the bits go.
fn loses_set_id(asked: &Setattr) -> bool {
    let owner = asked.uid.is_some() || asked.gid.is_some();
    owner || asked.kill_suid_sgid || changes_nothing(asked)
}

fn changes_nothing(asked: &Setattr) -> bool {
    let nothing = Setattr {
        handle: asked.handle,
        lock_owner: asked.lock_owner,
        kill_suid_sgid: asked.kill_suid_sgid,
        ..Setattr::default()
    };
    *asked == nothing
}

pub(crate) fn statfs(adapter: &Adapter, reply: StatfsReply) {
    match adapter.volume.statfs() {
        Ok(fs) => reply.statfs(&Statfs {
            blocks: fs.blocks,
            blocks_free: fs.blocks_free,
            blocks_available: fs.blocks_available,
            files: fs.files,
            files_free: fs.files_free,
            block_size: fs.block_size,
            name_max: fs.name_max,
        }),
        Err(error) => reply.refuse(errno::of(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_fusedev::request::NewTime;

    #[test]
    fn bits_go_with_owner_word_of_the_kernel_and_empty_change_only() {
        let none = Setattr { handle: Some(1), ..Setattr::default() };
        assert!(loses_set_id(&none));
        assert!(loses_set_id(&Setattr { uid: Some(0), ..none }));
        assert!(loses_set_id(&Setattr { size: Some(0), kill_suid_sgid: true, ..none }));
        assert!(!loses_set_id(&Setattr { size: Some(0), ..none }));
        assert!(!loses_set_id(&Setattr { mtime: Some(NewTime::Now), ..none }));
    }
}
