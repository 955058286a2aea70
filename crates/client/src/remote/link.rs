//! The connections to one server for one purpose.
//!
//! A link has a few *lanes*. Whoever wants something takes a free lane, sends the request, reads the reply itself and gives
//! the lane back: no thread reads for others, since to wake a thread on another processor takes longer than a small request.
//! A lane keeps its connection, and for requests that are carried out once its slot and their count. One request is under
//! way in a lane, so the server's memory of a slot's last reply is enough. What goes in the same message after a request is
//! never sent again, and has a slot of its own.
//!
//! A connection that breaks is made anew and the request is sent again, marked as repeated. While the server cannot be
//! reached this goes on, with pauses; after the description's time operations fail instead, at once, until somebody finds
//! it again. Lanes are taken under a lock that is held for that only.
//!
//! A server may refuse one more connection while it serves those there are. Whoever has a lane without a connection takes over
//! that of a free lane, and while none can be made that of the next lane that is given back: the slot stays with the lane.

use super::connection::{Broken, Connection, Sink, Train};
use super::error::ConnectError;
use super::held::Life;
use super::session::Session;
use forebay_wire::message::{ConnectionKind, DataRequest, Field, Flags, MetadataRequest, Once, Reply};
use forebay_wire::{FsError, Result};
use rustix::io::Errno;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Pause after the first failed attempt to connect.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// Longest pause between attempts.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Slots of requests that go after others, one for each lane; those of the requests themselves are below.
const AFTER_SLOTS: u16 = 32;

/// What the server said makes no sense; asking again would not help.
pub(crate) const NOT_UNDERSTOOD: FsError =
    FsError::Host { operation: "understand the server", errno: Errno::PROTO.raw_os_error() };

/// A request, with what is asked.
#[derive(Clone, Copy)]
pub(crate) enum Ask<'a> {
    Metadata(&'a MetadataRequest),
    Data(&'a DataRequest),
}

/// How long a request waits for a server that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// As long as the description says.
    Wait,
    /// Not at all.
    Try,
}

/// What has to be done with a connection before it is used.
pub(crate) trait Rejoin: Send + Sync {
    /// Called with each new connection. What fails here lets the connection fail.
    fn rejoin(&self, connection: &mut Connection) -> std::result::Result<(), Broken>;

    /// What the server is to be told, in a life of the session, before the next request. It goes with that and is not
    /// answered by itself; it is told in order before what is asked, and may be told again.
    fn before(&self, _life: Life) -> Option<MetadataRequest> {
        None
    }

    /// The connection broke: it may not have been told.
    fn not_told(&self, _request: MetadataRequest, _life: Life) {}

    /// Another life of the session knows by now what is held.
    fn is_over(&self, _life: Life) -> bool {
        false
    }
}

struct Lane {
    slot: u16,
    sequence: u64,
    /// Count of the slot of requests that go after others.
    after: u64,
    connection: Option<Connection>,
    body: Vec<u8>,
}

struct Lanes {
    free: Vec<Lane>,
    made: u16,
    /// Who waits for a free one: to wake nobody costs a system call too.
    waiting: u32,
    /// Who has a lane and waits for a connection.
    wanting: usize,
    /// Connections of lanes that were given back, for those.
    left: Vec<Connection>,
}

impl Lanes {
    /// Takes a connection that no request uses.
    fn idle(&mut self) -> Option<Connection> {
        let free = || self.free.iter_mut().rev().find_map(|lane| lane.connection.take());
        self.left.pop().or_else(free)
    }
}

/// Since when the server is not there.
#[derive(Clone, Copy)]
struct Lost {
    since: Instant,
    last_attempt: Instant,
}

/// See the module.
pub(crate) struct Link {
    session: Arc<Session>,
    server: u32,
    kind: ConnectionKind,
    lanes_max: u16,
    lanes: Mutex<Lanes>,
    freed: Condvar,
    lost: Mutex<Option<Lost>>,
    rejoin: OnceLock<Arc<dyn Rejoin>>,
}

/// What a reply says of something that is done or not.
pub(crate) fn done(reply: Reply) -> Result<()> {
    match reply {
        Reply::Done => Ok(()),
        _ => Err(NOT_UNDERSTOOD),
    }
}

/// Whether a connection goes on, and what it has answered: `None` where it broke, and the request may have been carried out.
fn outcome(answer: std::result::Result<Reply, Broken>) -> (bool, Option<Result<Reply>>) {
    match answer {
        Ok(Reply::Failed { error }) => (true, Some(Err(error))),
        Ok(Reply::Unsupported { .. }) => (true, Some(Err(FsError::Unsupported))),
        Ok(Reply::Malformed { .. }) | Err(Broken::Protocol(_)) => (false, Some(Err(NOT_UNDERSTOOD))),
        Ok(reply) => (true, Some(Ok(reply))),
        Err(Broken::Connection(_)) => (false, None),
    }
}

/// A request that was sent, and whose reply is to be waited for. Who has one asks nothing of any link until it is ended or
/// dropped; dropped, it costs the lane its connection.
pub(crate) struct Begun<'a> {
    taken: Taken<'a>,
    number: u64,
    is_ended: bool,
}

impl Begun<'_> {
    /// Waits for the reply, and says in which life of the session it was given; what the server says has failed is the error.
    /// `None`: the connection broke, and the request may have been carried out.
    pub(crate) fn end(mut self) -> Option<Result<(Reply, Life)>> {
        let number = self.number;
        let connection = self.taken.lane.as_mut().and_then(|lane| lane.connection.as_mut())?;
        let life = connection.terms.life();
        let (goes_on, outcome) = outcome(connection.end(number));
        self.is_ended = goes_on;
        outcome.map(|reply| reply.map(|reply| (reply, life)))
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(lane) = self.taken.lane.as_mut().filter(|_| !self.is_ended) {
            lane.connection = None;
        }
    }
}

/// A lane that is given back when dropped.
struct Taken<'a> {
    link: &'a Link,
    lane: Option<Lane>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut lanes = self.link.lanes();
        let Some(mut lane) = self.lane.take() else { return };
        let is_wanted = lanes.left.len() < lanes.wanting && lane.connection.is_some();
        if is_wanted {
            lanes.left.extend(lane.connection.take());
        }
        lanes.free.push(lane);
        if lanes.waiting > 0 {
            self.link.freed.notify_one();
        }
        drop(lanes);
        if is_wanted {
            self.link.session.wake();
        }
    }
}

impl Link {
    pub(crate) fn new(session: Arc<Session>, server: u32, kind: ConnectionKind, lanes_max: u16) -> Link {
        Link {
            session,
            server,
            kind,
            lanes_max,
            lanes: Mutex::new(Lanes { free: Vec::new(), made: 0, waiting: 0, wanting: 0, left: Vec::new() }),
            freed: Condvar::new(),
            lost: Mutex::new(None),
            rejoin: OnceLock::new(),
        }
    }

    /// Says what is to be done with new connections. Before the first request.
    pub(crate) fn set_rejoin(&self, rejoin: Arc<dyn Rejoin>) {
        // Set once, by who made the link.
        let _ = self.rejoin.set(rejoin);
    }

    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self) -> MutexGuard<'_, Option<Lost>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Taken<'_> {
        let mut lanes = self.lanes();
        loop {
            // The one used last: it is connected, and its memory is warm.
            if let Some(lane) = lanes.free.pop() {
                return Taken { link: self, lane: Some(lane) };
            }
            if lanes.made < self.lanes_max {
                let slot = lanes.made;
                lanes.made += 1;
                let lane = Lane { slot, sequence: 0, after: 0, connection: None, body: Vec::new() };
                return Taken { link: self, lane: Some(lane) };
            }
            lanes.waiting += 1;
            lanes = self.freed.wait(lanes).unwrap_or_else(PoisonError::into_inner);
            lanes.waiting -= 1;
        }
    }

    /// Asks, and returns the reply; what the server says has failed is the error.
    pub(crate) fn ask(
        &self,
        patience: Patience,
        ask: Ask<'_>,
        carried: &[&[u8]],
        sink: &mut Sink<'_, '_>,
    ) -> Result<Reply> {
        self.ask_in(patience, ask, carried, sink, |_| true).map(|(reply, _)| reply)
    }

    /// Asks one thing, and another in the same message, which is looked at after the first is done; that needs no reply of
    /// its own to be right: `None` when there is none.
    pub(crate) fn ask_both(
        &self,
        first: &MetadataRequest,
        second: &MetadataRequest,
    ) -> Result<(Reply, Life, Option<Reply>)> {
        let mut others = Vec::new();
        let then = std::slice::from_ref(second);
        let (reply, life) = self.ask_many(first, then, &mut others)?;
        Ok((reply, life, others.pop()))
    }

    /// The same with several afterwards; those of their replies that came are added to `others`, in order, whatever becomes
    /// of the first.
    pub(crate) fn ask_many(
        &self,
        first: &MetadataRequest,
        then: &[MetadataRequest],
        others: &mut Vec<Reply>,
    ) -> Result<(Reply, Life)> {
        let ask = Ask::Metadata(first);
        self.ask_train((Patience::Wait, ask), (then, others), &[], &mut Sink::Nothing, |_| true)
    }

    /// As [`Link::ask`], if `may` says so of the life of the session; a request that is not sent has a bad handle.
    pub(crate) fn ask_in(
        &self,
        patience: Patience,
        ask: Ask<'_>,
        carried: &[&[u8]],
        sink: &mut Sink<'_, '_>,
        may: impl Fn(Life) -> bool,
    ) -> Result<(Reply, Life)> {
        self.ask_train((patience, ask), (&[], &mut Vec::new()), carried, sink, may)
    }

    fn ask_train(
        &self,
        (patience, ask): (Patience, Ask<'_>),
        (then, others): (&[MetadataRequest], &mut Vec<Reply>),
        carried: &[&[u8]],
        sink: &mut Sink<'_, '_>,
        may: impl Fn(Life) -> bool,
    ) -> Result<(Reply, Life)> {
        let mut taken = self.take();
        let lane = taken.lane.as_mut().expect("a lane until it is given back");
        let kind = lane.encode(ask);
        let mut flags = Flags::default();
        // A connection that ended while nothing was under way leaves no doubt: the request was not carried out.
        if matches!(ask, Ask::Metadata(_)) && lane.connection.as_ref().is_some_and(|found| !found.is_alive())
        {
            lane.connection = None;
        }
        loop {
            let connection = self.connected(&mut lane.connection, patience)?;
            let life = connection.terms.life();
            if !may(life) {
                return Err(FsError::BadHandle);
            }
            let rejoin = self.rejoin.get();
            let before = rejoin.and_then(|rejoin| rejoin.before(life));
            // What goes after the request is not sent again: it may have been carried out, and nobody needs to know.
            let then = if flags.repeated { &[] } else { then };
            lane.after += then.len() as u64;
            let numbers =
                Once { slot: AFTER_SLOTS + lane.slot, sequence: lane.after + 1 - then.len() as u64 };
            let body = &lane.body;
            let train = Train { before: before.as_ref(), kind, flags, body, carried, then, numbers };
            let answer = connection.ask_train(&train, sink);
            if let (Err(_), Some(request), Some(rejoin)) = (&answer, before, rejoin) {
                rejoin.not_told(request, life);
            }
            let answer = answer.map(|(reply, more)| {
                others.extend(more);
                reply
            });
            let (goes_on, outcome) = outcome(answer);
            if !goes_on {
                lane.connection = None;
            }
            match outcome {
                // It was on its way while another thread found the server started anew and claimed what was held then:
                // what this gives was not claimed, and is asked for again.
                Some(Ok(_)) if gives(ask) && rejoin.is_some_and(|rejoin| rejoin.is_over(life)) => {
                    others.clear();
                    lane.connection = None;
                }
                Some(outcome) => return outcome.map(|reply| (reply, life)),
                None => {}
            }
            if let Sink::Descriptors(descriptors) = sink {
                descriptors.clear();
            }
            flags.repeated = true;
        }
    }

    /// The connection of a lane, made if it is not there.
    fn connected<'a>(
        &self,
        connection: &'a mut Option<Connection>,
        patience: Patience,
    ) -> Result<&'a mut Connection> {
        let mut pause = PAUSE_MIN;
        while connection.is_none() {
            *connection = self.idle_connection();
            if connection.is_some() {
                break;
            }
            if self.session.is_closed() || !self.may_attempt(patience) {
                return Err(FsError::Unreachable);
            }
            match self.connect() {
                Ok(made) => {
                    *self.lost() = None;
                    *connection = Some(made);
                }
                Err(_) => {
                    if self.failed() || patience == Patience::Try {
                        return Err(FsError::Unreachable);
                    }
                    self.await_connection(pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                }
            }
        }
        Ok(connection.as_mut().expect("made above"))
    }

    /// A connection that no request uses now. That there is one means that the server is there.
    fn idle_connection(&self) -> Option<Connection> {
        let found = std::iter::from_fn(|| self.lanes().idle()).find(Connection::is_alive)?;
        *self.lost() = None;
        Some(found)
    }

    /// Waits for a time, or until a lane with a connection is given back.
    fn await_connection(&self, time: Duration) {
        self.lanes().wanting += 1;
        self.session.pause_unless(time, || !self.lanes().left.is_empty());
        self.lanes().wanting -= 1;
    }

    /// One attempt.
    pub(crate) fn connect(&self) -> std::result::Result<Connection, ConnectError> {
        let mut connection = Connection::open(&self.session, self.server, self.kind)?;
        if let Some(rejoin) = self.rejoin.get() {
            rejoin.rejoin(&mut connection).map_err(|broken| self.broken(broken))?;
        }
        Ok(connection)
    }

    fn broken(&self, broken: Broken) -> ConnectError {
        let address = self.session.server(self.server).tcp;
        match broken {
            Broken::Connection(source) => ConnectError::Unreachable { address, source },
            Broken::Protocol(source) => ConnectError::Protocol { address, source },
        }
    }

    /// Puts a connection that was made elsewhere into a lane.
    pub(crate) fn adopt(&self, connection: Connection) {
        let mut taken = self.take();
        if let Some(lane) = &mut taken.lane {
            lane.connection = Some(connection);
        }
    }

    /// Whether it makes sense to look for the server now: once it has been away for long, not more often than it is
    /// looked for anyway.
    fn may_attempt(&self, patience: Patience) -> bool {
        let mut lost = self.lost();
        let Some(lost) = lost.as_mut() else { return true };
        let now = Instant::now();
        let is_long = now.duration_since(lost.since) >= self.session.timeouts().unreachable;
        if patience == Patience::Wait && !is_long {
            return true;
        }
        let is_due = now.duration_since(lost.last_attempt) >= PAUSE_MAX;
        if is_due {
            lost.last_attempt = now;
        }
        is_due
    }

    /// An attempt failed; `true` when the server has been away for too long to be waited for.
    fn failed(&self) -> bool {
        let now = Instant::now();
        let mut lost = self.lost();
        let lost = lost.get_or_insert(Lost { since: now, last_attempt: now });
        lost.last_attempt = now;
        now.duration_since(lost.since) >= self.session.timeouts().unreachable
    }

    /// Takes a free lane that has a connection, if there is one.
    fn take_connected(&self) -> Option<Taken<'_>> {
        let mut lanes = self.lanes();
        let connected = lanes.free.iter().rposition(|lane| lane.connection.is_some())?;
        let lane = lanes.free.swap_remove(connected);
        Some(Taken { link: self, lane: Some(lane) })
    }

    /// Sends a request that can be repeated, without waiting for anything. `None`: no connection is free, or it broke.
    pub(crate) fn begin(&self, ask: Ask<'_>) -> Option<Begun<'_>> {
        let mut taken = self.take_connected()?;
        let lane = taken.lane.as_mut()?;
        let kind = lane.encode(ask);
        let sent = lane.connection.as_mut()?.send(kind, &lane.body);
        if sent.is_err() {
            lane.connection = None;
        }
        let number = sent.ok()?;
        Some(Begun { taken, number, is_ended: false })
    }

    /// Asks over a free connection, if there is one, and waits no longer than this. What was not heard is not said again.
    pub(crate) fn ask_in_passing(&self, ask: Ask<'_>, within: Duration) {
        while let Some(mut taken) = self.take_connected() {
            let lane = taken.lane.as_mut().expect("a lane until it is given back");
            if let Some(mut connection) = lane.connection.take()
                && connection.is_alive()
            {
                let kind = lane.encode(ask);
                // Others may have something to say too, and this may be the only connection that there is.
                lane.connection = connection.asks_within(kind, &lane.body, within).then_some(connection);
                return;
            }
        }
    }
}

/// The reply gives something that is held from then on, in that life of the session only.
fn gives(ask: Ask<'_>) -> bool {
    use MetadataRequest as R;
    let Ask::Metadata(request) = ask else { return false };
    matches!(
        request,
        R::Lookup { .. }
            | R::Mknod { .. }
            | R::Create { .. }
            | R::Mkdir { .. }
            | R::Symlink { .. }
            | R::Link { .. }
            | R::Open { .. }
            | R::OpenDir { .. }
    )
}

impl Lane {
    /// Writes a new request to the body; returns its kind.
    fn encode(&mut self, ask: Ask<'_>) -> u16 {
        self.body.clear();
        match ask {
            Ask::Metadata(request) => {
                if MetadataRequest::is_once(request.kind()) {
                    self.sequence += 1;
                    Once { slot: self.slot, sequence: self.sequence }.put(&mut self.body);
                }
                request.encode(&mut self.body);
                request.kind()
            }
            Ask::Data(request) => {
                request.encode(&mut self.body);
                request.kind()
            }
        }
    }
}
