//! The answer to a request that an earlier server carried out and did not answer, from what it wrote down.
//!
//! What was made is looked up under the name it was given. When somebody else removed or moved it since, that is what the
//! answer says: it is not made again.

use super::files;
use super::requests::{Asking, attr_answer};
use super::session::Answer;
use crate::deeds::Values;
use forebay_wire::message::{MetadataRequest, Name, Reply};
use forebay_wire::{Attr, FsError, Ino, Result};

/// What was answered, or would have been.
pub(crate) fn answer(asking: &Asking<'_>, request: &MetadataRequest, values: Values) -> Result<Answer> {
    use MetadataRequest as R;
    let [first, second, ..] = values;
    Ok(match request {
        R::Create { who, parent, name, flags, .. } => {
            let attr = made(asking, *parent, name, first)?;
            let opened = files::give_open(asking, who, *parent, attr, *flags, None)?;
            Reply::Opened { opened }.into()
        }
        R::Mknod { parent, name, .. }
        | R::Mkdir { parent, name, .. }
        | R::Symlink { parent, name, .. }
        | R::Link { parent, name, .. } => {
            let attr = made(asking, *parent, name, first)?;
            attr_answer(asking.found(asking.home.grant_names(*parent, asking.session), attr)?)
        }
        R::SetAttr { ino, .. } => {
            let valid_ms = asking.grant_answered(*ino);
            attr_answer(Attr { valid_ms, ..asking.tree().getattr(*ino)? })
        }
        R::Reserve { .. } | R::WriteInline { .. } => Reply::Size { bytes: first }.into(),
        R::AppendInline { .. } => Reply::Appended { offset: first, bytes: second }.into(),
        R::CopyInline { .. } => Reply::Offset { offset: (first != 0).then_some(second) }.into(),
        _ => Reply::Done.into(),
    })
}

/// What was made, with a reference, if it still has its name.
fn made(asking: &Asking<'_>, parent: Ino, name: &Name, ino: u64) -> Result<Attr> {
    let attr = match asking.home.hosted.metadata.lookup(parent, name.as_os_str()) {
        Err(FsError::NotFound) => return Err(FsError::Stale),
        attr => attr?,
    };
    if attr.ino == Ino(ino) {
        return Ok(attr);
    }
    asking.tree().forget(attr.ino, 1);
    Err(FsError::Stale)
}
