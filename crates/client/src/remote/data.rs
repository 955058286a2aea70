//! The data service of one server on another machine, and the shares of its files.
//!
//! A request has at most as much data as a frame carries; larger ones go in several, in order. What was written is a prefix
//! of what was asked for, as with a local fragment.

use super::connection::Sink;
use super::direct::Direct;
use super::held::Life;
use super::link::{Ask, Link, NOT_UNDERSTOOD, Patience, done};
use super::tickets::Tickets;
use super::unsynced::Unsynced;
use forebay_wire::message::{BULK_MAX, DataRequest, Piece, Reply, SPANS_MAX};
use forebay_wire::{
    DataService, End, EndOfSync, Extent, FallocateMode, FileId, FragmentAccount, FragmentSpace, FsError,
    Listing, Result, SeekWhat, Share, Span, Ticket, Window,
};
use std::collections::HashMap;
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// What all shares of one server need.
pub(crate) struct Server {
    pub(crate) link: Link,
    /// Rights of a client; a server of the same instance needs none.
    pub(crate) tickets: Option<Arc<Tickets>>,
    /// Descriptors are asked for.
    pub(crate) direct: bool,
    shares: Mutex<HashMap<FileId, Weak<RemoteShare>>>,
}

pub(crate) struct RemoteData {
    server: Arc<Server>,
}

pub(crate) struct RemoteShare {
    server: Arc<Server>,
    file: FileId,
    substripes: u32,
    direct: Option<Direct>,
    unsynced: Unsynced,
}

impl RemoteData {
    pub(crate) fn new(link: Link, tickets: Option<Arc<Tickets>>, direct: bool) -> RemoteData {
        RemoteData { server: Arc::new(Server { link, tickets, direct, shares: Mutex::default() }) }
    }
}

impl Server {
    pub(crate) fn ask(
        &self,
        request: &DataRequest,
        carried: &[&[u8]],
        sink: &mut Sink<'_, '_>,
    ) -> Result<Reply> {
        self.link.ask(Patience::Wait, Ask::Data(request), carried, sink)
    }

    /// Asks, and says in which life of the server it answered.
    fn ask_in(&self, request: &DataRequest, carried: &[&[u8]]) -> Result<(Reply, Life)> {
        self.link.ask_in(Patience::Wait, Ask::Data(request), carried, &mut Sink::Nothing, |_| true)
    }

    fn order_in(&self, request: &DataRequest) -> Result<Life> {
        let (reply, life) = self.ask_in(request, &[])?;
        done(reply).map(|()| life)
    }

    fn order(&self, request: &DataRequest) -> Result<()> {
        self.order_in(request).map(drop)
    }

    fn shares(&self) -> MutexGuard<'_, HashMap<FileId, Weak<RemoteShare>>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ticket(&self, file: FileId) -> Result<Ticket> {
        match &self.tickets {
            Some(tickets) => tickets.best(file),
            None => Ok(Ticket([0; _])),
        }
    }
}

impl DataService for RemoteData {
    fn share(&self, file: FileId, substripes: u32) -> Arc<dyn Share> {
        let mut shares = self.server.shares();
        if let Some(share) = shares.get(&file).and_then(Weak::upgrade) {
            return share;
        }
        let direct = self.server.direct.then(|| Direct::new(file, substripes));
        let share = Arc::new(RemoteShare {
            server: self.server.clone(),
            file,
            substripes,
            direct,
            unsynced: Unsynced::default(),
        });
        shares.insert(file, Arc::downgrade(&share));
        share
    }

    fn remove(&self, file: FileId, substripes: u32) -> Result<()> {
        self.server.order(&DataRequest::Remove { file, substripes })
    }

    fn blocks(&self, file: FileId, substripe: u32) -> Result<u64> {
        match self.server.ask(&DataRequest::Blocks { file, substripe }, &[], &mut Sink::Nothing)? {
            Reply::Size { bytes } => Ok(bytes),
            _ => Err(NOT_UNDERSTOOD),
        }
    }

    fn extents(&self, file: FileId, substripes: u32) -> Result<Vec<Extent>> {
        let request = DataRequest::Extents { file, substripes };
        extents(self.server.ask(&request, &[], &mut Sink::Nothing)?, substripes)
    }

    fn begin_extents(&self, file: FileId, substripes: u32) -> Option<End<'_, Vec<Extent>>> {
        let begun = self.server.link.begin(Ask::Data(&DataRequest::Extents { file, substripes }))?;
        Some(Box::new(move || Some(begun.end()?.and_then(|(reply, _)| extents(reply, substripes)))))
    }

    fn list(&self, cookie: u64) -> Result<Listing> {
        match self.server.ask(&DataRequest::List { cookie }, &[], &mut Sink::Nothing)? {
            Reply::Substripes { files, next } => Ok(Listing { entries: files, next }),
            _ => Err(NOT_UNDERSTOOD),
        }
    }

    fn space(&self) -> Result<FragmentSpace> {
        match self.server.ask(&DataRequest::Space, &[], &mut Sink::Nothing)? {
            Reply::FragmentSpace { space } => Ok(space),
            _ => Err(NOT_UNDERSTOOD),
        }
    }

    fn account(&self) -> Result<FragmentAccount> {
        match self.server.ask(&DataRequest::Account, &[], &mut Sink::Nothing)? {
            Reply::Account { account } => Ok(account),
            _ => Err(NOT_UNDERSTOOD),
        }
    }

    fn sync(&self) -> Result<()> {
        self.server.order(&DataRequest::SyncAll)
    }
}

/// What a reply says of so many substripe files.
fn extents(reply: Reply, substripes: u32) -> Result<Vec<Extent>> {
    match reply {
        Reply::Extents { extents } if extents.len() == substripes as usize => Ok(extents),
        _ => Err(NOT_UNDERSTOOD),
    }
}

/// Spans that fit into one request: how many from the start, the last one maybe cut.
fn fitting(spans: &[Span]) -> Vec<Span> {
    let mut left = BULK_MAX;
    let mut taken = Vec::with_capacity(spans.len().min(SPANS_MAX));
    for span in spans.iter().take(SPANS_MAX) {
        let len = span.len.min(left);
        if len == 0 && span.len > 0 {
            break;
        }
        taken.push(Span { len, ..*span });
        left -= len;
    }
    taken
}

/// What is left of spans after so many bytes.
fn after(spans: &[Span], mut bytes: usize) -> Vec<Span> {
    let mut left = Vec::with_capacity(spans.len());
    for span in spans {
        let gone = bytes.min(span.len);
        bytes -= gone;
        if gone < span.len {
            left.push(Span {
                substripe: span.substripe,
                offset: span.offset + gone as u64,
                at: span.at + gone,
                len: span.len - gone,
            });
        }
    }
    left
}

fn pieces(spans: &[Span]) -> Vec<Piece> {
    let piece =
        |span: &Span| Piece { substripe: span.substripe, offset: span.offset, length: span.len as u32 };
    spans.iter().map(piece).collect()
}

fn total(spans: &[Span]) -> usize {
    spans.iter().map(|span| span.len).sum()
}

/// The parts of a buffer that spans name. They may come in any order; those that overlap are refused.
fn parts<'a>(spans: &[Span], mut buffer: &'a mut [u8]) -> Result<Vec<IoSliceMut<'a>>> {
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by_key(|index| spans[*index].at);
    let mut parts: Vec<Option<IoSliceMut<'a>>> = spans.iter().map(|_| None).collect();
    let mut at = 0;
    for index in order {
        let span = &spans[index];
        let skipped = span.at.checked_sub(at).ok_or(FsError::InvalidArgument)?;
        let (_, rest) = buffer.split_at_mut_checked(skipped).ok_or(FsError::InvalidArgument)?;
        let (part, rest) = rest.split_at_mut_checked(span.len).ok_or(FsError::InvalidArgument)?;
        parts[index] = Some(IoSliceMut::new(part));
        buffer = rest;
        at = span.at + span.len;
    }
    Ok(parts.into_iter().flatten().collect())
}

impl RemoteShare {
    fn read_some(&self, spans: &[Span], buffer: &mut [u8]) -> Result<bool> {
        let (file, substripes, ticket) = (self.file, self.substripes, self.server.ticket(self.file)?);
        let request = DataRequest::Read { file, substripes, ticket, pieces: pieces(spans) };
        let mut parts = parts(spans, buffer)?;
        match self.server.ask(&request, &[], &mut Sink::Parts(&mut parts))? {
            Reply::Read { is_whole } => Ok(is_whole),
            _ => Err(NOT_UNDERSTOOD),
        }
    }

    fn write_some(&self, spans: &[Span], buffer: &[u8]) -> Result<usize> {
        let (file, substripes, ticket) = (self.file, self.substripes, self.server.ticket(self.file)?);
        let request = DataRequest::Write { file, substripes, ticket, pieces: pieces(spans) };
        let part = |span: &Span| buffer.get(span.at..span.at + span.len).ok_or(FsError::InvalidArgument);
        let carried = spans.iter().map(part).collect::<Result<Vec<_>>>()?;
        match self.server.ask_in(&request, &carried)? {
            (Reply::Size { bytes }, life) if bytes <= total(spans) as u64 => {
                self.unsynced.wrote(life);
                Ok(bytes as usize)
            }
            _ => Err(NOT_UNDERSTOOD),
        }
    }
}

impl Share for RemoteShare {
    fn read(&self, spans: &[Span], buffer: &mut [u8]) -> Result<bool> {
        if let Some(direct) = &self.direct
            && let Some(is_whole) = direct.read(&self.server, spans, buffer)?
        {
            return Ok(is_whole);
        }
        let (mut is_whole, mut left) = (true, spans.to_vec());
        while !left.is_empty() {
            let now = fitting(&left);
            is_whole &= self.read_some(&now, buffer)?;
            left = after(&left, total(&now));
        }
        Ok(is_whole)
    }

    fn show(&self, span: &Span, window: &mut dyn Window) -> bool {
        self.direct.as_ref().is_some_and(|direct| direct.show(&self.server, span, window))
    }

    fn write(&self, spans: &[Span], buffer: &[u8]) -> Result<usize> {
        if let Some(direct) = &self.direct
            && let Some(written) = direct.write(&self.server, spans, buffer)?
        {
            return Ok(written);
        }
        let (mut done, mut left) = (0, spans.to_vec());
        while !left.is_empty() {
            let now = fitting(&left);
            match self.write_some(&now, buffer) {
                Ok(written) => {
                    done += written;
                    if written < total(&now) {
                        break;
                    }
                }
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
            left = after(&left, total(&now));
        }
        Ok(done)
    }

    fn fallocate(&self, substripe: u32, range: Range<u64>, mode: FallocateMode) -> Result<()> {
        let ticket = self.server.ticket(self.file)?;
        let life = self.server.order_in(&DataRequest::Fallocate {
            file: self.file,
            substripes: self.substripes,
            ticket,
            substripe,
            start: range.start,
            end: range.end,
            mode,
        })?;
        self.unsynced.wrote(life);
        Ok(())
    }

    fn cut(&self, substripe: u32, length: u64) -> Result<()> {
        let (file, substripes) = (self.file, self.substripes);
        let life = self.server.order_in(&DataRequest::Cut { file, substripes, substripe, length })?;
        self.unsynced.wrote(life);
        Ok(())
    }

    fn seek(&self, substripe: u32, offset: u64, what: SeekWhat) -> Result<Option<u64>> {
        let (file, substripes, ticket) = (self.file, self.substripes, self.server.ticket(self.file)?);
        let request = DataRequest::Seek { file, substripes, ticket, substripe, offset, what };
        match self.server.ask(&request, &[], &mut Sink::Nothing)? {
            Reply::Offset { offset } => Ok(offset),
            _ => Err(NOT_UNDERSTOOD),
        }
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        let (file, substripes, ticket) = (self.file, self.substripes, self.server.ticket(self.file)?);
        let covered = self.unsynced.sync_begins();
        let life = self.server.order_in(&DataRequest::SyncShare { file, substripes, ticket, data_only })?;
        self.unsynced.synced(covered, life)
    }

    fn begin_sync(&self, data_only: bool) -> Option<EndOfSync<'_>> {
        let (file, substripes, ticket) = (self.file, self.substripes, self.server.ticket(self.file).ok()?);
        let request = DataRequest::SyncShare { file, substripes, ticket, data_only };
        let covered = self.unsynced.sync_begins();
        let begun = self.server.link.begin(Ask::Data(&request))?;
        // Nothing comes of it when the connection breaks: a sync can be asked for twice.
        Some(Box::new(move || {
            let ended = begun.end()?;
            Some(
                ended
                    .and_then(|(reply, life)| done(reply).and_then(|()| self.unsynced.synced(covered, life))),
            )
        }))
    }

    fn memory(&self) -> Option<u64> {
        self.unsynced.memory()
    }
}

impl Drop for RemoteShare {
    fn drop(&mut self) {
        let mut shares = self.server.shares();
        if shares.get(&self.file).is_some_and(|share| share.strong_count() == 0) {
            shares.remove(&self.file);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(offset: u64, at: usize, len: usize) -> Span {
        Span { substripe: 1, offset, at, len }
    }

    #[test]
    fn a_large_request_is_cut_where_a_frame_is_full() {
        let spans = [span(0, 0, BULK_MAX - 10), span(100, BULK_MAX, 30), span(7, BULK_MAX + 50, 5)];
        let first = fitting(&spans);
        assert_eq!(first, [spans[0], span(100, BULK_MAX, 10)]);
        let rest = after(&spans, total(&first));
        assert_eq!(rest, [span(110, BULK_MAX + 10, 20), spans[2]]);
        assert_eq!(fitting(&rest), rest);
        assert!(after(&rest, total(&rest)).is_empty());
    }

    #[test]
    fn parts_are_in_the_order_of_the_spans_and_never_overlap() {
        let mut buffer: Vec<u8> = (0..10).collect();
        let found = parts(&[span(0, 6, 2), span(0, 1, 3)], &mut buffer).unwrap();
        assert_eq!(found.iter().map(|part| part.to_vec()).collect::<Vec<_>>(), [vec![6, 7], vec![1, 2, 3]]);
        assert!(parts(&[span(0, 0, 4), span(0, 3, 2)], &mut buffer).is_err());
        assert!(parts(&[span(0, 8, 3)], &mut buffer).is_err());
    }
}
