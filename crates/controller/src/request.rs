//! What can be asked of the registry: offers of pools, jobs to set up, persistent instances to create.
//!
//! Plain values; the registry judges them. Paths are bytes, because Linux paths are.

use crate::process::ProcessId;
use forebay_model::allocate::Strategy;
use forebay_model::capacity::Capacity;
use forebay_model::objects::{AccessMode, ConfigurationType, InstanceLimits};
use forebay_model::units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A pool as it is configured now, with all its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolOffer {
    /// Name, as in `pool=`.
    pub name: String,
    /// Size of one granule, above zero.
    pub granularity: Bytes,
    /// Requests that name no pool go here. Exactly one pool of an offer has it.
    pub default: bool,
    /// Its nodes, in the order in which granules are dealt.
    pub nodes: Vec<NodeOffer>,
}

/// A storage node as it is configured now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOffer {
    /// Name, unique over all pools.
    pub name: String,
    /// Where it keeps its fragments; absolute.
    pub directory: PathBuf,
    /// Space that it offers. Counts only while the node holds no fragment: what is left on a disk says nothing about
    /// what was promised.
    pub capacity: Bytes,
    /// Smallest piece of space it can hand out (shown by `dwstat nodes`).
    pub granularity: Bytes,
    /// It can be reached and written.
    pub online: bool,
    /// It takes no new fragments because an operator said so.
    pub drain: bool,
}

/// A job that wants to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRequest {
    /// The job id where a workload manager gave one; `None` takes the next number from 100001.
    pub token: Option<String>,
    /// Who asks: `CLI`, `SLURM`.
    pub creator: String,
    /// Uid of the job's owner.
    pub owner_uid: u32,
    /// Client nodes of the job.
    pub client_nodes: u64,
    /// The process that carries the job.
    pub owner: ProcessId,
    /// Space of the job's own, from `#DW jobdw`.
    pub allocation: Option<AllocationRequest>,
    /// Names of persistent instances, from `#DW persistentdw`.
    pub attach: Vec<String>,
    /// From `#DW stage_in` and `#DW stage_out`, in the order of the script.
    pub stages: Vec<StageSpec>,
    /// What is run.
    pub script: Script,
    /// Keep the instance after stage-out.
    pub keep: bool,
}

/// Space to be allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationRequest {
    /// At least this much, rounded up to granules; or so many whole nodes.
    pub capacity: Capacity,
    /// `None` is the default pool.
    pub pool: Option<String>,
    /// How nodes are chosen.
    pub strategy: Strategy,
    /// What the space is used as.
    pub kind: ConfigurationType,
    /// One configuration each, at least one, no mode twice.
    pub access: Vec<AccessRequest>,
    /// `None`: as much may be written as anybody likes.
    pub write_window: Option<WindowRequest>,
}

/// How much may be written to each fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowRequest {
    /// `write_window_length=` in seconds.
    pub length_s: u64,
    /// `write_window_multiplier=`: so many times the size of the fragment within that.
    pub multiplier: u64,
}

impl WindowRequest {
    /// As it is shown.
    pub(crate) fn limits(self) -> InstanceLimits {
        InstanceLimits { write_window_length: self.length_s, write_window_multiplier: self.multiplier }
    }
}

/// One access mode of an allocation, with its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessRequest {
    /// Who sees what.
    pub mode: AccessMode,
    /// `MFS`: no file grows beyond this.
    pub max_file_size: Option<Bytes>,
    /// `MFC`: no more files than this.
    pub max_files: Option<u64>,
    /// Close-to-open caching on clients.
    pub client_cache: bool,
}

/// The script of a job and how it was called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Absolute path; empty for an interactive shell.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<std::ffi::OsString>,
    /// Where it starts.
    pub working_directory: PathBuf,
    /// Where the job was submitted.
    pub submit_directory: PathBuf,
    /// Name of the job.
    pub name: String,
}

/// One staging of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageSpec {
    /// Into the instance before the script, or out of it after.
    pub direction: StageDirection,
    /// What the path on the parallel file system names.
    pub kind: StageKind,
    /// The allocation it goes to or comes from.
    pub target: StageTarget,
    /// Absolute path on the parallel file system.
    pub pfs: PathBuf,
    /// Path in the instance: relative, normalised, may be empty.
    pub instance_path: Vec<u8>,
    /// A missing or unreadable file is no failure.
    pub tolerate_errors: bool,
}

/// Which way data moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StageDirection {
    /// From the parallel file system into the instance.
    In,
    /// From the instance to the parallel file system.
    Out,
}

/// What is staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StageKind {
    /// One file.
    File,
    /// The contents of a directory.
    Directory,
    /// The pairs of paths in a list file.
    List,
}

/// The allocation that a staging names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StageTarget {
    /// The job's own (`$DW_JOB_STRIPED`).
    Job,
    /// An attached persistent instance (`$DW_PERSISTENT_STRIPED_<name>`).
    Persistent(String),
}

/// A persistent instance to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersistentRequest {
    /// Its name; becomes the session's token and the instance's label.
    pub name: String,
    /// Who asks: `CLI`.
    pub creator: String,
    /// Uid of the owner.
    pub owner_uid: u32,
    /// The process that makes it. Should it die before the instance exists, the space is given back by recovery.
    pub owner: ProcessId,
    /// Its space.
    pub allocation: AllocationRequest,
}
