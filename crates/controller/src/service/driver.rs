//! The thread that owns the state: it takes commands, steps, stores, and then carries out everything else.
//!
//! What waits in the queue is taken as a group: each event is a step of its own, the changes of all of them are stored
//! in one transaction, and only then the first answer of the group is given. Reading commands see what is stored; they
//! are done between groups, those of the workload manager first, and for a short time only, so that nobody who reads a
//! lot holds up what is to be decided.
//!
//! Anybody may send commands ([`Commands`]); the queue is bounded by the limits on connections.

#[cfg(test)]
mod tests;

use super::clock::Clock;
use super::error::ServiceError;
use super::events::{Events, Told};
use super::metrics::Figures;
use super::store::Rows;
use crate::cluster::effect::{Answer, Effect, List, Notice};
use crate::cluster::event::{AgentMessage, Event};
use crate::cluster::row::{Change, Key};
use crate::cluster::{Caller, Refusal, Request, RequestId, State, list, step};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Most commands of a group: bounds how long the first of them waits for the last.
const MAX_GROUP: usize = 256;
/// After so much reading the next group is looked for. A single look may take longer.
const READING_TIME: Duration = Duration::from_millis(20);
/// Time is told to the core so often.
const TICK: Duration = Duration::from_secs(1);

/// What becomes of an agent's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Hearing {
    /// It was heard.
    Heard,
    /// It has to register.
    Register,
    /// It cannot: why.
    NotAdmitted(String),
}

/// What an agent's poll brings.
#[derive(Debug)]
pub(super) enum Polled {
    /// A newer list.
    List(List),
    /// It has to register.
    Register,
}

type Reading = Box<dyn FnOnce(&State, &Figures) + Send>;

/// Something for the driver.
pub(super) enum Command {
    Ask { id: RequestId, caller: Caller, request: Request, reply: oneshot::Sender<Result<Answer, Refusal>> },
    Gone { id: RequestId },
    Tell { node: String, incarnation: u64, message: AgentMessage, reply: oneshot::Sender<Hearing> },
    Poll { node: String, incarnation: u64, after: u64, reply: oneshot::Sender<Polled> },
    Read { first: bool, reading: Reading },
    Stop,
}

/// The way to the driver.
#[derive(Clone)]
pub(super) struct Commands {
    sender: Sender<Command>,
    last_request: Arc<AtomicU64>,
}

/// The driver has ended: nobody answers any more.
#[derive(Debug)]
pub(super) struct Ended;

/// The channels between the driver and the others.
pub(super) fn channels() -> (Events, Commands, Receiver<Command>) {
    let (sender, receiver) = channel();
    (Events::new(), Commands { sender, last_request: Arc::default() }, receiver)
}

impl Commands {
    /// Asks the core; a caller that does not wait any more withdraws the request.
    pub async fn ask(&self, caller: Caller, request: Request) -> Result<Result<Answer, Refusal>, Ended> {
        let id = RequestId(self.last_request.fetch_add(1, Ordering::Relaxed) + 1);
        let (reply, answer) = oneshot::channel();
        self.send(Command::Ask { id, caller, request, reply })?;
        let mut waiting = Waiting { commands: self, id, answered: false };
        let answer = answer.await.map_err(|_| Ended);
        waiting.answered = true;
        answer
    }

    /// An agent says something.
    pub async fn tell(
        &self,
        node: String,
        incarnation: u64,
        message: AgentMessage,
    ) -> Result<Hearing, Ended> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Tell { node, incarnation, message, reply })?;
        answer.await.map_err(|_| Ended)
    }

    /// An agent wants a list newer than one; `None` when a newer poll took its place.
    pub async fn poll(&self, node: String, incarnation: u64, after: u64) -> Result<Option<Polled>, Ended> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Poll { node, incarnation, after, reply })?;
        Ok(answer.await.ok())
    }

    /// Looks at the state; `first` is before those who are not.
    pub async fn read<T: Send + 'static>(
        &self,
        first: bool,
        look: impl FnOnce(&State, &Figures) -> T + Send + 'static,
    ) -> Result<T, Ended> {
        let (reply, answer) = oneshot::channel();
        let reading = Box::new(move |state: &State, figures: &Figures| {
            // Who is gone needs no look.
            if !reply.is_closed() {
                drop(reply.send(look(state, figures)));
            }
        });
        self.send(Command::Read { first, reading })?;
        answer.await.map_err(|_| Ended)
    }

    /// Ends the driver after what was sent before.
    pub fn stop(&self) {
        drop(self.sender.send(Command::Stop));
    }

    fn send(&self, command: Command) -> Result<(), Ended> {
        self.sender.send(command).map_err(|_| Ended)
    }
}

/// Withdraws a request whose sender is gone.
struct Waiting<'c> {
    commands: &'c Commands,
    id: RequestId,
    answered: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.answered {
            drop(self.commands.send(Command::Gone { id: self.id }));
        }
    }
}

struct Poller {
    incarnation: u64,
    after: u64,
    reply: oneshot::Sender<Polled>,
}

/// See the module.
pub(super) struct Driver {
    state: State,
    rows: Box<dyn Rows>,
    clock: Clock,
    ticked: Instant,
    events: Events,
    asking: BTreeMap<RequestId, oneshot::Sender<Result<Answer, Refusal>>>,
    polling: BTreeMap<String, Poller>,
    /// Looks that wait: of the workload manager and operators, and of the others.
    readings: [VecDeque<Reading>; 2],
    figures: Figures,
}

/// What a group of commands leads to, after it was stored.
#[derive(Default)]
struct Group {
    changes: BTreeMap<Key, Change>,
    effects: Vec<Effect>,
    heard: Vec<(oneshot::Sender<Hearing>, Hearing)>,
    polls: Vec<(String, Poller)>,
    stop: bool,
}

impl Driver {
    /// With a state that is what is stored.
    pub fn new(state: State, rows: Box<dyn Rows>, events: Events) -> Driver {
        Driver {
            state,
            rows,
            clock: Clock::start(),
            ticked: Instant::now(),
            events,
            asking: BTreeMap::new(),
            polling: BTreeMap::new(),
            readings: Default::default(),
            figures: Figures::default(),
        }
    }

    /// Works until it is told to stop.
    ///
    /// # Errors
    /// It cannot store.
    pub fn run(mut self, commands: Receiver<Command>) -> Result<(), ServiceError> {
        let mut group = Group::default();
        self.tick(&mut group);
        loop {
            self.store(&mut group)?;
            self.finish(group);
            group = Group::default();
            self.read();
            let pause = match self.readings.iter().all(VecDeque::is_empty) {
                true => TICK.saturating_sub(self.ticked.elapsed()),
                false => Duration::ZERO,
            };
            match commands.recv_timeout(pause) {
                Ok(command) => self.take(command, &mut group),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            for command in commands.try_iter().take(MAX_GROUP - 1) {
                self.take(command, &mut group);
            }
            // After the commands: an agent that spoke while this was held up is not lost.
            if self.ticked.elapsed() >= TICK {
                self.tick(&mut group);
            }
            if group.stop {
                self.store(&mut group)?;
                self.finish(group);
                return Ok(());
            }
        }
    }

    fn tick(&mut self, group: &mut Group) {
        self.ticked = Instant::now();
        let now = self.clock.now();
        self.step(Event::Tick { now }, group);
    }

    fn take(&mut self, command: Command, group: &mut Group) {
        match command {
            Command::Ask { id, caller, request, reply } => {
                self.figures.asked(request.name());
                self.asking.insert(id, reply);
                self.step(Event::Request { id, caller, request }, group);
            }
            Command::Gone { id } => {
                if self.asking.remove(&id).is_some() {
                    self.step(Event::RequestGone { id }, group);
                }
            }
            Command::Tell { node, incarnation, message, reply } => {
                let hearing = self.hear(node, incarnation, message, group);
                group.heard.push((reply, hearing));
            }
            Command::Poll { node, incarnation, after, reply } => {
                group.polls.push((node, Poller { incarnation, after, reply }));
            }
            Command::Read { first, reading } => self.readings[usize::from(!first)].push_back(reading),
            Command::Stop => group.stop = true,
        }
    }

    fn hear(&mut self, node: String, incarnation: u64, message: AgentMessage, group: &mut Group) -> Hearing {
        self.figures.heard(&message, self.state.tables());
        let registers = matches!(message, AgentMessage::Register(_));
        let from = group.effects.len();
        self.step(Event::Agent { node: node.clone(), incarnation, message }, group);
        let effects = &group.effects[from..];
        if effects.iter().any(|effect| matches!(effect, Effect::AskToRegister { .. })) {
            return Hearing::Register;
        }
        let row = self.state.tables().nodes.get(&node);
        if registers && !row.is_some_and(|row| row.online && row.incarnation == incarnation) {
            let reason = effects.iter().find_map(|effect| match effect {
                Effect::Log { text, .. } => Some(text.clone()),
                _ => None,
            });
            let older = || format!("agent of node {node} is not admitted: a newer one is registered");
            return Hearing::NotAdmitted(reason.unwrap_or_else(older));
        }
        Hearing::Heard
    }

    fn step(&mut self, event: Event, group: &mut Group) {
        for effect in step(&mut self.state, event) {
            match effect {
                Effect::Store(changes) => group.changes.extend(changes.into_iter().map(keyed)),
                other => group.effects.push(other),
            }
        }
    }

    fn store(&mut self, group: &mut Group) -> Result<(), ServiceError> {
        let changes: Vec<Change> = std::mem::take(&mut group.changes).into_values().collect();
        if changes.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        self.rows.store(&changes)?;
        self.figures.stored(changes.len(), started.elapsed());
        Ok(())
    }

    /// Everything that had to wait for the disk.
    fn finish(&mut self, group: Group) {
        for effect in group.effects {
            self.carry_out(effect);
        }
        for (reply, hearing) in group.heard {
            drop(reply.send(hearing));
        }
        for (node, poller) in group.polls {
            self.poll(node, poller);
        }
    }

    /// Lets who waits look at what is stored, for a while.
    fn read(&mut self) {
        let start = Instant::now();
        while start.elapsed() < READING_TIME {
            let [first, others] = &mut self.readings;
            let Some(reading) = first.pop_front().or_else(|| others.pop_front()) else { return };
            reading(&self.state, &self.figures);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            // Taken out in `step`.
            Effect::Store(_) => {}
            Effect::Hand(list) => {
                let newer = |poller: &mut Poller| {
                    poller.incarnation != list.incarnation || poller.after < list.number
                };
                if let Some(poller) = take_if(&mut self.polling, &list.node, newer) {
                    // An older incarnation than the list's has to go away.
                    let same = poller.incarnation == list.incarnation;
                    drop(poller.reply.send(if same { Polled::List(list) } else { Polled::Register }));
                }
            }
            Effect::AskToRegister { node } => {
                if let Some(poller) = self.polling.remove(&node) {
                    drop(poller.reply.send(Polled::Register));
                }
            }
            Effect::Answer { request, answer } => {
                self.figures.answered(&answer);
                if let Some(reply) = self.asking.remove(&request) {
                    drop(reply.send(answer));
                }
            }
            Effect::Notice(notice) => self.events.tell(self.told(notice)),
            Effect::Log { uid, text } => super::respond::log(uid, &text),
        }
    }

    fn told(&self, notice: Notice) -> Told {
        let tables = self.state.tables();
        let (owner, public) = match &notice {
            Notice::Session { owner, .. } => (Some(*owner), false),
            Notice::Node { .. } => (None, true),
            Notice::Fragment { id, .. } => {
                let instance = tables.fragments.get(id).and_then(|row| tables.instances.get(&row.instance));
                (instance.map(|row| row.owner), instance.is_some_and(|row| row.public))
            }
        };
        Told { notice, owner, public }
    }

    fn poll(&mut self, node: String, poller: Poller) {
        let row = self.state.tables().nodes.get(&node);
        let Some(row) = row.filter(|row| row.online && row.incarnation == poller.incarnation) else {
            drop(poller.reply.send(Polled::Register));
            return;
        };
        if row.list > poller.after {
            if let Some(list) = list(&mut self.state, &node) {
                drop(poller.reply.send(Polled::List(list)));
            }
            return;
        }
        // One poll for a node at a time; the older one ends without anything.
        self.polling.insert(node, poller);
    }
}

fn keyed(change: Change) -> (Key, Change) {
    let key = match &change {
        Change::Put(row) => row.key(),
        Change::Delete(key) => key.clone(),
    };
    (key, change)
}

fn take_if(
    polling: &mut BTreeMap<String, Poller>,
    node: &str,
    condition: impl FnOnce(&mut Poller) -> bool,
) -> Option<Poller> {
    if polling.get_mut(node).is_some_and(condition) { polling.remove(node) } else { None }
}
