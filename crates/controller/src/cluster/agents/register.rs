//! An agent registers: it is new, was restarted, or comes back after it was taken for lost.
//!
//! What it holds is compared with the rows. A fragment that was there and is not any more is lost, and its instance not
//! intact. A fragment or mount that no row asks for is taken away, but only if this registry gave its number out: it was
//! given up before. What this registry never made is left alone, and logged.

use crate::cluster::effect::{Effect, Notice};
use crate::cluster::event::{HeldFragment, Registering};
use crate::cluster::limits::{MAX_ADDRESS, MAX_HELD, MAX_NODES, MAX_PATH_BYTES};
use crate::cluster::row::*;
use crate::cluster::step::Step;
use crate::cluster::word::{check_word, shown};
use crate::request::StageKind;
use forebay_model::ids::*;
use forebay_model::pool::granules_for;
use forebay_model::state::{Goal, ObjectState};
use forebay_model::units::Granules;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

impl Step<'_> {
    pub(super) fn register(&mut self, node: String, incarnation: u64, registering: Registering) {
        if let Some(reason) = self.reason_against(&node, &registering) {
            let text = format!("agent of node {} is not admitted: {reason}", shown(&node));
            return self.say(Effect::Log { uid: None, text });
        }
        let known = self.state.tables.nodes.get(&node);
        match known.map_or(Ordering::Less, |row| row.incarnation.cmp(&incarnation)) {
            Ordering::Greater => {}
            // Heard twice. Its picture is old by now.
            Ordering::Equal if self.state.is_online(&node) => self.remind(&node),
            Ordering::Equal => self.say(Effect::AskToRegister { node }),
            Ordering::Less => self.admit(node, incarnation, registering),
        }
    }

    fn reason_against(&self, node: &str, registering: &Registering) -> Option<String> {
        if let Err(refusal) = check_word(node) {
            return Some(refusal.to_string());
        }
        let registry = &self.state.settings.registry;
        if let Some(other) = registering.registry.as_ref().filter(|other| *other != registry) {
            return Some(format!("it holds fragments of the registry {}, this is {registry}", shown(other)));
        }
        if registering.fragments.len() > MAX_HELD || registering.mounts.len() > MAX_HELD {
            return Some(format!("it reports more than {MAX_HELD} fragments or mounts"));
        }
        if let Some(what) = unusable_place(registering) {
            return Some(what);
        }
        let full = self.state.tables.nodes.len() >= MAX_NODES && !self.state.tables.nodes.contains(node);
        full.then(|| format!("there are {MAX_NODES} nodes already"))
    }

    fn admit(&mut self, node: String, incarnation: u64, registering: Registering) {
        self.write_node(&node, incarnation, &registering);
        self.state.heard.insert(node.clone(), self.state.now);
        self.state.written.insert(node.clone(), registering.bytes_written);
        self.compare_fragments(&node, &registering.fragments);
        self.compare_mounts(&node, &registering.mounts);
        // What failed for good may go well with an agent that begins anew.
        for task in self.state.links.tasks_on.list(&node) {
            if let Some(subject) = self.state.tables.tasks.get(&task).map(|row| row.subject.clone()) {
                self.rearm(&subject);
            }
        }
        self.touch_users_of_node(&node);
        self.relist(&node);
        self.say(Effect::Notice(Notice::Node { node, online: true }));
    }

    fn write_node(&mut self, node: &str, incarnation: u64, registering: &Registering) {
        let old = self.state.tables.nodes.get(node).cloned();
        let row = NodeRow {
            name: node.to_owned(),
            pool: self.pool_for(old.as_ref(), node, registering),
            pool_is_fixed: old.as_ref().is_some_and(|old| old.pool_is_fixed),
            online: true,
            drain: old.as_ref().is_some_and(|old| old.drain),
            granularity: registering.granularity,
            capacity: registering.capacity,
            incarnation,
            list: old.as_ref().map_or(0, |old| old.list),
            address: registering.address.clone(),
            socket: registering.socket.clone(),
        };
        let moved = old.is_some_and(|old| (&old.address, &old.socket) != (&row.address, &row.socket));
        self.state.replace_node(row);
        if moved {
            self.tell_peers_of(node);
        }
    }

    /// The file servers of a node are somewhere else now: those of its instances' other fragments have to know.
    fn tell_peers_of(&mut self, node: &str) {
        let (links, tables) = (&self.state.links, &self.state.tables);
        let here = links.fragments_on.of(node).filter_map(|id| tables.fragments.get(id));
        let instances: BTreeSet<InstanceId> = here.map(|row| row.instance).collect();
        for instance in instances {
            self.serve_anew(instance);
            self.mount_anew(instance);
            self.stage_anew(instance);
        }
    }

    /// The clients of an instance have to learn where its file servers are: their mounts are ordered once more. A mount that is
    /// there stays as it is meanwhile.
    fn mount_anew(&mut self, instance: InstanceId) {
        let (links, tables) = (&self.state.links, &self.state.tables);
        let registered = links.configurations.of(&instance).flat_map(|id| links.registered.of(id));
        let rows = registered.filter_map(|id| tables.registrations.get(id));
        let uses = rows.flat_map(|row| {
            let activations = links.activations.of(&row.session).filter_map(|id| tables.activations.get(id));
            activations.filter(|one| one.configuration == row.configuration && one.state.goal == Goal::Create)
        });
        let mounts = uses.flat_map(|one| links.mounts.of(&one.id).map(|node| (one.id, node.clone())));
        let mounts: BTreeSet<(ActivationId, String)> = mounts.collect();
        for (activation, node) in mounts {
            let subject = Subject::Mount(activation, node.clone());
            let ordered = self.task_for(&subject).map(|task| task.verb);
            let row = self.state.tables.mounts.get(&(activation, node.clone()));
            // An unmount that is under way is for good. Of a mount that was ordered before, a report does not count any more.
            if ordered == Some(Verb::Mount) || ordered.is_none() && row.is_some_and(|row| row.mounted) {
                self.drop_task_for(&subject);
                self.require(subject, &node, Verb::Mount);
            }
        }
    }

    /// Stagings that reach the instance are begun again where its file servers are now; what their journals say is done is not
    /// done twice. One that is being broken off is not wanted any more.
    fn stage_anew(&mut self, instance: InstanceId) {
        let (links, tables) = (&self.state.links, &self.state.tables);
        let registered = links.configurations.of(&instance).flat_map(|id| links.registered.of(id));
        let sessions = registered.filter_map(|id| tables.registrations.get(id)).map(|row| row.session);
        let sessions: BTreeSet<SessionId> = sessions.collect();
        let stages =
            sessions.iter().flat_map(|id| links.stages.of(id)).filter_map(|id| tables.stages.get(id));
        let reaches = |row: &&StageRow| {
            let own = tables.configurations.get(&row.configuration).is_some_and(|of| of.instance == instance);
            // The lines of a list may name every instance of its session.
            own || row.kind == StageKind::List
        };
        let stages: Vec<StageId> = stages.filter(reaches).map(|row| row.id).collect();
        for stage in stages {
            let subject = Subject::Stage(stage);
            let Some(task) = self.task_for(&subject).filter(|task| !task.cancel) else { continue };
            let node = task.node.clone();
            self.drop_task_for(&subject);
            self.require(subject, &node, Verb::Stage);
        }
    }

    /// The file servers of an instance have to learn something: they are ordered once more.
    pub(in crate::cluster) fn serve_anew(&mut self, instance: InstanceId) {
        for fragment in self.state.links.fragments.list(&instance) {
            let row = self.state.tables.fragments.get(&fragment);
            let started = |row: &FragmentRow| matches!(row.step, FragmentStep::Made | FragmentStep::Serving);
            if row.is_some_and(|row| started(row) && row.state.goal == Goal::Create) {
                // What was ordered before does not count any more, and neither does a report about it.
                self.drop_task_for(&Subject::Fragment(fragment));
                self.set_step(fragment, FragmentStep::Made);
            }
        }
        self.touch_users_of(instance);
    }

    /// An operator's choice stands, and while there are fragments so does the pool that they are from.
    fn pool_for(&mut self, old: Option<&NodeRow>, node: &str, registering: &Registering) -> Option<String> {
        let wish = registering.pool.clone();
        if let Some(old) = old
            && (old.pool_is_fixed || (self.state.links.fragments_on.count(node) > 0 && old.pool != wish))
        {
            return old.pool.clone();
        }
        let known = wish.clone().filter(|pool| self.state.tables.pools.contains(pool));
        if wish.is_some() && known.is_none() {
            let text = format!("node {node} wants to be in an unknown pool: it is in none");
            self.say(Effect::Log { uid: None, text });
        }
        known
    }

    fn compare_fragments(&mut self, node: &str, held: &[HeldFragment]) {
        let held: BTreeMap<FragmentId, HeldFragment> = held.iter().map(|one| (one.fragment, *one)).collect();
        for id in self.state.links.fragments_on.list(node) {
            self.compare_fragment(id, held.get(&id));
        }
        for fragment in held.values() {
            if !self.state.tables.fragments.contains(&fragment.fragment) {
                self.find_leftover(node, fragment);
            }
        }
    }

    fn compare_fragment(&mut self, id: FragmentId, held: Option<&HeldFragment>) {
        let Some(row) = self.state.tables.fragments.get(&id) else { return };
        if row.state.goal == Goal::Destroy {
            return;
        }
        let (step, instance) = (row.step, row.instance);
        let next = match (step, held) {
            // It may be on its way to being made; the order stands.
            (FragmentStep::Planned, _) => FragmentStep::Planned,
            (_, None) => FragmentStep::Lost,
            (FragmentStep::Serving, Some(held)) if held.serving => FragmentStep::Serving,
            (_, Some(_)) => FragmentStep::Made,
        };
        if next == step {
            return;
        }
        self.drop_task_for(&Subject::Fragment(id));
        self.set_step(id, next);
        self.judge_intact(instance);
        self.touch_users_of(instance);
    }

    /// Writes a step with the state that belongs to it.
    pub(in crate::cluster) fn set_step(&mut self, id: FragmentId, step: FragmentStep) {
        self.state.tables.fragments.edit(&id, |row| {
            row.step = step;
            row.state.actualized = step == FragmentStep::Serving;
            row.state.transitioning = matches!(step, FragmentStep::Planned | FragmentStep::Made);
        });
        if let Some(node) = self.state.tables.fragments.get(&id).map(|row| row.node.clone()) {
            self.say(Effect::Notice(Notice::Fragment { id, node, step }));
        }
    }

    /// An instance is intact while none of its fragments is lost.
    pub(in crate::cluster) fn judge_intact(&mut self, instance: InstanceId) {
        let tables = &self.state.tables;
        let fragments = self.state.links.fragments.of(&instance);
        let mut rows = fragments.filter_map(|id| tables.fragments.get(id));
        let intact = rows.all(|row| row.step != FragmentStep::Lost);
        self.state.tables.instances.edit(&instance, |row| row.intact = intact);
    }

    /// A fragment on a disk that no row asks for.
    fn find_leftover(&mut self, node: &str, held: &HeldFragment) {
        let id = held.fragment;
        if id.0 > self.state.counters().fragments {
            let text =
                format!("node {node} holds fragment {id}, which this registry never made: it is left alone");
            return self.say(Effect::Log { uid: None, text });
        }
        let pool = self.state.tables.nodes.get(node).and_then(|row| row.pool.as_ref());
        let granularity =
            pool.and_then(|pool| self.state.tables.pools.get(pool)).map(|pool| pool.granularity);
        // Its space is taken until it is gone.
        let granules = granularity.map_or(Granules(0), |granularity| granules_for(held.bytes, granularity));
        let row = FragmentRow {
            id,
            state: ObjectState::DESTROYING,
            instance: held.instance,
            node: node.to_owned(),
            granules,
            bytes: held.bytes,
            step: FragmentStep::Made,
        };
        self.state.insert(Row::Fragment(row));
        self.require(Subject::Fragment(id), node, Verb::Remove);
    }

    fn compare_mounts(&mut self, node: &str, held: &[ActivationId]) {
        let held: BTreeSet<ActivationId> = held.iter().copied().collect();
        for id in self.state.links.mounts_on.list(node) {
            if !held.contains(&id) {
                self.state.tables.mounts.edit(&(id, node.to_owned()), |row| row.mounted = false);
            }
        }
        let last = self.state.counters().activations;
        for id in held {
            let wanted = self.state.tables.mounts.contains(&(id, node.to_owned()));
            if !wanted && id.0 <= last {
                self.require(Subject::Mount(id, node.to_owned()), node, Verb::Unmount);
            }
        }
    }
}

/// What is wrong with where the file servers are said to be.
fn unusable_place(registering: &Registering) -> Option<String> {
    let Registering { address, socket, .. } = registering;
    let bad = |text: &String| text.chars().any(|c| c.is_control() || c.is_whitespace());
    if address.as_ref().is_some_and(|text| text.len() > MAX_ADDRESS || bad(text) || !text.contains(':')) {
        return Some(format!("its address is not host:port in {MAX_ADDRESS} characters"));
    }
    let socket = socket.as_ref();
    let odd = socket.is_some_and(|text| text.len() > MAX_PATH_BYTES || bad(text) || !text.starts_with('/'));
    odd.then(|| "its socket is no absolute path without blanks".to_owned())
}
