//! Extended attributes.
//!
//! `user.*` and `trusted.*` are the volume's. `security.*` and `system.*` (capabilities, ACLs) are not kept: the mount
//! is nosuid and checks mode bits only, so an attribute that looks like a rule but is not enforced would mislead. They
//! are answered here, because the kernel and `ls` ask for `security.capability` very often.

use crate::adapter::Adapter;
use crate::errno;
use crate::ops::names::answer_done;
use crate::translate;
use forebay_fusedev::Context;
use forebay_fusedev::reply::{DoneReply, XattrReply};
use forebay_fusedev::request::Setxattr;
use forebay_wire::{FsError, Result, XattrMode};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

fn is_enforced_elsewhere(name: &OsStr) -> bool {
    [&b"security."[..], b"system."].iter().any(|prefix| name.as_bytes().starts_with(prefix))
}

pub(crate) fn get(adapter: &Adapter, context: &Context, name: &OsStr, size: u32, reply: XattrReply) {
    if is_enforced_elsewhere(name) {
        return reply.refuse(errno::of(absent(name)));
    }
    answer(adapter.volume.getxattr(translate::caller(context), translate::ino(context), name), size, reply);
}

/// ACL tools take "not supported" as a file system without ACLs; the others expect "no such attribute".
fn absent(name: &OsStr) -> FsError {
    match name.as_bytes().starts_with(b"system.") {
        true => FsError::Unsupported,
        false => FsError::NoAttribute,
    }
}

pub(crate) fn list(adapter: &Adapter, context: &Context, size: u32, reply: XattrReply) {
    answer(adapter.volume.listxattr(translate::caller(context), translate::ino(context)), size, reply);
}

/// Size 0 asks how large a buffer is needed.
fn answer(value: Result<Vec<u8>>, size: u32, reply: XattrReply) {
    match value {
        Ok(value) if size == 0 => reply.length(value.len() as u32), // values are at most 64 KiB
        Ok(value) if value.len() <= size as usize => reply.value(&value),
        Ok(_) => reply.refuse(errno::of(FsError::AttributeTooSmallBuffer)),
        Err(error) => reply.refuse(errno::of(error)),
    }
}

pub(crate) fn set(adapter: &Adapter, context: &Context, set: &Setxattr<'_>, reply: DoneReply) {
    if is_enforced_elsewhere(set.name) {
        return reply.refuse(errno::of(FsError::Unsupported));
    }
    let mode = match set.flags {
        0 => XattrMode::Any,
        libc::XATTR_CREATE => XattrMode::Create,
        libc::XATTR_REPLACE => XattrMode::Replace,
        _ => return reply.refuse(errno::of(FsError::InvalidArgument)),
    };
    let (caller, ino) = (translate::caller(context), translate::ino(context));
    answer_done(adapter.volume.setxattr(caller, ino, set.name, set.value, mode), reply);
}

pub(crate) fn remove(adapter: &Adapter, context: &Context, name: &OsStr, reply: DoneReply) {
    if is_enforced_elsewhere(name) {
        return reply.refuse(errno::of(absent(name)));
    }
    answer_done(adapter.volume.removexattr(translate::caller(context), translate::ino(context), name), reply);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_attributes_without_force_here_are_refused() {
        for name in ["security.capability", "system.posix_acl_access"] {
            assert!(is_enforced_elsewhere(OsStr::new(name)), "{name}");
        }
        for name in ["user.dwfs.stripe_size", "trusted.overlay.opaque", "user.security."] {
            assert!(!is_enforced_elsewhere(OsStr::new(name)), "{name}");
        }
    }
}
