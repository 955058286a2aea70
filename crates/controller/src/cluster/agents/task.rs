//! Tasks: at most one for each subject, and never changed into another: a new one replaces it.

use crate::cluster::row::*;
use crate::cluster::step::Step;
use std::collections::BTreeSet;

impl Step<'_> {
    /// From now on this is what is to be done about the subject.
    pub fn require(&mut self, subject: Subject, node: &str, verb: Verb) {
        if let Some(task) = self.task_for(&subject) {
            if task.verb == verb && task.node == node {
                return;
            }
            let id = task.id;
            self.drop_task(id);
        }
        if !self.state.tables.nodes.contains(node) {
            return;
        }
        let id = TaskId(self.state.draw(|counters| &mut counters.tasks));
        let (attempts, cancel, blown, failure, failing_since) = (0, false, false, None, None);
        let (node, not_before) = (node.to_owned(), self.state.now);
        self.relist(&node);
        let row =
            TaskRow { id, node, subject, verb, attempts, not_before, cancel, blown, failure, failing_since };
        self.state.insert(Row::Task(row));
    }

    /// What is being done about the subject.
    pub fn task_for(&self, subject: &Subject) -> Option<&TaskRow> {
        self.state.tables.tasks.get(self.state.links.task_for.get(subject)?)
    }

    /// The task is done, or not wanted any more.
    pub fn drop_task(&mut self, id: TaskId) {
        let Some(task) = self.state.tables.tasks.get(&id) else { return };
        let (node, not_before) = (task.node.clone(), task.not_before);
        self.state.due.remove(&(not_before, id));
        self.state.remove(Key::Task(id));
        self.relist(&node);
    }

    /// Nothing is to be done about the subject.
    pub fn drop_task_for(&mut self, subject: &Subject) {
        if let Some(id) = self.task_for(subject).map(|task| task.id) {
            self.drop_task(id);
        }
    }

    /// A blown task is tried again from the first attempt.
    pub fn rearm(&mut self, subject: &Subject) {
        let Some(task) = self.task_for(subject).filter(|task| task.blown) else { return };
        let (id, node) = (task.id, task.node.clone());
        self.state.tables.tasks.edit(&id, |row| {
            (row.blown, row.attempts, row.failing_since) = (false, 0, None);
        });
        self.show_fuse(subject, false);
        self.relist(&node);
    }

    /// A storage node that a mount cannot do without and that does not serve, or was not heard of for suspiciously long.
    pub fn storage_away(&self, subject: &Subject) -> Option<String> {
        let Subject::Mount(id, _) = subject else { return None };
        let (links, tables) = (&self.state.links, &self.state.tables);
        let configuration = tables.activations.get(id)?.configuration;
        let instance = tables.configurations.get(&configuration)?.instance;
        let mut fragments = links.fragments.of(&instance).filter_map(|id| tables.fragments.get(id));
        let away = |row: &FragmentRow| row.step != FragmentStep::Serving || self.state.is_doubtful(&row.node);
        fragments.find(|row| away(row)).map(|row| row.node.clone())
    }

    /// Shows in the object's state whether its task was given up.
    pub fn show_fuse(&mut self, subject: &Subject, blown: bool) {
        let tables = &mut self.state.tables;
        match subject {
            Subject::Fragment(id) => tables.fragments.edit(id, |row| row.state.fuse_blown = blown),
            Subject::Mount(id, _) => tables.activations.edit(id, |row| row.state.fuse_blown = blown),
            Subject::Stage(_) => false,
        };
    }

    /// The sessions that this subject matters to have to be looked at.
    pub fn touch_users_of_subject(&mut self, subject: &Subject) {
        let tables = &self.state.tables;
        match subject {
            Subject::Fragment(id) => {
                if let Some(instance) = tables.fragments.get(id).map(|row| row.instance) {
                    self.touch_users_of(instance);
                }
            }
            Subject::Mount(id, _) => {
                if let Some(session) = tables.activations.get(id).map(|row| row.session) {
                    self.touch(session);
                }
            }
            Subject::Stage(id) => {
                if let Some(session) = tables.stages.get(id).map(|row| row.session) {
                    self.touch(session);
                }
            }
        }
    }

    /// The sessions that this node matters to have to be looked at.
    pub fn touch_users_of_node(&mut self, node: &str) {
        let (links, tables) = (&self.state.links, &self.state.tables);
        let fragments = links.fragments_on.of(node).filter_map(|id| tables.fragments.get(id));
        let instances: BTreeSet<_> = fragments.map(|row| row.instance).collect();
        let activations = links.mounts_on.of(node).filter_map(|id| tables.activations.get(id));
        let sessions: BTreeSet<_> = activations.map(|row| row.session).collect();
        for instance in instances {
            self.touch_users_of(instance);
        }
        for session in sessions {
            self.touch(session);
        }
    }
}
