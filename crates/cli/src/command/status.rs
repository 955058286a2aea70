//! `forebay status`: limits of an instance and how far they are used up.

use crate::args::Status as Arguments;
use crate::error::CommandError;
use crate::exit::Exit;
use crate::say;
use forebay_agent::node::InstanceFile;
use forebay_model::capacity::format::exact;
use forebay_model::units::Bytes;
use forebay_wire::message::Status;
use serde_json::json;

/// No limit on the size of a file: the largest offset there is.
const UNLIMITED: u64 = i64::MAX as u64;

/// Asks the servers and prints what they say.
pub fn status(arguments: &Arguments) -> Result<Exit, CommandError> {
    let file = InstanceFile::read(&arguments.instance)?;
    let mut status = forebay_agent::node::status(&file)?;
    // Who asks is a client too, for that moment.
    status.sessions = status.sessions.saturating_sub(1);
    let text =
        if arguments.json { format!("{:#}\n", as_json(&file, &status)) } else { as_text(&file, &status) };
    say::answer(text).map_err(CommandError::Output)?;
    Ok(Exit::Success)
}

fn as_text(file: &InstanceFile, status: &Status) -> String {
    let size = |bytes| exact(Bytes(bytes));
    let largest =
        if status.max_file_size == UNLIMITED { "no limit".into() } else { size(status.max_file_size) };
    let files = match status.max_files {
        Some(most) => format!("{} of {most}", status.files_created),
        None => format!("{}, no limit", status.files_created),
    };
    let used = status.capacity.saturating_sub(status.free);
    let lines = [
        ("instance", format!("{} ({})", file.name, file.id)),
        ("namespace", file.namespace.clone()),
        ("servers", file.servers.len().to_string()),
        ("capacity", size(status.capacity)),
        ("used", size(used)),
        ("free", size(status.free)),
        ("largest file", largest),
        ("files created", files),
        ("clients", status.sessions.to_string()),
        ("open files", format!("{}, {} for writing", status.open_files, status.written_files)),
    ];
    lines.iter().map(|(key, value)| format!("{key:<14}{value}\n")).collect()
}

/// The names of DataWarp's accounting where it has one for the thing.
fn as_json(file: &InstanceFile, status: &Status) -> serde_json::Value {
    json!({
        "realm_id": file.id.0,
        "instance": file.name,
        "server_count": file.servers.len(),
        "namespace_count": 1,
        "capacity_max": status.capacity,
        "capacity_used": status.capacity.saturating_sub(status.free),
        "namespaces": [{
            "namespace_id": file.namespace,
            "file_size_limit": (status.max_file_size != UNLIMITED).then_some(status.max_file_size),
            "files_create_threshold": status.max_files,
            "files_created": status.files_created,
            "clients": status.sessions,
            "open_files": status.open_files,
            "written_files": status.written_files,
        }],
    })
}
