//! An open file at the metadata server.
//!
//! The content of a striped file goes to the data servers, and the metadata server sees its length and times there: a
//! read or a write tells it nothing. Content that is inline goes through it.
//!
//! Content is shown without a copy as long as the server grants the file's attributes: while others have it open for writing
//! it grants none, and who opens it so waits until this client was told.

use super::asked::Asked;
use super::connection::Sink;
use super::held::Life;
use super::home::Home;
use super::known::{Known, Syncing};
use super::link::{Ask, NOT_UNDERSTOOD, Patience, done};
use super::showings::Quiet;
use super::unsynced::{Covered, Unsynced};
use forebay_wire::message::{BULK_MAX, Closed, MetadataRequest, Opened, Reply};
use forebay_wire::{End, FallocateMode, FsError, Ino, Placement, Result, SeekWhat, Spread, Stub};
use std::any::Any;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A sync of the home that was begun.
struct BegunSync {
    covered: Covered,
    known: Option<Syncing>,
    data_only: bool,
}

pub(crate) struct RemoteStub {
    home: Arc<Home>,
    handle: u64,
    ino: Ino,
    placement: Placement,
    quiet: Quiet,
    /// Striped content may have been changed through it.
    wrote: AtomicBool,
    /// The server knows that it may have been changed beyond the first stripe. It need not be told again when it is started anew:
    /// of files that were open before it takes that for granted.
    spreads: AtomicBool,
    unsynced: Unsynced,
    /// Of striped content.
    known: Option<Arc<Known>>,
}

impl RemoteStub {
    /// Of what was opened; `asked`: before that.
    pub(crate) fn new(home: Arc<Home>, opened: Opened, asked: Asked) -> RemoteStub {
        let is_striped = matches!(opened.placement, Placement::Striped { .. });
        let known = is_striped.then(|| home.known.opened(&opened.attr, asked, &home.validity));
        if let (Placement::Striped { file, .. }, Some(ticket)) = (opened.placement, opened.ticket) {
            home.tickets.add(file, opened.handle, ticket);
        }
        RemoteStub {
            home,
            handle: opened.handle,
            ino: opened.attr.ino,
            placement: opened.placement,
            quiet: Quiet::default(),
            wrote: AtomicBool::new(false),
            spreads: AtomicBool::new(false),
            unsynced: Unsynced::default(),
            known,
        }
    }

    pub(crate) fn handle(&self) -> u64 {
        self.handle
    }

    fn ask(&self, request: &MetadataRequest, carried: &[&[u8]], sink: &mut Sink<'_, '_>) -> Result<Reply> {
        self.ask_in(request, carried, sink).map(|(reply, _)| reply)
    }

    /// Asks for a change of the file.
    fn change(&self, request: &MetadataRequest, carried: &[&[u8]]) -> Result<Reply> {
        let (reply, life) = self.ask_in(request, carried, &mut Sink::Nothing)?;
        self.unsynced.wrote(life);
        Ok(reply)
    }

    /// The file was changed through its number, as a server says in this life.
    pub(crate) fn was_changed_in(&self, life: Life) {
        self.unsynced.wrote(life);
    }

    fn ask_in(
        &self,
        request: &MetadataRequest,
        carried: &[&[u8]],
        sink: &mut Sink<'_, '_>,
    ) -> Result<(Reply, Life)> {
        let reply = self.home.link.ask_in(Patience::Wait, Ask::Metadata(request), carried, sink, |_| true);
        // A server that was started anew did not find the file: it is gone, the handle was good.
        reply.map_err(|error| if error == FsError::BadHandle { FsError::Stale } else { error })
    }

    /// Has the server's word that other clients leave the file alone, or asks for it.
    fn is_quiet(&self) -> bool {
        let (quiet, validity) = (&self.quiet, &self.home.validity);
        if quiet.holds(self.ino, validity) {
            return true;
        }
        if !quiet.is_to_be_asked_for() {
            return false;
        }
        let before = validity.now();
        let Ok(attr) = self.home.ask_attr(&MetadataRequest::GetAttr { ino: self.ino }) else { return false };
        quiet.was_given(before, attr.valid_ms);
        quiet.holds(self.ino, validity)
    }

    fn sync_begins(&self, data_only: bool) -> BegunSync {
        let known =
            self.known.as_ref().and_then(|known| known.sync_begins(&self.home.validity, &self.home.recent));
        BegunSync { covered: self.unsynced.sync_begins(), known, data_only }
    }

    fn synced(&self, begun: BegunSync, reply: &Reply, life: Life) -> Result<Spread> {
        let Reply::Synced { is_spread } = *reply else { return Err(NOT_UNDERSTOOD) };
        self.unsynced.synced(begun.covered, life)?;
        let spread = if is_spread { Spread::Any } else { Spread::First };
        if let (Some(known), Some(syncing)) = (&self.known, begun.known) {
            known.synced(syncing, begun.data_only, spread);
        }
        Ok(spread)
    }

    /// Where the content is, if the home has nothing to sync.
    fn is_synced(&self, data_only: bool) -> Option<Spread> {
        self.known.as_ref()?.is_synced(data_only, &self.home.validity, &self.home.recent)
    }

    /// Asks beside a sync what the file looks like, if somebody is likely to look at it next.
    fn begin_look(&self) -> Option<impl FnOnce() + '_> {
        let (home, known) = (&self.home, self.known.as_ref()?);
        let look = known.is_to_be_looked_at(&home.validity, &home.recent)?;
        let begun = home.link.begin(Ask::Metadata(&MetadataRequest::GetAttr { ino: self.ino }))?;
        Some(move || {
            // If nothing comes of it, it is asked for when it is looked at.
            if let Some(Ok((Reply::Attr { attr }, _))) = begun.end() {
                known.looks(look, attr, &home.validity);
            }
        })
    }

    /// Orders something that changes what the home keeps of the file.
    fn order(&self, request: &MetadataRequest) -> Result<()> {
        let _changing = self.home.recent.changing([self.ino]);
        done(self.ask(request, &[], &mut Sink::Nothing)?)
    }
}

impl Stub for RemoteStub {
    fn placement(&self) -> Placement {
        self.placement
    }

    fn known_size(&self) -> Option<u64> {
        None
    }

    fn known_end(&self) -> Option<u64> {
        self.known.as_ref()?.end(&self.home.validity)
    }

    fn size(&self) -> Result<u64> {
        match self.ask(&MetadataRequest::Size { handle: self.handle }, &[], &mut Sink::Nothing)? {
            Reply::Size { bytes } => Ok(bytes),
            _ => Err(NOT_UNDERSTOOD),
        }
    }

    fn reserve(&self, length: u64) -> Result<u64> {
        let request = MetadataRequest::Reserve { handle: self.handle, length };
        match self.ask(&request, &[], &mut Sink::Nothing)? {
            Reply::Size { bytes } => Ok(bytes),
            _ => Err(NOT_UNDERSTOOD),
        }
    }

    fn give_up(&self, rest: Range<u64>) -> Result<()> {
        let request = MetadataRequest::GiveUp { handle: self.handle, start: rest.start, end: rest.end };
        done(self.ask(&request, &[], &mut Sink::Nothing)?)
    }

    fn append(&self, data: &[u8]) -> Result<(u64, usize)> {
        let data = &data[..data.len().min(BULK_MAX)];
        let request = MetadataRequest::AppendInline { handle: self.handle };
        match self.change(&request, &[data])? {
            Reply::Appended { offset, bytes } if bytes <= data.len() as u64 => Ok((offset, bytes as usize)),
            _ => Err(NOT_UNDERSTOOD),
        }
    }

    fn undisturbed(&self, during: &mut dyn FnMut()) {
        if !self.is_quiet() {
            return;
        }
        let _showing = self.home.showings.begin(self.ino);
        if self.quiet.holds(self.ino, &self.home.validity) {
            during();
        }
    }

    fn was_read(&self) -> Result<()> {
        Ok(())
    }

    fn will_change(&self, end: u64) -> Result<()> {
        // Looked at first: writers on several processors would take the line from each other with every write.
        if !self.wrote.load(Relaxed) {
            self.wrote.store(true, Relaxed);
        }
        if self.placement.is_spread(end) && !self.spreads.load(Relaxed) {
            self.order(&MetadataRequest::Spreads { handle: self.handle })?;
            // Afterwards: whoever finds it set may write at once.
            self.spreads.store(true, Relaxed);
        }
        if let Some(known) = &self.known {
            known.will_change(end);
        }
        Ok(())
    }

    fn was_written(&self, end: u64) -> Result<()> {
        if let Some(known) = &self.known {
            known.was_changed(end);
        }
        Ok(())
    }

    /// A hole may be punched where no substripe file is, which no data service has a time of.
    fn was_changed(&self) -> Result<()> {
        self.order(&MetadataRequest::WasWritten { handle: self.handle, end: 0 })?;
        if let Some(known) = &self.known {
            known.was_changed(0);
        }
        Ok(())
    }

    /// It is only for the server's log.
    fn was_too_long(&self, end: u64) {
        let _ = self.order(&MetadataRequest::TooLong { handle: self.handle, end });
    }

    fn drop_suid_sgid(&self) -> Result<()> {
        self.order(&MetadataRequest::DropSetId { handle: self.handle })
    }

    fn sync(&self, data_only: bool) -> Result<Spread> {
        if let Some(spread) = self.is_synced(data_only) {
            return Ok(spread);
        }
        let begun = self.sync_begins(data_only);
        let request = MetadataRequest::SyncFile { handle: self.handle, data_only };
        let (reply, life) = self.ask_in(&request, &[], &mut Sink::Nothing)?;
        self.synced(begun, &reply, life)
    }

    fn begin_sync(&self, data_only: bool) -> Option<End<'_, Spread>> {
        if let Some(spread) = self.is_synced(data_only) {
            let look = self.begin_look();
            return Some(Box::new(move || {
                look.into_iter().for_each(|end| end());
                Some(Ok(spread))
            }));
        }
        let request = MetadataRequest::SyncFile { handle: self.handle, data_only };
        let sync = self.sync_begins(data_only);
        let begun = self.home.link.begin(Ask::Metadata(&request))?;
        // A server that does not know the handle was started anew: it is asked again, after the file was claimed.
        Some(Box::new(move || match begun.end()? {
            Ok((reply, life)) => Some(self.synced(sync, &reply, life)),
            Err(FsError::BadHandle) => None,
            Err(error) => Some(Err(error)),
        }))
    }

    fn backing(&self) -> Option<Arc<OwnedFd>> {
        None
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        for part in buffer.chunks_mut(BULK_MAX) {
            let wanted = part.len();
            let request = MetadataRequest::ReadInline {
                handle: self.handle,
                offset: offset + done as u64,
                length: wanted as u32,
            };
            let mut read = Vec::new();
            self.ask(&request, &[], &mut Sink::Vec(&mut read))?;
            part.get_mut(..read.len()).ok_or(NOT_UNDERSTOOD)?.copy_from_slice(&read);
            done += read.len();
            if read.len() < wanted {
                break;
            }
        }
        Ok(done)
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<usize> {
        let mut done = 0;
        for part in data.chunks(BULK_MAX) {
            let request = MetadataRequest::WriteInline { handle: self.handle, offset: offset + done as u64 };
            match self.change(&request, &[part]) {
                Ok(Reply::Size { bytes }) if bytes <= part.len() as u64 => {
                    done += bytes as usize;
                    if bytes < part.len() as u64 {
                        break;
                    }
                }
                Ok(_) => return Err(NOT_UNDERSTOOD),
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    fn fallocate(&self, offset: u64, length: u64, mode: FallocateMode) -> Result<()> {
        let request = MetadataRequest::FallocateInline { handle: self.handle, offset, length, mode };
        done(self.change(&request, &[])?)
    }

    fn seek(&self, offset: u64, what: SeekWhat) -> Result<Option<u64>> {
        let request = MetadataRequest::SeekInline { handle: self.handle, offset, what };
        match self.ask(&request, &[], &mut Sink::Nothing)? {
            Reply::Offset { offset } => Ok(offset),
            _ => Err(NOT_UNDERSTOOD),
        }
    }

    fn copy_to(&self, offset: u64, to: &dyn Stub, to_offset: u64, length: u64) -> Result<Option<u64>> {
        let Some(to) = to.as_any().downcast_ref::<RemoteStub>() else { return Ok(None) };
        if !Arc::ptr_eq(&self.home, &to.home) {
            return Ok(None);
        }
        let request =
            MetadataRequest::CopyInline { from: self.handle, offset, to: to.handle, to_offset, length };
        match to.change(&request, &[])? {
            Reply::Offset { offset } => Ok(offset),
            _ => Err(NOT_UNDERSTOOD),
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for RemoteStub {
    fn drop(&mut self) {
        if let Placement::Striped { file, .. } = self.placement {
            self.home.tickets.remove(file, self.handle);
        }
        let closed = Closed { handle: self.handle, wrote: self.wrote.load(Relaxed) };
        if let Some(known) = self.known.take() {
            if closed.wrote {
                known.is_settled_later();
            }
            self.home.known.closed(self.ino);
        }
        if self.home.held.closed(closed) {
            self.home.tell_closed();
        }
    }
}
