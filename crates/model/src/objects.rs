//! The DataWarp objects: pool, node, session, instance, configuration, fragment, namespace, registration, activation.
//!
//! These are records, one per row of the corresponding `dwstat` table; times are whole seconds since the epoch.

use crate::ids::*;
use crate::state::ObjectState;
use crate::units::{Bytes, Granules};
use serde::{Deserialize, Serialize};

/// A named group of storage nodes that hand out space in granules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// Name, as in `pool=`.
    pub name: String,
    /// Size of one granule.
    pub granularity: Bytes,
    /// All granules of its nodes that are online and not drained.
    pub quantity: Granules,
    /// Granules of those that are free.
    pub free: Granules,
}

/// A server with local disks that fragments are made on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Host name, unique in the registry.
    pub name: String,
    /// The pool it belongs to, if any.
    pub pool: Option<String>,
    /// It answers.
    pub online: bool,
    /// It takes no new fragments.
    pub drain: bool,
    /// Smallest piece of space it can hand out.
    pub granularity: Bytes,
    /// Size of its disks.
    pub capacity: Bytes,
    /// Instances with a fragment here.
    pub instances: u64,
    /// Activations mounted here.
    pub activations: u64,
}

/// A user or job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Id.
    pub id: SessionId,
    /// State.
    pub state: ObjectState,
    /// Job id, or the name of a persistent instance.
    pub token: String,
    /// Who asked: `SLURM`, `CLI`, ...
    pub creator: String,
    /// Uid of the owner.
    pub owner: u32,
    /// Seconds since the epoch.
    pub created: i64,
    /// Seconds since the epoch; 0 is never.
    pub expiration: i64,
    /// Client nodes of the job.
    pub nodes: u64,
}

/// Allocated space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// Id.
    pub id: InstanceId,
    /// State.
    pub state: ObjectState,
    /// The session it was made for.
    pub session: SessionId,
    /// Size, a whole number of granules.
    pub bytes: Bytes,
    /// Storage nodes it has fragments on.
    pub nodes: u64,
    /// Seconds since the epoch.
    pub created: i64,
    /// Seconds since the epoch; 0 is never.
    pub expiration: i64,
    /// No fragment was lost.
    pub intact: bool,
    /// `I<session>-0` for a job, its name for a persistent instance.
    pub label: String,
    /// Others may attach it: persistent instances.
    pub public: bool,
    /// Configurations on it.
    pub configurations: u64,
    /// `None`: as much may be written as anybody likes.
    pub limits: Option<InstanceLimits>,
}

/// How much may be written to each fragment of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceLimits {
    /// Within so many seconds.
    pub write_window_length: u64,
    /// So many times the size of the fragment.
    pub write_window_multiplier: u64,
}

/// What a configuration is used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConfigurationType {
    /// A file system of its own.
    Scratch,
    /// A cache over a parallel file system.
    Cache,
    /// Swap space of compute nodes.
    Swap,
}

impl ConfigurationType {
    /// Every type.
    pub const ALL: [ConfigurationType; 3] =
        [ConfigurationType::Scratch, ConfigurationType::Cache, ConfigurationType::Swap];

    /// The word of `type=`.
    pub fn name(self) -> &'static str {
        match self {
            ConfigurationType::Scratch => "scratch",
            ConfigurationType::Cache => "cache",
            ConfigurationType::Swap => "swap",
        }
    }
}

/// Who sees what in a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessMode {
    /// All compute nodes of the job share one namespace, files are striped.
    Striped,
    /// Every compute node has a namespace of its own.
    Private,
    /// Read-only copies on every server (cache only).
    Ldbalance,
}

impl AccessMode {
    /// Every mode.
    pub const ALL: [AccessMode; 3] = [AccessMode::Striped, AccessMode::Private, AccessMode::Ldbalance];

    /// The word of `access_mode=`.
    pub fn name(self) -> &'static str {
        match self {
            AccessMode::Striped => "striped",
            AccessMode::Private => "private",
            AccessMode::Ldbalance => "ldbalance",
        }
    }

    /// The word in the columns `access_type` and `amode` of dwstat.
    pub fn word(self) -> &'static str {
        match self {
            AccessMode::Striped => "stripe",
            other => other.name(),
        }
    }
}

/// A use made of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// Id.
    pub id: ConfigurationId,
    /// State.
    pub state: ObjectState,
    /// The instance it uses.
    pub instance: InstanceId,
    /// Type.
    pub kind: ConfigurationType,
    /// Access mode.
    pub access_mode: AccessMode,
    /// The directory that a cache accelerates.
    pub backing_path: Option<String>,
    /// Activations of it.
    pub activations: u64,
}

/// The piece of an instance on one storage node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fragment {
    /// Id.
    pub id: FragmentId,
    /// State.
    pub state: ObjectState,
    /// The instance it is a piece of.
    pub instance: InstanceId,
    /// Size.
    pub capacity: Bytes,
    /// Name of the node.
    pub node: String,
}

/// A metadata tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Id.
    pub id: NamespaceId,
    /// State.
    pub state: ObjectState,
    /// The configuration it belongs to.
    pub configuration: ConfigurationId,
    /// The fragment that holds the tree.
    pub fragment: FragmentId,
    /// Fragments that its data is spread over.
    pub span: u64,
}

/// The right of a session to use a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// Id.
    pub id: RegistrationId,
    /// State.
    pub state: ObjectState,
    /// Session.
    pub session: SessionId,
    /// Configuration.
    pub configuration: ConfigurationId,
    /// Teardown waits for stage-outs.
    pub wait: bool,
}

/// Mounts of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activation {
    /// Id.
    pub id: ActivationId,
    /// State.
    pub state: ObjectState,
    /// Session.
    pub session: SessionId,
    /// Configuration.
    pub configuration: ConfigurationId,
    /// Client nodes it is mounted on.
    pub nodes: u64,
    /// Where.
    pub mount: String,
}
