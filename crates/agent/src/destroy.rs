//! Removing an instance with all its data.
//!
//! Order of events: nobody is attached (checked) - everything of a crash is cleaned up - the record becomes
//! `removing.json`: from here on nobody can attach - fragments - mount points - state directory. A crash anywhere leaves
//! the record, and destroying again goes on.

use crate::error::AgentError;
use crate::fragment;
use crate::lease::Unused;
use crate::mounting;
use crate::record::Record;
use crate::serving::Serving;
use crate::state_directory::StateDirectory;
use crate::{atomic_file, clean, mount_table};

/// Removes the instance; no error if there is none, or if all but its last files were removed before a crash.
pub(crate) fn destroy(state: &StateDirectory) -> Result<(), AgentError> {
    let Some(_gate) = state.gate()? else { return state.remove_rest() };
    let _unused = Unused::prove(state.path(), state.instance())?;
    match state.record()? {
        None => state.remove(),
        Some(record) => remove(state, record),
    }
}

/// Removes all that the record names. The caller holds the gate, and nobody is attached.
pub(crate) fn remove(state: &StateDirectory, record: Record) -> Result<(), AgentError> {
    clean::leftovers(state, &record)?;
    record.begin_removing(state.path())?;
    let fragments = fragment::of_instance(&record.description, record.fragments);
    fragment::on_all(&fragments, |fragment| fragment.remove())?;
    if record.serving != Serving::PlainDirectory {
        for configuration in &record.description.configurations {
            mounting::remove_mount_point(&mount_table::resolved(&configuration.mount))?;
        }
    }
    if !record.is_on_one_disk(state.path()) {
        for fragment in &record.description.fragments {
            // Their disks must know that the fragments are gone before this one forgets that they were there.
            fragment.directory.parent().map_or(Ok(()), atomic_file::sync_directory)?;
        }
    }
    state.remove()
}
