//! `instance.json`: what an instance is made of, and how far making or removing it has come.
//!
//! It is written before anything else of an instance is made and removed after everything else of it is gone, so that
//! everything an instance ever had on this machine can be found, and cleaned up, from this file alone. `complete` is
//! false while the instance is being made and again while it is being removed; only a complete one can be attached.

use crate::atomic_file::{self, Content};
use crate::description::InstanceDescription;
use crate::error::{AgentError, RecordFault};
use crate::serving::Serving;
use forebay_model::ids::InstanceId;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Name of the file in the instance's state directory.
pub(crate) const FILE: &str = "instance.json";
/// Version of the file's form. A change of it needs a reader for the old one.
const FORMAT: u64 = 1;
/// A record of a thousand fragments takes about 200 KiB.
const SIZE_LIMIT: u64 = 16 << 20;

/// The content of `instance.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    format: u64,
    /// Everything of it exists.
    pub complete: bool,
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
        Record { format: FORMAT, complete: false, serving, fragments, description }
    }

    /// The same record, complete or not.
    pub fn marked(mut self, complete: bool) -> Record {
        self.complete = complete;
        self
    }

    /// Reads the record in a state directory; `None` if there is none.
    pub fn read(directory: &Path, instance: InstanceId) -> Result<Option<Record>, AgentError> {
        let path = directory.join(FILE);
        let bad = |fault| AgentError::BadRecord { path: path.clone(), fault };
        let bytes = match atomic_file::read(&path, SIZE_LIMIT)? {
            None => return Ok(None),
            Some(Content::TooLarge { size }) => {
                return Err(bad(RecordFault::TooLarge { size, limit: SIZE_LIMIT }));
            }
            Some(Content::Bytes(bytes)) => bytes,
        };
        let record = parse(&bytes).map_err(bad)?;
        if record.description.instance != instance {
            return Err(bad(RecordFault::OtherInstance(record.description.instance)));
        }
        Ok(Some(record))
    }

    /// Writes the record, durably.
    pub fn write(&self, directory: &Path) -> Result<(), AgentError> {
        let path = directory.join(FILE);
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|fault| AgentError::BadRecord { path: path.clone(), fault: fault.into() })?;
        text.push(b'\n');
        atomic_file::replace(&path, &text)
    }
}

fn parse(bytes: &[u8]) -> Result<Record, RecordFault> {
    let FormatOnly { format } = serde_json::from_slice(bytes)?;
    if format != FORMAT {
        return Err(RecordFault::Format { found: format, known: FORMAT });
    }
    Ok(serde_json::from_slice(bytes)?)
}
