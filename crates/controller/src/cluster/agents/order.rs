//! A task as the agent gets it: with everything that it has to know.
//!
//! Built from the rows each time it is handed out, so that it is never older than they are.

use crate::cluster::effect::{Order, Target, Work};
use crate::cluster::row::*;
use crate::cluster::step::Step;
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
        if verb == Verb::Serve {
            return Some(Work::Serve { fragment, instance });
        }
        let owner = self.state.tables.instances.get(&instance)?.owner;
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
        let target = self.target(stage.configuration, None)?;
        Some(Work::Stage { stage: Box::new(stage.clone()), uid: session.owner, gid: session.group, target })
    }

    fn target(&self, id: ConfigurationId, client: Option<(SessionId, &str)>) -> Option<Target> {
        let tables = &self.state.tables;
        let configuration = tables.configurations.get(&id)?;
        let client = client.filter(|_| configuration.access.mode == AccessMode::Private);
        let mut trees = self.state.links.namespaces.of(&id).filter_map(|id| tables.namespaces.get(id));
        let tree = trees.find(|tree| tree.client.as_ref().map(|(s, host)| (*s, host.as_str())) == client)?;
        let fragments = self.state.links.fragments.of(&configuration.instance);
        let fragments = fragments.filter_map(|id| tables.fragments.get(id));
        Some(Target {
            configuration: id,
            instance: configuration.instance,
            access: configuration.access,
            namespace: tree.id,
            metadata: tree.fragment,
            fragments: fragments.map(|row| (row.id, row.node.clone())).collect(),
        })
    }
}
