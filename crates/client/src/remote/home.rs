//! The metadata server as the client sees it: the link to it, what is held there, and what becomes of that when the server
//! is started anew.
//!
//! Rejoining. A new connection says in which life of the session it is. If that is another one than the life that knows
//! what is held, the first thread to notice claims everything over its own connection, in this order: references, parents
//! before what is in them; open files by their old numbers; locks; the end of the claims. The others wait for it. If its
//! connection breaks in the middle, the next one begins again: claims can be repeated. Then requests that were under way
//! are sent again. What cannot be claimed is gone: its handles fail as stale; and so do those of a file whose content is not
//! any more where it was. An object is claimed by the name it was last seen under here; the server looks for one that has
//! another name since.

use super::ahead::Ahead;
use super::connection::{Broken, Connection, Sink};
use super::credentials::Groups;
use super::entrusted::Entrusted;
use super::fresh::Fresh;
use super::held::{Held, Life, OpenedFile};
use super::known::KnownFiles;
use super::lacking::Lacking;
use super::link::{Ask, Link, NOT_UNDERSTOOD, Patience, Rejoin, done};
use super::recent::Recent;
use super::session::Session;
use super::showings::Showings;
use super::standby::Standby;
use super::tickets::Tickets;
use super::validity::Validity;
use super::waiting::Waiting;
use forebay_wire::message::{
    Claim, Closed, Field, Flags, Item, MetadataRequest, Name, Once, Opened, Reply, SLOTS_MAX,
};
use forebay_wire::{Attr, FsError, Ino, Placement, Result};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::{Arc, Mutex, PoisonError};

/// The slot of claims: no lane has it.
const CLAIM_SLOT: u16 = SLOTS_MAX - 1;

/// See the module.
pub(crate) struct Home {
    pub(crate) session: Arc<Session>,
    pub(crate) link: Link,
    pub(crate) held: Arc<Held>,
    pub(crate) tickets: Arc<Tickets>,
    pub(crate) lacking: Lacking,
    pub(crate) ahead: Ahead,
    pub(crate) validity: Validity,
    pub(crate) recent: Recent,
    pub(crate) fresh: Fresh,
    pub(crate) known: KnownFiles,
    pub(crate) showings: Showings,
    pub(crate) standby: Standby,
    pub(crate) groups: Groups,
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) entrusted: Arc<Entrusted>,
    pub(crate) max_file_size: u64,
}

/// Claims what is held in each new life.
pub(crate) struct Rejoining {
    pub(crate) held: Arc<Held>,
    pub(crate) tickets: Arc<Tickets>,
    pub(crate) waiting: Arc<Waiting>,
    pub(crate) entrusted: Arc<Entrusted>,
    /// Count of the claims' slot. Held while claims are made: one thread makes them.
    pub(crate) sequence: Mutex<u64>,
}

impl Rejoin for Rejoining {
    fn rejoin(&self, connection: &mut Connection) -> std::result::Result<(), Broken> {
        let life = connection.terms.life();
        let mut sequence = self.sequence.lock().unwrap_or_else(PoisonError::into_inner);
        match self.held.life() {
            Some(known) if known == life => return Ok(()),
            None => {
                // The server may know it all the same, from a first answer that was lost with an earlier server: then it waits for this.
                ask(connection, &MetadataRequest::ReclaimDone, &mut sequence)?;
                self.held.begin(life);
                return Ok(());
            }
            Some(_) => {}
        }
        let before = self.held.life();
        let claims = self.held.claims(life);
        // From here on no answer of the earlier life counts, so none entrusts anything any more; and before the locks are claimed,
        // so that those decided about here until now are among them.
        self.entrusted.is_over();
        let claimed = self.claim(connection, &claims, &mut sequence);
        match claimed {
            Ok(()) => self.waiting.ask_again(life),
            // Somebody else has to begin again.
            Err(_) => self.held.begin(before.unwrap_or(life)),
        }
        claimed
    }

    fn before(&self, life: Life) -> Option<MetadataRequest> {
        let items = self.held.take_unclosed(life);
        (!items.is_empty()).then_some(MetadataRequest::Close { items })
    }

    fn not_told(&self, request: MetadataRequest, life: Life) {
        if let MetadataRequest::Close { items } = request {
            self.held.not_closed_yet(items, life);
        }
    }

    fn is_over(&self, life: Life) -> bool {
        self.held.life() != Some(life)
    }
}

impl Rejoining {
    fn claim(
        &self,
        connection: &mut Connection,
        claims: &[Claim],
        sequence: &mut u64,
    ) -> std::result::Result<(), Broken> {
        self.claim_references(connection, claims, sequence)?;
        for (handle, OpenedFile { who, ino, flags, placement }) in self.held.files() {
            let open = MetadataRequest::Open { who, ino, flags, reclaim: Some(handle) };
            match ask(connection, &open, sequence)? {
                Reply::Opened { opened } if opened.placement == placement => self.entitle(&opened),
                // A power cut took the word about where its content is: what was written through it is not found by it any more. It
                // is closed there, and the number means nothing any more.
                Reply::Opened { .. } => {
                    self.held.closed(Closed { handle, wrote: true });
                }
                // The file is gone. Its number means nothing any more, and whoever uses it is told so.
                _ => self.held.lost(handle),
            }
        }
        for request in self.held.locks() {
            let lock = MetadataRequest::SetLock { request, wait: None, reclaim: true };
            if !matches!(ask(connection, &lock, sequence)?, Reply::Done) {
                self.held.unlocked(request.file, request.owner, request.scope);
            }
        }
        ask(connection, &MetadataRequest::ReclaimDone, sequence).map(drop)
    }

    /// An object is gone that is found by none of the names that it may have.
    fn claim_references(
        &self,
        connection: &mut Connection,
        claims: &[Claim],
        sequence: &mut u64,
    ) -> std::result::Result<(), Broken> {
        let mut names: HashMap<Ino, i64> = HashMap::new();
        for items in claims.chunks(Claim::MOST) {
            items.iter().for_each(|claim| *names.entry(claim.ino).or_default() += 1);
            let reply = ask(connection, &MetadataRequest::Reclaim { items: items.to_vec() }, sequence)?;
            let Reply::Claimed { gone } = reply else { continue };
            gone.iter().for_each(|ino| *names.entry(*ino).or_default() -= 1);
        }
        self.held.gone(names.into_iter().filter(|(_, found)| *found <= 0).map(|(ino, _)| ino));
        Ok(())
    }

    fn entitle(&self, opened: &Opened) {
        if let (Placement::Striped { file, .. }, Some(ticket)) = (opened.placement, opened.ticket) {
            self.tickets.add(file, opened.handle, ticket);
        }
    }
}

fn ask(
    connection: &mut Connection,
    request: &MetadataRequest,
    sequence: &mut u64,
) -> std::result::Result<Reply, Broken> {
    let mut body = Vec::new();
    if MetadataRequest::is_once(request.kind()) {
        *sequence += 1;
        Once { slot: CLAIM_SLOT, sequence: *sequence }.put(&mut body);
    }
    request.encode(&mut body);
    connection.ask(request.kind(), Flags::default(), &body, &[], &mut Sink::Nothing)
}

impl Home {
    /// Asks and waits as long as the description says.
    pub(crate) fn ask(&self, request: &MetadataRequest) -> Result<Reply> {
        self.link.ask(Patience::Wait, Ask::Metadata(request), &[], &mut Sink::Nothing)
    }

    /// Asks for something that the reply carries.
    pub(crate) fn fetch(&self, request: &MetadataRequest, into: &mut Vec<u8>) -> Result<Reply> {
        into.clear();
        self.link.ask(Patience::Wait, Ask::Metadata(request), &[], &mut Sink::Vec(into))
    }

    /// Asks for something that is done or not.
    pub(crate) fn order(&self, request: &MetadataRequest) -> Result<()> {
        done(self.ask(request)?)
    }

    /// Asks for attributes.
    pub(crate) fn ask_attr(&self, request: &MetadataRequest) -> Result<Attr> {
        self.ask_attr_in(request).map(|(attr, _)| attr)
    }

    /// The same, and in which life of the session they were given.
    pub(crate) fn ask_attr_in(&self, request: &MetadataRequest) -> Result<(Attr, Life)> {
        let ask = Ask::Metadata(request);
        match self.link.ask_in(Patience::Wait, ask, &[], &mut Sink::Nothing, |_| true)? {
            (Reply::Attr { attr }, life) => Ok((attr, life)),
            _ => Err(NOT_UNDERSTOOD),
        }
    }

    /// Tells the server which references were given back, and which files are closed that it did not hear of.
    pub(crate) fn tell_forgotten(&self) {
        loop {
            let (items, life) = self.held.take_forgotten();
            if items.is_empty() {
                break;
            }
            let request = MetadataRequest::Forget { items };
            // A life that is over has forgotten all by itself.
            let told =
                self.link.ask_in(Patience::Wait, Ask::Metadata(&request), &[], &mut Sink::Nothing, |now| {
                    life.is_none_or(|life| life == now)
                });
            if let (Err(FsError::Unreachable), MetadataRequest::Forget { items }) = (told, request) {
                self.held.not_told_yet(items, life);
                break;
            }
        }
        self.tell_closed();
    }

    /// Tells the server which files are closed; if it is not there, later. They ride with any request, so an empty one
    /// is enough.
    pub(crate) fn tell_closed(&self) {
        while self.held.has_unclosed() {
            let nothing = MetadataRequest::Close { items: Vec::new() };
            let ask = Ask::Metadata(&nothing);
            if self.link.ask_in(Patience::Try, ask, &[], &mut Sink::Nothing, |_| true).is_err() {
                break;
            }
        }
    }
}

/// A name as the protocol has it: what is too long or no name is refused here, as the local file system would.
pub(crate) fn name(name: &OsStr) -> Result<Name> {
    if name.is_empty() {
        return Err(FsError::NotFound);
    }
    if name.len() > forebay_wire::message::NAME_MAX {
        return Err(FsError::NameTooLong);
    }
    Name::new(name).ok_or(FsError::InvalidArgument)
}
