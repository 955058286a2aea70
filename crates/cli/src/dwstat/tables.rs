//! What stands in the columns of each table.

use super::Options;
use super::object::Object;
use super::table::{Align, Column, layout};
use forebay_controller::registry::Snapshot;
use forebay_model::capacity::format::format_size;
use forebay_model::objects::*;
use forebay_model::units::{Bytes, Granules};
use jiff::Timestamp;

/// The table of one kind; `None` when it has no rows.
pub fn render(snapshot: &Snapshot, object: Object, options: &Options) -> Option<String> {
    let cells = Cells { options };
    match object {
        Object::Pools => table(&POOLS, &snapshot.pools, |pool| cells.pool(pool)),
        Object::Nodes => table(&NODES, &snapshot.nodes, |node| cells.node(node)),
        Object::Sessions => table(&SESSIONS, &snapshot.sessions, |session| cells.session(session)),
        Object::Instances => table(&INSTANCES, &snapshot.instances, |instance| cells.instance(instance)),
        Object::Configurations if options.cache_details => {
            table(&CONFIGURATION_DETAILS, &snapshot.configurations, configuration_details)
        }
        Object::Configurations => table(&CONFIGURATIONS, &snapshot.configurations, configuration),
        Object::Fragments => table(&FRAGMENTS, &snapshot.fragments, |fragment| cells.fragment(fragment)),
        Object::Namespaces => table(&NAMESPACES, &snapshot.namespaces, namespace),
        Object::Registrations => table(&REGISTRATIONS, &snapshot.registrations, registration),
        Object::Activations => table(&ACTIVATIONS, &snapshot.activations, activation),
    }
}

fn table<T>(columns: &[Column], objects: &[T], cells: impl Fn(&T) -> Vec<String>) -> Option<String> {
    if objects.is_empty() {
        return None;
    }
    Some(layout(columns, objects.iter().map(cells).collect()))
}

const fn right<const N: usize>(titles: [&'static str; N]) -> [Column; N] {
    let mut columns = [("", Align::Right); N];
    let mut at = 0;
    while at < N {
        columns[at].0 = titles[at];
        at += 1;
    }
    columns
}

const POOLS: [Column; 5] = right(["pool", "units", "quantity", "free", "gran"]);
const NODES: [Column; 8] = right(["node", "pool", "online", "drain", "gran", "capacity", "insts", "activs"]);
const SESSIONS: [Column; 8] =
    right(["sess", "state", "token", "creator", "owner", "created", "expiration", "nodes"]);
const INSTANCES: [Column; 11] = right([
    "inst",
    "state",
    "sess",
    "bytes",
    "nodes",
    "created",
    "expiration",
    "intact",
    "label",
    "public",
    "confs",
]);
const CONFIGURATIONS: [Column; 5] = right(["conf", "state", "inst", "type", "activs"]);
const CONFIGURATION_DETAILS: [Column; 7] = {
    let mut columns = right(["conf", "state", "inst", "type", "amode", "activs", "backing_path"]);
    columns[6].1 = Align::Left;
    columns
};
const FRAGMENTS: [Column; 5] = right(["frag", "state", "inst", "capacity", "node"]);
const NAMESPACES: [Column; 5] = right(["ns", "state", "conf", "frag", "span"]);
const REGISTRATIONS: [Column; 5] = right(["reg", "state", "sess", "conf", "wait"]);
const ACTIVATIONS: [Column; 6] = right(["activ", "state", "sess", "conf", "nodes", "mount"]);

/// Cells that depend on the options.
struct Cells<'a> {
    options: &'a Options,
}

impl Cells<'_> {
    fn size(&self, bytes: Bytes) -> String {
        format_size(bytes, self.options.sizes)
    }

    fn granules(&self, granules: Granules, granularity: Bytes) -> String {
        self.size(Bytes(granules.0.saturating_mul(granularity.0)))
    }

    fn date(&self, seconds: i64) -> String {
        match Timestamp::from_second(seconds) {
            Ok(time) => time.to_zoned(self.options.zone.clone()).strftime("%Y-%m-%dT%H:%M:%S").to_string(),
            // No calendar reaches that far; the number itself says what is recorded.
            Err(_) => seconds.to_string(),
        }
    }

    fn expiration(&self, seconds: i64) -> String {
        if seconds == 0 { "never".to_owned() } else { self.date(seconds) }
    }

    fn pool(&self, pool: &Pool) -> Vec<String> {
        vec![
            pool.name.clone(),
            "bytes".to_owned(),
            self.granules(pool.quantity, pool.granularity),
            self.granules(pool.free, pool.granularity),
            self.size(pool.granularity),
        ]
    }

    fn node(&self, node: &Node) -> Vec<String> {
        vec![
            node.name.clone(),
            node.pool.clone().unwrap_or_default(),
            if node.online { "online" } else { "offline" }.to_owned(),
            if node.drain { "drain" } else { "fill" }.to_owned(),
            self.size(node.granularity),
            self.size(node.capacity),
            node.instances.to_string(),
            node.activations.to_string(),
        ]
    }

    fn session(&self, session: &Session) -> Vec<String> {
        vec![
            session.id.to_string(),
            session.state.to_string(),
            session.token.clone(),
            session.creator.clone(),
            session.owner.to_string(),
            self.date(session.created),
            self.expiration(session.expiration),
            session.nodes.to_string(),
        ]
    }

    fn instance(&self, instance: &Instance) -> Vec<String> {
        vec![
            instance.id.to_string(),
            instance.state.to_string(),
            instance.session.to_string(),
            self.size(instance.bytes),
            instance.nodes.to_string(),
            self.date(instance.created),
            self.expiration(instance.expiration),
            if instance.intact { "intact" } else { "lost" }.to_owned(),
            instance.label.clone(),
            if instance.public { "public" } else { "private" }.to_owned(),
            instance.configurations.to_string(),
        ]
    }

    fn fragment(&self, fragment: &Fragment) -> Vec<String> {
        vec![
            fragment.id.to_string(),
            fragment.state.to_string(),
            fragment.instance.to_string(),
            self.size(fragment.capacity),
            fragment.node.clone(),
        ]
    }
}

fn configuration(configuration: &Configuration) -> Vec<String> {
    vec![
        configuration.id.to_string(),
        configuration.state.to_string(),
        configuration.instance.to_string(),
        configuration.kind.name().to_owned(),
        configuration.activations.to_string(),
    ]
}

fn configuration_details(configuration: &Configuration) -> Vec<String> {
    vec![
        configuration.id.to_string(),
        configuration.state.to_string(),
        configuration.instance.to_string(),
        configuration.kind.name().to_owned(),
        configuration.access_mode.word().to_owned(),
        configuration.activations.to_string(),
        configuration.backing_path.clone().unwrap_or_default(),
    ]
}

fn namespace(namespace: &Namespace) -> Vec<String> {
    vec![
        namespace.id.to_string(),
        namespace.state.to_string(),
        namespace.configuration.to_string(),
        namespace.fragment.to_string(),
        namespace.span.to_string(),
    ]
}

fn registration(registration: &Registration) -> Vec<String> {
    vec![
        registration.id.to_string(),
        registration.state.to_string(),
        registration.session.to_string(),
        registration.configuration.to_string(),
        registration.wait.to_string(),
    ]
}

fn activation(activation: &Activation) -> Vec<String> {
    vec![
        activation.id.to_string(),
        activation.state.to_string(),
        activation.session.to_string(),
        activation.configuration.to_string(),
        activation.nodes.to_string(),
        activation.mount.clone(),
    ]
}
