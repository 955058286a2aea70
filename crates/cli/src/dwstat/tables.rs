//! What stands in the columns of each table.

use super::Options;
use super::object::Object;
use super::table::{Align, Column, Table};
use forebay_controller::registry::Snapshot;
use forebay_model::capacity::format::format_size;
use forebay_model::objects::*;
use forebay_model::state::ObjectState;
use forebay_model::units::{Bytes, Granules};
use jiff::Timestamp;

/// The table of one kind; `None` when it has no rows.
pub fn render(snapshot: &Snapshot, object: Object, options: &Options) -> Option<String> {
    let mut words = Words::new(options);
    match object {
        Object::Pools => table(&POOLS, &snapshot.pools, |row, one| pool(row, one, &mut words)),
        Object::Nodes => table(&NODES, &snapshot.nodes, |row, one| node(row, one, &mut words)),
        Object::Sessions => table(&SESSIONS, &snapshot.sessions, |row, one| session(row, one, &mut words)),
        Object::Instances => {
            table(&INSTANCES, &snapshot.instances, |row, one| instance(row, one, &mut words))
        }
        Object::Configurations if options.cache_details => {
            table(&CONFIGURATION_DETAILS, &snapshot.configurations, configuration_details)
        }
        Object::Configurations => table(&CONFIGURATIONS, &snapshot.configurations, configuration),
        Object::Fragments => {
            table(&FRAGMENTS, &snapshot.fragments, |row, one| fragment(row, one, &mut words))
        }
        Object::Namespaces => table(&NAMESPACES, &snapshot.namespaces, namespace),
        Object::Registrations => table(&REGISTRATIONS, &snapshot.registrations, registration),
        Object::Activations => table(&ACTIVATIONS, &snapshot.activations, activation),
    }
}

fn table<T>(columns: &[Column], objects: &[T], mut row: impl FnMut(&mut Table<'_>, &T)) -> Option<String> {
    if objects.is_empty() {
        return None;
    }
    let mut table = Table::new(columns, objects.len());
    objects.iter().for_each(|object| row(&mut table, object));
    Some(table.finish())
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

    fn size(&mut self, row: &mut Table<'_>, bytes: Bytes) {
        if self.size.as_ref().is_none_or(|(last, _)| *last != bytes) {
            self.size = Some((bytes, format_size(bytes, self.options.sizes)));
        }
        row.text(self.size.as_ref().map_or("", |(_, text)| text));
    }

    fn granules(&mut self, row: &mut Table<'_>, granules: Granules, granularity: Bytes) {
        self.size(row, Bytes(granules.0.saturating_mul(granularity.0)));
    }

    fn date(&mut self, row: &mut Table<'_>, seconds: i64) {
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

    fn expiration(&mut self, row: &mut Table<'_>, seconds: i64) {
        if seconds == 0 { row.text("never") } else { self.date(row, seconds) }
    }
}

fn state(row: &mut Table<'_>, state: ObjectState) {
    row.text(std::str::from_utf8(&state.letters()).unwrap_or_default());
}

fn pool(row: &mut Table<'_>, pool: &Pool, words: &mut Words<'_>) {
    row.text(&pool.name);
    row.text("bytes");
    words.granules(row, pool.quantity, pool.granularity);
    words.granules(row, pool.free, pool.granularity);
    words.size(row, pool.granularity);
}

fn node(row: &mut Table<'_>, node: &Node, words: &mut Words<'_>) {
    row.text(&node.name);
    row.text(node.pool.as_deref().unwrap_or_default());
    row.text(if node.online { "online" } else { "offline" });
    row.text(if node.drain { "drain" } else { "fill" });
    words.size(row, node.granularity);
    words.size(row, node.capacity);
    row.number(node.instances);
    row.number(node.activations);
}

fn session(row: &mut Table<'_>, session: &Session, words: &mut Words<'_>) {
    row.number(session.id.0);
    state(row, session.state);
    row.text(&session.token);
    row.text(&session.creator);
    row.number(session.owner.into());
    words.date(row, session.created);
    words.expiration(row, session.expiration);
    row.number(session.nodes);
}

fn instance(row: &mut Table<'_>, instance: &Instance, words: &mut Words<'_>) {
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

fn fragment(row: &mut Table<'_>, fragment: &Fragment, words: &mut Words<'_>) {
    row.number(fragment.id.0);
    state(row, fragment.state);
    row.number(fragment.instance.0);
    words.size(row, fragment.capacity);
    row.text(&fragment.node);
}

fn configuration(row: &mut Table<'_>, configuration: &Configuration) {
    row.number(configuration.id.0);
    state(row, configuration.state);
    row.number(configuration.instance.0);
    row.text(configuration.kind.name());
    row.number(configuration.activations);
}

fn configuration_details(row: &mut Table<'_>, configuration: &Configuration) {
    row.number(configuration.id.0);
    state(row, configuration.state);
    row.number(configuration.instance.0);
    row.text(configuration.kind.name());
    row.text(configuration.access_mode.word());
    row.number(configuration.activations);
    row.text(configuration.backing_path.as_deref().unwrap_or_default());
}

fn namespace(row: &mut Table<'_>, namespace: &Namespace) {
    row.number(namespace.id.0);
    state(row, namespace.state);
    row.number(namespace.configuration.0);
    row.number(namespace.fragment.0);
    row.number(namespace.span);
}

fn registration(row: &mut Table<'_>, registration: &Registration) {
    row.number(registration.id.0);
    state(row, registration.state);
    row.number(registration.session.0);
    row.number(registration.configuration.0);
    row.text(if registration.wait { "true" } else { "false" });
}

fn activation(row: &mut Table<'_>, activation: &Activation) {
    row.number(activation.id.0);
    state(row, activation.state);
    row.number(activation.session.0);
    row.number(activation.configuration.0);
    row.number(activation.nodes);
    row.text(&activation.mount);
}
