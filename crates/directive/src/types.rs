//! The directives as values.
//!
//! A value of these types came out of the parser and is valid by itself; what depends on the other directives of the
//! script has been checked by the time a whole script is handed out. Options that have a default are `None` when they
//! were not written, so that printing gives back what was meant; the methods give the value that counts.

use forebay_model::allocate::Strategy;
use forebay_model::capacity::Capacity;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::units::Bytes;
use serde::{Serialize, Serializer};

/// Seconds of a write window when `write_window_length=` is not given.
pub const WRITE_WINDOW_LENGTH_S: u64 = 86_400;
/// Times the size of the instance that may be written per window when `write_window_multiplier=` is not given.
pub const WRITE_WINDOW_MULTIPLIER: u64 = 10;

/// One directive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "directive", rename_all = "snake_case")]
pub enum Directive {
    /// `#DW jobdw`: space for this job.
    #[serde(rename = "jobdw")]
    JobDw(JobDw),
    /// `#DW swap`: swap space on each compute node.
    Swap(Swap),
    /// `#DW stage_in`: copy before the job.
    StageIn(Stage),
    /// `#DW stage_out`: copy after the job.
    StageOut(Stage),
    /// `#DW persistentdw`: attach a persistent instance.
    #[serde(rename = "persistentdw")]
    PersistentDw(PersistentDw),
    /// `#BB create_persistent`.
    CreatePersistent(CreatePersistent),
    /// `#BB destroy_persistent`.
    DestroyPersistent(DestroyPersistent),
}

/// Space for one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobDw {
    /// `type=`: scratch or cache.
    #[serde(rename = "type")]
    pub kind: ConfigurationType,
    /// `access_mode=`: at least one, none twice.
    pub access: Vec<Access>,
    /// `capacity=`
    pub capacity: Capacity,
    /// `pool=`; the default pool if `None`.
    pub pool: Option<String>,
    /// `pfs=`: the directory that a cache accelerates, absolute. Always there for a cache.
    #[serde(serialize_with = "optional_path_bytes")]
    pub pfs: Option<Vec<u8>>,
    /// `write_window_length=` in seconds; see [`JobDw::effective_write_window_length_s`].
    pub write_window_length_s: Option<u64>,
    /// `write_window_multiplier=`; see [`JobDw::effective_write_window_multiplier`].
    pub write_window_multiplier: Option<u64>,
    /// `modified_threshold=`: dirty bytes of a file at which a cache begins to write back.
    pub modified_threshold: Option<Bytes>,
    /// `read_ahead=` (cache).
    pub read_ahead: Option<ReadAhead>,
    /// `sync_on_close=` (cache): close waits for dirty data.
    pub sync_on_close: Option<bool>,
    /// `sync_to_pfs=` (cache): fsync reaches the parallel file system.
    pub sync_to_pfs: Option<bool>,
    /// `optimization_strategy=`: how nodes are chosen.
    pub strategy: Option<Strategy>,
    /// `max_mds=`: a metadata server on every node of the instance.
    pub max_mds: Option<bool>,
}

impl JobDw {
    /// The write window that counts, in seconds.
    pub fn effective_write_window_length_s(&self) -> u64 {
        self.write_window_length_s.unwrap_or(WRITE_WINDOW_LENGTH_S)
    }

    /// The multiplier that counts.
    pub fn effective_write_window_multiplier(&self) -> u64 {
        self.write_window_multiplier.unwrap_or(WRITE_WINDOW_MULTIPLIER)
    }

    /// The strategy that counts.
    pub fn effective_strategy(&self) -> Strategy {
        self.strategy.unwrap_or_default()
    }

    /// The access of a mode, if the job has it.
    pub fn access_to(&self, mode: AccessMode) -> Option<&Access> {
        self.access.iter().find(|access| access.mode == mode)
    }
}

/// An access mode with its modifiers, as in `striped(MFS=10GiB,client_cache)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Access {
    /// The mode.
    pub mode: AccessMode,
    /// `MFS=`: largest size of a file.
    pub max_file_size: Option<Bytes>,
    /// `MFC=`: files that may be created.
    pub max_files: Option<u64>,
    /// `client_cache`: compute nodes may cache, with close-to-open consistency.
    pub client_cache: bool,
}

impl Access {
    /// A mode without modifiers.
    pub fn plain(mode: AccessMode) -> Access {
        Access { mode, max_file_size: None, max_files: None, client_cache: false }
    }
}

/// `read_ahead=after:unit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ReadAhead {
    /// Sequential bytes read before reading ahead begins.
    pub after: Bytes,
    /// Size of one read ahead; the service's default if `None`.
    pub unit: Option<Bytes>,
}

/// Swap space.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Swap {
    /// Size on each compute node.
    pub per_node: Bytes,
    /// `pool=`; the default pool if `None`.
    pub pool: Option<String>,
}

/// A copy between the parallel file system and an instance. Which way it goes, the [`Directive`] says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stage {
    /// `type=`
    #[serde(rename = "type")]
    pub kind: StageKind,
    /// `source=`; for a list, the file that holds it.
    pub source: StagePath,
    /// `destination=`; `None` for a list.
    pub destination: Option<StagePath>,
    /// `tolerate_errors=yes`: what can be copied is copied, errors are told but the job goes on.
    pub tolerate_errors: bool,
}

/// What is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StageKind {
    /// One file.
    File,
    /// The contents of a directory.
    Directory,
    /// The pairs of paths in a file.
    List,
}

/// One end of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StagePath {
    /// An absolute path on the parallel file system, as written. Parsed without symbols it may begin with `%d`, the
    /// working directory, instead.
    Pfs(#[serde(serialize_with = "path_bytes")] Vec<u8>),
    /// A path in an instance.
    Instance {
        /// Which instance.
        target: InstanceRef,
        /// Relative to its root, without `.`, `..` and empty components; empty for the root itself.
        #[serde(serialize_with = "path_bytes")]
        path: Vec<u8>,
        /// A `/` was written at the end: a file goes into the directory of this name, under its own name.
        trailing_slash: bool,
    },
}

/// An instance as a path names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum InstanceRef {
    /// The job's own (`$DW_JOB_STRIPED`).
    Job,
    /// A persistent one (`$DW_PERSISTENT_STRIPED_<name>`).
    Persistent(String),
}

/// Attaches a persistent instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PersistentDw {
    /// `name=`
    pub name: String,
}

/// Makes a persistent instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CreatePersistent {
    /// `name=`
    pub name: String,
    /// `capacity=`
    pub capacity: Capacity,
    /// `type=`; scratch when not written.
    #[serde(rename = "type")]
    pub kind: ConfigurationType,
    /// `access=` or `access_mode=`; striped when not written.
    pub access: Vec<Access>,
    /// `pool=`; the default pool if `None`.
    pub pool: Option<String>,
}

/// Removes a persistent instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DestroyPersistent {
    /// `name=`
    pub name: String,
    /// Data that is still to be written back is dropped.
    pub hurry: bool,
}

/// A directive and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Located<T> {
    /// Line of its first word, from 1.
    pub line: usize,
    /// Column of its first word (`#DW`), from 1, in characters.
    pub column: usize,
    /// Itself.
    pub value: T,
}

/// Paths are bytes. In JSON a path is a string where it is UTF-8 and a list of byte values where it is not, so that
/// nothing is lost.
fn path_bytes<S: Serializer>(path: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    match std::str::from_utf8(path) {
        Ok(text) => serializer.serialize_str(text),
        Err(_) => path.serialize(serializer),
    }
}

fn optional_path_bytes<S: Serializer>(optional: &Option<Vec<u8>>, serializer: S) -> Result<S::Ok, S::Error> {
    match optional {
        Some(path) => path_bytes(path, serializer),
        None => serializer.serialize_none(),
    }
}
