//! Removing what a crash left: a process, dead mounts, loop devices, the socket.
//!
//! Order of events: instance process - mounts of the namespaces - mounts of the fragments (their loop devices go with
//! them) - socket. Every step looks for what is there, so it does not matter where the crash was, nor where a crash of
//! the cleaning itself was. Data is only written back, never removed.

use crate::error::AgentError;
use crate::fragment;
use crate::lease::Unused;
use crate::mount_table;
use crate::mounting;
use crate::process::leftover;
use crate::record::Record;
use crate::serving::Serving;
use crate::signpost;
use crate::state_directory::StateDirectory;
use std::path::Path;

/// Cleans up after a crash; refused while somebody is attached, no error if the instance is gone.
pub(crate) fn clean(state: &StateDirectory) -> Result<(), AgentError> {
    let Some(_gate) = state.gate()? else { return Ok(()) };
    let _unused = Unused::prove(state.path(), state.instance())?;
    state.record()?.map_or(Ok(()), |record| leftovers(state, &record))
}

/// The work itself. The caller holds the gate, and nobody is attached.
pub(crate) fn leftovers(state: &StateDirectory, record: &Record) -> Result<(), AgentError> {
    if record.serving.needs_process() {
        leftover::end(state)?;
    }
    namespaces(record)?;
    let fragments = fragment::of_instance(&record.description, record.fragments);
    fragment::on_all(&fragments, |fragment| fragment.take_down())?;
    Ok(())
}

fn namespaces(record: &Record) -> Result<(), AgentError> {
    for configuration in &record.description.configurations {
        let point = mount_table::resolved(&configuration.mount);
        if record.serving == Serving::PlainDirectory {
            signpost::take_away(&point, record)?;
            continue;
        }
        let ours = mount_table::at(&point)?.is_some_and(|mount| is_ours(&mount.kind, record.serving));
        if ours {
            unmount(&point, record.serving)?;
        }
        mounting::remove_mount_point(&point)?;
    }
    Ok(())
}

/// Something else that has been mounted there meanwhile is not ours to remove.
fn is_ours(kind: &str, serving: Serving) -> bool {
    match serving {
        Serving::DirectXfs => kind == "xfs",
        Serving::Fuse { .. } => kind.starts_with("fuse"),
        Serving::PlainDirectory => false,
    }
}

fn unmount(point: &Path, serving: Serving) -> Result<(), AgentError> {
    match serving {
        Serving::Fuse { .. } => {
            let removed = forebay_fuse::unmount_stale(point);
            removed.map(drop).map_err(|source| AgentError::DeadMount { path: point.to_owned(), source })
        }
        Serving::DirectXfs | Serving::PlainDirectory => mounting::unmount(point).map(drop),
    }
}
