//! A task as the agent gets it: with everything that it has to know.
//!
//! Built from the rows each time it is handed out, so that it is never older than they are.

use crate::cluster::effect::{FileLayout, Named, Order, Part, Target, Use, Work};
use crate::cluster::row::*;
use crate::cluster::step::Step;
use crate::request::StageKind;
use forebay_model::ids::*;
use forebay_model::objects::AccessMode;

impl Step<'_> {
    /// The order for a task; `None` when what it is about is gone.
    pub fn order(&self, task: &TaskRow) -> Option<Order> {
        let work = match (&task.subject, task.verb) {
            (Subject::Fragment(id), Verb::Remove) => Work::RemoveFragment { fragment: *id },
            (Subject::Fragment(id), verb) => self.fragment_work(*id, verb)?,
            (Subject::Mount(id, node), Verb::Mount) => self.mount_work(*id, node)?,
            (Subject::Mount(id, _), _) => Work::Unmount { activation: *id },
            (Subject::Stage(id), _) => self.stage_work(*id)?,
        };
        Some(Order { task: task.id, cancel: task.cancel, work })
    }

    fn fragment_work(&self, id: FragmentId, verb: Verb) -> Option<Work> {
        let row = self.state.tables.fragments.get(&id)?;
        let (fragment, instance, bytes) = (id, row.instance, row.bytes);
        let of = self.state.tables.instances.get(&instance)?;
        let (owner, write_window, policies) = (of.owner, of.write_window, of.policies);
        if verb == Verb::Serve {
            let (fragments, configurations) = (self.parts(instance), self.uses(instance));
            let group = self.group_of(instance);
            return Some(Work::Serve {
                fragment,
                instance,
                bytes,
                owner,
                group,
                fragments,
                configurations,
                write_window,
                policies,
            });
        }
        Some(Work::MakeFragment { fragment, instance, bytes, owner })
    }

    fn mount_work(&self, activation: ActivationId, node: &str) -> Option<Work> {
        let row = self.state.tables.activations.get(&activation)?;
        let target = self.target(row.configuration, Some((row.session, node)))?;
        Some(Work::Mount { activation, path: row.mount.clone(), target })
    }

    fn stage_work(&self, id: StageId) -> Option<Work> {
        let stage = self.state.tables.stages.get(&id)?;
        let session = self.state.tables.sessions.get(&stage.session)?;
        let Named { persistent, target } = self.named(stage.session, stage.configuration)?;
        let is_list = stage.kind == StageKind::List;
        let others = if is_list { self.also_named(stage) } else { Vec::new() };
        let (uid, gid, stage) = (session.owner, session.group, Box::new(stage.clone()));
        Some(Work::Stage { stage, uid, gid, target, persistent, others })
    }

    /// What else the lines of a list may name: all that its session may stage.
    fn also_named(&self, stage: &StageRow) -> Vec<Named> {
        let others = self.striped_of(stage.session);
        let others = others.into_iter().filter(|id| *id != stage.configuration);
        others.filter_map(|id| self.named(stage.session, id)).collect()
    }

    /// A striped configuration with the name by which the scripts of a session know it.
    fn named(&self, session: SessionId, id: ConfigurationId) -> Option<Named> {
        let target = self.target(id, None)?;
        let instance = self.state.tables.instances.get(&target.instance)?;
        let persistent = (instance.session != session).then(|| instance.label.clone());
        Some(Named { persistent, target })
    }

    /// The striped configurations that a session may use.
    fn striped_of(&self, session: SessionId) -> Vec<ConfigurationId> {
        let (links, tables) = (&self.state.links, &self.state.tables);
        let rows = links.registrations.of(&session).filter_map(|id| tables.registrations.get(id));
        let is_striped = |id: &ConfigurationId| {
            tables.configurations.get(id).is_some_and(|row| row.access.mode == AccessMode::Striped)
        };
        rows.map(|row| row.configuration).filter(is_striped).collect()
    }

    fn target(&self, id: ConfigurationId, client: Option<(SessionId, &str)>) -> Option<Target> {
        let tables = &self.state.tables;
        let configuration = tables.configurations.get(&id)?;
        let client = client.filter(|_| configuration.access.mode == AccessMode::Private);
        let mut trees = self.state.links.namespaces.of(&id).filter_map(|id| tables.namespaces.get(id));
        let tree = trees.find(|tree| tree.client.as_ref().map(|(s, host)| (*s, host.as_str())) == client)?;
        Some(Target {
            configuration: id,
            instance: configuration.instance,
            access: configuration.access,
            namespace: tree.id,
            metadata: tree.fragment,
            fragments: self.parts(configuration.instance),
            layout: FileLayout::default(),
        })
    }

    /// The group that the session of an instance has; its owner's number when the session is gone.
    fn group_of(&self, instance: InstanceId) -> u32 {
        let tables = &self.state.tables;
        let instance = tables.instances.get(&instance);
        let group = instance.and_then(|row| tables.sessions.get(&row.session)).map(|row| row.group);
        group.or(instance.map(|row| row.owner)).unwrap_or_default()
    }

    /// The fragments of an instance, in their order.
    fn parts(&self, instance: InstanceId) -> Vec<Part> {
        let tables = &self.state.tables;
        let rows = self.state.links.fragments.of(&instance).filter_map(|id| tables.fragments.get(id));
        let part = |row: &FragmentRow| {
            let node = tables.nodes.get(&row.node);
            let address = node.and_then(|node| node.address.clone());
            let socket = node.and_then(|node| node.socket.clone());
            Part { fragment: row.id, node: row.node.clone(), address, socket }
        };
        rows.map(part).collect()
    }

    /// The configurations of an instance.
    fn uses(&self, instance: InstanceId) -> Vec<Use> {
        let (links, tables) = (&self.state.links, &self.state.tables);
        let rows = links.configurations.of(&instance).filter_map(|id| tables.configurations.get(id));
        let home = |id: &ConfigurationId| {
            let mut trees = links.namespaces.of(id).filter_map(|id| tables.namespaces.get(id));
            let tree = trees.find(|tree| tree.client.is_none())?;
            links.fragments.of(&instance).position(|fragment| *fragment == tree.fragment)
        };
        let one = |row: &ConfigurationRow| Use {
            configuration: row.id,
            kind: row.kind,
            access: row.access,
            home: home(&row.id),
            layout: FileLayout::default(),
        };
        rows.map(one).collect()
    }
}
