//! The rows of the controller's registry: the DataWarp objects of a cluster, with what the controller must remember.
//!
//! Every row has a key of its own and is written whole; [`Change`] says which rows a step wrote or removed. The changes
//! of one step belong together: the registry writes all of them or none. Rows refer to others by id only.
//!
//! What is not here is not remembered: who waits for an answer, when an agent was last heard of.

use super::table::Table;
use crate::request::{AccessRequest, StageDirection, StageKind, WindowRequest};
use forebay_model::ids::*;
use forebay_model::limits::InstancePolicies;
use forebay_model::objects::ConfigurationType;
use forebay_model::state::ObjectState;
use forebay_model::units::{Bytes, Granules};
use serde::{Deserialize, Serialize};

/// Names a task; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(pub u64);

/// Names a staging; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StageId(pub u64);

/// The next number of every kind, and the number of the last stored step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    /// Steps that stored something. Orders the lists of tasks.
    pub steps: u64,
    /// Sessions made.
    pub sessions: u64,
    /// Instances made.
    pub instances: u64,
    /// Configurations made.
    pub configurations: u64,
    /// Fragments made.
    pub fragments: u64,
    /// Namespaces made.
    pub namespaces: u64,
    /// Registrations made.
    pub registrations: u64,
    /// Activations made.
    pub activations: u64,
    /// Stagings made.
    pub stages: u64,
    /// Tasks made.
    pub tasks: u64,
}

/// A pool. Its nodes name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolRow {
    /// Name.
    pub name: String,
    /// Size of a granule.
    pub granularity: Bytes,
}

/// A storage or compute node, or both.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeRow {
    /// Host name, as the workload manager calls it.
    pub name: String,
    /// The pool that it gives space to; `None` for a compute node.
    pub pool: Option<String>,
    /// An operator chose the pool; what the agent says does not count.
    pub pool_is_fixed: bool,
    /// Its agent answers.
    pub online: bool,
    /// It takes no new fragments.
    pub drain: bool,
    /// Smallest piece of space that it can hand out.
    pub granularity: Bytes,
    /// Size of its disks.
    pub capacity: Bytes,
    /// The agent's latest registration. Messages of earlier ones are not believed.
    pub incarnation: u64,
    /// Step at which its list of tasks changed last.
    pub list: u64,
    /// Where its file servers are reached, as its agent said.
    pub address: Option<String>,
    /// Their Unix socket.
    pub socket: Option<String>,
}

/// What a session is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SessionKind {
    /// A job of the workload manager.
    Job,
    /// A persistent instance.
    Persistent,
    /// Made by hand.
    Plain,
}

/// A user or a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionRow {
    /// Id.
    pub id: SessionId,
    /// State.
    pub state: ObjectState,
    /// Job id, or name of a persistent instance.
    pub token: String,
    /// Who asked.
    pub creator: String,
    /// Uid of the owner.
    pub owner: u32,
    /// Gid that its files are staged with.
    pub group: u32,
    /// Seconds since the epoch.
    pub created: i64,
    /// What it is for.
    pub kind: SessionKind,
    /// Fingerprint of the request that made it: the same request again is answered, another one refused.
    pub request: String,
    /// Client nodes, known from `pre_run` on.
    pub hosts: Vec<String>,
    /// Its programs may have run: from here on there may be results.
    pub ran: bool,
    /// It is being destroyed without waiting for stage-outs.
    pub hurry: bool,
}

/// Allocated space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceRow {
    /// Id.
    pub id: InstanceId,
    /// State.
    pub state: ObjectState,
    /// The session it was made for. It may be gone before the last fragment is.
    pub session: SessionId,
    /// Uid of the owner.
    pub owner: u32,
    /// The pool its granules are from.
    pub pool: String,
    /// How many.
    pub granules: Granules,
    /// Their size together.
    pub bytes: Bytes,
    /// Seconds since the epoch.
    pub created: i64,
    /// No fragment was lost.
    pub intact: bool,
    /// `I<session>-0`, or the name of a persistent instance.
    pub label: String,
    /// Others may attach it.
    pub public: bool,
    /// How much may be written to each of its fragments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_window: Option<WindowRequest>,
    /// What happens at its limits.
    #[serde(default, skip_serializing_if = "InstancePolicies::are_usual")]
    pub policies: InstancePolicies,
    /// Its owner made it past the workload manager.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_hand: bool,
}

/// A use of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfigurationRow {
    /// Id.
    pub id: ConfigurationId,
    /// State.
    pub state: ObjectState,
    /// The instance.
    pub instance: InstanceId,
    /// Type.
    pub kind: ConfigurationType,
    /// Mode and limits.
    pub access: AccessRequest,
}

/// How far a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FragmentStep {
    /// Its granules are taken; it may or may not exist.
    Planned,
    /// It exists.
    Made,
    /// Its file servers run.
    Serving,
    /// Its node came back without it, or was given up.
    Lost,
}

/// The piece of an instance on one node. As long as there is this row its granules are taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FragmentRow {
    /// Id.
    pub id: FragmentId,
    /// State.
    pub state: ObjectState,
    /// The instance. Gone already if this is what an old instance left on a disk.
    pub instance: InstanceId,
    /// Name of the node.
    pub node: String,
    /// Granules.
    pub granules: Granules,
    /// Their size together.
    pub bytes: Bytes,
    /// How far it is.
    pub step: FragmentStep,
}

/// A metadata tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceRow {
    /// Id.
    pub id: NamespaceId,
    /// State.
    pub state: ObjectState,
    /// The configuration.
    pub configuration: ConfigurationId,
    /// The fragment that holds the tree.
    pub fragment: FragmentId,
    /// Fragments that its data is spread over.
    pub span: u64,
    /// The session and client node that it is private to.
    pub client: Option<(SessionId, String)>,
}

/// The right of a session to use a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegistrationRow {
    /// Id.
    pub id: RegistrationId,
    /// State.
    pub state: ObjectState,
    /// The session.
    pub session: SessionId,
    /// The configuration.
    pub configuration: ConfigurationId,
    /// Teardown waits for stage-outs.
    pub wait: bool,
}

/// Mounts of a configuration for a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActivationRow {
    /// Id.
    pub id: ActivationId,
    /// State.
    pub state: ObjectState,
    /// The session.
    pub session: SessionId,
    /// The configuration.
    pub configuration: ConfigurationId,
    /// Where.
    pub mount: String,
}

/// The mount of an activation on one client node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MountRow {
    /// The activation.
    pub activation: ActivationId,
    /// The node.
    pub node: String,
    /// It is mounted there.
    pub mounted: bool,
}

/// How a staging went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StageOutcome {
    /// Not finished.
    Pending,
    /// Done and verified.
    Done {
        /// Copied.
        files: u64,
        /// Copied.
        bytes: Bytes,
    },
    /// It failed; the text is for the user.
    Failed {
        /// Which path, why, and what to do.
        text: String,
    },
}

/// A staging of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageRow {
    /// Id.
    pub id: StageId,
    /// The session.
    pub session: SessionId,
    /// The striped configuration that it goes to or comes from.
    pub configuration: ConfigurationId,
    /// Which way.
    pub direction: StageDirection,
    /// What is staged.
    pub kind: StageKind,
    /// Path on the parallel file system.
    #[serde(with = "crate::path_text")]
    pub pfs: Vec<u8>,
    /// Path in the instance, relative.
    #[serde(with = "crate::path_text")]
    pub instance_path: Vec<u8>,
    /// A missing or unreadable file is no failure.
    pub tolerate_errors: bool,
    /// Asked for while the job runs: it does not wait for the end of the mounts.
    pub live: bool,
    /// It is time to do it.
    pub wanted: bool,
    /// How it went.
    pub outcome: StageOutcome,
}

/// What a task is about. There is at most one task for each subject.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Subject {
    /// A fragment.
    Fragment(FragmentId),
    /// The mount of an activation on a node.
    Mount(ActivationId, String),
    /// A staging.
    Stage(StageId),
}

/// What is to be done with the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// Make a fragment.
    Make,
    /// Run the file servers of a fragment.
    Serve,
    /// Stop the servers and remove a fragment.
    Remove,
    /// Mount.
    Mount,
    /// Unmount.
    Unmount,
    /// Stage in or out.
    Stage,
}

/// Work of one agent that is not known to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskRow {
    /// Id.
    pub id: TaskId,
    /// The node that does it.
    pub node: String,
    /// What it is about.
    pub subject: Subject,
    /// What is to be done.
    pub verb: Verb,
    /// Attempts that failed.
    pub attempts: u32,
    /// Not to be tried before.
    pub not_before: i64,
    /// It is to be broken off.
    pub cancel: bool,
    /// Tried too often: somebody has to act.
    pub blown: bool,
    /// Why the last attempt failed.
    pub failure: Option<String>,
    /// When the first of the attempts that failed did, in seconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<i64>,
}

/// One change of the registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// Write the row, in place of the one with the same key.
    Put(Row),
    /// Remove the row.
    Delete(Key),
}

macro_rules! tables {
    ($( $(#[$doc:meta])* $name:ident($key:ty => $row:ty) $table:ident |$bound:pat_param| $of:expr; )*) => {
        /// A row of any table.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Row { $( $(#[$doc])* $name($row), )* }

        /// The key of a row of any table.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Key { $( $(#[$doc])* $name($key), )* }

        /// All tables.
        #[derive(Clone, Debug, Default)]
        pub struct Tables { $( $(#[$doc])* pub $table: Table<$key, $row>, )* }

        impl Row {
            /// Where it stands.
            pub fn key(&self) -> Key {
                match self { $( Row::$name($bound) => Key::$name($of), )* }
            }
        }

        impl Tables {
            /// Every row, table by table.
            pub fn rows(&self) -> Vec<Row> {
                let mut rows = Vec::new();
                $( rows.extend(self.$table.values().cloned().map(Row::$name)); )*
                rows
            }

            /// What was written and removed since the last call.
            pub(super) fn take_changes(&mut self) -> Vec<Change> {
                let mut changes = Vec::new();
                $( for key in self.$table.take_changed() {
                    changes.push(match self.$table.get(&key) {
                        Some(row) => Change::Put(Row::$name(row.clone())),
                        None => Change::Delete(Key::$name(key)),
                    });
                } )*
                changes
            }

            /// Adds a row, or replaces the one with the same key.
            pub(super) fn insert(&mut self, row: Row) {
                match row { $( Row::$name(row) => {
                    let $bound = &row;
                    let key = $of;
                    self.$table.insert(key, row);
                } )* }
            }

            /// Removes a row.
            pub(super) fn remove(&mut self, key: &Key) -> Option<Row> {
                match key { $( Key::$name(key) => self.$table.remove(key).map(Row::$name), )* }
            }

            /// Puts a row that was read from the registry.
            pub(super) fn load(&mut self, row: Row) {
                match row { $( Row::$name(row) => {
                    let $bound = &row;
                    let key = $of;
                    self.$table.load(key, row);
                } )* }
            }
        }
    };
}

tables! {
    /// The counters; one row.
    Counters(() => Counters) counters |_| ();
    /// Pools.
    Pool(String => PoolRow) pools |row| row.name.clone();
    /// Nodes.
    Node(String => NodeRow) nodes |row| row.name.clone();
    /// Sessions.
    Session(SessionId => SessionRow) sessions |row| row.id;
    /// Instances.
    Instance(InstanceId => InstanceRow) instances |row| row.id;
    /// Configurations.
    Configuration(ConfigurationId => ConfigurationRow) configurations |row| row.id;
    /// Fragments.
    Fragment(FragmentId => FragmentRow) fragments |row| row.id;
    /// Namespaces.
    Namespace(NamespaceId => NamespaceRow) namespaces |row| row.id;
    /// Registrations.
    Registration(RegistrationId => RegistrationRow) registrations |row| row.id;
    /// Activations.
    Activation(ActivationId => ActivationRow) activations |row| row.id;
    /// Mounts.
    Mount((ActivationId, String) => MountRow) mounts |row| (row.activation, row.node.clone());
    /// Stagings.
    Stage(StageId => StageRow) stages |row| row.id;
    /// Tasks.
    Task(TaskId => TaskRow) tasks |row| row.id;
}
