//! What says that a fragment is ours: `<directory>/<fragment>.json` beside `<directory>/<fragment>/`.
//!
//! It is written before the first byte of the fragment and removed after the last one, so that whatever a crash leaves is
//! known to be ours, and whatever has no record is not.

use super::error::TaskError;
use super::state;
use crate::error::AgentError;
use crate::state_directory::remove_file;
use forebay_model::ids::{FragmentId, InstanceId};
use forebay_model::units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Version of the record.
const FORMAT: u64 = 1;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FragmentRecord {
    format: u64,
    /// The registry whose numbers these are.
    pub registry: String,
    /// The fragment.
    pub fragment: FragmentId,
    /// Its instance.
    pub instance: InstanceId,
    /// Its size.
    pub bytes: Bytes,
    /// Uid of the owner.
    pub owner: u32,
    /// It is an XFS image.
    pub is_image: bool,
    /// It was complete once: if it is not there, it was lost.
    pub is_made: bool,
}

impl FragmentRecord {
    /// A fragment that is about to be made.
    pub fn new(
        registry: &str,
        fragment: FragmentId,
        instance: InstanceId,
        bytes: Bytes,
        owner: u32,
        is_image: bool,
    ) -> FragmentRecord {
        let registry = registry.to_owned();
        FragmentRecord {
            format: FORMAT,
            registry,
            fragment,
            instance,
            bytes,
            owner,
            is_image,
            is_made: false,
        }
    }

    /// Says that it is complete.
    pub fn made(self) -> FragmentRecord {
        FragmentRecord { is_made: true, ..self }
    }

    /// Says that nothing of it is wanted any more.
    pub fn given_up(self) -> FragmentRecord {
        FragmentRecord { is_made: false, ..self }
    }

    /// The record of a fragment; `None` if there is none.
    pub fn read(directory: &Path, fragment: FragmentId) -> Result<Option<FragmentRecord>, TaskError> {
        let path = path(directory, fragment);
        let Some(record) = state::read::<FragmentRecord>(&path)? else { return Ok(None) };
        if record.format != FORMAT || record.fragment != fragment {
            let problem = format!("is no record of fragment {fragment} that this version reads");
            return Err(TaskError::Foreign { path, problem });
        }
        Ok(Some(record))
    }

    /// The record of a fragment of this registry.
    pub fn of(
        directory: &Path,
        fragment: FragmentId,
        registry: &str,
    ) -> Result<Option<FragmentRecord>, TaskError> {
        let record = FragmentRecord::read(directory, fragment)?;
        match record {
            Some(record) if record.registry != registry => {
                let path = path(directory, fragment);
                let problem = format!("belongs to the registry {:?}, this is {registry:?}", record.registry);
                Err(TaskError::Foreign { path, problem })
            }
            record => Ok(record),
        }
    }

    /// Writes it, durably.
    pub fn write(&self, directory: &Path) -> Result<(), AgentError> {
        state::write(&path(directory, self.fragment), self)?;
        crate::atomic_file::sync_directory(directory)
    }

    /// Removes it.
    pub fn remove(directory: &Path, fragment: FragmentId) -> Result<(), AgentError> {
        remove_file(&path(directory, fragment))
    }

    /// All fragments that have a record.
    pub fn all(directory: &Path) -> Result<Vec<FragmentId>, AgentError> {
        let names = state::names(directory)?;
        Ok(names.iter().filter_map(|name| name.strip_suffix(".json")?.parse().ok()).map(FragmentId).collect())
    }
}

fn path(directory: &Path, fragment: FragmentId) -> PathBuf {
    directory.join(format!("{fragment}.json"))
}
