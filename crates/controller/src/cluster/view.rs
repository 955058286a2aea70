//! What can be seen of the state, as dwstat shows it.
//!
//! A large cluster has a hundred thousand objects: they are made one by one while somebody takes them, and kept only where
//! a [`Snapshot`] is wanted.
//!
//! Users see their own sessions with all that belongs to them, and public instances; operators and the workload manager
//! see everything. Pools and nodes are seen by all.

use super::effect::ObjectKind;
use super::refusal::{Refusal, Role};
use super::row::*;
use super::state::State;
use crate::registry::Snapshot;
use crate::request::{StageKind, WindowRequest};
use forebay_model::allocate::totals;
use forebay_model::ids::*;
use forebay_model::objects::*;
use forebay_model::pool::NodeSpace;

/// A table of dwstat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Shown {
    Pools,
    Nodes,
    Sessions,
    Instances,
    Configurations,
    Fragments,
    Namespaces,
    Registrations,
    Activations,
}

impl Shown {
    /// All tables.
    pub const ALL: [Shown; 9] = [
        Shown::Pools,
        Shown::Nodes,
        Shown::Sessions,
        Shown::Instances,
        Shown::Configurations,
        Shown::Fragments,
        Shown::Namespaces,
        Shown::Registrations,
        Shown::Activations,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Shown::Pools => "pools",
            Shown::Nodes => "nodes",
            Shown::Sessions => "sessions",
            Shown::Instances => "instances",
            Shown::Configurations => "configurations",
            Shown::Fragments => "fragments",
            Shown::Namespaces => "namespaces",
            Shown::Registrations => "registrations",
            Shown::Activations => "activations",
        }
    }

    /// The table with this name.
    pub fn named(name: &str) -> Option<Shown> {
        Shown::ALL.into_iter().find(|table| table.name() == name)
    }
}

/// The objects that this uid may see.
pub fn snapshot(state: &State, viewer: u32) -> Snapshot {
    select(state, viewer, &Shown::ALL)
}

/// Those of some tables; the other tables are empty.
pub fn select(state: &State, viewer: u32, tables: &[Shown]) -> Snapshot {
    let view = View::new(state, viewer);
    let mut seen = Snapshot::default();
    for table in tables {
        match table {
            Shown::Pools => seen.pools = view.pools().collect(),
            Shown::Nodes => seen.nodes = view.nodes().collect(),
            Shown::Sessions => seen.sessions = view.sessions().collect(),
            Shown::Instances => seen.instances = view.instances().collect(),
            Shown::Configurations => seen.configurations = view.configurations().collect(),
            Shown::Fragments => seen.fragments = view.fragments().collect(),
            Shown::Namespaces => seen.namespaces = view.namespaces().collect(),
            Shown::Registrations => seen.registrations = view.registrations().collect(),
            Shown::Activations => seen.activations = view.activations().collect(),
        }
    }
    seen
}

/// The stagings of sessions that this uid may see.
pub fn stages(state: &State, viewer: u32) -> Vec<StageRow> {
    let view = View::new(state, viewer);
    state.tables.stages.values().filter(|row| view.sees_session(row.session)).cloned().collect()
}

/// Who may know of a fragment's fate.
pub fn sees_fragment(state: &State, viewer: u32, id: FragmentId) -> bool {
    let view = View::new(state, viewer);
    view.all || state.tables.fragments.get(&id).is_some_and(|row| view.sees_instance(row.instance))
}

/// Whether a node has to do with an instance: it holds a part of it, mounts it, or is to stage it.
pub fn is_concerned(state: &State, node: &str, instance: InstanceId) -> bool {
    let (links, tables) = (&state.links, &state.tables);
    let of_instance =
        |id: &ConfigurationId| tables.configurations.get(id).is_some_and(|row| row.instance == instance);
    let mut fragments = links.fragments.of(&instance).filter_map(|id| tables.fragments.get(id));
    let mut mounts = links.mounts_on.of(node).filter_map(|id| tables.activations.get(id));
    let tasks = links.tasks_on.of(node).filter_map(|id| tables.tasks.get(id));
    let mut stages = tasks.filter_map(|task| match &task.subject {
        Subject::Stage(id) => tables.stages.get(id),
        _ => None,
    });
    fragments.any(|row| row.node == node)
        || mounts.any(|row| of_instance(&row.configuration))
        || stages.any(|row| of_instance(&row.configuration) || lists(state, row, instance))
}

/// Whether the lines of a staged list may name an instance.
fn lists(state: &State, stage: &StageRow, instance: InstanceId) -> bool {
    let (links, tables) = (&state.links, &state.tables);
    let rows = links.registrations.of(&stage.session).filter_map(|id| tables.registrations.get(id));
    let mut used = rows.filter_map(|row| tables.configurations.get(&row.configuration));
    stage.kind == StageKind::List
        && used.any(|row| row.instance == instance && row.access.mode == AccessMode::Striped)
}

/// Where the accounting of an instance is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// The instance.
    pub instance: InstanceId,
    /// Its label.
    pub label: String,
    /// Addresses of the file servers of its fragments, in their order.
    pub servers: Vec<String>,
    /// Its trees, the first of them if there are very many.
    pub trees: Vec<Tree>,
}

/// A tree of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Its configuration.
    pub configuration: ConfigurationId,
    /// The client node's own one: its number.
    pub private: Option<NamespaceId>,
    /// Position of the fragment that has its names.
    pub home: u32,
}

/// Trees of an instance that the accounting names.
const MAX_TREES: usize = 64;

/// Where the accounting of an instance is kept, for its owner, operators and the workload manager.
pub(crate) fn sight(state: &State, viewer: u32, id: InstanceId) -> Result<Sight, Refusal> {
    let view = View::new(state, viewer);
    let missing = Refusal::NoObject { kind: ObjectKind::Instance, id: id.0 };
    // Who may not see that it is there is not told that it is.
    let row = state.tables.instances.get(&id).filter(|_| view.sees_instance(id)).ok_or(missing)?;
    if !view.all && row.owner != viewer {
        let what = format!("the accounting of instance {id}");
        return Err(Refusal::NotAllowed { uid: viewer, what, role: Role::Operators });
    }
    let what = "asking its file server";
    let fragments: Vec<&FragmentRow> =
        state.links.fragments.of(&id).filter_map(|id| state.tables.fragments.get(id)).collect();
    let server = |fragment: &&FragmentRow| {
        let node = state.tables.nodes.get(&fragment.node).filter(|node| node.online);
        let serves = fragment.step == FragmentStep::Serving;
        let address = node.filter(|_| serves).and_then(|node| node.address.clone());
        address.ok_or_else(|| Refusal::NodeLost { node: fragment.node.clone(), what })
    };
    let trees = state.links.configurations.of(&id).flat_map(|id| state.links.namespaces.of(id));
    let trees = trees.filter_map(|id| state.tables.namespaces.get(id)).take(MAX_TREES);
    let tree = |tree: &NamespaceRow| Tree {
        configuration: tree.configuration,
        private: tree.client.is_some().then_some(tree.id),
        home: fragments.iter().position(|row| row.id == tree.fragment).unwrap_or_default() as u32,
    };
    Ok(Sight {
        instance: id,
        label: row.label.clone(),
        servers: fragments.iter().map(server).collect::<Result<_, _>>()?,
        trees: trees.map(tree).collect(),
    })
}

/// The pools, the default one first.
pub fn pools(state: &State) -> Vec<Pool> {
    let default = state.settings.default_pool();
    let mut rows: Vec<&PoolRow> = state.tables.pools.values().collect();
    rows.sort_by_key(|row| Some(row.name.as_str()) != default);
    rows.into_iter().map(|row| pool(state, row)).collect()
}

fn pool(state: &State, row: &PoolRow) -> Pool {
    let nodes = state.links.nodes.of(&row.name).filter_map(|name| state.tables.nodes.get(name));
    let spaces: Vec<NodeSpace> = nodes.map(|node| state.space_of(node)).collect();
    let (free, quantity) = totals(&spaces);
    Pool { name: row.name.clone(), granularity: row.granularity, quantity, free }
}

fn node(state: &State, row: &NodeRow) -> Node {
    let used = state.links.used.get(&row.name).copied().unwrap_or_default();
    Node {
        name: row.name.clone(),
        pool: row.pool.clone(),
        online: row.online,
        drain: row.drain,
        granularity: row.granularity,
        capacity: row.capacity,
        // Each is of another instance.
        instances: used.fragments,
        activations: state.links.mounts_on.count(&row.name) as u64,
    }
}

/// Objects that are made one by one, each kind in the order of its numbers.
#[allow(missing_docs)]
pub(crate) trait Objects {
    fn pools(&self) -> impl Iterator<Item = Pool>;
    fn nodes(&self) -> impl Iterator<Item = Node>;
    fn sessions(&self) -> impl Iterator<Item = Session>;
    fn instances(&self) -> impl Iterator<Item = Instance>;
    fn configurations(&self) -> impl Iterator<Item = Configuration>;
    fn fragments(&self) -> impl Iterator<Item = Fragment>;
    fn namespaces(&self) -> impl Iterator<Item = Namespace>;
    fn registrations(&self) -> impl Iterator<Item = Registration>;
    fn activations(&self) -> impl Iterator<Item = Activation>;
}

/// What one uid sees.
pub(crate) struct View<'s> {
    state: &'s State,
    viewer: u32,
    all: bool,
}

impl<'s> View<'s> {
    pub fn new(state: &'s State, viewer: u32) -> View<'s> {
        View { state, viewer, all: state.settings.is_workload_manager(viewer) }
    }

    /// How many objects of these tables there are for who sees everything; for others it says nothing.
    pub fn most(&self, tables: &[Shown]) -> usize {
        let rows = &self.state.tables;
        let count = |table: &Shown| match table {
            Shown::Pools => rows.pools.len(),
            Shown::Nodes => rows.nodes.len(),
            Shown::Sessions => rows.sessions.len(),
            Shown::Instances => rows.instances.len(),
            Shown::Configurations => rows.configurations.len(),
            Shown::Fragments => rows.fragments.len(),
            Shown::Namespaces => rows.namespaces.len(),
            Shown::Registrations => rows.registrations.len(),
            Shown::Activations => rows.activations.len(),
        };
        if self.all { tables.iter().map(count).sum() } else { 0 }
    }

    fn sees_session(&self, id: SessionId) -> bool {
        self.all || self.state.tables.sessions.get(&id).is_some_and(|row| row.owner == self.viewer)
    }

    fn sees_instance(&self, id: InstanceId) -> bool {
        // Who sees everything needs no look at each.
        let row = || self.state.tables.instances.get(&id);
        self.all || row().is_some_and(|row| row.public || row.owner == self.viewer)
    }

    fn sees_configuration(&self, id: ConfigurationId) -> bool {
        let row = || self.state.tables.configurations.get(&id);
        self.all || row().is_some_and(|row| self.sees_instance(row.instance))
    }
}

impl Objects for View<'_> {
    fn pools(&self) -> impl Iterator<Item = Pool> {
        pools(self.state).into_iter()
    }

    fn nodes(&self) -> impl Iterator<Item = Node> {
        self.state.tables.nodes.values().map(|row| node(self.state, row))
    }

    fn sessions(&self) -> impl Iterator<Item = Session> {
        let rows = self.state.tables.sessions.values().filter(|row| self.sees_session(row.id));
        let session = |row: &SessionRow| Session {
            id: row.id,
            state: row.state,
            token: row.token.clone(),
            creator: row.creator.clone(),
            owner: row.owner,
            created: row.created,
            expiration: 0,
            nodes: row.hosts.len() as u64,
        };
        rows.map(session)
    }

    fn instances(&self) -> impl Iterator<Item = Instance> {
        let rows = self.state.tables.instances.values().filter(|row| self.sees_instance(row.id));
        let instance = move |row: &InstanceRow| Instance {
            id: row.id,
            state: row.state,
            session: row.session,
            bytes: row.bytes,
            nodes: self.state.links.fragments.count(&row.id) as u64,
            created: row.created,
            expiration: 0,
            intact: row.intact,
            label: row.label.clone(),
            public: row.public,
            configurations: self.state.links.configurations.count(&row.id) as u64,
            limits: row.write_window.map(WindowRequest::limits),
        };
        rows.map(instance)
    }

    fn configurations(&self) -> impl Iterator<Item = Configuration> {
        let rows = self.state.tables.configurations.values().filter(|row| self.sees_instance(row.instance));
        let configuration = |row: &ConfigurationRow| Configuration {
            id: row.id,
            state: row.state,
            instance: row.instance,
            kind: row.kind,
            access_mode: row.access.mode,
            backing_path: None,
            activations: self.state.links.activated.count(&row.id) as u64,
        };
        rows.map(configuration)
    }

    fn fragments(&self) -> impl Iterator<Item = Fragment> {
        let rows = self.state.tables.fragments.values().filter(|row| self.sees_instance(row.instance));
        let fragment = |row: &FragmentRow| Fragment {
            id: row.id,
            state: row.state,
            instance: row.instance,
            capacity: row.bytes,
            node: row.node.clone(),
        };
        rows.map(fragment)
    }

    fn namespaces(&self) -> impl Iterator<Item = Namespace> {
        let rows = self.state.tables.namespaces.values();
        let namespace = |row: &NamespaceRow| Namespace {
            id: row.id,
            state: row.state,
            configuration: row.configuration,
            fragment: row.fragment,
            span: row.span,
        };
        rows.filter(|row| self.sees_configuration(row.configuration)).map(namespace)
    }

    fn registrations(&self) -> impl Iterator<Item = Registration> {
        let rows = self.state.tables.registrations.values().filter(|row| self.sees_session(row.session));
        let registration = |row: &RegistrationRow| Registration {
            id: row.id,
            state: row.state,
            session: row.session,
            configuration: row.configuration,
            wait: row.wait,
        };
        rows.map(registration)
    }

    fn activations(&self) -> impl Iterator<Item = Activation> {
        let rows = self.state.tables.activations.values().filter(|row| self.sees_session(row.session));
        let activation = |row: &ActivationRow| Activation {
            id: row.id,
            state: row.state,
            session: row.session,
            configuration: row.configuration,
            nodes: self.state.links.mounts.count(&row.id) as u64,
            mount: row.mount.clone(),
        };
        rows.map(activation)
    }
}
