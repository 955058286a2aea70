//! What the registry remembers beyond the `dwstat` tables: jobs, and instances in the detail that an agent needs.
//!
//! Values read in one transaction; they do not change when the registry does.

use crate::job::{Failure, JobState, ScriptEnd};
use crate::process::ProcessId;
use crate::request::{AccessRequest, Script, StageSpec, WindowRequest};
use forebay_model::ids::{ConfigurationId, FragmentId, InstanceId, SessionId};
use forebay_model::lifecycle::Phase;
use forebay_model::objects::ConfigurationType;
use forebay_model::state::ObjectState;
use forebay_model::units::{Bytes, Granules};
use std::path::PathBuf;

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its session.
    pub session: SessionId,
    /// Job id.
    pub token: String,
    /// Who asked.
    pub creator: String,
    /// Uid of the owner.
    pub owner_uid: u32,
    /// Client nodes.
    pub client_nodes: u64,
    /// Seconds since the epoch.
    pub created: i64,
    /// Where it stands.
    pub phase: Phase,
    /// The process that carries it.
    pub owner: ProcessId,
    /// The leader of the script's process group, from before the script's first line runs until its end.
    pub script_group: Option<ProcessId>,
    /// What is run.
    pub script: Script,
    /// Keep the instance after stage-out.
    pub keep: bool,
    /// How the script ended.
    pub script_end: Option<ScriptEnd>,
    /// What went wrong first.
    pub failure: Option<Failure>,
    /// The job's own instance.
    pub own: Option<InstanceRecord>,
    /// Persistent instances it attached, in the order of the request.
    pub attached: Vec<InstanceRecord>,
    /// Its stagings, in the order of the request.
    pub stages: Vec<StageRecord>,
}

impl Job {
    /// What the next step depends on. To be used with [`crate::job::Event::Begin`] right after the set-up, or with
    /// [`crate::job::Event::Recover`] after a crash.
    pub fn state(&self) -> JobState {
        let state = JobState::new(self.keep);
        JobState { phase: self.phase, script: self.script_end, failure: self.failure.clone(), ..state }
    }
}

/// An instance with its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceRecord {
    /// Id.
    pub id: InstanceId,
    /// The session it was made for.
    pub session: SessionId,
    /// State.
    pub state: ObjectState,
    /// `I<session>-0`, or the name of a persistent instance.
    pub label: String,
    /// It outlives jobs.
    pub persistent: bool,
    /// Uid of the owner.
    pub owner_uid: u32,
    /// The process that made it or is destroying it.
    pub owner: ProcessId,
    /// The pool its granules are from.
    pub pool: String,
    /// How many.
    pub granules: Granules,
    /// Their size together.
    pub bytes: Bytes,
    /// Seconds since the epoch.
    pub created: i64,
    /// How much may be written to each fragment.
    pub write_window: Option<WindowRequest>,
    /// Its pieces, in the order in which they were dealt.
    pub fragments: Vec<FragmentRecord>,
    /// Its uses.
    pub configurations: Vec<ConfigurationRecord>,
}

/// A piece of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FragmentRecord {
    /// Id.
    pub id: FragmentId,
    /// Name of the node.
    pub node: String,
    /// Where the node keeps its fragments.
    pub directory: PathBuf,
    /// Granules in it.
    pub granules: Granules,
    /// Their size together.
    pub capacity: Bytes,
}

/// A use of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigurationRecord {
    /// Id.
    pub id: ConfigurationId,
    /// Type.
    pub kind: ConfigurationType,
    /// Mode and limits.
    pub access: AccessRequest,
}

/// A staging of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageRecord {
    /// Names it within the registry.
    pub id: StageId,
    /// What was asked.
    pub spec: StageSpec,
    /// The instance that its target names.
    pub instance: InstanceId,
    /// The striped configuration that its target names.
    pub configuration: ConfigurationId,
    /// How it went.
    pub result: StageResult,
}

/// Names a staging within the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StageId(pub u64);

/// How a staging went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StageResult {
    /// Not begun, or begun and cut short: it is to be done (again).
    Pending,
    /// Done and verified.
    Done {
        /// Copied.
        files: u64,
        /// Copied.
        bytes: Bytes,
        /// How long it took.
        elapsed_ms: u64,
    },
    /// It failed; the text is for the user.
    Failed {
        /// What failed and what to do.
        text: String,
    },
}
