//! All objects at one moment, as `dwstat` shows them.
//!
//! One read transaction on the write-ahead log: consistent, and waiting for no writer.

use super::column::{access_mode, configuration_type, path, state, word};
use super::instance::window;
use super::space::candidates;
use super::{Registry, rows};
use crate::error::RegistryError;
use crate::request::WindowRequest;
use forebay_model::allocate::totals;
use forebay_model::ids::*;
use forebay_model::objects::*;
use forebay_model::pool::NodeSpace;
use forebay_model::units::Bytes;
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

/// The objects of a registry, each kind in the order of its numbers (pools and nodes in that of the configuration).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// Pools, the default one first.
    pub pools: Vec<Pool>,
    /// Nodes of all pools.
    pub nodes: Vec<Node>,
    /// Sessions.
    pub sessions: Vec<Session>,
    /// Instances.
    pub instances: Vec<Instance>,
    /// Configurations.
    pub configurations: Vec<Configuration>,
    /// Fragments.
    pub fragments: Vec<Fragment>,
    /// Namespaces.
    pub namespaces: Vec<Namespace>,
    /// Registrations.
    pub registrations: Vec<Registration>,
    /// Activations.
    pub activations: Vec<Activation>,
}

impl Registry {
    /// Reads all objects.
    pub fn snapshot(&self) -> Result<Snapshot, RegistryError> {
        self.view(|tx| {
            Ok(Snapshot {
                pools: pools(tx)?,
                nodes: nodes(tx)?,
                sessions: sessions(tx)?,
                instances: instances(tx)?,
                configurations: configurations(tx)?,
                fragments: fragments(tx)?,
                namespaces: namespaces(tx)?,
                registrations: registrations(tx)?,
                activations: activations(tx)?,
            })
        })
    }
}

fn pools(connection: &Connection) -> Result<Vec<Pool>, RegistryError> {
    rows(connection, "SELECT * FROM pools ORDER BY is_default DESC, position", [], |row| {
        let (name, granularity): (String, _) = (row.get("name")?, Bytes(row.get("granularity")?));
        let nodes = candidates(connection, &name, granularity)?;
        let (free, quantity) = totals(&nodes.iter().map(|node| node.space).collect::<Vec<NodeSpace>>());
        Ok(Pool { name, granularity, quantity, free })
    })
}

fn nodes(connection: &Connection) -> Result<Vec<Node>, RegistryError> {
    let query = "SELECT nodes.*,
        (SELECT count(DISTINCT instance) FROM fragments WHERE node = nodes.name) AS instances,
        (SELECT count(DISTINCT activations.id) FROM activations
            JOIN configurations ON configurations.id = configuration
            JOIN fragments ON fragments.instance = configurations.instance WHERE node = nodes.name) AS activations
        FROM nodes JOIN pools ON pools.name = pool
        ORDER BY is_default DESC, pools.position, nodes.offered DESC, nodes.position, nodes.name";
    rows(connection, query, [], |row| {
        Ok(Node {
            name: row.get("name")?,
            pool: row.get("pool")?,
            online: row.get("online")?,
            drain: row.get::<_, bool>("drain")? || !row.get::<_, bool>("offered")?,
            granularity: Bytes(row.get("granularity")?),
            capacity: Bytes(row.get("capacity")?),
            instances: row.get("instances")?,
            activations: row.get("activations")?,
        })
    })
}

fn sessions(connection: &Connection) -> Result<Vec<Session>, RegistryError> {
    rows(connection, "SELECT * FROM sessions ORDER BY id", [], |row| {
        Ok(Session {
            id: SessionId(row.get("id")?),
            state: state(row)?,
            token: row.get("token")?,
            creator: row.get("creator")?,
            owner: row.get("owner")?,
            created: row.get("created")?,
            expiration: row.get("expiration")?,
            nodes: row.get("nodes")?,
        })
    })
}

fn instances(connection: &Connection) -> Result<Vec<Instance>, RegistryError> {
    let query = "SELECT instances.*,
        (SELECT coalesce(sum(granules), 0) FROM fragments WHERE instance = instances.id) AS granules,
        (SELECT count(DISTINCT node) FROM fragments WHERE instance = instances.id) AS nodes,
        (SELECT count(*) FROM configurations WHERE instance = instances.id) AS configurations
        FROM instances ORDER BY id";
    rows(connection, query, [], |row| {
        let (granules, granularity): (u64, u64) = (row.get("granules")?, row.get("granularity")?);
        Ok(Instance {
            id: InstanceId(row.get("id")?),
            state: state(row)?,
            session: SessionId(row.get("session")?),
            bytes: Bytes(granules * granularity),
            nodes: row.get("nodes")?,
            created: row.get("created")?,
            expiration: row.get("expiration")?,
            intact: row.get("intact")?,
            label: row.get("label")?,
            public: row.get("persistent")?,
            configurations: row.get("configurations")?,
            limits: window(row)?.map(WindowRequest::limits),
        })
    })
}

fn configurations(connection: &Connection) -> Result<Vec<Configuration>, RegistryError> {
    let query = "SELECT configurations.*,
        (SELECT count(*) FROM activations WHERE configuration = configurations.id) AS activations
        FROM configurations ORDER BY id";
    rows(connection, query, [], |row| {
        Ok(Configuration {
            id: ConfigurationId(row.get("id")?),
            state: state(row)?,
            instance: InstanceId(row.get("instance")?),
            kind: word(row, "kind", configuration_type)?,
            access_mode: word(row, "access_mode", access_mode)?,
            backing_path: row.get("backing_path")?,
            activations: row.get("activations")?,
        })
    })
}

fn fragments(connection: &Connection) -> Result<Vec<Fragment>, RegistryError> {
    let query = "SELECT fragments.*, granularity FROM fragments JOIN instances ON instances.id = instance
        ORDER BY fragments.id";
    rows(connection, query, [], |row| {
        let (granules, granularity): (u64, u64) = (row.get("granules")?, row.get("granularity")?);
        Ok(Fragment {
            id: FragmentId(row.get("id")?),
            state: state(row)?,
            instance: InstanceId(row.get("instance")?),
            capacity: Bytes(granules * granularity),
            node: row.get("node")?,
        })
    })
}

fn namespaces(connection: &Connection) -> Result<Vec<Namespace>, RegistryError> {
    rows(connection, "SELECT * FROM namespaces ORDER BY id", [], |row| {
        Ok(Namespace {
            id: NamespaceId(row.get("id")?),
            state: state(row)?,
            configuration: ConfigurationId(row.get("configuration")?),
            fragment: FragmentId(row.get("fragment")?),
            span: row.get("span")?,
        })
    })
}

fn registrations(connection: &Connection) -> Result<Vec<Registration>, RegistryError> {
    rows(connection, "SELECT * FROM registrations ORDER BY id", [], |row| {
        Ok(Registration {
            id: RegistrationId(row.get("id")?),
            state: state(row)?,
            session: SessionId(row.get("session")?),
            configuration: ConfigurationId(row.get("configuration")?),
            wait: row.get("wait")?,
        })
    })
}

fn activations(connection: &Connection) -> Result<Vec<Activation>, RegistryError> {
    rows(connection, "SELECT * FROM activations ORDER BY id", [], |row| {
        Ok(Activation {
            id: ActivationId(row.get("id")?),
            state: state(row)?,
            session: SessionId(row.get("session")?),
            configuration: ConfigurationId(row.get("configuration")?),
            nodes: row.get("nodes")?,
            mount: path(row, "mount")?.to_string_lossy().into_owned(),
        })
    })
}
