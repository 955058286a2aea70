//! Attributes of objects and of the file system.

use crate::adapter::Adapter;
use crate::errno;
use crate::translate;
use forebay_client::Handle;
use forebay_wire::SetAttr;
use fuser::{FileHandle, INodeNo, ReplyAttr, ReplyStatfs, Request, TimeOrNow};
use std::time::SystemTime;

/// What a setattr request changes.
pub(crate) struct Change {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<TimeOrNow>,
    pub mtime: Option<TimeOrNow>,
    pub ctime: Option<SystemTime>,
}

pub(crate) fn getattr(adapter: &Adapter, ino: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
    let handle = handle.map(|handle| Handle(handle.0));
    match adapter.volume.getattr(translate::ino(ino), handle) {
        Ok(attr) => reply.attr(&adapter.time_to_live(&attr), &adapter.show(&attr)),
        Err(error) => reply.error(errno::of(error)),
    }
}

pub(crate) fn setattr(
    adapter: &Adapter,
    request: &Request,
    ino: INodeNo,
    handle: Option<FileHandle>,
    change: Change,
    reply: ReplyAttr,
) {
    let caller = translate::caller(request);
    let change = SetAttr {
        mode: change.mode.map(|mode| mode & 0o7777),
        uid: change.uid,
        gid: change.gid,
        size: change.size,
        atime: change.atime.map(translate::set_time),
        mtime: change.mtime.map(translate::set_time),
        ctime: change.ctime.map(translate::from_request_time),
        kill_suid_sgid: adapter.kills_privileges() && loses_set_id(&change, caller.uid),
    };
    let handle = handle.map(|handle| Handle(handle.0));
    match adapter.volume.setattr(caller, translate::ino(ino), handle, &change) {
        Ok(attr) => reply.attr(&adapter.time_to_live(&attr), &adapter.show(&attr)),
        Err(error) => reply.error(errno::of(error)),
    }
}

/// A change of owner clears the set-id bits, as does a change of size by anyone but root. The protocol has a flag for
/// the latter that fuser 0.18 does not hand on; the user id stands in for it (the kernel's own rule is the capability
/// CAP_FSETID, which only root has outside of tests). A request without any change is what the kernel makes of a chown to
/// nobody and no group: all that is left of it is that the bits go.
fn loses_set_id(change: &Change, uid: u32) -> bool {
    let owner = change.uid.is_some() || change.gid.is_some();
    owner || (change.size.is_some() && uid != 0) || changes_nothing(change)
}

fn changes_nothing(change: &Change) -> bool {
    let attributes = change.mode.is_none() && change.uid.is_none() && change.gid.is_none();
    let times = change.atime.is_none() && change.mtime.is_none() && change.ctime.is_none();
    attributes && times && change.size.is_none()
}

pub(crate) fn statfs(adapter: &Adapter, reply: ReplyStatfs) {
    match adapter.volume.statfs() {
        Ok(fs) => reply.statfs(
            fs.blocks,
            fs.blocks_free,
            fs.blocks_available,
            fs.files,
            fs.files_free,
            fs.block_size,
            fs.name_max,
            fs.block_size,
        ),
        Err(error) => reply.error(errno::of(error)),
    }
}
