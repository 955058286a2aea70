//! The agent's directory.
//!
//! ```text
//! <state>/lock                 held by the agent: one for each directory
//! <state>/incarnation          number of its last registration
//! <state>/wear.json            what was written to the disk
//! <state>/disk.json            which disk it is
//! <state>/server/              of the file server: lock, server.json, config.json, control, log
//! <state>/instances/<id>.*     what it serves: toml, token, seal
//! <state>/mounts/<activation>/ mount.json, instance.toml, token, process, log
//! <state>/stages/<task>/       stage.json, process, result.json, log; a directory for each instance: instance.toml, token
//! <state>/journals/            files that stagings have finished
//! ```
//!
//! For root alone: there are secrets in it. A directory of it that others may look into, or the way to it that others may change,
//! is refused before anything is read.

use crate::atomic_file::{self, Content};
use crate::error::AgentError;
use crate::state_directory::remove_file;
use forebay_controller::cluster::row::{StageId, TaskId};
use forebay_controller::custody;
use forebay_model::ids::{ActivationId, ConfigurationId, InstanceId};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Largest record that is read, in bytes.
const RECORD_MAX: u64 = 4 << 20;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct State {
    root: PathBuf,
}

impl State {
    /// Makes the directories, and refuses those that are not root's alone.
    pub fn open(root: &Path) -> Result<State, AgentError> {
        let state = State { root: root.to_owned() };
        custody::unchangeable(root)?;
        for directory in [state.server(), state.instances(), state.mounts(), state.stages(), state.journals()]
        {
            make_directory(&directory)?;
            custody::secret(&directory)?;
        }
        for id in state.served()? {
            custody::secret(&state.token(id))?;
            custody::secret(&state.seal(id))?;
        }
        Ok(state)
    }

    /// A state whose directories somebody has made.
    pub fn of(root: &Path) -> State {
        State { root: root.to_owned() }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn server(&self) -> PathBuf {
        self.root.join("server")
    }

    pub fn control(&self) -> PathBuf {
        self.server().join("control")
    }

    pub fn server_config(&self) -> PathBuf {
        self.server().join("config.json")
    }

    pub fn server_log(&self) -> PathBuf {
        self.server().join("log")
    }

    /// Held by the file server while it lives.
    pub fn server_lock(&self) -> PathBuf {
        self.server().join("lock")
    }

    pub fn instances(&self) -> PathBuf {
        self.root.join("instances")
    }

    pub fn instance(&self, id: InstanceId) -> PathBuf {
        self.instances().join(format!("{id}.toml"))
    }

    pub fn token(&self, id: InstanceId) -> PathBuf {
        self.instances().join(format!("{id}.token"))
    }

    pub fn seal(&self, id: InstanceId) -> PathBuf {
        self.instances().join(format!("{id}.seal"))
    }

    /// The instances that the file server is to serve.
    pub fn served(&self) -> Result<Vec<InstanceId>, AgentError> {
        let names = names(&self.instances())?;
        Ok(names.iter().filter_map(|name| name.strip_suffix(".toml")?.parse().ok()).map(InstanceId).collect())
    }

    /// Removes the secrets of an instance.
    pub fn remove_secrets(&self, id: InstanceId) -> Result<(), AgentError> {
        atomic_file::remove(&self.token(id))?;
        atomic_file::remove(&self.seal(id))
    }

    /// Removes what is here of all instances but some.
    pub fn keep_instances(&self, kept: &BTreeSet<InstanceId>) -> Result<(), AgentError> {
        for name in names(&self.instances())? {
            if instance_of(&name).is_some_and(|id| !kept.contains(&id)) {
                remove_file(&self.instances().join(name))?;
            }
        }
        Ok(())
    }

    pub fn mounts(&self) -> PathBuf {
        self.root.join("mounts")
    }

    pub fn mount(&self, id: ActivationId) -> PathBuf {
        self.mounts().join(id.to_string())
    }

    /// The activations that have a directory.
    pub fn activations(&self) -> Result<Vec<ActivationId>, AgentError> {
        Ok(names(&self.mounts())?.iter().filter_map(|name| name.parse().ok()).map(ActivationId).collect())
    }

    pub fn stages(&self) -> PathBuf {
        self.root.join("stages")
    }

    pub fn stage(&self, id: TaskId) -> PathBuf {
        self.stages().join(id.0.to_string())
    }

    /// The stagings that have a directory.
    pub fn staging(&self) -> Result<Vec<TaskId>, AgentError> {
        Ok(names(&self.stages())?.iter().filter_map(|name| name.parse().ok()).map(TaskId).collect())
    }

    pub fn journals(&self) -> PathBuf {
        self.root.join("journals")
    }

    /// What a staging has finished in a configuration.
    pub fn journal(&self, stage: StageId, configuration: ConfigurationId) -> PathBuf {
        self.journals().join(format!("{}-{configuration}", stage.0))
    }

    pub fn incarnation(&self) -> PathBuf {
        self.root.join("incarnation")
    }

    /// What was written to the disk.
    pub fn wear(&self) -> PathBuf {
        self.root.join("wear.json")
    }

    /// The mark of the disk.
    pub fn disk(&self) -> PathBuf {
        self.root.join("disk.json")
    }

    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }
}

/// A directory for its owner alone, with those above it.
pub(super) fn make_directory(path: &Path) -> Result<(), AgentError> {
    let mut builder = std::fs::DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(path);
    made.map_err(|error| AgentError::system("make directory", path, error))
}

/// Whose a file among the instances is, also one that was not written to its end.
fn instance_of(name: &str) -> Option<InstanceId> {
    let name = name.strip_prefix('.').and_then(|name| name.strip_suffix(".new")).unwrap_or(name);
    let (id, kind) = name.split_once('.')?;
    id.parse().ok().map(InstanceId).filter(|_| ["toml", "token", "seal"].contains(&kind))
}

/// Names in a directory, in order; none if it is not there.
pub(super) fn names(directory: &Path) -> Result<Vec<String>, AgentError> {
    let failed = |error| AgentError::system("read", directory, error);
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

/// Removes a directory of the agent with all that is in it: records and logs, no data.
pub(super) fn remove_directory(path: &Path) -> Result<(), AgentError> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(AgentError::system("remove", path, error)),
        _ => Ok(()),
    }
}

/// Writes a record, durably.
pub(super) fn write<T: Serialize>(path: &Path, record: &T) -> Result<(), AgentError> {
    let text = serde_json::to_vec_pretty(record)
        .map_err(|error| AgentError::system("write", path, std::io::Error::other(error)))?;
    atomic_file::write(path, &text)
}

/// Reads a record; `None` if there is none. One that says something else than this version writes is an error.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, AgentError> {
    let wrong = |problem: String| AgentError::system("understand", path, std::io::Error::other(problem));
    match atomic_file::read(path, RECORD_MAX)? {
        None => Ok(None),
        Some(Content::TooLarge { size }) => Err(wrong(format!("it has {size} bytes"))),
        Some(Content::Bytes(bytes)) => {
            serde_json::from_slice(&bytes).map(Some).map_err(|error| wrong(error.to_string()))
        }
    }
}
