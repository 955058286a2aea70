//! What operators ask: pools, nodes, and what was given up.

use super::effect::{Answer, Effect, ObjectKind};
use super::limits::MAX_POOLS;
use super::refusal::{Refusal, Role};
use super::request::{Caller, Request};
use super::row::*;
use super::step::{Reply, Step};
use super::word::{check_word, shown};
use forebay_model::ids::SessionId;
use forebay_model::units::Bytes;

impl Step<'_> {
    /// Requests of operators.
    pub fn operate(&mut self, caller: Caller, request: Request) -> Result<Reply, Refusal> {
        if !self.state.settings.is_operator(caller.uid) {
            let (uid, what) = (caller.uid, request.name().to_owned());
            return Err(Refusal::NotAllowed { uid, what, role: Role::Operators });
        }
        match request {
            Request::CreatePool { name, granularity } => self.create_pool(name, granularity)?,
            Request::AssignNode { node, pool } => self.assign_node(&node, pool)?,
            Request::Drain { node, drain } => {
                let mut row = self.node(&node)?;
                row.drain = drain;
                self.state.tables.nodes.edit(&node, |old| *old = row);
            }
            Request::ForgetNode { node } => self.forget_node(&node)?,
            Request::Retry { session } => self.retry(session)?,
            _ => {}
        }
        Ok(Reply::Now(Answer::Done))
    }

    fn node(&self, name: &str) -> Result<NodeRow, Refusal> {
        let nodes = shown(name);
        self.state.tables.nodes.get(name).cloned().ok_or(Refusal::UnknownNodes { nodes })
    }

    fn create_pool(&mut self, name: String, granularity: Bytes) -> Result<(), Refusal> {
        check_word(&name)?;
        if granularity.0 == 0 {
            let what = format!("pool {name} needs a granularity above zero");
            return Err(Refusal::Invalid { what });
        }
        match self.state.tables.pools.get(&name) {
            Some(pool) if pool.granularity == granularity => return Ok(()),
            Some(_) => {
                let what = format!("pool {name} exists with another granularity: use another name");
                return Err(Refusal::Invalid { what });
            }
            None if self.state.tables.pools.len() >= MAX_POOLS => {
                return Err(Refusal::TooMany { what: "pools", limit: MAX_POOLS });
            }
            None => self.state.insert(Row::Pool(PoolRow { name, granularity })),
        }
        Ok(())
    }

    fn assign_node(&mut self, node: &str, pool: Option<String>) -> Result<(), Refusal> {
        let row = self.node(node)?;
        if let Some(name) = pool.as_ref().filter(|name| !self.state.tables.pools.contains(*name)) {
            let names = self.state.tables.pools.values().map(|pool| pool.name.as_str());
            let known = names.collect::<Vec<_>>().join(", ");
            return Err(Refusal::NoPool { name: shown(name), known });
        }
        if row.pool != pool && self.state.links.fragments_on.count(node) > 0 {
            let what = format!("node {node} holds fragments: drain it and wait until they are gone");
            return Err(Refusal::Invalid { what });
        }
        self.state.replace_node(NodeRow { pool, pool_is_fixed: true, ..row });
        Ok(())
    }

    /// Gives up a lost node. Instances that had a fragment there are not intact; what is to go is gone.
    fn forget_node(&mut self, node: &str) -> Result<(), Refusal> {
        if self.node(node)?.online {
            return Err(Refusal::NodeOnline { node: node.to_owned() });
        }
        self.touch_users_of_node(node);
        for task in self.state.links.tasks_on.list(node) {
            self.give_up_task(task);
        }
        for activation in self.state.links.mounts_on.list(node) {
            self.state.remove(Key::Mount((activation, node.to_owned())));
        }
        self.state.remove(Key::Node(node.to_owned()));
        for id in self.state.links.fragments_on.list(node) {
            self.give_up_fragment(id);
        }
        let text = format!("node {node} is given up with everything on it");
        self.say(Effect::Log { uid: None, text });
        Ok(())
    }

    fn give_up_task(&mut self, id: TaskId) {
        let Some(task) = self.state.tables.tasks.get(&id).cloned() else { return };
        self.touch_users_of_subject(&task.subject);
        self.drop_task(id);
    }

    fn give_up_fragment(&mut self, id: forebay_model::ids::FragmentId) {
        let Some(row) = self.state.tables.fragments.get(&id).cloned() else { return };
        let instance = self.state.tables.instances.get(&row.instance);
        let has_session =
            instance.is_some_and(|instance| self.state.tables.sessions.contains(&instance.session));
        if has_session {
            self.set_step(id, FragmentStep::Lost);
            self.judge_intact(row.instance);
        } else {
            self.state.remove(Key::Fragment(id));
            self.retire_if_empty(row.instance);
        }
    }

    fn retry(&mut self, id: SessionId) -> Result<(), Refusal> {
        if !self.state.tables.sessions.contains(&id) {
            return Err(Refusal::NoObject { kind: ObjectKind::Session, id: id.0 });
        }
        self.rearm_mounts(id);
        self.rearm_fragments(id);
        self.touch(id);
        Ok(())
    }
}
