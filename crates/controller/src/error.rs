//! What the registry refuses, as data.
//!
//! [`RegistryError`] is about the file and the machine (an operator acts), [`SetupError`] about a request (its author
//! acts); each message says what to do.

use forebay_model::ids::{ConfigurationId, InstanceId, SessionId};
use forebay_model::lifecycle::Phase;
use forebay_model::objects::AccessMode;
use forebay_model::state::ObjectState;
use forebay_model::units::{Bytes, Granules};
use rustix::fs::StatVfsMountFlags;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The registry cannot be opened, read or changed, or a change does not fit what it holds.
#[derive(Debug, Error)]
pub enum RegistryError {
    /// The directory or the file cannot be used.
    #[error("cannot open the registry {}: {source}; {disk}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
        /// What can be seen of the disk.
        disk: DiskState,
    },
    /// Written by a later version.
    #[error("the registry {} has format {found}, this program knows up to {known}: use the newer forebay that wrote it", path.display())]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest one known here.
        known: i64,
    },
    /// Written by an earlier version; only a command that may change it can bring it up to date.
    #[error("the registry {} has format {found}, this program reads {known}: run any forebay command once to bring it up to date", path.display())]
    TooOld {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The one that can be read.
        known: i64,
    },
    /// Some other program's database, or no database at all.
    #[error("{} is not a forebay registry: choose another state directory, or move the file away", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// Another process has held the registry for longer than any change takes.
    #[error(
        "the registry is held by another forebay process for more than {waited_ms} ms: try again, and look for a stopped one"
    )]
    Busy {
        /// How long this one waited.
        waited_ms: u64,
    },
    /// The disk under the registry is full.
    #[error("the disk that holds the registry is full: nothing was changed; free some space and try again")]
    DiskFull,
    /// The database refused for another reason.
    #[error("the registry could not be read or changed: {source}")]
    Database {
        /// Why.
        source: rusqlite::Error,
    },
    /// A row holds what this program never writes.
    #[error(
        "the registry holds {value:?} as {column}, which is not one of its values: it was damaged or edited"
    )]
    Damaged {
        /// Which column.
        column: &'static str,
        /// What it holds.
        value: String,
    },
    /// No such session.
    #[error("there is no session {0}")]
    NoSession(SessionId),
    /// No such instance.
    #[error("there is no instance {0}")]
    NoInstance(InstanceId),
    /// The directory or file cannot be looked at, made or synced.
    #[error("cannot reach the registry {}: {source}", path.display())]
    Reach {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// No such object.
    #[error("there is no {kind} {id}")]
    NoObject {
        /// Which table.
        kind: &'static str,
        /// Its id.
        id: u64,
    },
    /// The life cycle knows no such step.
    #[error("job {token} is in {from} and cannot go to {to}")]
    Phase {
        /// Which job.
        token: String,
        /// Where it stands.
        from: Phase,
        /// Where it was to go.
        to: Phase,
    },
    /// Another process carries the job by now.
    #[error("job {token} is carried by process {pid} now")]
    NotOwner {
        /// Which job.
        token: String,
        /// Who has it.
        pid: u32,
    },
    /// A session may only mount what it registered.
    #[error("session {session} has no registration for configuration {configuration}")]
    NotRegistered {
        /// Which session.
        session: SessionId,
        /// Which configuration.
        configuration: ConfigurationId,
    },
    /// Rows of a job are removed only from the teardown phase on.
    #[error("job {token} is in {phase}: its records are removed only after teardown")]
    NotTornDown {
        /// Which job.
        token: String,
        /// Where it stands.
        phase: Phase,
    },
    /// A persistent instance is destroyed by `begin_destroy_persistent` first.
    #[error("instance {instance} is in state {state}: begin its destruction first")]
    NotDestroying {
        /// Which instance.
        instance: InstanceId,
        /// Its state.
        state: ObjectState,
    },
}

impl From<rusqlite::Error> for RegistryError {
    fn from(source: rusqlite::Error) -> RegistryError {
        match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
                RegistryError::Busy { waited_ms: crate::registry::BUSY_TIMEOUT_MS }
            }
            Some(rusqlite::ErrorCode::DiskFull) => RegistryError::DiskFull,
            _ => RegistryError::Database { source },
        }
    }
}

impl From<rusqlite::Error> for OfferError {
    fn from(source: rusqlite::Error) -> OfferError {
        OfferError::Registry(source.into())
    }
}

impl From<rusqlite::Error> for SetupError {
    fn from(source: rusqlite::Error) -> SetupError {
        SetupError::Registry(source.into())
    }
}

/// The configured pools do not fit what the registry holds.
#[derive(Debug, Error)]
pub enum OfferError {
    /// The size of a granule is what live fragments are counted in.
    #[error(
        "pool {pool} has fragments in granules of {} bytes, so its granularity cannot become {} bytes: \
         finish or destroy {}, or keep the old granularity", current.0, offered.0, holders.join(", ")
    )]
    GranularityInUse {
        /// Which pool.
        pool: String,
        /// The size in use.
        current: Bytes,
        /// The size that was asked for.
        offered: Bytes,
        /// Tokens of the sessions that hold fragments.
        holders: Vec<String>,
    },
    /// A node with fragments cannot change pools.
    #[error("node {node} holds fragments of pool {current}, so it cannot move to pool {offered}: finish or destroy {}", holders.join(", "))]
    NodeInUse {
        /// Which node.
        node: String,
        /// Its pool.
        current: String,
        /// The pool that was asked for.
        offered: String,
        /// Tokens of the sessions that hold fragments.
        holders: Vec<String>,
    },
    /// The offer contradicts itself.
    #[error(transparent)]
    Invalid(#[from] InvalidOffer),
    /// The registry itself.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

/// A request together with an offer: which of both was refused.
#[derive(Debug, Error)]
pub enum OfferedError {
    /// The configured pools; whoever configured them acts.
    #[error(transparent)]
    Offer(OfferError),
    /// The request; its author acts.
    #[error(transparent)]
    Setup(SetupError),
}

impl From<RegistryError> for OfferedError {
    fn from(error: RegistryError) -> OfferedError {
        OfferedError::Setup(SetupError::Registry(error))
    }
}

/// How an offer of pools contradicts itself.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidOffer {
    /// Granules have a size.
    #[error("pool {pool}: the granularity is 0 bytes; give a size such as 16MiB")]
    NoGranularity {
        /// Which pool.
        pool: String,
    },
    /// Names stand in columns of dwstat and in `pool=`.
    #[error(
        "{name:?} cannot be the name of a pool or node: it must have 1 to {max} characters, none of them a blank, a control character or a slash"
    )]
    BadName {
        /// What was given.
        name: String,
        /// Most characters.
        max: usize,
    },
    /// One name, one pool.
    #[error("pool {pool} is given twice")]
    PoolTwice {
        /// Which pool.
        pool: String,
    },
    /// One name, one node.
    #[error("node {node} is given twice")]
    NodeTwice {
        /// Which node.
        node: String,
    },
    /// Requests without `pool=` go to one pool.
    #[error("{count} pools are marked as the default; mark exactly one")]
    Defaults {
        /// How many are.
        count: usize,
    },
    /// Sizes are kept as signed 64-bit numbers.
    #[error("{object}: {bytes} bytes are more than the {} that can be kept", i64::MAX)]
    TooLarge {
        /// Which pool or node.
        object: String,
        /// Its size.
        bytes: u64,
    },
    /// Relative paths change their meaning with the working directory.
    #[error("node {node}: the directory {} is not absolute", directory.display())]
    RelativeDirectory {
        /// Which node.
        node: String,
        /// Its directory.
        directory: PathBuf,
    },
}

/// What can be seen of a disk that a file could not be opened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DiskState {
    /// Nothing is wrong with it.
    #[error("check that the directory exists and that you may write there")]
    Sound,
    /// It has no room.
    #[error("its disk is full: make room, or choose another state directory")]
    Full,
    /// Nothing can be written.
    #[error("its file system is mounted read-only: choose another state directory")]
    ReadOnly,
}

impl DiskState {
    /// Of the disk that a file, or the directory it would be in, lies on.
    pub(crate) fn of(file: &Path) -> DiskState {
        match file.parent().map(rustix::fs::statvfs) {
            Some(Ok(disk)) if disk.f_flag.contains(StatVfsMountFlags::RDONLY) => DiskState::ReadOnly,
            Some(Ok(disk))
                if (disk.f_blocks > 0 && disk.f_bavail == 0) || (disk.f_files > 0 && disk.f_favail == 0) =>
            {
                DiskState::Full
            }
            _ => DiskState::Sound,
        }
    }
}

/// A job or a persistent instance cannot be set up.
#[derive(Debug, Error)]
pub enum SetupError {
    /// Not enough free granules.
    #[error(
        "pool {pool} has {} of {} granules free, {} are needed (one granule is {} bytes): {}",
        free.0, quantity.0, requested.0, granularity.0,
        if requested > quantity { "it will never fit, ask for less" } else { "ask for less, or wait until other jobs end" }
    )]
    NoSpace {
        /// Which pool.
        pool: String,
        /// Granules needed.
        requested: Granules,
        /// Granules free on nodes that take new fragments.
        free: Granules,
        /// Granules of those nodes.
        quantity: Granules,
        /// Size of a granule.
        granularity: Bytes,
    },
    /// Not enough nodes that are wholly free (`capacity=2N`).
    #[error(
        "pool {pool} has {free} of {nodes} nodes wholly free, {requested} are needed: ask for fewer or for a size, or wait until other jobs end"
    )]
    NoNodes {
        /// Which pool.
        pool: String,
        /// Nodes needed.
        requested: u64,
        /// Nodes that take new fragments and hold none.
        free: u64,
        /// Nodes that take new fragments.
        nodes: u64,
    },
    /// No such pool.
    #[error("there is no pool {name}; there is {}", list(known))]
    UnknownPool {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// No pool is configured.
    #[error("no pool is configured")]
    NoPool,
    /// Nothing was asked for.
    #[error("a capacity of zero was asked for: give a size such as 16GiB")]
    NoCapacity,
    /// No such persistent instance.
    #[error("there is no persistent instance {name}; there is {}", list(known))]
    UnknownPersistent {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// It is being made or destroyed.
    #[error("persistent instance {name} is in state {state}: it can be attached in state CA---")]
    PersistentNotReady {
        /// Which.
        name: String,
        /// Its state.
        state: ObjectState,
    },
    /// Tokens name sessions.
    #[error("the token {token} is used by session {session}: end that job first, or use another token")]
    TokenInUse {
        /// Which token.
        token: String,
        /// Whose it is.
        session: SessionId,
    },
    /// Names of persistent instances name one.
    #[error(
        "there is a persistent instance {name} already: choose another name, or use it with #DW persistentdw name={name}"
    )]
    NameInUse {
        /// Which name.
        name: String,
    },
    /// A persistent instance cannot go while jobs use it.
    #[error("persistent instance {name} is attached by {}: wait until they end, or use hurry", jobs.join(", "))]
    Attached {
        /// Which.
        name: String,
        /// Tokens of the jobs.
        jobs: Vec<String>,
    },
    /// The token or name cannot be shown by dwstat.
    #[error(
        "{token:?} cannot be a token: it must have 1 to {max} characters, none of them a blank or a control character"
    )]
    BadToken {
        /// What was given.
        token: String,
        /// Most characters.
        max: usize,
    },
    /// A job attaches an instance once.
    #[error("persistent instance {name} is attached twice")]
    AttachedTwice {
        /// Which.
        name: String,
    },
    /// More client nodes than a registry keeps namespaces for.
    #[error("{asked} client nodes were asked for, {max} are the most")]
    TooManyNodes {
        /// What was asked for.
        asked: u64,
        /// The most.
        max: u64,
    },
    /// An allocation has uses.
    #[error("the allocation has no access mode")]
    NoAccess,
    /// One configuration per mode.
    #[error("access mode {mode:?} is given twice")]
    AccessTwice {
        /// Which.
        mode: AccessMode,
    },
    /// A staging names an allocation that the job does not have or that cannot be staged.
    #[error("{direction} of {}: {target} has no striped allocation to stage", pfs.display())]
    StageTarget {
        /// `stage_in` or `stage_out`.
        direction: &'static str,
        /// The path on the parallel file system.
        pfs: PathBuf,
        /// The allocation it names.
        target: String,
    },
    /// The registry itself.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

fn list(known: &[String]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}
