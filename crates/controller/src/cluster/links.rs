//! Which row belongs to which, so that nothing is searched for.
//!
//! Built from the rows and kept beside them; not stored. Invariant: the links are those of [`Links::of`] for the same
//! tables. The ids that rows refer to never change while the row exists, so a row is linked once and unlinked once.

use super::row::*;
use forebay_model::ids::*;
use forebay_model::units::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Many to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Children<P, C>(BTreeMap<P, BTreeSet<C>>);

impl<P, C> Default for Children<P, C> {
    fn default() -> Self {
        Children(BTreeMap::new())
    }
}

impl<P: Ord + Clone, C: Ord + Clone> Children<P, C> {
    /// The children of a parent, in the order of their ids.
    pub fn of<Q: Ord + ?Sized>(&self, parent: &Q) -> impl Iterator<Item = &C>
    where
        P: std::borrow::Borrow<Q>,
    {
        self.0.get(parent).into_iter().flatten()
    }

    /// The same as a list that stays while rows change.
    pub fn list<Q: Ord + ?Sized>(&self, parent: &Q) -> Vec<C>
    where
        P: std::borrow::Borrow<Q>,
    {
        self.of(parent).cloned().collect()
    }

    /// How many there are.
    pub fn count<Q: Ord + ?Sized>(&self, parent: &Q) -> usize
    where
        P: std::borrow::Borrow<Q>,
    {
        self.0.get(parent).map_or(0, BTreeSet::len)
    }

    pub(super) fn add(&mut self, parent: P, child: C) {
        self.0.entry(parent).or_default().insert(child);
    }

    pub(super) fn remove(&mut self, parent: &P, child: &C) {
        if let Some(children) = self.0.get_mut(parent) {
            children.remove(child);
            if children.is_empty() {
                self.0.remove(parent);
            }
        }
    }
}

/// Space that fragments take on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Granules.
    pub granules: u64,
    /// Fragments, each of another instance.
    pub fragments: u64,
}

/// All links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Links {
    pub by_token: BTreeMap<String, SessionId>,
    pub of_owner: BTreeMap<u32, usize>,
    /// What owners made by hand.
    pub by_hand: BTreeMap<u32, Bytes>,
    pub nodes: Children<String, String>,
    pub instances: Children<SessionId, InstanceId>,
    pub configurations: Children<InstanceId, ConfigurationId>,
    pub fragments: Children<InstanceId, FragmentId>,
    pub fragments_on: Children<String, FragmentId>,
    pub used: BTreeMap<String, Used>,
    pub namespaces: Children<ConfigurationId, NamespaceId>,
    pub registrations: Children<SessionId, RegistrationId>,
    pub registered: Children<ConfigurationId, RegistrationId>,
    pub activations: Children<SessionId, ActivationId>,
    pub activated: Children<ConfigurationId, ActivationId>,
    pub mounts: Children<ActivationId, String>,
    pub mounts_on: Children<String, ActivationId>,
    pub stages: Children<SessionId, StageId>,
    pub tasks_on: Children<String, TaskId>,
    pub task_for: BTreeMap<Subject, TaskId>,
}

impl Links {
    /// The links of these tables.
    pub fn of(tables: &Tables) -> Links {
        let mut links = Links::default();
        for row in tables.rows() {
            links.link(&row);
        }
        links
    }

    /// A row is there from now on.
    pub(super) fn link(&mut self, row: &Row) {
        match row {
            Row::Counters(_) | Row::Pool(_) => {}
            Row::Node(node) => {
                if let Some(pool) = &node.pool {
                    self.nodes.add(pool.clone(), node.name.clone());
                }
            }
            Row::Session(session) => {
                self.by_token.insert(session.token.clone(), session.id);
                *self.of_owner.entry(session.owner).or_default() += 1;
            }
            Row::Instance(instance) => self.link_instance(instance),
            Row::Configuration(row) => self.configurations.add(row.instance, row.id),
            Row::Fragment(fragment) => {
                self.fragments.add(fragment.instance, fragment.id);
                self.fragments_on.add(fragment.node.clone(), fragment.id);
                let used = self.used.entry(fragment.node.clone()).or_default();
                used.granules += fragment.granules.0;
                used.fragments += 1;
            }
            Row::Namespace(row) => self.namespaces.add(row.configuration, row.id),
            Row::Registration(row) => {
                self.registrations.add(row.session, row.id);
                self.registered.add(row.configuration, row.id);
            }
            Row::Activation(row) => {
                self.activations.add(row.session, row.id);
                self.activated.add(row.configuration, row.id);
            }
            Row::Mount(row) => {
                self.mounts.add(row.activation, row.node.clone());
                self.mounts_on.add(row.node.clone(), row.activation);
            }
            Row::Stage(row) => self.stages.add(row.session, row.id),
            Row::Task(row) => {
                self.tasks_on.add(row.node.clone(), row.id);
                self.task_for.insert(row.subject.clone(), row.id);
            }
        }
    }

    /// A row is gone.
    pub(super) fn unlink(&mut self, row: &Row) {
        match row {
            Row::Counters(_) | Row::Pool(_) => {}
            Row::Node(node) => {
                if let Some(pool) = &node.pool {
                    self.nodes.remove(pool, &node.name);
                }
            }
            Row::Session(session) => self.unlink_session(session),
            Row::Instance(instance) => self.unlink_instance(instance),
            Row::Configuration(row) => self.configurations.remove(&row.instance, &row.id),
            Row::Fragment(fragment) => self.unlink_fragment(fragment),
            Row::Namespace(row) => self.namespaces.remove(&row.configuration, &row.id),
            Row::Registration(row) => {
                self.registrations.remove(&row.session, &row.id);
                self.registered.remove(&row.configuration, &row.id);
            }
            Row::Activation(row) => {
                self.activations.remove(&row.session, &row.id);
                self.activated.remove(&row.configuration, &row.id);
            }
            Row::Mount(row) => {
                self.mounts.remove(&row.activation, &row.node);
                self.mounts_on.remove(&row.node, &row.activation);
            }
            Row::Stage(row) => self.stages.remove(&row.session, &row.id),
            Row::Task(row) => {
                self.tasks_on.remove(&row.node, &row.id);
                self.task_for.remove(&row.subject);
            }
        }
    }

    fn link_instance(&mut self, instance: &InstanceRow) {
        self.instances.add(instance.session, instance.id);
        if instance.by_hand {
            self.by_hand.entry(instance.owner).or_default().0 += instance.bytes.0;
        }
    }

    fn unlink_instance(&mut self, instance: &InstanceRow) {
        self.instances.remove(&instance.session, &instance.id);
        let Some(held) = self.by_hand.get_mut(&instance.owner).filter(|_| instance.by_hand) else { return };
        held.0 -= instance.bytes.0;
        if held.0 == 0 {
            self.by_hand.remove(&instance.owner);
        }
    }

    fn unlink_session(&mut self, session: &SessionRow) {
        self.by_token.remove(&session.token);
        if let Some(count) = self.of_owner.get_mut(&session.owner) {
            *count -= 1;
            if *count == 0 {
                self.of_owner.remove(&session.owner);
            }
        }
    }

    fn unlink_fragment(&mut self, fragment: &FragmentRow) {
        self.fragments.remove(&fragment.instance, &fragment.id);
        self.fragments_on.remove(&fragment.node, &fragment.id);
        if let Some(used) = self.used.get_mut(&fragment.node) {
            used.granules -= fragment.granules.0;
            used.fragments -= 1;
            if *used == Used::default() {
                self.used.remove(&fragment.node);
            }
        }
    }
}
