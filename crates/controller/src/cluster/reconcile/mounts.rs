//! Activations: mounted on every client node of the session, or on none.

use crate::cluster::row::*;
use crate::cluster::step::Step;
use forebay_model::ids::*;
use forebay_model::objects::AccessMode;
use forebay_model::state::{Goal, ObjectState};
use std::collections::BTreeSet;

impl Step<'_> {
    /// Orders the mounts and unmounts of a session.
    pub fn reconcile_mounts(&mut self, session: &SessionRow) {
        let activations = self.state.links.activations.list(&session.id);
        if activations.is_empty() {
            return;
        }
        let ready = self.is_ready(session.id);
        for id in activations {
            let Some(activation) = self.state.tables.activations.get(&id).cloned() else { continue };
            if activation.state.goal == Goal::Destroy {
                self.unmount(id, &[]);
            } else {
                self.unmount(id, &session.hosts);
                if ready {
                    self.mount(session, &activation);
                }
            }
            self.show_activation(id, session.hosts.len());
        }
    }

    fn mount(&mut self, session: &SessionRow, activation: &ActivationRow) {
        let known = self.state.links.mounts.count(&activation.id);
        if known < session.hosts.len() {
            self.give_trees(session, activation.configuration);
        }
        for host in &session.hosts {
            let key = (activation.id, host.clone());
            let subject = Subject::Mount(activation.id, host.clone());
            if !self.state.tables.mounts.contains(&key) {
                let row = MountRow { activation: activation.id, node: host.clone(), mounted: false };
                self.state.insert(Row::Mount(row));
            }
            // An unmount that was ordered before may have been done or not.
            if self.task_for(&subject).is_some_and(|task| task.verb == Verb::Unmount) {
                self.state.tables.mounts.edit(&key, |row| row.mounted = false);
            }
            if !self.state.tables.mounts.get(&key).is_some_and(|row| row.mounted) {
                self.require(subject, host, Verb::Mount);
            }
        }
    }

    /// In private mode every client has a tree of its own; they are dealt over the fragments.
    fn give_trees(&mut self, session: &SessionRow, id: ConfigurationId) {
        let tables = &self.state.tables;
        let Some(configuration) = tables.configurations.get(&id) else { return };
        if configuration.access.mode != AccessMode::Private {
            return;
        }
        let instance = configuration.instance;
        let trees = self.state.links.namespaces.of(&id).filter_map(|id| tables.namespaces.get(id));
        let clients = trees.filter_map(|tree| tree.client.clone());
        let own = clients.filter(|(owner, _)| *owner == session.id).map(|(_, host)| host);
        let present: BTreeSet<String> = own.collect();
        for (place, host) in session.hosts.iter().enumerate() {
            if !present.contains(host) {
                self.make_namespace(id, instance, place, Some((session.id, host.clone())));
            }
        }
    }

    /// Orders unmounts on all nodes but these. A lost node is not waited for: what is mounted there is unmounted when it
    /// comes back.
    fn unmount(&mut self, id: ActivationId, but: &[String]) {
        for node in self.state.links.mounts.list(&id) {
            if but.binary_search(&node).is_ok() {
                continue;
            }
            let subject = Subject::Mount(id, node.clone());
            if self.state.is_online(&node) {
                self.require(subject, &node, Verb::Unmount);
            } else {
                self.drop_task_for(&subject);
                self.state.remove(Key::Mount((id, node)));
            }
        }
    }

    fn show_activation(&mut self, id: ActivationId, hosts: usize) {
        let rows = self.state.links.mounts.list(&id);
        let goal = self.state.tables.activations.get(&id).map(|row| row.state.goal);
        if goal == Some(Goal::Destroy) && rows.is_empty() {
            return self.state.remove(Key::Activation(id));
        }
        let is_mounted = |node: &String| {
            let row = self.state.tables.mounts.get(&(id, node.clone()));
            row.is_some_and(|row| row.mounted)
        };
        let mounted = rows.iter().filter(|node| is_mounted(node)).count();
        let all = mounted == hosts && rows.len() == hosts;
        self.state.tables.activations.edit(&id, |row| {
            row.state = ObjectState {
                actualized: mounted > 0,
                transitioning: row.state.goal == Goal::Destroy || !all,
                mixed: mounted > 0 && !all,
                ..row.state
            };
        });
    }
}
