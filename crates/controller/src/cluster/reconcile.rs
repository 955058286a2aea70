//! What follows for a session from the difference between what is wanted and what there is.
//!
//! Called for a session after anything that concerns it; doing it once more changes nothing. The order at the end of a
//! session: mounts go first, then stage-outs that are owed are done, then staging ends, then the fragments go, then the
//! rows. A node that is lost is not waited for, but what it holds stays booked until it comes back or is given up.

mod mounts;
mod space;

use super::row::*;
use super::step::Step;
use crate::request::StageDirection;
use forebay_model::ids::*;
use forebay_model::state::{Goal, ObjectState};

impl Step<'_> {
    /// Brings a session one step closer to what is wanted.
    pub fn reconcile(&mut self, id: SessionId) {
        let Some(session) = self.state.tables.sessions.get(&id).cloned() else { return };
        for instance in self.state.links.instances.list(&id) {
            self.reconcile_instance(instance);
        }
        self.reconcile_mounts(&session);
        match session.state.goal {
            Goal::Create => {
                self.start_stages(&session);
                self.show(&session);
            }
            Goal::Destroy if self.dismantle(&session) => {
                self.forget(&session);
                self.tell_session(&session, true);
                return;
            }
            Goal::Destroy => self.show(&session),
        }
        if let Some(now) =
            self.state.tables.sessions.get(&id).cloned().filter(|now| now.state != session.state)
        {
            self.tell_session(&now, false);
        }
    }

    fn show(&mut self, session: &SessionRow) {
        let ready = self.is_ready(session.id);
        self.state.tables.sessions.edit(&session.id, |row| {
            row.state = match row.state.goal {
                Goal::Create if ready => ObjectState::GOOD,
                Goal::Create => ObjectState::CREATING,
                Goal::Destroy => ObjectState::DESTROYING,
            };
        });
    }

    /// Whether all instances that the session uses can be used.
    pub fn is_ready(&self, session: SessionId) -> bool {
        self.used_instances(session).iter().all(|instance| self.is_whole(*instance))
    }

    /// The instances of a session and those that it attached.
    pub fn used_instances(&self, session: SessionId) -> Vec<InstanceId> {
        let (links, tables) = (&self.state.links, &self.state.tables);
        let registrations = links.registrations.of(&session).filter_map(|id| tables.registrations.get(id));
        let configurations = registrations.filter_map(|row| tables.configurations.get(&row.configuration));
        let mut instances: Vec<InstanceId> = configurations.map(|row| row.instance).collect();
        instances.extend(links.instances.of(&session));
        instances.sort_unstable();
        instances.dedup();
        instances
    }

    /// Whether all fragments of an instance are served.
    pub fn is_whole(&self, instance: InstanceId) -> bool {
        let fragments = self.state.links.fragments.of(&instance);
        let mut rows = fragments.filter_map(|id| self.state.tables.fragments.get(id));
        self.state.links.fragments.count(&instance) > 0 && rows.all(|row| row.step == FragmentStep::Serving)
    }

    /// Orders the stagings whose time has come.
    fn start_stages(&mut self, session: &SessionRow) {
        let mounted = self.state.links.activations.count(&session.id) > 0;
        for id in self.state.links.stages.list(&session.id) {
            let Some(stage) = self.state.tables.stages.get(&id) else { continue };
            let waits = stage.direction == StageDirection::Out && mounted && !stage.live;
            let open = stage.wanted && stage.outcome == StageOutcome::Pending;
            if !open || waits || self.task_for(&Subject::Stage(id)).is_some() {
                continue;
            }
            self.start_stage(id, stage.configuration);
        }
    }

    /// The first fragment's node moves the data: it has the tree.
    fn start_stage(&mut self, id: StageId, configuration: ConfigurationId) {
        let tables = &self.state.tables;
        let Some(instance) = tables.configurations.get(&configuration).map(|row| row.instance) else {
            return;
        };
        let first = self.state.links.fragments.of(&instance).next();
        let node = first.and_then(|id| tables.fragments.get(id)).map(|row| row.node.clone());
        match node.filter(|node| tables.nodes.contains(node)) {
            Some(node) if self.is_whole(instance) || self.has_lost(instance) => {
                self.require(Subject::Stage(id), &node, Verb::Stage);
            }
            // Its servers are being started again.
            Some(_) => {}
            None => {
                let text = "the storage node with the directory tree of the instance was given up: its data cannot be reached".to_owned();
                self.state.tables.stages.edit(&id, |row| {
                    (row.wanted, row.outcome) = (false, StageOutcome::Failed { text });
                });
            }
        }
    }

    fn has_lost(&self, instance: InstanceId) -> bool {
        self.state.tables.instances.get(&instance).is_some_and(|row| !row.intact)
    }

    /// Takes a session apart; says whether nothing is left to wait for.
    fn dismantle(&mut self, session: &SessionRow) -> bool {
        if self.state.links.activations.count(&session.id) > 0 {
            self.cancel_stages(session, |stage| session.hurry || stage.direction == StageDirection::In);
            return false;
        }
        let owed = self.owed(session.id);
        self.cancel_stages(session, |stage| !owed.contains(&stage.id));
        if !owed.is_empty() {
            self.start_stages(session);
            return false;
        }
        if self.is_staging(session.id) {
            return false;
        }
        let mut gone = true;
        for instance in self.state.links.instances.list(&session.id) {
            gone &= self.shrink(instance);
        }
        gone
    }

    fn is_staging(&self, session: SessionId) -> bool {
        let mut stages = self.state.links.stages.of(&session);
        stages.any(|id| self.state.links.task_for.contains_key(&Subject::Stage(*id)))
    }

    /// Breaks stagings off. Their agents say when they have stopped; a lost one is not waited for.
    fn cancel_stages(&mut self, session: &SessionRow, which: impl Fn(&StageRow) -> bool) {
        for id in self.state.links.stages.list(&session.id) {
            if !self.state.tables.stages.get(&id).is_some_and(&which) {
                continue;
            }
            self.cancel_stage(id);
        }
    }

    /// Breaks a staging off.
    pub fn cancel_stage(&mut self, id: StageId) {
        self.state.tables.stages.edit(&id, |row| row.wanted = false);
        let Some(task) = self.task_for(&Subject::Stage(id)) else { return };
        let (task, node) = (task.id, task.node.clone());
        if !self.state.is_online(&node) {
            self.drop_task(task);
        } else if self.state.tables.tasks.edit(&task, |row| row.cancel = true) {
            self.relist(&node);
        }
    }

    /// Removes the rows of a session of which nothing is left, or nothing that can be reached.
    fn forget(&mut self, session: &SessionRow) {
        let id = session.id;
        for stage in self.state.links.stages.list(&id) {
            self.drop_task_for(&Subject::Stage(stage));
            self.state.remove(Key::Stage(stage));
        }
        for registration in self.state.links.registrations.list(&id) {
            if let Some(row) = self.state.tables.registrations.get(&registration) {
                let configuration = row.configuration;
                self.forget_trees(id, configuration);
            }
            self.state.remove(Key::Registration(registration));
        }
        self.state.remove(Key::Session(id));
        for instance in self.state.links.instances.list(&id) {
            self.retire_if_empty(instance);
        }
    }

    /// Removes the private trees of a session in a configuration of somebody else.
    fn forget_trees(&mut self, session: SessionId, configuration: ConfigurationId) {
        for id in self.state.links.namespaces.list(&configuration) {
            let row = self.state.tables.namespaces.get(&id);
            if row.and_then(|row| row.client.as_ref()).is_some_and(|(owner, _)| *owner == session) {
                self.state.remove(Key::Namespace(id));
            }
        }
    }
}
