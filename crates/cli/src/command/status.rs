//! `forebay status`: what is stored in an instance, what was read and written, and how far its limits are used up.
//!
//! The names in the JSON are those of DataWarp's accounting (`get_accounting_data_json`) where it has one for the thing.
//! `write_moving_avg` is what was written within the window so far, and `max_window_write` is the length of the window in
//! seconds: so the original had it, whatever the names say. What is not counted is null.

use super::accounts;
use crate::args::Status as Arguments;
use crate::config::PoolOptions;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::machine::{Machine, Places};
use crate::say;
use crate::state_dir::STATE_DIR_VARIABLE;
use forebay_agent::account::{FragmentUse, InstanceAccount, NamespaceAccount, WindowUse};
use forebay_agent::node::InstanceFile;
use forebay_controller::client::{Address, Client};
use forebay_controller::cluster::view::Shown;
use forebay_model::capacity::format::exact;
use forebay_model::limits::Policy;
use forebay_model::units::Bytes;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// Names the controller for one process; see `Address::named`.
const CONTROLLER_VARIABLE: &str = "FOREBAY_CONTROLLER";
/// How long a controller that is away is tried.
const PATIENCE: Duration = Duration::from_secs(5);

/// An instance and its accounting.
struct Told {
    id: u64,
    name: String,
    account: InstanceAccount,
}

/// Asks whoever serves the instance, and prints what they say.
pub fn status(places: Places<'_>, arguments: &Arguments) -> Result<Exit, CommandError> {
    let told = match (&arguments.instance, &arguments.name) {
        (Some(file), _) => over_the_network(file)?,
        (None, Some(name)) => match controller(places)? {
            Some(address) => of_the_cluster(&Client::open(address).with_patience(PATIENCE), name)?,
            None => of_this_machine(places, name)?,
        },
        (None, None) => return Err(unknown("")),
    };
    let text = if arguments.json { format!("{:#}\n", as_json(&told)) } else { as_text(&told) };
    say::answer(text).map_err(CommandError::Output)?;
    Ok(Exit::Success)
}

fn over_the_network(file: &Path) -> Result<Told, CommandError> {
    let file = InstanceFile::read(file)?;
    let account = forebay_agent::node::status(&file)?;
    Ok(Told { id: file.id.0, name: file.name, account })
}

/// The controller to be asked, if jobs of a cluster are meant and not those of this machine: as for dwstat.
fn controller(places: Places<'_>) -> Result<Option<Address>, CommandError> {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let local = places.state_dir.is_some() || (is_set(STATE_DIR_VARIABLE) && !is_set(CONTROLLER_VARIABLE));
    if local { Ok(None) } else { Ok(Address::named()?) }
}

/// The instance of a job, of a session, or with this name; of several the first.
fn of_the_cluster(client: &Client, name: &str) -> Result<Told, CommandError> {
    let seen = client.look(&[Shown::Sessions, Shown::Instances])?;
    let session = seen.sessions.iter().find(|session| session.token == name).map(|session| session.id);
    let mut instances = seen.instances.iter();
    let found = instances.find(|one| Some(one.session) == session || one.label == name);
    let instance = found.ok_or_else(|| CommandError::Option {
        option: "status".into(),
        problem: format!(
            "{name:?} is neither a job of yours with space of its own nor an instance that you see"
        ),
    })?;
    let (id, name, account) = accounts::told(client.account(instance.id)?).map_err(CommandError::Account)?;
    Ok(Told { id, name, account })
}

/// Attaches the instance for as long as it takes to ask; one that is in use already is joined.
fn of_this_machine(places: Places<'_>, name: &str) -> Result<Told, CommandError> {
    let machine = Machine::open(places, &PoolOptions::default())?;
    let own = machine.registry.job(name)?.and_then(|job| job.own);
    let instance = own.map_or_else(|| machine.registry.persistent(name), |own| Ok(Some(own)))?;
    let instance = instance.ok_or_else(|| unknown(name))?;
    let attachment = machine.agent.attach(instance.id)?;
    let account = attachment.account();
    let detached = attachment.detach();
    let account = account?;
    detached?;
    Ok(Told { id: instance.id.0, name: instance.label, account })
}

fn unknown(name: &str) -> CommandError {
    let problem = format!("{name:?} is neither a job with space of its own nor a persistent instance here");
    CommandError::Option { option: "status".into(), problem }
}

fn size(bytes: u64) -> String {
    exact(Bytes(bytes))
}

fn or_not(bytes: Option<u64>) -> String {
    bytes.map_or("not counted".into(), size)
}

fn sum(fragments: &[FragmentUse], of: fn(&FragmentUse) -> u64) -> u64 {
    fragments.iter().map(of).sum()
}

fn as_text(told: &Told) -> String {
    let mut text = String::new();
    let fragments = &told.account.fragments;
    let (capacity, used) = (sum(fragments, |one| one.capacity), sum(fragments, |one| one.used));
    line(&mut text, "instance", format!("{} ({})", told.name, told.id));
    line(&mut text, "servers", fragments.len());
    line(&mut text, "capacity", size(capacity));
    line(&mut text, "used", size(used));
    line(&mut text, "free", size(capacity.saturating_sub(used)));
    told.account.namespaces.iter().for_each(|namespace| namespace_as_text(&mut text, namespace));
    (0..).zip(fragments).for_each(|(at, fragment)| fragment_as_text(&mut text, at, fragment));
    text
}

fn line(text: &mut String, key: &str, value: impl std::fmt::Display) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{key:<16}{value}");
}

fn namespace_as_text(text: &mut String, namespace: &NamespaceAccount) {
    line(text, "namespace", &namespace.name);
    let limit = |most: Option<String>, policy: Policy| match most {
        Some(most) => format!("{most}{}", said(policy)),
        None => "no limit".into(),
    };
    line(text, "  largest file", limit(namespace.max_file_size.map(size), namespace.file_size_policy));
    let created = namespace.files_created.map_or("not counted".into(), |files| files.to_string());
    let most = limit(namespace.max_files.map(|most| format!("of {most}")), namespace.file_count_policy);
    line(text, "  files created", format!("{created}, {most}").replace(", of", " of"));
    if let Some(moved) = namespace.moved {
        line(text, "  read", format!("{}, up to offset {}", size(moved.bytes_read), moved.max_offset_read));
        let written = (size(moved.bytes_written), moved.max_offset_written);
        line(text, "  written", format!("{}, up to offset {}", written.0, written.1));
    }
    if let Some(staged) = namespace.staged {
        line(text, "  staged in", size(staged.bytes_written));
        line(text, "  staged out", size(staged.bytes_read));
    }
    if let Some(clients) = namespace.clients {
        line(text, "  clients", clients);
    }
    if let Some((open, written)) = namespace.open {
        line(text, "  open files", format!("{open}, {written} for writing"));
    }
}

fn said(policy: Policy) -> &'static str {
    match policy {
        Policy::Log => " (more is logged)",
        Policy::Error => "",
        Policy::Both => " (more is refused and logged)",
    }
}

fn fragment_as_text(text: &mut String, at: u32, fragment: &FragmentUse) {
    line(text, "fragment", format!("{at} on {}", fragment.node));
    line(text, "  used", format!("{} of {}", size(fragment.used), size(fragment.capacity)));
    line(text, "  read", or_not(fragment.bytes_read));
    line(text, "  written", or_not(fragment.bytes_written));
    if let Some(window) = &fragment.window {
        let WindowUse { length_s, limit, written, high_water, policy } = *window;
        let (written, limit, high) = (size(written), size(limit), size(high_water));
        let policy = said(policy);
        let window = format!("{written} of {limit} within {length_s} s, at most {high} ever{policy}");
        line(text, "  write window", window);
    }
}

fn as_json(told: &Told) -> Value {
    let InstanceAccount { namespaces, fragments } = &told.account;
    json!({
        "realm_id": told.id,
        "instance": told.name,
        "server_count": fragments.len(),
        "namespace_count": namespaces.len(),
        "capacity_max": sum(fragments, |one| one.capacity),
        "capacity_used": sum(fragments, |one| one.used),
        "namespaces": namespaces.iter().map(namespace_as_json).collect::<Vec<_>>(),
        "fragments": fragments.iter().map(fragment_as_json).collect::<Vec<_>>(),
    })
}

fn namespace_as_json(namespace: &NamespaceAccount) -> Value {
    let moved = namespace.moved;
    json!({
        "namespace_id": namespace.name,
        "stripe_size": namespace.layout.map(|layout| layout.0),
        "stripe_width": namespace.layout.map(|layout| layout.1),
        "substripe_size": namespace.layout.map(|layout| layout.0),
        "substripe_width": namespace.layout.map(|layout| layout.2),
        "file_size_limit": namespace.max_file_size,
        "file_size_policy": namespace.file_size_policy.name(),
        "files_create_threshold": namespace.max_files,
        "files_create_policy": namespace.file_count_policy.name(),
        "files_created": namespace.files_created,
        "bytes_read": moved.map(|moved| moved.bytes_read),
        "bytes_written": moved.map(|moved| moved.bytes_written),
        "stage_bytes_read": namespace.staged.map(|staged| staged.bytes_read),
        "stage_bytes_written": namespace.staged.map(|staged| staged.bytes_written),
        "max_offset_read": moved.map(|moved| moved.max_offset_read),
        "max_offset_written": moved.map(|moved| moved.max_offset_written),
        "clients": namespace.clients,
        "open_files": namespace.open.map(|open| open.0),
        "written_files": namespace.open.map(|open| open.1),
    })
}

fn fragment_as_json(fragment: &FragmentUse) -> Value {
    let window = &fragment.window;
    json!({
        "server_hostname": fragment.node,
        "fs_capacity": fragment.capacity,
        "capacity_max": fragment.capacity,
        "capacity_used": fragment.used,
        "bytes_read": fragment.bytes_read,
        "bytes_written": fragment.bytes_written,
        "files_created": fragment.files_created,
        "write_limit": window.map(|window| window.limit),
        "write_limit_policy": window.map(|window| window.policy.name()),
        "write_moving_avg": window.map(|window| window.written),
        "write_high_water": window.map(|window| window.high_water),
        "max_window_write": window.map(|window| window.length_s),
    })
}
