//! Locks at the metadata server.
//!
//! What was granted is remembered, to be claimed again from a server that was started anew, and so that closing a file
//! without locks asks nobody. Of files whose locks are entrusted to this client ([`super::entrusted`]) nobody is asked.
//!
//! An answer may come when the server that gave it is gone and another thread has claimed from the next one what was held until
//! then. It counts for nothing: a lock that was given so was not claimed, and may be another client's; one that was given up so was
//! claimed. So what is remembered changes only in the life that has answered, and else the next one is asked.

use super::connection::Sink;
use super::entrusted::{Asking, Returning, Turn};
use super::held::{Here, LOCKS_OF_FILE_HERE_MAX, Life};
use super::home::Home;
use super::link::{Ask, NOT_UNDERSTOOD, Patience, done};
use super::waiting::Outcome;
use forebay_wire::message::{MetadataRequest, Reply};
use forebay_wire::{
    FsError, HeldLock, Ino, LockFamily, LockOwner, LockRequest, LockScope, LockService, Result, WaitId,
};
use std::ops::ControlFlow;
use std::sync::Arc;

pub(crate) struct RemoteLocks {
    home: Arc<Home>,
}

impl RemoteLocks {
    pub(crate) fn new(home: Arc<Home>) -> RemoteLocks {
        RemoteLocks { home }
    }

    /// Decides about a lock, if that is for this client to do; else the server is to be asked while the result is held.
    fn turn<T>(&self, file: Ino, decide: impl Fn(bool) -> Option<T>) -> Result<ControlFlow<T, Asking<'_>>> {
        loop {
            match self.home.entrusted.turn(file, &decide) {
                Turn::Decided(decided) => return Ok(ControlFlow::Break(decided)),
                Turn::Ask(asking) => return Ok(ControlFlow::Continue(asking)),
                Turn::Return(returning) => give_back(&self.home, &returning)?,
            }
        }
    }

    /// Gives locks up, here or by a request to the server.
    fn give_up(
        &self,
        file: Ino,
        owner: LockOwner,
        scope: LockScope,
        request: &MetadataRequest,
    ) -> Result<()> {
        let unlocked = |_| {
            self.home.held.unlocked(file, owner, scope);
            Some(())
        };
        if let ControlFlow::Continue(_asking) = self.turn(file, unlocked)? {
            while !self.home.held.unlocked_in(file, owner, scope, self.order(request)?) {}
        }
        Ok(())
    }

    /// Asks for something that is done or not; the life in which it was.
    fn order(&self, request: &MetadataRequest) -> Result<Life> {
        let (reply, life) = self.ask(request)?;
        done(reply).map(|()| life)
    }

    fn lock_here(&self, request: &LockRequest, waits: bool) -> Option<Result<()>> {
        match self.home.held.lock_here(request) {
            Here::Taken => Some(Ok(())),
            // Of `flock` the one that is there may have to be given up.
            Here::InTheWay if !waits && request.scope.family() == LockFamily::Bytes => {
                Some(Err(FsError::WouldBlock))
            }
            Here::InTheWay | Here::TooMany => None,
        }
    }

    fn ask(&self, request: &MetadataRequest) -> Result<(Reply, Life)> {
        self.home.link.ask_in(Patience::Wait, Ask::Metadata(request), &[], &mut Sink::Nothing, |_| true)
    }

    /// A lock was granted: what is entrusted with it is taken up. `false`: by a server that is gone.
    fn was_granted(
        &self,
        request: &LockRequest,
        (reply, life): (Reply, Life),
        asking: &Asking<'_>,
    ) -> Result<bool> {
        let held = &self.home.held;
        if !matches!(reply, Reply::Done | Reply::Entrusted { .. }) {
            return Err(NOT_UNDERSTOOD);
        }
        if !held.locked(request, life) {
            return Ok(false);
        }
        if let Reply::Entrusted { number, valid_ms } = reply
            && held.locks_of(request.file).len() <= LOCKS_OF_FILE_HERE_MAX
        {
            asking.is_answered(number, valid_ms);
        }
        Ok(true)
    }

    fn wait(&self, request: &LockRequest, wait: WaitId, asking: &Asking<'_>) -> Result<()> {
        let waiting = &self.home.waiting;
        loop {
            if waiting.is_cancelled(wait) {
                return Err(FsError::Interrupted);
            }
            let set = MetadataRequest::SetLock { request: *request, wait: Some(wait), reclaim: false };
            let (reply, life) = self.ask(&set)?;
            if !matches!(reply, Reply::LockWaits) {
                match self.was_granted(request, (reply, life), asking)? {
                    true => return Ok(()),
                    false => continue,
                }
            }
            // It may have been called back before the server knew of it.
            if waiting.is_cancelled(wait) {
                self.call_back(wait);
            }
            match waiting.outcome(wait, life) {
                Outcome::Answered(Err(error)) => return Err(error),
                Outcome::Answered(Ok(())) if self.was_granted(request, (Reply::Done, life), asking)? => {
                    return Ok(());
                }
                Outcome::Answered(Ok(())) | Outcome::AskAgain => {}
            }
        }
    }

    /// Tells the server that nobody waits any more; if it did not know, the answer is on its way.
    fn call_back(&self, wait: WaitId) {
        if let Ok(Reply::Flag { value: true }) = self.home.ask(&MetadataRequest::CancelLock { wait }) {
            self.home.waiting.answer(wait, Err(FsError::Interrupted));
        }
    }
}

impl LockService for RemoteLocks {
    fn test(&self, request: &LockRequest) -> Result<Option<HeldLock>> {
        let _asking = self.turn(request.file, |_| None::<()>)?;
        match self.home.ask(&MetadataRequest::GetLock { request: *request })? {
            Reply::Lock { held } => Ok(held),
            _ => Err(NOT_UNDERSTOOD),
        }
    }

    fn lock(&self, request: &LockRequest, wait: Option<WaitId>) -> Result<()> {
        let decide = |may_give: bool| may_give.then(|| self.lock_here(request, wait.is_some())).flatten();
        let asking = match self.turn(request.file, decide)? {
            ControlFlow::Break(outcome) => return outcome,
            ControlFlow::Continue(asking) => asking,
        };
        let Some(wait) = wait else {
            let set = MetadataRequest::SetLock { request: *request, wait: None, reclaim: false };
            while !self.was_granted(request, self.ask(&set)?, &asking)? {}
            return Ok(());
        };
        self.home.waiting.begin(wait)?;
        let granted = self.wait(request, wait, &asking);
        self.home.waiting.end(wait);
        granted
    }

    fn unlock(&self, file: Ino, owner: LockOwner, scope: LockScope) -> Result<()> {
        self.give_up(file, owner, scope, &MetadataRequest::Unlock { ino: file, owner, scope })
    }

    fn cancel(&self, wait: WaitId) {
        if self.home.waiting.cancel(wait) {
            self.call_back(wait);
        }
    }

    fn owner_closed(&self, file: Ino, owner: LockOwner, family: LockFamily) -> Result<()> {
        if !self.home.held.has_locks(file, owner, family) {
            return Ok(());
        }
        let scope = match family {
            LockFamily::File => LockScope::File,
            LockFamily::Bytes => LockScope::Bytes(forebay_wire::LockRange::WHOLE),
        };
        self.give_up(file, owner, scope, &MetadataRequest::ReleaseLocks { ino: file, owner, family })
    }
}

/// Tells the server what is held of a file.
fn give_back(home: &Home, returning: &Returning<'_>) -> Result<()> {
    let (ino, number) = (returning.file, returning.number);
    home.order(&MetadataRequest::ReturnLocks { ino, number, held: Some(home.held.locks_of(ino)) })?;
    returning.is_done();
    Ok(())
}

/// Another client asks for locks of a file: they are the server's again afterwards.
pub(crate) fn recalled(home: &Home, ino: Ino, number: u64) -> Result<()> {
    match home.entrusted.recalled(ino) {
        Some(returning) => give_back(home, &returning),
        None => home.order(&MetadataRequest::ReturnLocks { ino, number, held: None }),
    }
}
