//! Instances: their fragments are made and served, or removed.

use crate::cluster::row::*;
use crate::cluster::step::Step;
use forebay_model::ids::*;
use forebay_model::state::{Goal, ObjectState};

impl Step<'_> {
    /// Orders what the fragments of a wanted instance lack, and shows how far it is.
    pub fn reconcile_instance(&mut self, id: InstanceId) {
        if self.state.tables.instances.get(&id).is_none_or(|row| row.state.goal == Goal::Destroy) {
            return;
        }
        for fragment in self.state.links.fragments.list(&id) {
            let Some(row) = self.state.tables.fragments.get(&fragment) else { continue };
            let (step, node) = (row.step, row.node.clone());
            match step {
                FragmentStep::Planned => self.require(Subject::Fragment(fragment), &node, Verb::Make),
                FragmentStep::Made => self.require(Subject::Fragment(fragment), &node, Verb::Serve),
                FragmentStep::Serving | FragmentStep::Lost => {}
            }
        }
        self.show_instance(id);
    }

    fn show_instance(&mut self, id: InstanceId) {
        let fragments = self.state.links.fragments.of(&id);
        let rows: Vec<&FragmentRow> =
            fragments.filter_map(|id| self.state.tables.fragments.get(id)).collect();
        let serving = rows.iter().filter(|row| row.step == FragmentStep::Serving).count();
        let whole = serving == rows.len() && serving > 0;
        let state = ObjectState {
            goal: Goal::Create,
            actualized: whole,
            fuse_blown: rows.iter().any(|row| row.state.fuse_blown),
            transitioning: rows.iter().any(|row| row.state.transitioning),
            mixed: !whole && serving > 0,
        };
        if !self.state.tables.instances.edit(&id, |row| row.state = state) {
            return;
        }
        for configuration in self.state.links.configurations.list(&id) {
            self.state.tables.configurations.edit(&configuration, |row| row.state = state);
            for namespace in self.state.links.namespaces.list(&configuration) {
                self.state.tables.namespaces.edit(&namespace, |row| row.state = state);
            }
        }
        // Others who attached it may go on now.
        self.touch_others_of(id);
    }

    fn touch_others_of(&mut self, id: InstanceId) {
        let (links, tables) = (&self.state.links, &self.state.tables);
        let own = tables.instances.get(&id).map(|row| row.session);
        let registered = links.configurations.of(&id).flat_map(|id| links.registered.of(id));
        let rows = registered.filter_map(|id| tables.registrations.get(id)).map(|row| row.session);
        let others: Vec<SessionId> = rows.filter(|session| Some(*session) != own).collect();
        others.into_iter().for_each(|session| self.touch(session));
    }

    /// Orders the removal of an instance; says whether nothing of it is left that could be reached.
    pub fn shrink(&mut self, id: InstanceId) -> bool {
        self.state.tables.instances.edit(&id, |row| row.state = ObjectState::DESTROYING);
        for configuration in self.state.links.configurations.list(&id) {
            self.state.tables.configurations.edit(&configuration, |row| row.state = ObjectState::DESTROYING);
        }
        let mut waits = false;
        for fragment in self.state.links.fragments.list(&id) {
            waits |= self.shrink_fragment(fragment);
        }
        !waits
    }

    /// Orders the removal of a fragment; says whether it has to be waited for.
    fn shrink_fragment(&mut self, id: FragmentId) -> bool {
        let Some(node) = self.state.tables.fragments.get(&id).map(|row| row.node.clone()) else {
            return false;
        };
        if !self.state.tables.nodes.contains(&node) {
            // The node was given up, and what is there with it.
            self.drop_task_for(&Subject::Fragment(id));
            self.state.remove(Key::Fragment(id));
            return false;
        }
        self.state.tables.fragments.edit(&id, |row| {
            let fuse_blown = row.state.fuse_blown;
            row.state = ObjectState { fuse_blown, ..ObjectState::DESTROYING };
        });
        self.require(Subject::Fragment(id), &node, Verb::Remove);
        self.state.is_online(&node)
    }

    /// Removes the rows of an instance that has no fragment left and no session.
    pub fn retire_if_empty(&mut self, id: InstanceId) {
        if self.state.links.fragments.count(&id) > 0 {
            return;
        }
        for configuration in self.state.links.configurations.list(&id) {
            for namespace in self.state.links.namespaces.list(&configuration) {
                self.state.remove(Key::Namespace(namespace));
            }
            self.state.remove(Key::Configuration(configuration));
        }
        self.state.remove(Key::Instance(id));
    }
}
