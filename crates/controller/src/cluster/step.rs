//! One step: an event is taken in, what it touched is reconciled, who waits is answered, changed lists are sent.
//!
//! A refusal changes nothing: every operation judges first and changes afterwards.

use super::effect::{Answer, Effect, List, Notice};
use super::event::Event;
use super::limits::{MAX_WAITING, MAX_WAITING_PER_SESSION};
use super::refusal::Refusal;
use super::request::{Caller, Request, RequestId};
use super::row::*;
use super::state::State;
use super::waiting::{Until, Waiting};
use forebay_model::ids::{InstanceId, SessionId};
use std::collections::BTreeSet;

/// Takes an event in. Carry the effects out in their order.
pub fn step(state: &mut State, event: Event) -> Vec<Effect> {
    let mut step = Step::new(state);
    step.take(event);
    step.settle();
    step.finish()
}

/// What the agent of a node is to do now, as its latest list says; `None` while it is not there.
pub fn list(state: &mut State, node: &str) -> Option<List> {
    Step::new(state).list(node)
}

/// A step in progress.
pub(super) struct Step<'s> {
    pub state: &'s mut State,
    /// Sessions to be reconciled.
    touched: BTreeSet<SessionId>,
    /// Nodes whose list of tasks changed.
    relisted: BTreeSet<String>,
    /// Nodes whose list is to be sent although it did not change.
    reminded: BTreeSet<String>,
    /// What was said besides.
    said: Vec<Effect>,
}

/// What becomes of a request.
pub(super) enum Reply {
    /// It is answered.
    Now(Answer),
    /// It waits.
    Wait(SessionId, Until),
}

impl<'s> Step<'s> {
    fn new(state: &'s mut State) -> Step<'s> {
        let (touched, relisted, reminded) = Default::default();
        Step { state, touched, relisted, reminded, said: Vec::new() }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Tick { now } => self.tick(now),
            Event::Agent { node, incarnation, message } => self.hear(node, incarnation, message),
            Event::Request { id, caller, request } => self.ask(id, caller, request),
            Event::RequestGone { id } => {
                self.state.waiting.leave(id);
            }
        }
    }

    fn ask(&mut self, id: RequestId, caller: Caller, request: Request) {
        let name = request.name();
        let reply = self.judge(caller, request);
        self.reply(id, caller, name, reply);
    }

    fn judge(&mut self, caller: Caller, request: Request) -> Result<Reply, Refusal> {
        match request {
            Request::Setup(setup) => self.setup(caller, setup),
            Request::DataIn { token } => self.data_in(caller, &token),
            Request::RealSize { token } => self.real_size(caller, &token),
            Request::Paths { token } => self.paths(caller, &token),
            Request::PreRun { token, hosts } => self.pre_run(caller, &token, hosts),
            Request::PostRun { token } => self.post_run(caller, &token),
            Request::DataOut { token } => self.data_out(caller, &token),
            Request::Teardown { token, hurry } => self.teardown(caller, &token, hurry),
            Request::CreatePersistent(create) => self.create_persistent(caller, create),
            Request::CreatePool { .. }
            | Request::AssignNode { .. }
            | Request::Drain { .. }
            | Request::ForgetNode { .. }
            | Request::Retry { .. } => self.operate(caller, request),
            _ => self.serve_user(caller, request),
        }
    }

    fn reply(
        &mut self,
        request: RequestId,
        caller: Caller,
        name: &'static str,
        reply: Result<Reply, Refusal>,
    ) {
        let answer = match reply {
            Ok(Reply::Wait(session, until)) => match self.wait(request, caller, name, session, until) {
                Ok(()) => return,
                Err(refusal) => Err(refusal),
            },
            Ok(Reply::Now(answer)) => Ok(answer),
            Err(refusal) => Err(refusal),
        };
        self.answer(request, caller, name, answer);
    }

    fn wait(
        &mut self,
        request: RequestId,
        caller: Caller,
        name: &'static str,
        session: SessionId,
        until: Until,
    ) -> Result<(), Refusal> {
        let room = &mut self.state.waiting;
        if room.len() >= MAX_WAITING {
            return Err(Refusal::TooMany { what: "waiting requests", limit: MAX_WAITING });
        }
        if room.count_for(session) >= MAX_WAITING_PER_SESSION {
            let limit = MAX_WAITING_PER_SESSION;
            return Err(Refusal::TooMany { what: "requests that wait for one session", limit });
        }
        let token = self.state.tables.sessions.get(&session).map_or(String::new(), |s| s.token.clone());
        room.enter(Waiting { request, caller, name, session, token, until });
        self.touch(session);
        Ok(())
    }

    fn answer(
        &mut self,
        request: RequestId,
        caller: Caller,
        name: &'static str,
        answer: Result<Answer, Refusal>,
    ) {
        if let Err(refusal) = &answer {
            let text = format!("{name} refused: {refusal}");
            self.said.push(Effect::Log { uid: Some(caller.uid), text });
        }
        self.said.push(Effect::Answer { request, answer });
    }

    /// Reconciles what was touched until nothing is left to do, and answers who waited for it.
    fn settle(&mut self) {
        while let Some(session) = self.touched.pop_first() {
            self.reconcile(session);
            for waiting in self.state.waiting.of(session) {
                self.look_at(waiting);
            }
        }
    }

    fn look_at(&mut self, waiting: Waiting) {
        let gone = !self.state.tables.sessions.contains(&waiting.session);
        let reply = match waiting.until.clone() {
            Until::FreeForJob(setup) if gone => self.setup(waiting.caller, *setup),
            Until::FreeForPersistent(create) if gone => self.create_persistent(waiting.caller, *create),
            _ => match self.verdict(&waiting) {
                None => return,
                Some(verdict) => verdict.map(Reply::Now),
            },
        };
        self.state.waiting.leave(waiting.request);
        self.reply(waiting.request, waiting.caller, waiting.name, reply);
    }

    /// The effects, in the order in which they are to be carried out.
    fn finish(mut self) -> Vec<Effect> {
        if !self.relisted.is_empty() {
            let number = self.state.draw(|counters| &mut counters.steps);
            for node in &self.relisted {
                self.state.tables.nodes.edit(node, |node| node.list = number);
            }
        }
        let mut effects = Vec::new();
        let changes = self.state.tables.take_changes();
        if !changes.is_empty() {
            effects.push(Effect::Store(changes));
        }
        let nodes: BTreeSet<String> = self.relisted.union(&self.reminded).cloned().collect();
        effects.extend(nodes.iter().filter_map(|node| self.list(node)).map(Effect::Hand));
        effects.append(&mut self.said);
        effects
    }

    /// What the agent of a node is to do now; `None` while it is not there.
    fn list(&self, node: &str) -> Option<List> {
        let row = self.state.tables.nodes.get(node).filter(|row| row.online)?;
        let tasks = self.state.links.tasks_on.of(node).filter_map(|id| self.state.tables.tasks.get(id));
        let ready = tasks.filter(|task| !task.blown && task.not_before <= self.state.now);
        let orders = ready.filter_map(|task| self.order(task)).collect();
        Some(List { node: row.name.clone(), incarnation: row.incarnation, number: row.list, orders })
    }

    /// This session has to be looked at.
    pub fn touch(&mut self, session: SessionId) {
        self.touched.insert(session);
    }

    /// Everybody who uses this instance has to be looked at.
    pub fn touch_users_of(&mut self, instance: InstanceId) {
        let links = &self.state.links;
        let registered = links.configurations.of(&instance).flat_map(|id| links.registered.of(id));
        let rows = registered.filter_map(|id| self.state.tables.registrations.get(id));
        let mut users: BTreeSet<SessionId> = rows.map(|row| row.session).collect();
        users.extend(self.state.tables.instances.get(&instance).map(|row| row.session));
        self.touched.append(&mut users);
    }

    /// The list of this node's tasks changed.
    pub fn relist(&mut self, node: &str) {
        self.relisted.insert(node.to_owned());
    }

    /// The agent of this node needs its list again.
    pub fn remind(&mut self, node: &str) {
        self.reminded.insert(node.to_owned());
    }

    /// Says something to observers or the log, or asks an agent for something.
    pub fn say(&mut self, effect: Effect) {
        self.said.push(effect);
    }

    /// Tells observers how a session stands.
    pub fn tell_session(&mut self, session: &SessionRow, gone: bool) {
        let (id, token, owner) = (session.id, session.token.clone(), session.owner);
        let state = (!gone).then_some(session.state);
        self.said.push(Effect::Notice(Notice::Session { id, token, owner, state }));
    }
}
