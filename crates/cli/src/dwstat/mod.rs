//! `dwstat`: the state of the burst buffer as tables.
//!
//! Three parts: [`options::parse`] reads the command line, [`render`] turns a snapshot into text, and [`command::main`]
//! reads the registry in between. The first two are pure. Columns, order, widths and messages are those that site
//! scripts were written against; `docs/dwstat.md` explains every one of them.

pub mod command;
pub mod json;
pub mod object;
pub mod options;
pub(crate) mod table;
mod tables;

use forebay_controller::registry::Snapshot;
use forebay_model::capacity::format::SizeStyle;
use jiff::tz::TimeZone;
use object::Object;

/// A cluster with so many fragments is shown by two threads.
const LARGE: usize = 10_000;

/// What is shown, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which tables, in this order.
    pub objects: Vec<Object>,
    /// How sizes are written.
    pub sizes: SizeStyle,
    /// Configurations with access mode and backing path (`--cd`).
    pub cache_details: bool,
    /// JSON instead of tables.
    pub json: bool,
    /// Dates are shown in this zone.
    pub zone: TimeZone,
    /// Seconds since the epoch: what has expired by now.
    pub now: i64,
}

/// The answer to one call, ending with a newline.
///
/// One object that has no rows gives its message. Of several, those with rows are shown, a blank line between them, and
/// the others are named together at the end.
pub fn render(snapshot: &Snapshot, options: &Options) -> String {
    if options.json {
        return json::render(snapshot, options);
    }
    let tables = all_tables(snapshot, options);
    if let [(object, None)] = tables[..] {
        return format!("{}\n", object.none());
    }
    let missing: Vec<&str> =
        tables.iter().filter(|(_, text)| text.is_none()).map(|(object, _)| object.name()).collect();
    let mut parts: Vec<String> = tables.into_iter().filter_map(|(_, text)| text).collect();
    if !missing.is_empty() {
        parts.push(format!("did not find any of [{}]\n", missing.join(", ")));
    }
    parts.join("\n")
}

/// The tables. That of the fragments, the largest by far, is made at the same time as the others.
fn all_tables(snapshot: &Snapshot, options: &Options) -> Vec<(Object, Option<String>)> {
    let render = |object: &Object| (*object, tables::render(snapshot, *object, options));
    if snapshot.fragments.len() < LARGE {
        return options.objects.iter().map(render).collect();
    }
    std::thread::scope(|scope| {
        let fragments = scope.spawn(|| tables::render(snapshot, Object::Fragments, options));
        let others = options.objects.iter().filter(|object| **object != Object::Fragments);
        let others: Vec<_> = others.map(render).collect();
        let mut fragments = fragments.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let mut others = others.into_iter();
        let in_order = options.objects.iter().map(|object| match object {
            Object::Fragments => Some((Object::Fragments, fragments.take())),
            _ => others.next(),
        });
        in_order.flatten().collect()
    })
}
