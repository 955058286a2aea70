//! What was done for whom, so that it is known when the process that did it is gone.
//!
//! A client whose server is killed between doing something and answering asks again in the server's next life. What it asked
//! for is written down here before it is done and after, in files that are mapped into memory: plain stores, no system
//! call and no wait for the disk. A killed process leaves the pages as they were after its last store, in the order of the
//! program; the next one maps the same pages ([docs/adr/0014](../../../../docs/adr/0014-deeds-are-written-down-in-shared-memory.md)).
//!
//! ```text
//! <list of sessions>.deeds/now            what is being done alone, at most one thing at a time; reservations of appends
//! <list of sessions>.deeds/<session id>   for each slot of a session the last deed: its number and what came of it
//! ```
//!
//! Order of events of a change of names, all under the exclusive lock of the tree: `now` says what is going to be done - it
//! is done, in one step that counts - the slot says that it is done - `now` is empty. Killed after the first, the next
//! start looks at the names, before it serves anybody, and knows whether it was done ([`crate::metadata`]). Other deeds are
//! written into their slot alone.
//!
//! Only for the boot that it was written in: after a crash of the machine the pages and what they tell of may be of
//! different times, and nobody believes them.
//!
//! They lie on the disk of the names. When that fails, stores to them are refused: this ends nobody ([`refused`]).
//!
//! A session's file has a fixed size, is made when the session begins and removed when it ends; what belongs to no session is
//! removed at the start. Any thread may call; one thread at a time uses a slot, and `now` is the tree's exclusive lock's.

mod intent;
mod page;
mod refused;
mod reservations;
mod slots;

pub(crate) use intent::{Intent, What};
pub(crate) use reservations::{Reservation, Reservations};
pub(crate) use slots::{Alone, Deed, Past, SessionDeeds, Values};

use crate::boot::Boot;
use forebay_wire::message::SessionId;
use intent::Now;
use page::Page;
use rustix::fs::{AtFlags, CWD, Mode};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NOW: &str = "now";
/// What comes after the name of the list of sessions.
const SUFFIX: &str = ".deeds";

/// See the module.
pub(crate) struct Deeds {
    directory: PathBuf,
    boot: [u64; 2],
    now: Now,
    reservations: Arc<Reservations>,
}

fn name_of(session: SessionId) -> String {
    session.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Something that an earlier process was doing when it ended.
pub(crate) struct LeftOpen<'a> {
    /// What.
    pub(crate) intent: Intent<'a>,
    session: SessionId,
    slot: u16,
    sequence: u64,
}

impl Deeds {
    /// Where they are, beside a list of sessions.
    pub(crate) fn beside(sessions: &Path) -> PathBuf {
        let mut name = sessions.as_os_str().to_owned();
        name.push(SUFFIX);
        PathBuf::from(name)
    }

    /// Opens what an earlier process left of these sessions, and removes what belongs to none of them.
    pub(crate) fn open(directory: &Path, sessions: &BTreeSet<SessionId>) -> io::Result<Deeds> {
        match rustix::fs::mkdirat(CWD, directory, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let boot = Boot::present()?.words();
        let kept: BTreeSet<String> = sessions.iter().copied().map(name_of).collect();
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let is_kept = name.to_str().is_some_and(|name| name == NOW || kept.contains(name));
            if !is_kept {
                rustix::fs::unlinkat(CWD, entry.path(), AtFlags::empty())?;
            }
        }
        let page = Arc::new(Page::open(&directory.join(NOW), intent::NOW_BYTES, boot)?);
        let reservations = Arc::new(Reservations::load(page.clone()));
        Ok(Deeds { directory: directory.to_owned(), boot, now: Now::new(page), reservations })
    }

    /// The slots of a session; made if it is new.
    pub(crate) fn of(&self, session: SessionId) -> io::Result<SessionDeeds> {
        let path = self.directory.join(name_of(session));
        Ok(SessionDeeds::new(session, Page::open(&path, slots::SESSION_BYTES, self.boot)?))
    }

    /// A session ended. If its file cannot be removed the next start does it.
    pub(crate) fn ended(&self, session: SessionId) {
        let _ = rustix::fs::unlinkat(CWD, self.directory.join(name_of(session)), AtFlags::empty());
    }

    /// What is reserved at the ends of files.
    pub(crate) fn reservations(&self) -> Arc<Reservations> {
        self.reservations.clone()
    }

    /// One thing that is asked for, to be written down.
    pub(crate) fn deed<'a>(&'a self, by: &'a SessionDeeds, slot: u16, sequence: u64, kind: u16) -> Deed<'a> {
        Deed::of(&self.now, by, slot, sequence, kind)
    }

    /// What the process before was doing alone when it ended, if anything, and was not noted as done.
    pub(crate) fn left_open(&self) -> io::Result<Option<LeftOpen<'static>>> {
        let Some((intent, session, slot, sequence)) = self.now.read() else { return Ok(None) };
        let is_done = self.known(session)?.is_some_and(|deeds| deeds.is_done(slot, sequence));
        if is_done {
            self.now.clear();
            return Ok(None);
        }
        Ok(Some(LeftOpen { intent, session, slot, sequence }))
    }

    /// What became of it: done, with what there is to know of it, or not.
    pub(crate) fn settled(&self, left: &LeftOpen<'_>, done: Option<Values>) -> io::Result<()> {
        if let (Some(values), Some(deeds)) = (done, self.known(left.session)?) {
            deeds.set_done(left.slot, left.sequence, left.intent.kind, values);
        }
        self.now.clear();
        Ok(())
    }

    /// The slots of a session that has some.
    pub(crate) fn known(&self, session: SessionId) -> io::Result<Option<SessionDeeds>> {
        let is_there = self.directory.join(name_of(session)).try_exists()?;
        is_there.then(|| self.of(session)).transpose()
    }
}
