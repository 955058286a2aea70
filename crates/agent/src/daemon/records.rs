//! What says that a fragment is ours: `<directory>/<fragment>.json` beside `<directory>/<fragment>/`.
//!
//! It is written before the first byte of the fragment and removed after the last one, so that whatever a crash leaves is
//! known to be ours, and whatever has no record is not.

use super::error::TaskError;
use super::fragments::NewFragment;
use super::state;
use crate::atomic_file;
use crate::error::AgentError;
use crate::fragment::image::Room;
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
    is_image: bool,
    /// The image takes space as it is written. Not written where it is not so: that is what earlier versions read.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_sparse: bool,
    /// It is a volume of this LVM group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    volume_group: Option<String>,
    /// It was complete once: if it is not there, it was lost.
    pub is_made: bool,
}

/// What a fragment is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// An XFS image.
    Image(Room),
    /// A volume of an LVM group.
    Volume { group: String },
    /// A directory.
    Directory,
}

impl FragmentRecord {
    /// A fragment that is about to be made.
    pub fn new(registry: &str, wanted: &NewFragment, form: &Form) -> FragmentRecord {
        let NewFragment { fragment, instance, bytes, owner } = *wanted;
        let volume_group = match form {
            Form::Volume { group } => Some(group.clone()),
            Form::Image(_) | Form::Directory => None,
        };
        FragmentRecord {
            format: FORMAT,
            registry: registry.to_owned(),
            fragment,
            instance,
            bytes,
            owner,
            is_image: matches!(form, Form::Image(_)),
            is_sparse: *form == Form::Image(Room::Sparse),
            volume_group,
            is_made: false,
        }
    }

    /// What it is made of, whatever the configuration says by now.
    pub fn form(&self) -> Form {
        match (&self.volume_group, self.is_image) {
            (Some(group), _) => Form::Volume { group: group.clone() },
            (None, true) => Form::Image(if self.is_sparse { Room::Sparse } else { Room::Reserved }),
            (None, false) => Form::Directory,
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
        atomic_file::sync_directory(directory)
    }

    /// Removes it.
    pub fn remove(directory: &Path, fragment: FragmentId) -> Result<(), AgentError> {
        atomic_file::remove(&path(directory, fragment))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn record(form: &Form) -> FragmentRecord {
        let (fragment, instance) = (FragmentId(7), InstanceId(4));
        FragmentRecord::new(
            "box",
            &NewFragment { fragment, instance, bytes: Bytes(1 << 20), owner: 1000 },
            form,
        )
    }

    #[test]
    fn a_record_keeps_the_form_and_the_old_forms_are_written_as_ever() {
        let group = "fast".to_owned();
        for form in
            [Form::Image(Room::Reserved), Form::Image(Room::Sparse), Form::Volume { group }, Form::Directory]
        {
            let text = serde_json::to_string(&record(&form)).unwrap();
            let read: FragmentRecord = serde_json::from_str(&text).unwrap();
            assert_eq!((read.form(), read.bytes), (form, Bytes(1 << 20)));
        }
        assert_eq!(
            serde_json::to_string(&record(&Form::Image(Room::Reserved))).unwrap(),
            r#"{"format":1,"registry":"box","fragment":7,"instance":4,"bytes":1048576,"owner":1000,"is_image":true,"is_made":false}"#
        );
    }
}
