//! The metadata side of one namespace: its clients, what they were granted, their locks.
//!
//! A change goes through [`Home::change`]: it tells the other clients first and holds no lock of the tree while it waits
//! for them. Order of locks: none is taken while another is held, but for the sessions' lock, under which the list of
//! sessions is written to disk.
//!
//! A client is in a session from its first connection to the end of the grace time after its last one, or to its goodbye.
//! Order of events when a session begins: it is written down, then it can be found. When it ends: it cannot be found any
//! more; its locks go and others get them; its grants go; its files are closed and its references given back; it is taken
//! out of the list; what was done for it is forgotten ([`crate::deeds`]). A crash in between ends all of it, and the next start awaits the session once more.

use super::earlier::Earlier;
use super::entrusted::Locks;
use super::grants::{ENDED_AFTER_MS, Grants, Place, Told};
use super::hosted::HostedTree;
use super::recovery::{Recovery, SessionsError};
use super::session::{Holdings, Session};
use super::telling::Tellings;
use crate::deeds::{Deed, Deeds, SessionDeeds};
use crate::locks::{self, LockLimits};
use forebay_wire::message::{CallbackRequest, Changed, Once, Reply, SessionId};
use forebay_wire::ticket::TicketKey;
use forebay_wire::{FsError, Ino, LockRefusal, MetadataService, Moved, WaitId};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// At the end, the other servers have so long to remove what is not needed any more.
const REMOVED_WITHIN: Duration = Duration::from_secs(1);
/// Sessions of one namespace, at most.
const SESSIONS_MAX: usize = 16_384;
/// Who knows a directory that moves is waited for so long, if it shows nothing of it otherwise.
const TOLD_WITHIN_MS: u64 = 1000;
/// Connections of one session to its home, at most: more than it has slots.
const CONNECTIONS_MAX: u32 = 128;
/// Numbers of requests for locks that do not wait have this bit; those that wait have the client's number, without it.
const NOT_WAITING: u64 = 1 << 63;

/// Terms of a namespace's sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// How long a session lives without a connection.
    pub(crate) grace: Duration,
    /// Limits of locks.
    pub(crate) locks: LockLimits,
}

struct Member {
    session: Arc<Session>,
    connections: u32,
    /// When it is over, if nobody comes.
    over_at: Option<Instant>,
}

#[derive(Default)]
struct Members {
    by_id: HashMap<SessionId, Member>,
    by_number: HashMap<locks::Session, SessionId>,
    last_number: u64,
    is_closed: bool,
}

/// Why a client could not come in.
#[derive(Debug)]
pub(crate) enum JoinError {
    TooMany,
    TooManyConnections,
    Closed,
    NotWrittenDown(SessionsError),
}

/// See the module.
pub(crate) struct Home {
    pub(crate) hosted: HostedTree,
    pub(crate) tickets: TicketKey,
    pub(crate) recovery: Recovery,
    earlier: Earlier,
    /// What was done for clients, where they are awaited after a start.
    deeds: Option<Deeds>,
    pub(super) terms: Terms,
    members: Mutex<Members>,
    grants: Mutex<Grants>,
    locks: Mutex<Locks>,
    /// Locks that were entrusted to a session are its no more.
    pub(super) returned: Condvar,
    lock_requests: AtomicU64,
    tellings: Tellings,
    epoch: Instant,
    is_closing: AtomicBool,
    /// There is one session, or none.
    pub(super) is_alone: AtomicBool,
    claims_are_over: AtomicBool,
}

impl Home {
    pub(crate) fn open(hosted: HostedTree, tickets: TicketKey, terms: Terms) -> Result<Home, SessionsError> {
        let epoch = Instant::now();
        let recovery = Recovery::begin(hosted.sessions.clone(), epoch + terms.grace)?;
        let earlier = Earlier::begin(recovery.listed(), epoch + Duration::from_millis(ENDED_AFTER_MS));
        if !recovery.is_over() {
            hosted.metadata.await_claims();
        }
        let deeds = hosted.sessions.as_deref().map(|list| settled(list, &hosted, &recovery)).transpose()?;
        Ok(Home {
            hosted,
            tickets,
            recovery,
            earlier,
            deeds,
            terms,
            members: Mutex::default(),
            grants: Mutex::new(Grants::new()),
            locks: Mutex::new(Locks::new(terms.locks)),
            returned: Condvar::new(),
            lock_requests: AtomicU64::new(NOT_WAITING),
            tellings: Tellings::default(),
            epoch,
            is_closing: AtomicBool::new(false),
            is_alone: AtomicBool::new(true),
            claims_are_over: AtomicBool::new(false),
        })
    }

    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn grants(&self) -> MutexGuard<'_, Grants> {
        self.grants.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn locks(&self) -> MutexGuard<'_, Locks> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Milliseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        self.epoch.elapsed().as_millis() as u64
    }

    /// A connection of a client comes in.
    pub(crate) fn join(&self, id: SessionId, node: &str) -> Result<Arc<Session>, JoinError> {
        let mut members = self.members();
        if members.is_closed {
            return Err(JoinError::Closed);
        }
        if let Some(member) = members.by_id.get_mut(&id) {
            if member.connections >= CONNECTIONS_MAX {
                return Err(JoinError::TooManyConnections);
            }
            member.connections += 1;
            member.over_at = None;
            return Ok(member.session.clone());
        }
        if members.by_id.len() >= SESSIONS_MAX {
            return Err(JoinError::TooMany);
        }
        let came_back = self.recovery.is_awaited(id);
        self.recovery.began(id).map_err(JoinError::NotWrittenDown)?;
        members.last_number += 1;
        let number = locks::Session(members.last_number);
        let deeds = self.deeds_of(id).map_err(JoinError::NotWrittenDown)?;
        let session = Arc::new(Session::new(id, number, node.to_owned(), came_back, deeds));
        let member = Member { session: session.clone(), connections: 1, over_at: None };
        members.by_id.insert(id, member);
        members.by_number.insert(number, id);
        self.is_alone.store(members.by_id.len() <= 1, SeqCst);
        drop(members);
        self.earlier.came(id, number);
        if !came_back {
            // A mount is not used before its kernel has the root.
            let now = self.now();
            self.grants().answering(Ino::ROOT, number, now, now, true);
        }
        Ok(session)
    }

    fn deeds_of(&self, session: SessionId) -> Result<Option<SessionDeeds>, SessionsError> {
        let Some(deeds) = &self.deeds else { return Ok(None) };
        deeds.of(session).map(Some).map_err(|cause| unknown_deeds(self.hosted.sessions.as_deref(), cause))
    }

    /// Where something is written down that is asked for in a slot; nowhere if it is asked for again freely.
    pub(crate) fn deed<'a>(&'a self, session: &'a Session, once: Once, kind: u16) -> Deed<'a> {
        match (&self.deeds, &session.deeds) {
            (Some(deeds), Some(by)) => deeds.deed(by, once.slot, once.sequence, kind),
            _ => Deed::UNNOTED,
        }
    }

    /// A connection of a session is gone.
    pub(crate) fn leave(&self, session: &Session) {
        let mut members = self.members();
        let Some(member) = members.by_id.get_mut(&session.id) else { return };
        if member.session.number != session.number {
            // The session ended, and another one has its id since.
            return;
        }
        member.connections -= 1;
        if member.connections == 0 {
            member.over_at = Some(Instant::now() + self.terms.grace);
        }
    }

    /// Ends the sessions whose time is over; returns when the next one's will be.
    pub(crate) fn end_overdue(&self) -> Option<Instant> {
        let now = Instant::now();
        let overdue: Vec<Arc<Session>> = {
            let members = self.members();
            let overdue = |member: &&Member| member.over_at.is_some_and(|over_at| over_at <= now);
            members.by_id.values().filter(overdue).map(|member| member.session.clone()).collect()
        };
        for session in overdue {
            self.end(&session, |member| member.over_at.is_some_and(|over_at| over_at <= now));
        }
        self.end_claims();
        self.members().by_id.values().filter_map(|member| member.over_at).min()
    }

    /// A session has taken up all that it had.
    pub(crate) fn is_back(&self, session: &Session) {
        self.recovery.is_back(session.id);
        self.end_waiting();
    }

    /// When nobody is awaited any more, nothing is kept for who may come: at once, as those who are here go on meanwhile, and what they
    /// close and open again is to be as if nobody had been awaited.
    fn end_waiting(&self) {
        if self.recovery.is_over() {
            self.hosted.metadata.claims_are_over();
        }
    }

    /// When nobody is awaited any more, what nobody claimed goes. It may take a while, so nobody waits for it.
    fn end_claims(&self) {
        if self.recovery.is_over() && !self.claims_are_over.swap(true, SeqCst) {
            // What cannot be removed stays for the next start.
            let _ = self.hosted.metadata.end_claims();
        }
    }

    /// The client says goodbye.
    pub(crate) fn goodbye(&self, session: &Session) {
        self.end(session, |_| true);
    }

    /// The end is near: what is asked from now on, or under way, gets no answer from here.
    pub(crate) fn answer_nobody(&self) {
        self.is_closing.store(true, SeqCst);
        self.returned.notify_all();
        self.hosted.metadata.finish_removals(REMOVED_WITHIN);
    }

    /// Nobody is served any more. Sessions stay in the list: they are awaited after the next start.
    pub(crate) fn close(&self) {
        self.answer_nobody();
        self.hosted.metadata.leave();
        self.recovery.abandon();
        let sessions: Vec<_> = {
            let mut members = self.members();
            members.is_closed = true;
            members.by_number.clear();
            members.by_id.drain().map(|(_, member)| member.session).collect()
        };
        for session in sessions {
            if session.opened().iter().any(|(_, writable)| *writable) {
                self.hosted.metadata.is_written_on();
            }
            self.release(&session);
        }
    }

    /// Requests are not carried out any more, so that nobody is answered what may not hold.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(SeqCst)
    }

    fn end(&self, session: &Session, if_so: impl Fn(&Member) -> bool) {
        {
            let mut members = self.members();
            let is_it = |member: &&Member| member.session.number == session.number && if_so(member);
            if members.by_id.get(&session.id).filter(is_it).is_none() {
                return;
            }
            members.by_id.remove(&session.id);
            members.by_number.remove(&session.number);
            self.is_alone.store(members.by_id.len() <= 1, SeqCst);
        }
        self.release(session);
        self.earlier.ended(session.id);
        // Not so when the server ends: the session may come back and tell it once more.
        self.hosted.metadata.add_moved(session.moved());
        // If it cannot be taken out, the next start awaits it once more; nothing worse.
        let _ = self.recovery.ended(session.id);
        self.end_waiting();
        if let Some(deeds) = &self.deeds {
            deeds.ended(session.id);
        }
    }

    /// Gives back all that a session held.
    fn release(&self, session: &Session) {
        let Holdings { references, files, directories, .. } = session.end();
        self.apply(locks::Event::SessionEnded { session: session.number });
        let written: Vec<Ino> =
            files.values().filter(|file| file.flags.writable()).map(|file| file.ino).collect();
        drop((files, directories));
        {
            let (mut grants, now) = (self.grants(), self.now());
            for ino in written {
                grants.closed_for_writing(ino, session.number, now);
            }
            grants.session_ended(session.number);
        }
        for ino in references.into_keys() {
            self.hosted.metadata.forget(ino, 1);
        }
    }

    /// What was read and written in the namespace, as far as its clients have told.
    pub(crate) fn moved(&self) -> Moved {
        let living = self.clients().into_iter().map(|(session, _)| session.moved());
        living.fold(self.hosted.metadata.moved(), Moved::and)
    }

    /// Sessions, their open files, and the files of which one is open for writing.
    pub(crate) fn usage(&self) -> (u32, u64, u64) {
        let sessions = self.clients();
        let opened: Vec<(Ino, bool)> = sessions.iter().flat_map(|(session, _)| session.opened()).collect();
        let written: HashSet<Ino> =
            opened.iter().filter(|(_, writable)| *writable).map(|(ino, _)| *ino).collect();
        (sessions.len() as u32, opened.len() as u64, written.len() as u64)
    }

    /// The clients, with what they have open.
    pub(crate) fn clients(&self) -> Vec<(Arc<Session>, bool)> {
        let members = self.members();
        members.by_id.values().map(|member| (member.session.clone(), member.connections > 0)).collect()
    }

    pub(super) fn session(&self, number: locks::Session) -> Option<Arc<Session>> {
        let members = self.members();
        let id = members.by_number.get(&number)?;
        members.by_id.get(id).map(|member| member.session.clone())
    }

    /// How long a client may show an object without asking; asked for before the object is looked at. Not at all when it
    /// could not be told of a change at once: then every change would have to wait for the end of the grant. Nor while somebody
    /// is awaited after a start: he may have a file open for writing that is not known yet.
    pub(crate) fn grant(&self, ino: Ino, session: &Session) -> u32 {
        let may = self.may_grant(session);
        self.grant_among(&mut self.grants(), ino, session, may)
    }

    /// The same for an object whose attributes the client is answered, as they were at `looked` or later. `is_new`: it did not
    /// have the object before.
    pub(crate) fn grant_answered(&self, ino: Ino, session: &Session, looked: u64, is_new: bool) -> u32 {
        let may = self.may_grant(session);
        let mut grants = self.grants();
        grants.answering(ino, session.number, looked, self.now(), is_new);
        self.grant_among(&mut grants, ino, session, may)
    }

    /// The same for a directory of which a name is going to be shown.
    pub(crate) fn grant_names(&self, directory: Ino, session: &Session) -> u32 {
        let may = self.may_grant(session);
        let mut grants = self.grants();
        let valid_ms = self.grant_among(&mut grants, directory, session, may);
        if valid_ms > 0 {
            grants.names_are_shown(directory);
        }
        valid_ms
    }

    /// Asked before the grants are locked: it may end the wait for those who are awaited.
    fn may_grant(&self, session: &Session) -> bool {
        session.outbox.is_prompt() && self.recovery.is_over()
    }

    fn grant_among(&self, grants: &mut Grants, ino: Ino, session: &Session, may: bool) -> u32 {
        if !may {
            return 0;
        }
        grants.grant(ino, session.number, self.now(), self.is_alone.load(SeqCst))
    }

    /// Tells all other clients that may show what is going to change, and waits until none does. The change may be made
    /// as long as the result is held.
    pub(crate) fn change<'a>(&'a self, by: &Session, items: Vec<Changed>) -> Changing<'a> {
        self.begin_change(by, items, &[], |_, objects| self.granted_earlier(objects, by))
    }

    /// The same, when directories get other places by it. A kernel keeps one place of a directory, for as long as it knows
    /// the directory and also when what it was granted is over: one that finds the directory at a new place in the
    /// middle of a rename of its own cannot give the old one up any more, and says ESTALE. So all that know it are told.
    /// `carried`: the names that the client moves, from where to where, and with them what its kernel shows of them.
    pub(crate) fn change_and_move<'a>(
        &'a self,
        by: &Session,
        items: Vec<Changed>,
        carried: &[(&Place, &Place)],
        moving: &[Ino],
    ) -> Changing<'a> {
        self.begin_change(by, items, carried, |items, objects| {
            let mut told = self.knowing(moving, items, by);
            told.extend(self.granted_earlier(objects, by));
            told
        })
    }

    /// The same for what goes on since before the start: then nobody else was granted anything on it.
    pub(crate) fn resume<'a>(&'a self, by: &Session, items: Vec<Changed>) -> Changing<'a> {
        self.begin_change(by, items, &[], |_, _| Vec::new())
    }

    /// `others`: who has to be told beside those with a grant.
    fn begin_change<'a>(
        &'a self,
        by: &Session,
        items: Vec<Changed>,
        carried: &[(&Place, &Place)],
        others: impl FnOnce(&[Changed], &[Ino]) -> Vec<Told>,
    ) -> Changing<'a> {
        let mut objects: Vec<Ino> = items.iter().map(object_of).collect();
        objects.sort_unstable();
        objects.dedup();
        let mut told = self.granted_now(by, &objects, &items, carried);
        told.extend(others(&items, &objects));
        let changing = Changing { home: self, objects, by: by.number };
        if !told.is_empty() {
            self.tell(by.number, &told, &items);
        }
        changing
    }

    /// Other clients that may show what this server granted. From now on nobody is granted what changes.
    fn granted_now(
        &self,
        by: &Session,
        objects: &[Ino],
        items: &[Changed],
        carried: &[(&Place, &Place)],
    ) -> Vec<Told> {
        let (mut grants, now) = (self.grants(), self.now());
        let mut told = grants.begin(objects, by.number, now);
        told.extend(grants.carriers(items, by.number, now));
        carried.iter().for_each(|(from, to)| grants.carried(from, to, by.number, now));
        told
    }

    /// Other clients that were there before the start, as long as they may show what was granted then.
    fn granted_earlier(&self, objects: &[Ino], by: &Session) -> Vec<Told> {
        let told = |session| move |ino: &Ino| Told { session, ino: *ino, until: ENDED_AFTER_MS, must: true };
        let others = self.earlier.others(by.id).into_iter();
        others.flat_map(|session| objects.iter().map(told(session))).collect()
    }

    /// Other clients that know these directories and can be told at once, with the directories of the names that change.
    fn knowing(&self, moving: &[Ino], items: &[Changed], by: &Session) -> Vec<Told> {
        if moving.is_empty() {
            return Vec::new();
        }
        let until = self.now() + TOLD_WITHIN_MS;
        let others = self.clients().into_iter().map(|(session, _)| session).filter(|other| {
            let knows = || moving.iter().any(|ino| other.holds(*ino));
            other.number != by.number && other.outbox.is_prompt() && knows()
        });
        let told = |other: Arc<Session>| {
            directories_of(items).map(move |ino| Told { session: other.number, ino, until, must: false })
        };
        others.flat_map(told).collect()
    }

    fn tell(&self, by: locks::Session, told: &[Told], items: &[Changed]) {
        let sessions = told.iter().map(|told| told.session).collect();
        let waits = self.tellings.begin(by, sessions, directories_of(items).collect());
        let mut by_session: BTreeMap<locks::Session, Vec<Told>> = BTreeMap::new();
        told.iter().for_each(|told| by_session.entry(told.session).or_default().push(*told));
        let mut waited = Vec::new();
        for (number, told) in by_session {
            let Some(session) = self.session(number) else { continue };
            let concerns = |item: &&Changed| told.iter().any(|told| told.ino == object_of(item));
            let items = items.iter().filter(concerns).cloned().collect();
            let ticket = session.outbox.put(CallbackRequest::Invalidate { items });
            waited.push((session, told, ticket));
        }
        for (session, told, ticket) in waited {
            let is_stuck = waits.stuck.contains(&session.number);
            let awaited = told.iter().filter(|told| told.must || !is_stuck);
            let until = awaited.map(|told| told.until).max().unwrap_or(0);
            let deadline = self.epoch + Duration::from_millis(until);
            let answered = match ticket {
                Some(ticket) => session.outbox.answered_by(ticket, deadline),
                None => {
                    // It takes no messages: its grants end by themselves.
                    std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
                    false
                }
            };
            if answered {
                let mut grants = self.grants();
                // Of a directory the client forgot the names that change; it goes on showing the others.
                let shows_others = |told: &Told| items.iter().any(|item| is_name_of(item, told.ino));
                told.into_iter().filter(|told| !shows_others(told)).for_each(|told| grants.answered(told));
            }
        }
    }

    /// A file is open for writing, once more; others were told.
    pub(crate) fn opened_for_writing(&self, ino: Ino, session: &Session) {
        self.grants().opened_for_writing(ino, session.number);
    }

    /// It was closed.
    pub(crate) fn closed_for_writing(&self, ino: Ino, session: &Session) {
        let now = self.now();
        self.grants().closed_for_writing(ino, session.number, now);
    }

    /// Tells the locks what happened; whoever is granted something by it hears of it.
    pub(crate) fn apply(&self, event: locks::Event) {
        self.ask_locks(event, None);
    }

    /// Asks for a lock, or gives one up; `None` when the request waits.
    pub(crate) fn ask_locks(
        &self,
        event: locks::Event,
        asked: Option<locks::RequestId>,
    ) -> Option<Result<(), FsError>> {
        let asking = match event {
            locks::Event::Lock { session, .. } | locks::Event::Unlock { session, .. } => Some(session),
            _ => None,
        };
        let answers = self.locks().apply(event);
        if let locks::Event::SessionEnded { .. } = event {
            self.returned.notify_all();
        }
        let mut outcome = None;
        for answer in answers {
            let own = Some(answer.session) == asking && Some(answer.id) == asked;
            if own && outcome.is_none() {
                outcome = Some(answer.outcome.map_err(error_of));
            } else {
                self.deliver(&answer);
            }
        }
        outcome
    }

    pub(super) fn deliver(&self, answer: &locks::Answer) {
        let Some(session) = self.session(answer.session) else { return };
        let wait = WaitId(answer.id.0);
        session.outbox.put(match answer.outcome {
            Ok(()) => CallbackRequest::LockGranted { wait },
            Err(refusal) => CallbackRequest::LockFailed { wait, error: error_of(refusal) },
        });
    }

    /// A lock that is in the way.
    pub(crate) fn test_lock(&self, session: &Session, request: &forebay_wire::LockRequest) -> Reply {
        Reply::Lock { held: self.locks().table.test(session.number, request) }
    }

    /// Calls a request back; `true` when it waited. No message about it follows.
    pub(crate) fn cancel_lock(&self, session: &Session, wait: WaitId) -> bool {
        let event = locks::Event::Cancel { session: session.number, id: locks::RequestId(wait.0) };
        let answers = self.locks().apply(event);
        !answers.is_empty()
    }

    /// A number for a request for a lock that does not wait.
    pub(crate) fn lock_request(&self) -> locks::RequestId {
        locks::RequestId(self.lock_requests.fetch_add(1, SeqCst) | NOT_WAITING)
    }

    /// The number of a request that waits; `None` for numbers that clients may not choose.
    pub(crate) fn waiting_lock_request(wait: WaitId) -> Option<locks::RequestId> {
        (wait.0 & NOT_WAITING == 0).then_some(locks::RequestId(wait.0))
    }
}

fn unknown_deeds(sessions: Option<&Path>, cause: std::io::Error) -> SessionsError {
    SessionsError::Deeds { path: sessions.map(Deeds::beside).unwrap_or_default(), cause }
}

/// What was done for the sessions of a list; what was under way when the process before ended is settled.
fn settled(sessions: &Path, hosted: &HostedTree, recovery: &Recovery) -> Result<Deeds, SessionsError> {
    let listed = recovery.listed();
    let deeds = Deeds::open(&Deeds::beside(sessions), &listed);
    let deeds = deeds.map_err(|cause| unknown_deeds(Some(sessions), cause))?;
    hosted.metadata.settle_deeds(&deeds, &listed).map_err(SessionsError::Unsettled)?;
    Ok(deeds)
}

/// The directories of the names that change.
fn directories_of(items: &[Changed]) -> impl Iterator<Item = Ino> {
    items.iter().filter(|item| matches!(item, Changed::Entry(..))).map(object_of)
}

fn is_name_of(item: &Changed, directory: Ino) -> bool {
    matches!(item, Changed::Entry(parent, _) if *parent == directory)
}

/// A change that may be made. Others are given no grants on its objects until it is dropped.
pub(crate) struct Changing<'a> {
    home: &'a Home,
    objects: Vec<Ino>,
    by: locks::Session,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let now = self.home.now();
        self.home.grants().end(&self.objects, self.by, now);
    }
}

/// Whose grant an item is covered by.
fn object_of(item: &Changed) -> Ino {
    match item {
        Changed::Attributes(ino) | Changed::Entry(ino, _) | Changed::Content(ino) => *ino,
    }
}

fn error_of(refusal: LockRefusal) -> FsError {
    match refusal {
        LockRefusal::WouldBlock => FsError::WouldBlock,
        LockRefusal::Deadlock => FsError::Deadlock,
        LockRefusal::TooMany { .. } => FsError::NoLocks,
        LockRefusal::Cancelled => FsError::Interrupted,
        LockRefusal::NumberInUse => FsError::InvalidArgument,
    }
}
