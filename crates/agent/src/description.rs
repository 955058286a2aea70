//! What the controller wants made on this machine: the instance, its fragments and the uses made of it.
//!
//! Pure records. They are stored in `instance.json` as they were given, and never change in the life of an instance.

use forebay_model::ids::{ConfigurationId, FragmentId, InstanceId};
use forebay_model::objects::AccessMode;
use forebay_model::units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// An instance as the controller describes it to the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceDescription {
    /// Id, unique in the registry; names the instance's state directory.
    pub instance: InstanceId,
    /// `I<session>-0` or the name of a persistent instance; shows as the source of the mount in `df`.
    pub label: String,
    /// The pieces of space, in the order in which files are dealt over them. The first one holds the metadata.
    pub fragments: Vec<FragmentDescription>,
    /// The namespaces in it, each mounted at a place of its own.
    pub configurations: Vec<ConfigurationDescription>,
    /// Bytes of a file that lie on one fragment before the next one's turn.
    pub stripe_size: Bytes,
    /// Local files that the share of a fragment is dealt over.
    pub substripes: u32,
}

/// A piece of space on one storage node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FragmentDescription {
    /// Id.
    pub id: FragmentId,
    /// The storage node it lies on; for messages.
    pub node: String,
    /// Where the node keeps it. The agent makes this directory and removes it with all that is in it, so it must
    /// belong to the fragment alone.
    pub directory: PathBuf,
    /// Bytes that can be stored in it.
    pub capacity: Bytes,
}

/// A namespace of the instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigurationDescription {
    /// Id; the namespace on disk is called `c<id>`.
    pub id: ConfigurationId,
    /// Who sees what. On one machine, where the job has one client node, private and striped look the same.
    pub access_mode: AccessMode,
    /// A write beyond this size is refused with EFBIG.
    pub max_file_size: Option<Bytes>,
    /// Creating more files than this is refused with EMFILE.
    pub max_files: Option<u64>,
    /// The directory that the job sees it at. The agent makes it (its parents too) and removes it again when empty.
    pub mount: PathBuf,
}

impl InstanceDescription {
    /// Bytes that can be stored in all fragments together.
    pub fn capacity(&self) -> Bytes {
        Bytes(self.fragments.iter().fold(0, |sum, fragment| sum.saturating_add(fragment.capacity.0)))
    }

    /// True if a namespace has a limit of its own (file size, number of files), which only DWFS can enforce.
    pub fn has_namespace_limits(&self) -> bool {
        self.configurations.iter().any(|c| c.max_file_size.is_some() || c.max_files.is_some())
    }
}

/// Name of a configuration's namespace inside the fragments.
pub(crate) fn namespace_name(configuration: ConfigurationId) -> String {
    format!("c{configuration}")
}
