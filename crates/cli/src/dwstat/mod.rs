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
use tables::Tables;

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
pub fn render(snapshot: &Snapshot, options: &Options) -> String {
    if options.json {
        return json::render(snapshot, options);
    }
    let mut tables = Tables::new(options);
    tables.take(snapshot);
    let mut text = Vec::new();
    // Memory takes everything, and cells are text.
    drop(tables.write(&options.objects, &mut text));
    String::from_utf8(text).unwrap_or_default()
}
