//! What can go wrong in the agent's work, as data.
//!
//! Texts are for the person in front of the command; each variant names what was touched and who can act.

use crate::process::LogTail;
use crate::serving::{Obstacle, Serving};
use forebay_controller::custody::CustodyError;
use forebay_model::ids::{ConfigurationId, InstanceId};
use forebay_model::layout::{STRIPE_SIZE_MAX, STRIPE_SIZE_UNIT, SUBSTRIPES_MAX};
use forebay_model::units::Bytes;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A failed task of the agent.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Others could change or read what the agent relies on.
    #[error(transparent)]
    Custody(#[from] CustodyError),
    /// The instance is not on this machine.
    #[error("instance {instance} does not exist here: {directory:?} holds no record of it")]
    UnknownInstance {
        /// Id asked for.
        instance: InstanceId,
        /// Its state directory.
        directory: PathBuf,
    },
    /// The instance has no such configuration.
    #[error("instance {instance} has no configuration {configuration}; it has {known:?}")]
    UnknownConfiguration {
        /// The instance.
        instance: InstanceId,
        /// Id asked for.
        configuration: ConfigurationId,
        /// Ids it has.
        known: Vec<ConfigurationId>,
    },
    /// The description cannot be carried out.
    #[error("the description of instance {instance} is wrong: {fault}")]
    BadDescription {
        /// The instance.
        instance: InstanceId,
        /// What is wrong with it.
        fault: DescriptionFault,
    },
    /// An instance of this id exists and was made from another description.
    #[error("instance {instance} exists already in {directory:?} and was made from another description")]
    DescriptionDiffers {
        /// The instance.
        instance: InstanceId,
        /// Its state directory.
        directory: PathBuf,
    },
    /// The wanted way of serving cannot work here.
    #[error("the instance cannot be served as wanted ({}): {obstacle}", serving.describe())]
    ServingImpossible {
        /// What was wanted.
        serving: Serving,
        /// Why not.
        obstacle: Obstacle,
    },
    /// Making the instance was broken off; it must be made again or destroyed.
    #[error("instance {instance} was only made in part: create it again or destroy it")]
    Incomplete {
        /// The instance.
        instance: InstanceId,
    },
    /// The record of an instance cannot be understood.
    #[error("{path:?} is not a record of an instance that this version reads: {fault}")]
    BadRecord {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: RecordFault,
    },
    /// Somebody is attached to the instance.
    #[error("instance {instance} is in use by process {}", list(holders))]
    InUse {
        /// The instance.
        instance: InstanceId,
        /// The processes, as far as they can be seen.
        holders: Vec<u32>,
    },
    /// The disk of a storage node has no room for the fragment.
    #[error("{directory:?} has no room for a fragment of {} bytes: {} bytes are free", wanted.0, free.0)]
    NoRoom {
        /// Directory of the fragment.
        directory: PathBuf,
        /// Bytes to be reserved.
        wanted: Bytes,
        /// Bytes the file system has free.
        free: Bytes,
    },
    /// The file system under a fragment cannot promise space.
    #[error("the file system of {directory:?} cannot reserve space for a fragment of fixed size")]
    CannotReserve {
        /// Directory of the fragment.
        directory: PathBuf,
    },
    /// LVM's programs are missing.
    #[error("{program} is not installed: fragments of kind \"lvm\" need it (Debian package lvm2)")]
    NoLvm {
        /// The first that was looked for.
        program: &'static str,
    },
    /// The kernel cannot show volumes.
    #[error(
        "the kernel has no device mapper ({control:?}: {source}), which fragments of kind \"lvm\" need: load the module \
         dm_mod, or set kind = \"image\" in [storage]"
    )]
    NoDeviceMapper {
        /// Where it would be.
        control: PathBuf,
        /// Why it cannot be opened.
        source: io::Error,
    },
    /// A volume that is not ours has the name of one of ours.
    #[error("the volume {device:?} was not made for registry {registry:?}: nothing was changed, rename it")]
    ForeignVolume {
        /// The volume.
        device: PathBuf,
        /// The registry that it should be of.
        registry: String,
    },
    /// LVM answered something that this version does not know.
    #[error("{program} gave a report about group {group:?} that this version does not understand: {report}")]
    StrangeReport {
        /// The program.
        program: &'static str,
        /// The group.
        group: String,
        /// What it printed, shortened.
        report: String,
    },
    /// A program that the agent runs failed.
    #[error("{program} failed on {path:?} ({status}): {output}")]
    Program {
        /// Name of the program.
        program: &'static str,
        /// What it worked on.
        path: PathBuf,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// What it said.
        output: String,
    },
    /// The directory of a fragment holds something else.
    #[error("{path:?} holds files that are not of this fragment: nothing was changed there, move them away")]
    ForeignDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// Something stands where a configuration is to be mounted.
    #[error("nothing can be mounted at {path:?}: it is not an empty directory")]
    MountPointNotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// Another process works on the instance for longer than the agent waits.
    #[error("instance {instance} is locked by process {} for more than {} s", list(holders), waited.as_secs())]
    Locked {
        /// The instance.
        instance: InstanceId,
        /// The processes, as far as they can be seen.
        holders: Vec<u32>,
        /// How long the agent waited.
        waited: Duration,
    },
    /// The instance process ended while it was needed.
    #[error(
        "the process serving instance {instance} has died; what was written is still in the fragments; {said}"
    )]
    ProcessDied {
        /// The instance.
        instance: InstanceId,
        /// What it said before.
        said: LogTail,
    },
    /// The instance process did not come up or did not answer.
    #[error("the process serving instance {instance} did not answer for {} s; {said}", waited.as_secs())]
    ProcessSilent {
        /// The instance.
        instance: InstanceId,
        /// What it said.
        said: LogTail,
        /// How long the agent waited.
        waited: Duration,
    },
    /// The instance process refused a request.
    #[error("the process serving instance {instance} could not {request}: {reason}")]
    ProcessRefused {
        /// The instance.
        instance: InstanceId,
        /// What was asked.
        request: &'static str,
        /// Its answer.
        reason: String,
    },
    /// The instance process speaks another version of the protocol, or something that is none.
    #[error(
        "the process serving instance {instance} gave an answer that this version does not understand: {answer}"
    )]
    ProcessProtocol {
        /// The instance.
        instance: InstanceId,
        /// The answer, shortened.
        answer: String,
    },
    /// A mount that a killed process left could not be removed.
    #[error("cannot remove the dead mount at {path:?}: {source}")]
    DeadMount {
        /// Where it is.
        path: PathBuf,
        /// Why not.
        source: forebay_fuse::UnmountError,
    },
    /// The instance's files cannot be reached for staging.
    #[error("cannot reach the files to stage below {path:?}: {source}")]
    StageTree {
        /// The tree.
        path: PathBuf,
        /// Why not.
        source: forebay_stager::TreeError,
    },
    /// The configuration is not mounted by this attachment.
    #[error("configuration {configuration} is not mounted")]
    NotMounted {
        /// The configuration.
        configuration: ConfigurationId,
    },
    /// A system call failed.
    #[error("cannot {operation} {path:?}: {source}")]
    System {
        /// What was done, as a verb phrase.
        operation: &'static str,
        /// To what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// What is wrong with a description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionFault {
    /// No fragment.
    #[error("it has no fragment")]
    NoFragment,
    /// No configuration.
    #[error("it has no configuration")]
    NoConfiguration,
    /// A path is relative.
    #[error("{0:?} is not an absolute path without `.` and `..`")]
    PathNotAbsolute(PathBuf),
    /// One path serves two purposes, or lies within another one of the instance.
    #[error("{0:?} and {1:?} overlap")]
    PathsOverlap(PathBuf, PathBuf),
    /// An id is used twice.
    #[error("{kind} {id} occurs twice")]
    DuplicateId {
        /// `fragment` or `configuration`.
        kind: &'static str,
        /// The id.
        id: u64,
    },
    /// More of something than the agent handles.
    #[error("it has {count} {kind}, at most {limit} are possible")]
    TooMany {
        /// `fragments` or `configurations`.
        kind: &'static str,
        /// How many it has.
        count: usize,
        /// The limit.
        limit: usize,
    },
    /// A fragment has no space.
    #[error("fragment {id} has a capacity of 0 bytes")]
    NoCapacity {
        /// The fragment.
        id: u64,
    },
    /// The layout of files is out of range.
    #[error(
        "the default layout is out of range: {substripes} substripes (1 to {SUBSTRIPES_MAX}), stripes of {} bytes \
         (a multiple of {STRIPE_SIZE_UNIT} up to {STRIPE_SIZE_MAX})", stripe_size.0
    )]
    BadLayout {
        /// Stripe size.
        stripe_size: Bytes,
        /// Substripes.
        substripes: u32,
    },
    /// The label cannot be shown as the source of a mount.
    #[error("the label {0:?} is empty, too long or has characters that a mount table cannot show")]
    BadLabel(String),
}

/// What is wrong with a record on disk.
#[derive(Debug, thiserror::Error)]
pub enum RecordFault {
    /// Not JSON, or not the JSON of a record.
    #[error(transparent)]
    Syntax(#[from] serde_json::Error),
    /// Made by another version.
    #[error("its format is {found}, this version reads {known}")]
    Format {
        /// The number in the file.
        found: u64,
        /// The number this version writes.
        known: u64,
    },
    /// It lies in the directory of another instance.
    #[error("it describes instance {0}")]
    OtherInstance(InstanceId),
    /// Larger than any record can be.
    #[error("it has {size} bytes, more than the {limit} a record can have")]
    TooLarge {
        /// Size of the file.
        size: u64,
        /// The limit.
        limit: u64,
    },
}

impl AgentError {
    /// A failed system call on a path.
    pub(crate) fn system(
        operation: &'static str,
        path: impl Into<PathBuf>,
        source: impl Into<io::Error>,
    ) -> AgentError {
        AgentError::System { operation, path: path.into(), source: source.into() }
    }
}

fn list(pids: &[u32]) -> String {
    if pids.is_empty() {
        return "(not visible)".to_owned();
    }
    pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}
