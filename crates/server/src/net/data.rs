//! Requests for content: who may, and what of it.
//!
//! A client shows the ticket of the file with every request; a ticket that was good is remembered for the connection, by
//! file. Other servers of the instance need none.

use super::frame::{give_back, room};
use super::hosted::Hosted;
use forebay_model::layout::SUBSTRIPES_MAX;
use forebay_wire::message::{BULK_MAX, DataRequest, Piece, Reply, Role, SessionId};
use forebay_wire::ticket::{Rights, Ticket};
use forebay_wire::{DataService, FileId, FsError, Result, Span};
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// Tickets remembered of a connection; then they are checked anew.
const TICKETS_MAX: usize = 1024;

/// One connection's way to the content on this server.
pub(crate) struct Content<'a> {
    hosted: &'a Hosted,
    role: Role,
    session: SessionId,
    good: HashMap<(FileId, Ticket), Rights>,
    buffer: Vec<u8>,
    length: usize,
    /// The client is on this machine: it can be given descriptors.
    on_this_machine: bool,
    descriptors: Vec<OwnedFd>,
}

impl<'a> Content<'a> {
    pub(crate) fn new(
        hosted: &'a Hosted,
        role: Role,
        session: SessionId,
        on_this_machine: bool,
    ) -> Content<'a> {
        let (good, buffer, descriptors) = (HashMap::new(), Vec::new(), Vec::new());
        Content { hosted, role, session, good, buffer, length: 0, on_this_machine, descriptors }
    }

    /// The descriptors that the last answer carries.
    pub(crate) fn descriptors(&self) -> &[OwnedFd] {
        &self.descriptors
    }

    /// What the last answer carries.
    pub(crate) fn bulk(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    /// The last answer was sent.
    pub(crate) fn done(&mut self) {
        self.length = 0;
        self.descriptors.clear();
        give_back(&mut self.buffer);
    }

    pub(crate) fn carry_out(&mut self, request: DataRequest, bulk: &[u8]) -> Reply {
        if request.is_for_peers() && self.role != Role::Peer {
            return Reply::Failed { error: FsError::AccessDenied };
        }
        self.try_to(request, bulk).unwrap_or_else(|error| {
            self.length = 0;
            Reply::Failed { error }
        })
    }

    fn try_to(&mut self, request: DataRequest, bulk: &[u8]) -> Result<Reply> {
        let data = &*self.hosted.namespace.data;
        match request {
            DataRequest::Read { file, substripes, ticket, pieces } => {
                self.check(&ticket, file, Rights::Read)?;
                let (spans, length) = spans(&pieces)?;
                let kept = data.kept(file, substripes)?;
                let (share, _gate) = kept.enter();
                let is_whole = share.read(&spans, room(&mut self.buffer, length))?;
                self.length = length;
                Ok(Reply::Read { is_whole })
            }
            DataRequest::Write { file, substripes, ticket, pieces } => {
                self.check(&ticket, file, Rights::ReadWrite)?;
                let (spans, length) = spans(&pieces)?;
                if length != bulk.len() {
                    return Err(FsError::InvalidArgument);
                }
                let kept = data.kept(file, substripes)?;
                let (share, _gate) = kept.enter();
                Ok(Reply::Size { bytes: share.write(&spans, bulk)? as u64 })
            }
            DataRequest::Fallocate { file, substripes, ticket, substripe, start, end, mode } => {
                self.check(&ticket, file, Rights::ReadWrite)?;
                if substripe >= substripes || start >= end {
                    return Err(FsError::InvalidArgument);
                }
                let kept = data.kept(file, substripes)?;
                let (share, _gate) = kept.enter();
                share.fallocate(substripe, start..end, mode).map(|()| Reply::Done)
            }
            DataRequest::Seek { file, substripes, ticket, substripe, offset, what } => {
                self.check(&ticket, file, Rights::Read)?;
                let kept = data.kept(file, substripes)?;
                let (share, _gate) = kept.enter();
                Ok(Reply::Offset { offset: share.seek(substripe, offset, what)? })
            }
            DataRequest::SyncShare { file, substripes, ticket, data_only } => {
                self.check(&ticket, file, Rights::Read)?;
                data.sync_file(file, substripes, data_only).map(|()| Reply::Done)
            }
            DataRequest::Space => Ok(Reply::FragmentSpace { space: data.space()? }),
            DataRequest::SyncAll => data.sync().map(|()| Reply::Done),
            DataRequest::Descriptors { file, substripes, ticket, write, make } => {
                let needed = if write { Rights::ReadWrite } else { Rights::Read };
                self.check(&ticket, file, needed)?;
                let is_possible = self.on_this_machine && substripes <= SUBSTRIPES_MAX;
                if !is_possible || (write && !self.hosted.namespace.direct_writes) {
                    return Err(FsError::Unsupported);
                }
                let given = data.give(file, substripes, write, make)?;
                let (substripes, descriptors) = given.into_iter().unzip();
                self.descriptors = descriptors;
                Ok(Reply::Descriptors { substripes })
            }
            DataRequest::Cut { file, substripes, substripe, length } => {
                let kept = data.kept(file, substripes)?;
                let (share, _gate) = kept.enter();
                share.cut(substripe, length).map(|()| Reply::Done)
            }
            DataRequest::Remove { file, substripes } => data.remove(file, substripes).map(|()| Reply::Done),
            DataRequest::Blocks { file, substripe } => {
                Ok(Reply::Size { bytes: data.blocks(file, substripe)? })
            }
            DataRequest::Extents { file, substripes } => {
                Ok(Reply::Extents { extents: data.extents(file, substripes)? })
            }
            DataRequest::Account => Ok(Reply::Account { account: data.account()? }),
            DataRequest::List { cookie } => {
                let listing = data.list(cookie)?;
                Ok(Reply::Substripes { files: listing.entries, next: listing.next })
            }
        }
    }

    fn check(&mut self, ticket: &Ticket, file: FileId, needed: Rights) -> Result<()> {
        if self.role == Role::Peer {
            return Ok(());
        }
        let rights = match self.good.get(&(file, *ticket)) {
            Some(rights) => *rights,
            None => {
                let rights = self.hosted.tickets.check(ticket, file, self.session);
                let rights = rights.ok_or(FsError::AccessDenied)?;
                if self.good.len() >= TICKETS_MAX {
                    self.good.clear();
                }
                self.good.insert((file, *ticket), rights);
                rights
            }
        };
        if rights >= needed { Ok(()) } else { Err(FsError::AccessDenied) }
    }
}

/// Pieces with their places in the buffer, and how long that is.
fn spans(pieces: &[Piece]) -> Result<(Vec<Span>, usize)> {
    let mut at = 0usize;
    let mut spans = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let len = piece.length as usize;
        let end = piece.offset.checked_add(u64::from(piece.length)).ok_or(FsError::FileTooLarge)?;
        if end > i64::MAX as u64 {
            return Err(FsError::FileTooLarge);
        }
        spans.push(Span { substripe: piece.substripe, offset: piece.offset, at, len });
        at += len;
        if at > BULK_MAX {
            return Err(FsError::InvalidArgument);
        }
    }
    Ok((spans, at))
}
