//! Requests for locks.

use super::home::Home;
use super::requests::Asking;
use crate::locks::Event;
use forebay_wire::message::Reply;
use forebay_wire::{FsError, Ino, LockFamily, LockOwner, LockRequest, LockScope, Result, WaitId};

/// Takes a lock, or waits for it. One that was held before the server started is taken at once or never; others have to
/// let those who were there before come first.
pub(crate) fn lock(
    asking: &Asking<'_>,
    request: LockRequest,
    wait: Option<WaitId>,
    reclaim: bool,
) -> Result<Reply> {
    if !reclaim {
        asking.await_others()?;
    }
    let id = match wait.filter(|_| !reclaim) {
        Some(wait) => Home::waiting_lock_request(wait).ok_or(FsError::InvalidArgument)?,
        None => asking.home.lock_request(),
    };
    let wait = wait.is_some() && !reclaim;
    asking.home.await_entrusted(request.file, asking.session)?;
    let event = Event::Lock { session: asking.session.number, id, request, wait };
    match asking.home.ask_locks(event, Some(id)) {
        Some(outcome) => outcome.map(|()| granted(asking, request.file, reclaim)),
        None => Ok(Reply::LockWaits),
    }
}

fn granted(asking: &Asking<'_>, file: Ino, reclaim: bool) -> Reply {
    let entrusted = (!reclaim).then(|| asking.home.entrust(file, asking.session)).flatten();
    entrusted.map_or(Reply::Done, |(number, valid_ms)| Reply::Entrusted { number, valid_ms })
}

/// A lock that is in the way, whoever decides about it.
pub(crate) fn test(asking: &Asking<'_>, request: &LockRequest) -> Result<Reply> {
    asking.home.await_entrusted(request.file, asking.session)?;
    Ok(asking.home.test_lock(asking.session, request))
}

pub(crate) fn unlock(asking: &Asking<'_>, file: Ino, owner: LockOwner, scope: LockScope) -> Result<()> {
    let id = asking.home.lock_request();
    let event = Event::Unlock { session: asking.session.number, id, file, owner, scope };
    asking.home.ask_locks(event, Some(id)).unwrap_or(Ok(()))
}

pub(crate) fn owner_closed(asking: &Asking<'_>, file: Ino, owner: LockOwner, family: LockFamily) {
    asking.home.apply(Event::OwnerClosed { session: asking.session.number, file, owner, family });
}
