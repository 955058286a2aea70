//! What stands in the columns of each table.

use super::Options;
use super::object::Object;
use super::table::{Align, Column, Table};
use forebay_controller::protocol::rows::Audience;
use forebay_controller::registry::Snapshot;
use forebay_model::capacity::format::format_size;
use forebay_model::objects::*;
use forebay_model::state::ObjectState;
use forebay_model::units::{Bytes, Granules};
use jiff::Timestamp;
use std::io::{self, Write};

/// All tables, filled object by object. Nothing is kept of an object but its cells: a cluster has a hundred thousand.
pub struct Tables<'o> {
    words: Words<'o>,
    pools: Table,
    nodes: Table,
    sessions: Table,
    instances: Table,
    configurations: Table,
    fragments: Table,
    namespaces: Table,
    registrations: Table,
    activations: Table,
}

impl<'o> Tables<'o> {
    /// Empty ones.
    pub fn new(options: &'o Options) -> Tables<'o> {
        let configurations: &[Column] =
            if options.cache_details { &CONFIGURATION_DETAILS } else { &CONFIGURATIONS };
        Tables {
            words: Words::new(options),
            pools: Table::new(&POOLS),
            nodes: Table::new(&NODES),
            sessions: Table::new(&SESSIONS),
            instances: Table::new(&INSTANCES),
            configurations: Table::new(configurations),
            fragments: Table::new(&FRAGMENTS),
            namespaces: Table::new(&NAMESPACES),
            registrations: Table::new(&REGISTRATIONS),
            activations: Table::new(&ACTIVATIONS),
        }
    }

    /// Takes all objects of a snapshot.
    pub fn take(&mut self, snapshot: &Snapshot) {
        snapshot.pools.iter().for_each(|one| pool(&mut self.pools, one, &mut self.words));
        snapshot.nodes.iter().for_each(|one| node(&mut self.nodes, one, &mut self.words));
        snapshot.sessions.iter().for_each(|one| session(&mut self.sessions, one, &mut self.words));
        snapshot.instances.iter().for_each(|one| instance(&mut self.instances, one, &mut self.words));
        snapshot
            .configurations
            .iter()
            .for_each(|one| configuration(&mut self.configurations, one, &self.words));
        snapshot.fragments.iter().for_each(|one| fragment(&mut self.fragments, one, &mut self.words));
        snapshot.namespaces.iter().for_each(|one| namespace(&mut self.namespaces, one));
        snapshot.registrations.iter().for_each(|one| registration(&mut self.registrations, one));
        snapshot.activations.iter().for_each(|one| activation(&mut self.activations, one));
    }

    fn of(&self, object: Object) -> &Table {
        match object {
            Object::Pools => &self.pools,
            Object::Nodes => &self.nodes,
            Object::Sessions => &self.sessions,
            Object::Instances => &self.instances,
            Object::Configurations => &self.configurations,
            Object::Fragments => &self.fragments,
            Object::Namespaces => &self.namespaces,
            Object::Registrations => &self.registrations,
            Object::Activations => &self.activations,
        }
    }

    /// Writes the tables of these objects.
    ///
    /// One object that has no rows gives its message. Of several, those with rows are shown, a blank line between them, and
    /// the others are named together at the end.
    ///
    /// # Errors
    /// Those of the output.
    pub fn write(&self, objects: &[Object], out: &mut impl Write) -> io::Result<()> {
        if let [object] = objects
            && self.of(*object).is_empty()
        {
            return writeln!(out, "{}", object.none());
        }
        let (missing, shown): (Vec<Object>, Vec<Object>) =
            objects.iter().partition(|object| self.of(**object).is_empty());
        for (at, object) in shown.iter().enumerate() {
            if at > 0 {
                out.write_all(b"\n")?;
            }
            self.of(*object).write(out)?;
        }
        if missing.is_empty() {
            return Ok(());
        }
        let missing: Vec<&str> = missing.iter().map(|object| object.name()).collect();
        let gap = if shown.is_empty() { "" } else { "\n" };
        writeln!(out, "{gap}did not find any of [{}]", missing.join(", "))
    }
}

impl Audience for Tables<'_> {
    fn pool(&mut self, one: Pool) {
        pool(&mut self.pools, &one, &mut self.words);
    }
    fn node(&mut self, one: Node) {
        node(&mut self.nodes, &one, &mut self.words);
    }
    fn session(&mut self, one: Session) {
        session(&mut self.sessions, &one, &mut self.words);
    }
    fn instance(&mut self, one: Instance) {
        instance(&mut self.instances, &one, &mut self.words);
    }
    fn configuration(&mut self, one: Configuration) {
        configuration(&mut self.configurations, &one, &self.words);
    }
    fn fragment(&mut self, one: Fragment) {
        fragment(&mut self.fragments, &one, &mut self.words);
    }
    fn namespace(&mut self, one: Namespace) {
        namespace(&mut self.namespaces, &one);
    }
    fn registration(&mut self, one: Registration) {
        registration(&mut self.registrations, &one);
    }
    fn activation(&mut self, one: Activation) {
        activation(&mut self.activations, &one);
    }
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

static POOLS: [Column; 5] = right(["pool", "units", "quantity", "free", "gran"]);
static NODES: [Column; 8] = right(["node", "pool", "online", "drain", "gran", "capacity", "insts", "activs"]);
static SESSIONS: [Column; 8] =
    right(["sess", "state", "token", "creator", "owner", "created", "expiration", "nodes"]);
static INSTANCES: [Column; 11] = right([
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
static CONFIGURATIONS: [Column; 5] = right(["conf", "state", "inst", "type", "activs"]);
static CONFIGURATION_DETAILS: [Column; 7] = {
    let mut columns = right(["conf", "state", "inst", "type", "amode", "activs", "backing_path"]);
    columns[6].1 = Align::Left;
    columns
};
static FRAGMENTS: [Column; 5] = right(["frag", "state", "inst", "capacity", "node"]);
static NAMESPACES: [Column; 5] = right(["ns", "state", "conf", "frag", "span"]);
static REGISTRATIONS: [Column; 5] = right(["reg", "state", "sess", "conf", "wait"]);
static ACTIVATIONS: [Column; 6] = right(["activ", "state", "sess", "conf", "nodes", "mount"]);

/// Cells that depend on the options. The last size and the last date are kept: neighbours often have the same.
struct Words<'a> {
    options: &'a Options,
    size: Option<(Bytes, String)>,
    date: Option<(i64, String)>,
}

impl Words<'_> {
    fn new(options: &Options) -> Words<'_> {
        Words { options, size: None, date: None }
    }

    fn size(&mut self, row: &mut Table, bytes: Bytes) {
        if self.size.as_ref().is_none_or(|(last, _)| *last != bytes) {
            self.size = Some((bytes, format_size(bytes, self.options.sizes)));
        }
        row.text(self.size.as_ref().map_or("", |(_, text)| text));
    }

    fn granules(&mut self, row: &mut Table, granules: Granules, granularity: Bytes) {
        self.size(row, Bytes(granules.0.saturating_mul(granularity.0)));
    }

    fn date(&mut self, row: &mut Table, seconds: i64) {
        if self.date.as_ref().is_none_or(|(last, _)| *last != seconds) {
            self.date = Some((seconds, self.date_text(seconds)));
        }
        row.text(self.date.as_ref().map_or("", |(_, text)| text));
    }

    fn date_text(&self, seconds: i64) -> String {
        match Timestamp::from_second(seconds) {
            Ok(time) => time.to_zoned(self.options.zone.clone()).strftime("%Y-%m-%dT%H:%M:%S").to_string(),
            // No calendar reaches that far; the number itself says what is recorded.
            Err(_) => seconds.to_string(),
        }
    }

    fn expiration(&mut self, row: &mut Table, seconds: i64) {
        if seconds == 0 { row.text("never") } else { self.date(row, seconds) }
    }
}

fn state(row: &mut Table, state: ObjectState) {
    row.text(std::str::from_utf8(&state.letters()).unwrap_or_default());
}

fn pool(row: &mut Table, pool: &Pool, words: &mut Words<'_>) {
    row.text(&pool.name);
    row.text("bytes");
    words.granules(row, pool.quantity, pool.granularity);
    words.granules(row, pool.free, pool.granularity);
    words.size(row, pool.granularity);
}

fn node(row: &mut Table, node: &Node, words: &mut Words<'_>) {
    row.text(&node.name);
    row.text(node.pool.as_deref().unwrap_or_default());
    row.text(if node.online { "online" } else { "offline" });
    row.text(if node.drain { "drain" } else { "fill" });
    words.size(row, node.granularity);
    words.size(row, node.capacity);
    row.number(node.instances);
    row.number(node.activations);
}

fn session(row: &mut Table, session: &Session, words: &mut Words<'_>) {
    row.number(session.id.0);
    state(row, session.state);
    row.text(&session.token);
    row.text(&session.creator);
    row.number(session.owner.into());
    words.date(row, session.created);
    words.expiration(row, session.expiration);
    row.number(session.nodes);
}

fn instance(row: &mut Table, instance: &Instance, words: &mut Words<'_>) {
    row.number(instance.id.0);
    state(row, instance.state);
    row.number(instance.session.0);
    words.size(row, instance.bytes);
    row.number(instance.nodes);
    words.date(row, instance.created);
    words.expiration(row, instance.expiration);
    row.text(if instance.intact { "intact" } else { "lost" });
    row.text(&instance.label);
    row.text(if instance.public { "public" } else { "private" });
    row.number(instance.configurations);
}

fn fragment(row: &mut Table, fragment: &Fragment, words: &mut Words<'_>) {
    row.number(fragment.id.0);
    state(row, fragment.state);
    row.number(fragment.instance.0);
    words.size(row, fragment.capacity);
    row.text(&fragment.node);
}

fn configuration(row: &mut Table, configuration: &Configuration, words: &Words<'_>) {
    if words.options.cache_details {
        return configuration_details(row, configuration);
    }
    row.number(configuration.id.0);
    state(row, configuration.state);
    row.number(configuration.instance.0);
    row.text(configuration.kind.name());
    row.number(configuration.activations);
}

fn configuration_details(row: &mut Table, configuration: &Configuration) {
    row.number(configuration.id.0);
    state(row, configuration.state);
    row.number(configuration.instance.0);
    row.text(configuration.kind.name());
    row.text(configuration.access_mode.word());
    row.number(configuration.activations);
    row.text(configuration.backing_path.as_deref().unwrap_or_default());
}

fn namespace(row: &mut Table, namespace: &Namespace) {
    row.number(namespace.id.0);
    state(row, namespace.state);
    row.number(namespace.configuration.0);
    row.number(namespace.fragment.0);
    row.number(namespace.span);
}

fn registration(row: &mut Table, registration: &Registration) {
    row.number(registration.id.0);
    state(row, registration.state);
    row.number(registration.session.0);
    row.number(registration.configuration.0);
    row.text(if registration.wait { "true" } else { "false" });
}

fn activation(row: &mut Table, activation: &Activation) {
    row.number(activation.id.0);
    state(row, activation.state);
    row.number(activation.session.0);
    row.number(activation.configuration.0);
    row.number(activation.nodes);
    row.text(&activation.mount);
}
