//! What can be asked of the cluster's controller.
//!
//! Plain values. The directives of a script are typed already when they come here; who asks comes with the request and
//! is judged by the core, not by the front that brought it.

use crate::request::{AccessRequest, StageDirection, StageKind, WindowRequest};
use forebay_model::allocate::Strategy;
use forebay_model::capacity::Capacity;
use forebay_model::ids::*;
use forebay_model::limits::{InstancePolicies, Policy};
use forebay_model::objects::ConfigurationType;
use serde::{Deserialize, Serialize};

/// Names a request while its sender waits. Chosen by the driver; never used twice within one run of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub u64);

/// Who asks, as the operating system or MUNGE said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Uid.
    pub uid: u32,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Make a job's session and space. Answered when its space is there.
    Setup(Setup),
    /// Do the job's stage-ins. Answered when all are done.
    DataIn {
        /// The job.
        token: String,
    },
    /// How large the job's space really is.
    RealSize {
        /// The job.
        token: String,
    },
    /// The job's environment.
    Paths {
        /// The job.
        token: String,
    },
    /// Mount on these nodes. Answered when everything is mounted everywhere.
    PreRun {
        /// The job.
        token: String,
        /// Its client nodes.
        hosts: Vec<String>,
    },
    /// Unmount.
    PostRun {
        /// The job.
        token: String,
    },
    /// Do the job's stage-outs.
    DataOut {
        /// The job.
        token: String,
    },
    /// End a job, or destroy a persistent instance. Answered when all is gone.
    Teardown {
        /// The job, or the name of the instance.
        token: String,
        /// Give up what is still to be staged out.
        hurry: bool,
    },
    /// Make a persistent instance.
    CreatePersistent(CreatePersistent),
    /// Make a session by hand.
    CreateSession {
        /// What it is known by; may not begin with a digit.
        token: String,
        /// Uid of its owner.
        owner: u32,
        /// Gid.
        group: u32,
        /// Client nodes. Only operators may name some.
        hosts: Vec<String>,
        /// Who made it, in the words of who asks; `None`: dwcli.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        creator: Option<String>,
    },
    /// Make an instance on a session.
    CreateInstance {
        /// The session.
        session: SessionId,
        /// Label.
        label: String,
        /// Its space.
        space: Space,
    },
    /// Make a configuration on an instance.
    CreateConfiguration {
        /// The instance.
        instance: InstanceId,
        /// Type.
        kind: ConfigurationType,
        /// Mode and limits.
        access: AccessRequest,
    },
    /// Mount a configuration on the session's client nodes.
    CreateActivation {
        /// The session.
        session: SessionId,
        /// The configuration.
        configuration: ConfigurationId,
        /// Where, if an operator chooses; otherwise the controller does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mount: Option<String>,
    },
    /// Take an object away.
    Remove {
        /// Which one.
        object: ObjectId,
        /// Give up what is still to be staged out.
        hurry: bool,
    },
    /// Change limits of an instance.
    ChangeInstance {
        /// The instance.
        instance: InstanceId,
        /// What changes.
        change: InstanceChange,
    },
    /// Change limits of a configuration.
    ChangeConfiguration {
        /// The configuration.
        configuration: ConfigurationId,
        /// What changes.
        change: ConfigurationChange,
    },
    /// Let teardown no longer wait for stage-outs of this registration.
    NoWait {
        /// The registration.
        registration: RegistrationId,
    },
    /// Stage in or out while the job runs.
    Stage {
        /// The session.
        session: SessionId,
        /// Its configuration.
        configuration: ConfigurationId,
        /// What.
        stage: Stage,
    },
    /// Break a staging off.
    StageTerminate {
        /// The staging.
        stage: super::row::StageId,
    },
    /// Make a pool.
    CreatePool {
        /// Name.
        name: String,
        /// Size of a granule, above zero.
        granularity: forebay_model::units::Bytes,
    },
    /// Put a node into a pool, or into none.
    AssignNode {
        /// The node.
        node: String,
        /// The pool.
        pool: Option<String>,
    },
    /// Take no new fragments on a node, or take them again.
    Drain {
        /// The node.
        node: String,
        /// Drain it.
        drain: bool,
    },
    /// Give up a lost node with everything on it.
    ForgetNode {
        /// The node.
        node: String,
    },
    /// Try again what blew its fuse.
    Retry {
        /// The session.
        session: SessionId,
    },
}

/// Limits of an instance; what is not said stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InstanceChange {
    /// Seconds of the write window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_window_length_s: Option<u64>,
    /// So many times the size of a fragment may be written in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_window_multiplier: Option<u64>,
    /// What happens at the limits.
    pub policies: PolicyChange,
}

/// What happens at limits; what is not said stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyChange {
    /// More is written within the write window than allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_window: Option<Policy>,
    /// A file grows beyond the largest size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_size: Option<Policy>,
    /// More files are created than allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_count: Option<Policy>,
}

/// Limits of a configuration; what is not said stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConfigurationChange {
    /// No file grows beyond this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_file_size: Option<forebay_model::units::Bytes>,
    /// No more files than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_files: Option<u64>,
}

/// An object that can be taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectId {
    /// A session with all that belongs to it.
    Session(SessionId),
    /// An activation: unmount.
    Activation(ActivationId),
    /// A registration.
    Registration(RegistrationId),
}

/// A job's session and space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The job.
    pub token: String,
    /// Who asks: `SLURM`.
    pub creator: String,
    /// Uid of the job's owner.
    pub owner: u32,
    /// Gid of the job's owner.
    pub group: u32,
    /// Space of its own.
    pub space: Option<Space>,
    /// Names of persistent instances.
    pub attach: Vec<String>,
    /// Stagings, in the order of the script.
    pub stages: Vec<Stage>,
    /// The script has `#DW swap`.
    pub swap: bool,
}

/// A persistent instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CreatePersistent {
    /// Its name: token of its session and label.
    pub name: String,
    /// Who asks: `CLI`.
    pub creator: String,
    /// Uid of the owner.
    pub owner: u32,
    /// Gid of the owner.
    pub group: u32,
    /// Its space.
    pub space: Space,
}

/// Space to be allocated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Space {
    /// At least this much, rounded up to granules; or so many whole nodes.
    pub capacity: Capacity,
    /// `None` is the default pool.
    pub pool: Option<String>,
    /// How nodes are chosen.
    pub strategy: Strategy,
    /// What it is used as.
    pub kind: ConfigurationType,
    /// One configuration each, no mode twice.
    pub access: Vec<AccessRequest>,
    /// `None`: as much may be written as anybody likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_window: Option<WindowRequest>,
    /// What happens at the limits; `None`: what the pool says. Who is no operator can only make it stricter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<InstancePolicies>,
}

/// A staging.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// Which way.
    pub direction: StageDirection,
    /// What is staged.
    pub kind: StageKind,
    /// The persistent instance that it goes to or comes from; `None` is the job's own.
    pub persistent: Option<String>,
    /// Absolute path on the parallel file system.
    #[serde(with = "crate::path_text")]
    pub pfs: Vec<u8>,
    /// Path in the instance, relative.
    #[serde(with = "crate::path_text")]
    pub instance_path: Vec<u8>,
    /// A missing or unreadable file is no failure.
    pub tolerate_errors: bool,
}

impl Request {
    /// The word for it in logs.
    pub fn name(&self) -> &'static str {
        match self {
            Request::Setup(_) => "setup",
            Request::DataIn { .. } => "data_in",
            Request::RealSize { .. } => "real_size",
            Request::Paths { .. } => "paths",
            Request::PreRun { .. } => "pre_run",
            Request::PostRun { .. } => "post_run",
            Request::DataOut { .. } => "data_out",
            Request::Teardown { .. } => "teardown",
            Request::CreatePersistent(_) => "create_persistent",
            Request::CreateSession { .. } => "create session",
            Request::CreateInstance { .. } => "create instance",
            Request::CreateConfiguration { .. } => "create configuration",
            Request::CreateActivation { .. } => "create activation",
            Request::Remove { .. } => "remove",
            Request::ChangeInstance { .. } => "update instance",
            Request::ChangeConfiguration { .. } => "update configuration",
            Request::NoWait { .. } => "update registration",
            Request::Stage { .. } => "stage",
            Request::StageTerminate { .. } => "stage terminate",
            Request::CreatePool { .. } => "create pool",
            Request::AssignNode { .. } => "assign node",
            Request::Drain { .. } => "drain node",
            Request::ForgetNode { .. } => "forget node",
            Request::Retry { .. } => "retry",
        }
    }
}
