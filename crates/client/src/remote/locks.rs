//! Locks at the metadata server.
//!
//! What was granted is remembered, to be claimed again from a server that was started anew, and so that closing a file
//! without locks asks nobody.

use super::connection::Sink;
use super::home::Home;
use super::link::{Ask, NOT_UNDERSTOOD, Patience};
use super::waiting::Outcome;
use forebay_wire::message::{MetadataRequest, Reply};
use forebay_wire::{
    FsError, HeldLock, Ino, LockFamily, LockOwner, LockRequest, LockScope, LockService, Result, WaitId,
};
use std::sync::Arc;

pub(crate) struct RemoteLocks {
    home: Arc<Home>,
}

impl RemoteLocks {
    pub(crate) fn new(home: Arc<Home>) -> RemoteLocks {
        RemoteLocks { home }
    }

    fn wait(&self, request: &LockRequest, wait: WaitId) -> Result<()> {
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
                Reply::Done => return Ok(()),
                Reply::LockWaits => {}
                _ => return Err(NOT_UNDERSTOOD),
            }
            // It may have been called back before the server knew of it.
            if waiting.is_cancelled(wait) {
                self.call_back(wait);
            }
            match waiting.outcome(wait, life) {
                Outcome::Answered(answer) => return answer,
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
        match self.home.ask(&MetadataRequest::GetLock { request: *request })? {
            Reply::Lock { held } => Ok(held),
            _ => Err(NOT_UNDERSTOOD),
        }
    }

    fn lock(&self, request: &LockRequest, wait: Option<WaitId>) -> Result<()> {
        match wait {
            None => {
                let set = MetadataRequest::SetLock { request: *request, wait: None, reclaim: false };
                self.home.order(&set)?;
            }
            Some(wait) => {
                self.home.waiting.begin(wait)?;
                let granted = self.wait(request, wait);
                self.home.waiting.end(wait);
                granted?;
            }
        }
        self.home.held.locked(request);
        Ok(())
    }

    fn unlock(&self, file: Ino, owner: LockOwner, scope: LockScope) -> Result<()> {
        self.home.order(&MetadataRequest::Unlock { ino: file, owner, scope })?;
        self.home.held.unlocked(file, owner, scope);
        Ok(())
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
        self.home.order(&MetadataRequest::ReleaseLocks { ino: file, owner, family })?;
        let scope = match family {
            LockFamily::File => LockScope::File,
            LockFamily::Bytes => LockScope::Bytes(forebay_wire::LockRange::WHOLE),
        };
        self.home.held.unlocked(file, owner, scope);
        Ok(())
    }
}
