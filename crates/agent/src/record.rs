//! `instance.json`: what an instance is made of.
//!
//! It is written before anything else of an instance is made and removed after everything else of it is gone, so that
//! everything an instance ever had on this machine can be found, and cleaned up, from this file alone. Before the first
//! fragment is removed it is renamed to `removing.json`: from then on the instance can only be removed.
//!
//! An empty record is what a power cut may leave of one that was being written: nothing else of the instance exists
//! then, and it counts as none.

use crate::atomic_file::{self, Content};
use crate::description::InstanceDescription;
use crate::error::{AgentError, RecordFault};
use crate::serving::Serving;
use forebay_model::ids::InstanceId;
use serde::{Deserialize, Serialize};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Name of the file in the instance's state directory.
const FILE: &str = "instance.json";
/// The same while the instance is being removed.
const REMOVING: &str = "removing.json";
/// Version of the file's form. A change of it needs a reader for the old one.
const FORMAT: u64 = 1;
/// A record of a thousand fragments takes about 200 KiB.
const SIZE_LIMIT: u64 = 16 << 20;

/// The content of `instance.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    format: u64,
    /// The instance is being removed: said by the name of the file.
    #[serde(skip)]
    pub removing: bool,
    /// How it is served.
    pub serving: Serving,
    /// What its fragments are.
    pub fragments: FragmentKind,
    /// As the controller described it.
    pub description: InstanceDescription,
}

/// What a fragment is on the node's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FragmentKind {
    /// An XFS image of fixed size.
    XfsImage,
    /// A directory; its size is counted, or not enforced at all.
    Directory,
}

/// Only the number, so that a record of another form is named as such whatever else it holds.
#[derive(Deserialize)]
struct FormatOnly {
    format: u64,
}

impl Record {
    /// The record of an instance that is about to be made.
    pub fn begun(description: InstanceDescription, serving: Serving, fragments: FragmentKind) -> Record {
        Record { format: FORMAT, removing: false, serving, fragments, description }
    }

    /// Reads the record in a state directory; `None` if there is none.
    pub fn read(directory: &Path, instance: InstanceId) -> Result<Option<Record>, AgentError> {
        if let Some(record) = read_file(directory.join(FILE), instance)? {
            return Ok(Some(record));
        }
        let removing = read_file(directory.join(REMOVING), instance)?;
        Ok(removing.map(|record| Record { removing: true, ..record }))
    }

    /// Writes the record, durably.
    pub fn write(&self, directory: &Path) -> Result<(), AgentError> {
        let path = directory.join(FILE);
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|fault| AgentError::BadRecord { path: path.clone(), fault: fault.into() })?;
        text.push(b'\n');
        atomic_file::write(&path, &text)
    }

    /// Says that the instance is being removed. Durable before the fragments' disks can know of it: where all is in one
    /// file system its journal keeps the order, other disks have to be waited for.
    pub fn begin_removing(&self, directory: &Path) -> Result<(), AgentError> {
        if self.removing {
            return Ok(());
        }
        let (from, to) = (directory.join(FILE), directory.join(REMOVING));
        std::fs::rename(&from, &to).map_err(|error| AgentError::system("rename", from, error))?;
        if self.is_on_one_disk(directory) { Ok(()) } else { atomic_file::sync_directory(directory) }
    }

    /// Whether the state directory and all fragments are in one file system.
    pub fn is_on_one_disk(&self, directory: &Path) -> bool {
        let device = |path: &Path| std::fs::metadata(path).map(|meta| meta.dev()).ok();
        let here = device(directory);
        self.description.fragments.iter().all(|fragment| {
            let exists = fragment.directory.ancestors().find(|path| path.exists());
            exists.and_then(device) == here
        })
    }
}

fn read_file(path: PathBuf, instance: InstanceId) -> Result<Option<Record>, AgentError> {
    let bad = |fault| AgentError::BadRecord { path: path.clone(), fault };
    let bytes = match atomic_file::read(&path, SIZE_LIMIT)? {
        None => return Ok(None),
        Some(Content::TooLarge { size }) => {
            return Err(bad(RecordFault::TooLarge { size, limit: SIZE_LIMIT }));
        }
        Some(Content::Bytes(bytes)) if bytes.is_empty() => return Ok(None),
        Some(Content::Bytes(bytes)) => bytes,
    };
    let record = parse(&bytes).map_err(bad)?;
    if record.description.instance != instance {
        return Err(bad(RecordFault::OtherInstance(record.description.instance)));
    }
    Ok(Some(record))
}

fn parse(bytes: &[u8]) -> Result<Record, RecordFault> {
    let FormatOnly { format } = serde_json::from_slice(bytes)?;
    if format != FORMAT {
        return Err(RecordFault::Format { found: format, known: FORMAT });
    }
    Ok(serde_json::from_slice(bytes)?)
}
