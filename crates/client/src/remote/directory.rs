//! An open directory at the metadata server: entries come in batches, and what a batch has more than was wanted is kept
//! for the next call.
//!
//! A server that was started anew does not know the handle any more: the directory is opened again, and goes on from the
//! same cookie. Attributes count a reference each from when the batch came; those of entries that nobody took are given
//! back.
//!
//! One that was opened to be synced stands by for the next one when it is closed ([`super::standby`]).

use super::asked::Asked;
use super::connection::Sink;
use super::held::Life;
use super::home::Home;
use super::link::{Ask, NOT_UNDERSTOOD, Patience, done};
use super::standby::OpenDirectory;
use super::validity::Moment;
use forebay_wire::message::{Credentials, Entry, MetadataRequest, Reply};
use forebay_wire::{Attr, DirEntry, Directory, FsError, Ino, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many lives of the server a request for entries goes through. One that ends again and again is not waited for for ever.
const LIVES_MAX: usize = 16;

/// Bytes of a batch.
const BATCH_BYTES: u32 = 64 << 10;

struct Batch {
    entries: VecDeque<Entry>,
    /// Position before the first of them.
    at: u64,
    with_attributes: bool,
    is_end: bool,
    fetched: Moment,
}

struct State {
    handle: u64,
    life: Life,
    asked: Asked,
    batch: Option<Batch>,
    was_listed: bool,
    was_synced: bool,
}

pub(crate) struct RemoteDirectory {
    home: Arc<Home>,
    who: Credentials,
    ino: Ino,
    state: Mutex<State>,
}

impl RemoteDirectory {
    pub(crate) fn open(home: Arc<Home>, who: Credentials, ino: Ino) -> Result<RemoteDirectory> {
        let opened = match home.standby.take(&who, ino, &home.validity) {
            Some(OpenDirectory { handle, life, asked, .. }) => (handle, life, asked),
            None => open(&home, &who, ino)?,
        };
        let (handle, life, asked) = opened;
        let (was_listed, was_synced) = (false, false);
        let state = Mutex::new(State { handle, life, asked, batch: None, was_listed, was_synced });
        Ok(RemoteDirectory { home, who, ino, state })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks with the handle, which is had anew if the server does not know it.
    fn ask(
        &self,
        state: &mut State,
        request: impl Fn(u64) -> MetadataRequest,
        sink: &mut Sink<'_, '_>,
    ) -> Result<Reply> {
        for _ in 0..LIVES_MAX {
            let life = state.life;
            let request = request(state.handle);
            let asked =
                self.home.link.ask_in(Patience::Wait, Ask::Metadata(&request), &[], sink, |now| now == life);
            match asked {
                Err(FsError::BadHandle) => {
                    (state.handle, state.life, state.asked) = open(&self.home, &self.who, self.ino)?
                }
                asked => return asked.map(|(reply, _)| reply),
            }
        }
        Err(FsError::Stale)
    }

    /// Sees to it that the next entries are those after a cookie.
    fn fetch(&self, state: &mut State, cookie: u64, with_attributes: bool) -> Result<()> {
        let is_here = |batch: &Batch| {
            batch.at == cookie
                && batch.with_attributes == with_attributes
                && (!batch.entries.is_empty() || batch.is_end)
        };
        // From the start everything is looked at anew.
        if cookie != 0 && state.batch.as_ref().is_some_and(is_here) {
            return Ok(());
        }
        self.drop_batch(state);
        state.was_listed = true;
        // Its access time.
        let _changing = self.home.recent.changing([self.ino]);
        let fetched = self.home.validity.now();
        let mut listing = Vec::new();
        let request =
            |handle| MetadataRequest::ReadDir { handle, cookie, with_attributes, most: BATCH_BYTES };
        let reply = self.ask(state, request, &mut Sink::Vec(&mut listing))?;
        let Reply::Listing { is_end } = reply else { return Err(NOT_UNDERSTOOD) };
        let entries = Entry::all(&listing).map_err(|_| NOT_UNDERSTOOD)?;
        if entries.is_empty() && !is_end {
            return Err(NOT_UNDERSTOOD);
        }
        for entry in &entries {
            if let Some(attr) = &entry.attr {
                self.home.held.refer(attr, self.ino, &entry.name);
            }
        }
        state.batch = Some(Batch { entries: entries.into(), at: cookie, with_attributes, is_end, fetched });
        Ok(())
    }

    fn drop_batch(&self, state: &mut State) {
        for entry in state.batch.take().into_iter().flat_map(|batch| batch.entries) {
            if let Some(attr) = entry.attr {
                self.home.held.forget(attr.ino, 1);
            }
        }
    }

    fn list(
        &self,
        mut cookie: u64,
        with_attributes: bool,
        sink: &mut dyn FnMut(DirEntry<'_>, Option<&Attr>) -> bool,
    ) -> Result<()> {
        let mut state = self.state();
        loop {
            self.fetch(&mut state, cookie, with_attributes)?;
            let batch = state.batch.as_mut().expect("a batch was just fetched");
            while let Some(entry) = batch.entries.front() {
                let shown = DirEntry {
                    ino: entry.ino,
                    kind: entry.kind,
                    name: entry.name.as_os_str(),
                    next_cookie: entry.next_cookie,
                };
                let attr =
                    entry.attr.map(|attr| self.home.validity.shown(attr, Some(self.ino), batch.fetched));
                if !sink(shown, attr.as_ref()) {
                    return Ok(());
                }
                cookie = entry.next_cookie;
                batch.at = cookie;
                batch.entries.pop_front();
            }
            if batch.is_end {
                return Ok(());
            }
        }
    }
}

fn open(home: &Home, who: &Credentials, ino: Ino) -> Result<(u64, Life, Asked)> {
    let asked = home.standby.now(&home.validity);
    let request = MetadataRequest::OpenDir { who: who.clone(), ino };
    let opened =
        home.link.ask_in(Patience::Wait, Ask::Metadata(&request), &[], &mut Sink::Nothing, |_| true)?;
    match opened {
        (Reply::Directory { handle }, life) => Ok((handle, life, asked)),
        _ => Err(NOT_UNDERSTOOD),
    }
}

impl Directory for RemoteDirectory {
    fn read(&self, cookie: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        self.list(cookie, false, &mut |entry, _| sink(entry))
    }

    fn read_with_attributes(
        &self,
        cookie: u64,
        sink: &mut dyn FnMut(DirEntry<'_>, Option<&Attr>) -> bool,
    ) -> Result<()> {
        self.list(cookie, true, sink)
    }

    fn sync(&self, data_only: bool) -> Result<()> {
        let mut state = self.state();
        state.was_synced = true;
        let request = |handle| MetadataRequest::SyncDir { handle, data_only };
        done(self.ask(&mut state, request, &mut Sink::Nothing)?)
    }
}

impl Drop for RemoteDirectory {
    fn drop(&mut self) {
        let mut state = self.state();
        self.drop_batch(&mut state);
        let State { handle, life, asked, was_listed, was_synced, .. } = *state;
        let open = OpenDirectory { who: self.who.clone(), ino: self.ino, handle, life, asked };
        let is_for_syncing = was_synced && !was_listed;
        let to_close = if is_for_syncing { self.home.standby.keep(open) } else { Some(open) };
        if let Some(open) = to_close {
            close(&self.home, &open);
        }
    }
}

/// Closes those that stood by for long enough.
pub(crate) fn close_overdue(home: &Home) {
    home.standby.overdue().iter().for_each(|open| close(home, open));
}

fn close(home: &Home, open: &OpenDirectory) {
    let request = MetadataRequest::CloseDir { handle: open.handle };
    let (ask, life) = (Ask::Metadata(&request), open.life);
    // A server that is not there forgets it with the session.
    let _ = home.link.ask_in(Patience::Try, ask, &[], &mut Sink::Nothing, |now| now == life);
}
