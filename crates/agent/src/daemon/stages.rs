//! Copies between the parallel file system and instances: a process each, as the job's user ([`super::stage_worker`]).
//!
//! Order of events: for each instance `instance.toml` and `token`, `stage.json` - process - it opens its journals, makes
//! `result.json` and becomes the user - it copies - it writes the result, one line. A process without a result was killed: the
//! copy is begun again, and goes on after the files in its journals. That is done twice at most, but a try that finished files
//! does not count. An agent that is killed meanwhile finds the process, or its result. [`Stages::forget`] removes the directory
//! when the controller has taken the result, and ends the process of a staging that nobody wants any more.
//!
//! Journals outlive their tasks, because a staging that failed is ordered again as another task: they go when the staging is
//! done, and when nobody has touched them for [`JOURNAL_KEPT`].

use super::error::TaskError;
use super::state::{self, State};
use super::tail::Tail;
use super::targets;
use super::worker::{self, Role};
use crate::process::lifelock;
use crate::state_directory::remove_file;
use forebay_controller::cluster::effect::Target;
use forebay_controller::cluster::event::Copied;
use forebay_controller::cluster::row::{StageRow, TaskId};
use forebay_model::ids::ConfigurationId;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// Processes that are started for one staging, if they are killed before they have finished a file.
const TRIES: usize = 3;
/// How long is waited for a process before it is looked whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a process may take to stop.
const STOP_WAIT: Duration = Duration::from_secs(5);
/// Journals of stagings that were given up are kept for so long: two weeks.
const JOURNAL_KEPT: Duration = Duration::from_secs(14 * 86_400);
pub(super) const RESULT: &str = "result.json";
pub(super) const STAGE: &str = "stage.json";
pub(super) const PROCESS: &str = "process";

/// A wish to stop; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// Makes the wish.
    pub fn cancel(&self) {
        self.0.store(true, SeqCst);
    }

    /// It was made.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(SeqCst)
    }
}

/// What the process is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StageOrder {
    pub uid: u32,
    pub gid: u32,
    pub stage: StageRow,
    /// The staging's own space is the first.
    pub spaces: Vec<SpaceOrder>,
}

/// An instance that is read or written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SpaceOrder {
    /// Name of the persistent instance; `None` is the job's own space.
    pub persistent: Option<String>,
    pub configuration: ConfigurationId,
    /// Where `instance.toml` and `token` are.
    pub directory: PathBuf,
    pub journal: PathBuf,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StageResult {
    Done(Copied),
    Failed(String),
}

/// A staging that was ordered.
#[derive(Clone, Copy, Debug)]
pub struct Staging<'a> {
    /// The order.
    pub task: TaskId,
    /// What.
    pub row: &'a StageRow,
    /// As whom.
    pub uid: u32,
    /// With this group.
    pub gid: u32,
    /// Its own space first; then those that the lines of a list may name.
    pub spaces: &'a [StageSpace],
}

/// An instance that a staging may name.
#[derive(Clone, Debug)]
pub struct StageSpace {
    /// Name of the persistent instance; `None` is the job's own space.
    pub persistent: Option<String>,
    /// How it is reached.
    pub target: Target,
    /// What proves that one may.
    pub token: String,
}

/// The stagings of a node.
pub(super) struct Stages<'a> {
    pub state: &'a State,
    pub node: &'a str,
    pub program: &'a Path,
}

impl Stages<'_> {
    /// Copies, unless that is done.
    pub fn stage(&self, staging: &Staging<'_>, cancel: &Cancel) -> Result<Copied, TaskError> {
        let directory = self.state.stage(staging.task);
        let log = directory.join("log");
        let (mut tries, mut finished) = (0, self.finished(staging));
        while tries < TRIES {
            if let Some(result) = self.result(staging.task, cancel)? {
                return result;
            }
            let now = self.finished(staging);
            tries = if now > finished { 1 } else { tries + 1 };
            finished = now;
            self.write(staging, &directory)?;
            match worker::start(self.program, Role::Stage, &directory, &log) {
                // It was killed before it was ready, or another one was faster.
                Err(TaskError::Ended { .. }) => {}
                started => started?,
            }
        }
        let result = self.result(staging.task, cancel)?;
        let said = Tail::since(&log, 0);
        result.unwrap_or_else(|| Err(TaskError::Ended { what: Role::Stage.title().into(), said }))
    }

    fn write(&self, staging: &Staging<'_>, directory: &Path) -> Result<(), TaskError> {
        let mut spaces = Vec::new();
        for (number, space) in staging.spaces.iter().enumerate() {
            let configuration = space.target.configuration;
            let order = SpaceOrder {
                persistent: space.persistent.clone(),
                configuration,
                directory: directory.join(number.to_string()),
                journal: self.state.journal(staging.row.id, configuration),
            };
            targets::write_client(&order.directory, self.node, &space.target, &space.token)?;
            spaces.push(order);
        }
        let (uid, gid, stage) = (staging.uid, staging.gid, staging.row.clone());
        Ok(state::write(&directory.join(STAGE), &StageOrder { uid, gid, stage, spaces })?)
    }

    /// Grows with every file that is finished.
    fn finished(&self, staging: &Staging<'_>) -> u64 {
        let journals =
            staging.spaces.iter().map(|space| self.state.journal(staging.row.id, space.target.configuration));
        journals.filter_map(|path| Some(std::fs::metadata(path).ok()?.len())).sum()
    }

    /// The result, waited for while there is a process; `None`: there is none.
    fn result(&self, task: TaskId, cancel: &Cancel) -> Result<Option<Result<Copied, TaskError>>, TaskError> {
        let directory = self.state.stage(task);
        if !directory.is_dir() {
            return Ok(cancel.is_cancelled().then_some(Err(TaskError::Cancelled)));
        }
        let lock = directory.join(PROCESS);
        while !lifelock::wait_for_end(&lock, LOOK_EVERY)? {
            if cancel.is_cancelled() {
                stop(&lock)?;
            }
        }
        if cancel.is_cancelled() {
            return Ok(Some(Err(TaskError::Cancelled)));
        }
        Ok(read_result(&directory).map(|result| match result {
            StageResult::Done(copied) => Ok(copied),
            StageResult::Failed(text) => Err(TaskError::Stage { text }),
        }))
    }

    /// Nobody wants to know of it any more.
    pub fn forget(&self, task: TaskId) -> Result<(), TaskError> {
        let directory = self.state.stage(task);
        if directory.is_dir() {
            stop(&directory.join(PROCESS))?;
        }
        if let Some(StageResult::Done(_)) = read_result(&directory)
            && let Ok(Some(order)) = state::read::<StageOrder>(&directory.join(STAGE))
        {
            for space in order.spaces {
                remove_file(&space.journal)?;
            }
        }
        Ok(state::remove_directory(&directory)?)
    }

    /// Removes the journals of stagings that were given up. For the start of an agent.
    pub fn sweep(&self) -> Result<(), TaskError> {
        let directory = self.state.journals();
        for name in state::names(&directory)? {
            let path = directory.join(name);
            let changed = std::fs::metadata(&path).and_then(|meta| meta.modified()).ok();
            let age = changed.and_then(|changed| changed.elapsed().ok());
            if age.is_some_and(|age| age > JOURNAL_KEPT) {
                remove_file(&path)?;
            }
        }
        Ok(())
    }
}

fn stop(lock: &Path) -> Result<(), TaskError> {
    lifelock::signal(lock, Signal::TERM)?;
    if !lifelock::wait_for_end(lock, STOP_WAIT)? {
        lifelock::signal(lock, Signal::KILL)?;
        lifelock::wait_for_end(lock, STOP_WAIT)?;
    }
    Ok(())
}

/// A whole line, or nothing.
fn read_result(directory: &Path) -> Option<StageResult> {
    let text = std::fs::read_to_string(directory.join(RESULT)).ok()?;
    text.strip_suffix('\n').and_then(|line| serde_json::from_str(line).ok())
}
