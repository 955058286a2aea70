//! What a session held before its server was started anew, taken up again.

use super::requests::Asking;
use forebay_wire::message::{Claim, Reply};
use forebay_wire::{Attr, Caller, Ino, Result};

/// The server itself: what a session was given once is not asked for again.
const SERVER: Caller = Caller { uid: 0, gid: 0, pid: 0 };

/// Takes references up; tells which objects are gone.
pub(crate) fn references(asking: &Asking<'_>, items: Vec<Claim>) -> Reply {
    let gone = items.into_iter().filter_map(|claim| {
        let ino = claim.ino;
        take_up(asking, claim).is_err().then_some(ino)
    });
    Reply::Claimed { gone: gone.collect() }
}

fn take_up(asking: &Asking<'_>, claim: Claim) -> Result<()> {
    let Claim { ino, generation, count, place } = claim;
    if ino == Ino::ROOT {
        return Ok(());
    }
    let is_it = |attr: &Attr| attr.ino == ino && attr.generation == generation;
    match place {
        Some((parent, name)) => {
            let attr = asking.tree().lookup(SERVER, parent, name.as_os_str())?;
            if !is_it(&attr) {
                asking.tree().forget(attr.ino, 1);
                return Err(forebay_wire::FsError::Stale);
            }
        }
        // It lost its name: somebody has it open, or it is gone.
        None => {
            let attr = asking.tree().getattr(ino)?;
            return if is_it(&attr) { Ok(()) } else { Err(forebay_wire::FsError::Stale) };
        }
    }
    asking.count(ino, count)
}
