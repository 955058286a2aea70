//! The same objects as JSON, with the keys that workload managers read from the burst buffer's command line.
//!
//! Sizes are bytes, dates seconds since the epoch, `quantity` and `free` of a pool are in granules. Written row by row: a
//! cluster has tens of thousands.

use super::Options;
use super::object::Object;
use forebay_controller::protocol::rows::Audience;
use forebay_controller::registry::Snapshot;
use forebay_model::ids::*;
use forebay_model::objects::*;
use forebay_model::state::ObjectState;
use forebay_model::units::{Bytes, Granules};
use serde::{Serialize, Serializer};
use std::collections::HashMap;

/// One JSON object with a list for every kind that was asked for, empty ones included.
pub fn render(snapshot: &Snapshot, options: &Options) -> String {
    format!("{}\n", text(snapshot, &options.objects, options.now))
}

/// The same without an end of the line; `now` is in seconds since the epoch.
pub fn text(snapshot: &Snapshot, objects: &[Object], now: i64) -> String {
    let lists = Lists { snapshot, objects, now };
    // Nothing in it that JSON does not have.
    serde_json::to_string(&lists).unwrap_or_default()
}

struct Lists<'s> {
    snapshot: &'s Snapshot,
    objects: &'s [Object],
    now: i64,
}

impl Serialize for Lists<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let list = |object| List { snapshot: self.snapshot, object, now: self.now };
        serializer.collect_map(self.objects.iter().map(|object| (object.name(), list(*object))))
    }
}

/// The objects of one kind.
struct List<'s> {
    snapshot: &'s Snapshot,
    object: Object,
    now: i64,
}

impl Serialize for List<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (snapshot, now) = (self.snapshot, self.now);
        let expired = |expiration: i64| expiration != 0 && expiration <= now;
        match self.object {
            Object::Pools => serializer.collect_seq(snapshot.pools.iter().map(pool)),
            Object::Nodes => serializer.collect_seq(snapshot.nodes.iter().map(node)),
            Object::Sessions => {
                let of = |one| session(one, expired(one.expiration));
                serializer.collect_seq(snapshot.sessions.iter().map(of))
            }
            Object::Instances => {
                let configurations = configurations_of(snapshot);
                let rows = snapshot.instances.iter().map(|one| {
                    let of_it = configurations.get(&one.id).map_or(&[][..], Vec::as_slice);
                    instance(one, of_it, expired(one.expiration))
                });
                serializer.collect_seq(rows)
            }
            Object::Configurations => {
                serializer.collect_seq(snapshot.configurations.iter().map(configuration))
            }
            Object::Fragments => serializer.collect_seq(snapshot.fragments.iter().map(fragment)),
            Object::Namespaces => serializer.collect_seq(snapshot.namespaces.iter().map(namespace)),
            Object::Registrations => serializer.collect_seq(snapshot.registrations.iter().map(registration)),
            Object::Activations => serializer.collect_seq(snapshot.activations.iter().map(activation)),
        }
    }
}

/// The list of one kind, written object by object as they are told; the answer is one object with that list.
///
/// An instance names its configurations: those have to be told first.
pub struct OneList {
    object: Object,
    now: i64,
    text: Vec<u8>,
    is_empty: bool,
    configurations: Vec<(InstanceId, ConfigurationId)>,
    is_sorted: bool,
}

impl OneList {
    /// The list of this kind; `now` is in seconds since the epoch.
    pub fn new(object: Object, now: i64) -> OneList {
        let text = format!("{{\"{}\":[", object.name()).into_bytes();
        OneList { object, now, text, is_empty: true, configurations: Vec::new(), is_sorted: true }
    }

    /// The whole text, without an end of the line.
    pub fn finish(mut self) -> Vec<u8> {
        self.text.extend_from_slice(b"]}");
        self.text
    }

    fn push(&mut self, object: Object, row: &impl Serialize) {
        if self.object != object {
            return;
        }
        if !self.is_empty {
            self.text.push(b',');
        }
        self.is_empty = false;
        // Memory takes everything, and nothing is in a row that JSON does not have.
        drop(serde_json::to_writer(&mut self.text, row));
    }

    fn expired(&self, expiration: i64) -> bool {
        expiration != 0 && expiration <= self.now
    }

    fn configurations_of(&mut self, instance: InstanceId) -> Vec<ConfigurationId> {
        if !self.is_sorted {
            self.configurations.sort_unstable();
            self.is_sorted = true;
        }
        let from = self.configurations.partition_point(|(of, _)| *of < instance);
        let own = self.configurations[from..].iter().take_while(|(of, _)| *of == instance);
        own.map(|(_, id)| *id).collect()
    }
}

impl Audience for OneList {
    fn pool(&mut self, one: Pool) {
        self.push(Object::Pools, &pool(&one));
    }
    fn node(&mut self, one: Node) {
        self.push(Object::Nodes, &node(&one));
    }
    fn session(&mut self, one: Session) {
        let expired = self.expired(one.expiration);
        self.push(Object::Sessions, &session(&one, expired));
    }
    fn instance(&mut self, one: Instance) {
        let (expired, configurations) = (self.expired(one.expiration), self.configurations_of(one.id));
        self.push(Object::Instances, &instance(&one, &configurations, expired));
    }
    fn configuration(&mut self, one: Configuration) {
        if self.object == Object::Instances {
            self.configurations.push((one.instance, one.id));
            self.is_sorted = false;
        }
        self.push(Object::Configurations, &configuration(&one));
    }
    fn fragment(&mut self, one: Fragment) {
        self.push(Object::Fragments, &fragment(&one));
    }
    fn namespace(&mut self, one: Namespace) {
        self.push(Object::Namespaces, &namespace(&one));
    }
    fn registration(&mut self, one: Registration) {
        self.push(Object::Registrations, &registration(&one));
    }
    fn activation(&mut self, one: Activation) {
        self.push(Object::Activations, &activation(&one));
    }
}

fn configurations_of(snapshot: &Snapshot) -> HashMap<InstanceId, Vec<ConfigurationId>> {
    let mut configurations: HashMap<InstanceId, Vec<ConfigurationId>> = HashMap::new();
    for configuration in &snapshot.configurations {
        configurations.entry(configuration.instance).or_default().push(configuration.id);
    }
    configurations
}

/// Links from one object to others, and how much there is of it; what is `None` or empty is not there.
#[derive(Default, Serialize)]
struct Links<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration: Option<ConfigurationId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    configurations: Option<&'r [ConfigurationId]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fragment: Option<FragmentId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<InstanceId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<SessionId>,
}

#[derive(Serialize)]
struct PoolRow<'r> {
    id: &'r str,
    units: &'static str,
    granularity: Bytes,
    quantity: Granules,
    free: Granules,
}

fn pool(pool: &Pool) -> PoolRow<'_> {
    PoolRow {
        id: &pool.name,
        units: "bytes",
        granularity: pool.granularity,
        quantity: pool.quantity,
        free: pool.free,
    }
}

#[derive(Serialize)]
struct NodeRow<'r> {
    id: &'r str,
    online: bool,
    drain: bool,
    granularity: Bytes,
    capacity: Bytes,
    instances: u64,
    activations: u64,
    links: NodeLinks<'r>,
}

/// A node in no pool says so.
#[derive(Serialize)]
struct NodeLinks<'r> {
    pool: Option<&'r str>,
}

fn node(node: &Node) -> NodeRow<'_> {
    NodeRow {
        id: &node.name,
        online: node.online,
        drain: node.drain,
        granularity: node.granularity,
        capacity: node.capacity,
        instances: node.instances,
        activations: node.activations,
        links: NodeLinks { pool: node.pool.as_deref() },
    }
}

#[derive(Serialize)]
struct SessionRow<'r> {
    id: SessionId,
    token: &'r str,
    creator: &'r str,
    owner: u32,
    created: i64,
    expiration: i64,
    expired: bool,
    nodes: u64,
    state: ObjectState,
}

fn session(session: &Session, expired: bool) -> SessionRow<'_> {
    SessionRow {
        id: session.id,
        token: &session.token,
        creator: &session.creator,
        owner: session.owner,
        created: session.created,
        expiration: session.expiration,
        expired,
        nodes: session.nodes,
        state: session.state,
    }
}

#[derive(Serialize)]
struct InstanceRow<'r> {
    id: InstanceId,
    label: &'r str,
    public: bool,
    intact: bool,
    capacity: InstanceSize,
    created: i64,
    expiration: i64,
    expired: bool,
    limits: LimitsRow,
    links: Links<'r>,
    state: ObjectState,
}

/// Empty where as much may be written as anybody likes.
#[derive(Serialize)]
struct LimitsRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    write_window_length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_window_multiplier: Option<u64>,
}

#[derive(Serialize)]
struct InstanceSize {
    bytes: Bytes,
    nodes: u64,
}

fn instance<'r>(
    instance: &'r Instance,
    configurations: &'r [ConfigurationId],
    expired: bool,
) -> InstanceRow<'r> {
    InstanceRow {
        id: instance.id,
        label: &instance.label,
        public: instance.public,
        intact: instance.intact,
        capacity: InstanceSize { bytes: instance.bytes, nodes: instance.nodes },
        created: instance.created,
        expiration: instance.expiration,
        expired,
        limits: LimitsRow {
            write_window_length: instance.limits.map(|limits| limits.write_window_length),
            write_window_multiplier: instance.limits.map(|limits| limits.write_window_multiplier),
        },
        links: Links {
            configurations: Some(configurations),
            session: Some(instance.session),
            ..Links::default()
        },
        state: instance.state,
    }
}

#[derive(Serialize)]
struct ConfigurationRow<'r> {
    id: ConfigurationId,
    #[serde(rename = "type")]
    kind: ConfigurationType,
    access_mode: &'static str,
    backing_path: Option<&'r str>,
    activations: u64,
    links: Links<'r>,
    state: ObjectState,
}

fn configuration(configuration: &Configuration) -> ConfigurationRow<'_> {
    ConfigurationRow {
        id: configuration.id,
        kind: configuration.kind,
        access_mode: configuration.access_mode.word(),
        backing_path: configuration.backing_path.as_deref(),
        activations: configuration.activations,
        links: Links { instance: Some(configuration.instance), ..Links::default() },
        state: configuration.state,
    }
}

#[derive(Serialize)]
struct FragmentRow<'r> {
    id: FragmentId,
    capacity: FragmentSize,
    links: Links<'r>,
    state: ObjectState,
}

#[derive(Serialize)]
struct FragmentSize {
    bytes: Bytes,
}

fn fragment(fragment: &Fragment) -> FragmentRow<'_> {
    let links = Links { instance: Some(fragment.instance), node: Some(&fragment.node), ..Links::default() };
    FragmentRow {
        id: fragment.id,
        capacity: FragmentSize { bytes: fragment.capacity },
        links,
        state: fragment.state,
    }
}

#[derive(Serialize)]
struct NamespaceRow<'r> {
    id: NamespaceId,
    span: u64,
    links: Links<'r>,
    state: ObjectState,
}

fn namespace(namespace: &Namespace) -> NamespaceRow<'_> {
    let (configuration, fragment) = (Some(namespace.configuration), Some(namespace.fragment));
    NamespaceRow {
        id: namespace.id,
        span: namespace.span,
        links: Links { configuration, fragment, ..Links::default() },
        state: namespace.state,
    }
}

#[derive(Serialize)]
struct RegistrationRow<'r> {
    id: RegistrationId,
    wait: bool,
    links: Links<'r>,
    state: ObjectState,
}

fn registration(registration: &Registration) -> RegistrationRow<'_> {
    let (session, configuration) = (Some(registration.session), Some(registration.configuration));
    RegistrationRow {
        id: registration.id,
        wait: registration.wait,
        links: Links { session, configuration, ..Links::default() },
        state: registration.state,
    }
}

#[derive(Serialize)]
struct ActivationRow<'r> {
    id: ActivationId,
    mount: &'r str,
    nodes: u64,
    links: Links<'r>,
    state: ObjectState,
}

fn activation(activation: &Activation) -> ActivationRow<'_> {
    let (session, configuration) = (Some(activation.session), Some(activation.configuration));
    ActivationRow {
        id: activation.id,
        mount: &activation.mount,
        nodes: activation.nodes,
        links: Links { session, configuration, ..Links::default() },
        state: activation.state,
    }
}
