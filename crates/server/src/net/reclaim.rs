//! What a session held before its server was started anew, taken up again.
//!
//! Claims may come twice, when the connection broke in between: they say how much there is, and add nothing to what was
//! claimed before.

use super::requests::Asking;
use crate::node;
use forebay_wire::message::{Claim, Reply};
use forebay_wire::{Ino, Result};
use std::ffi::OsString;

/// In place of a name that is not known. If something has this name, it is another object.
const NO_NAME: &str = "?";

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
    let (parent, name) = match place {
        Some((parent, name)) => (parent, name.as_os_str().to_owned()),
        None => (Ino::ROOT, OsString::from(NO_NAME)),
    };
    // One for all that the session has.
    asking.home.hosted.metadata.reclaim(&node::Claim { ino, generation, parent, name, count: 1 })?;
    asking.keep(ino, asking.session.claim(ino, count))
}
