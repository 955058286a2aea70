//! Locks at the metadata server.
//!
//! What was granted is remembered, to be claimed again from a server that was started anew, and so that closing a file
//! without locks asks nobody. Of files whose locks are entrusted to this client ([`super::entrusted`]) nobody is asked.

use super::connection::Sink;
use super::entrusted::{Asking, Returning, Turn};
use super::held::{Here, LOCKS_OF_FILE_HERE_MAX, Life};
use super::home::Home;
use super::link::{Ask, NOT_UNDERSTOOD, Patience};
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
            self.home.order(request)?;
            self.home.held.unlocked(file, owner, scope);
        }
        Ok(())
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

    fn ask(&self, request: &LockRequest) -> Result<(Reply, Life)> {
        let set = MetadataRequest::SetLock { request: *request, wait: None, reclaim: false };
        self.home.link.ask_in(Patience::Wait, Ask::Metadata(&set), &[], &mut Sink::Nothing, |_| true)
    }

    /// A lock was granted: what is entrusted with it is taken up.
    fn was_granted(&self, request: &LockRequest, (reply, life): (Reply, Life), asking: &Asking<'_>) {
        let held = &self.home.held;
        held.locked(request);
        if let Reply::Entrusted { number, valid_ms } = reply
            && held.life() == Some(life)
            && held.locks_of(request.file).len() <= LOCKS_OF_FILE_HERE_MAX
        {
            asking.is_answered(number, valid_ms);
        }
    }

    fn wait(&self, request: &LockRequest, wait: WaitId) -> Result<(Reply, Life)> {
        let waiting = &self.home.waiting;
        loop {
            if waiting.is_cancelled(wait) {
                return Err(FsError::Interrupted);
            }
            let set = MetadataRequest::SetLock { request: *request, wait: Some(wait), reclaim: false };
            let ask = Ask::Metadata(&set);
            let (reply, life) =
                self.home.link.ask_in(Patience::Wait, ask, &[], &mut Sink::Nothing, |_| true)?;
            match reply {
                Reply::Done | Reply::Entrusted { .. } => return Ok((reply, life)),
                Reply::LockWaits => {}
                _ => return Err(NOT_UNDERSTOOD),
            }
            // It may have been called back before the server knew of it.
            if waiting.is_cancelled(wait) {
                self.call_back(wait);
            }
            match waiting.outcome(wait, life) {
                Outcome::Answered(answer) => return answer.map(|()| (Reply::Done, life)),
                Outcome::AskAgain => {}
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
        let granted = match wait {
            None => self.ask(request)?,
            Some(wait) => {
                self.home.waiting.begin(wait)?;
                let granted = self.wait(request, wait);
                self.home.waiting.end(wait);
                granted?
            }
        };
        if !matches!(granted.0, Reply::Done | Reply::Entrusted { .. }) {
            return Err(NOT_UNDERSTOOD);
        }
        self.was_granted(request, granted, &asking);
        Ok(())
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
