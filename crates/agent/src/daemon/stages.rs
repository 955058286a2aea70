//! Copies between the parallel file system and an instance: a process each, as the job's user.
//!
//! The process begins as root, reads the instance's token, and then becomes the user for good, before it has a thread: nobody
//! reads through it what he could not read himself, and nobody reads the token out of it, because a process that has changed
//! its user cannot be looked into. Inside the instance it goes the way of every client, without a mount.
//!
//! Order of events: `instance.toml`, `token`, `stage.json` - process - it makes `result.json` and becomes the user - it attaches - it
//! copies - it writes the result, one line. A process without a result was killed: the copy is begun again, twice at most. An
//! agent that is killed meanwhile finds the process, or its result. [`Stages::forget`] removes the directory when the
//! controller has taken the result, and ends the process of a staging that nobody wants any more.

use super::error::TaskError;
use super::state::{self, State};
use super::tail::Tail;
use super::targets;
use super::worker::{self, Role, say_ready};
use crate::node::{InstanceFile, read_secret, remote};
use crate::process::lifelock::{self, LifeLock};
use crate::stage::StageTask;
use crate::volume_tree::VolumeTree;
use forebay_client::Volume;
use forebay_controller::cluster::effect::Target;
use forebay_controller::cluster::event::Copied;
use forebay_controller::cluster::row::{StageRow, TaskId};
use forebay_controller::request::{StageDirection, StageKind};
use forebay_directive::{InstanceRef, parse_stage_list};
use forebay_model::units::Bytes;
use forebay_stager::{
    CancelToken, Direction, PosixTree, StageFailure, StageOptions, StageReport, StageRequest, Tree,
};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::error::Error;
use std::ffi::{CStr, OsStr};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// Processes that are started for one staging, if they are killed.
const TRIES: usize = 3;
/// How long is waited for a process before it is looked whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long a process may take to stop.
const STOP_WAIT: Duration = Duration::from_secs(5);
/// Largest list of files, in bytes.
const LIST_MAX: u64 = 256 << 20;
/// Most supplementary groups of a user that Linux has.
const GROUPS_MAX: usize = 65_536;
/// How users know the instance.
const SHOWN: &str = "$DW_JOB_STRIPED";
const RESULT: &str = "result.json";
const STAGE: &str = "stage.json";

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
struct StageOrder {
    uid: u32,
    gid: u32,
    stage: StageRow,
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StageResult {
    Done(Copied),
    Failed(String),
}

/// A staging that was ordered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Staging<'a> {
    pub task: TaskId,
    pub row: &'a StageRow,
    pub uid: u32,
    pub gid: u32,
    pub target: &'a Target,
}

/// The stagings of a node.
pub(super) struct Stages<'a> {
    pub state: &'a State,
    pub node: &'a str,
    pub program: &'a Path,
}

impl Stages<'_> {
    /// Copies, unless that is done.
    pub fn stage(&self, staging: Staging<'_>, token: &str, cancel: &Cancel) -> Result<Copied, TaskError> {
        let directory = self.state.stage(staging.task);
        let log = directory.join("log");
        for _ in 0..TRIES {
            if let Some(result) = self.result(staging.task, cancel)? {
                return result;
            }
            targets::write_client(&directory, self.node, staging.target, token)?;
            let order = StageOrder { uid: staging.uid, gid: staging.gid, stage: staging.row.clone() };
            state::write(&directory.join(STAGE), &order)?;
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

    /// The result, waited for while there is a process; `None`: there is none.
    fn result(&self, task: TaskId, cancel: &Cancel) -> Result<Option<Result<Copied, TaskError>>, TaskError> {
        let directory = self.state.stage(task);
        if !directory.is_dir() {
            return Ok(cancel.is_cancelled().then_some(Err(TaskError::Cancelled)));
        }
        let lock = directory.join("process");
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
            stop(&directory.join("process"))?;
        }
        Ok(state::remove_directory(&directory)?)
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

/// The process.
pub(super) fn run(directory: &Path) -> Result<(), Box<dyn Error>> {
    let Some(_lock) = LifeLock::take(&directory.join("process"))? else {
        return Err("another process does this staging".into());
    };
    let order: StageOrder =
        state::read(&directory.join(STAGE))?.ok_or("it is not said what is to be staged")?;
    let file = InstanceFile::read(&directory.join("instance.toml"))?;
    let token = read_secret(&file.token_file)?;
    let mut options = OpenOptions::new();
    let mut result =
        options.write(true).create(true).truncate(true).mode(0o600).open(directory.join(RESULT))?;
    become_user(order.uid, order.gid)?;
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    rustix::process::umask(rustix::fs::Mode::empty());
    say_ready();
    let cancel = CancelToken::new();
    let stop = cancel.clone();
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        if signals.forever().any(|signal| signal == SIGTERM) {
            stop.cancel();
        }
    })?;
    let said = match copy(&file, token, &order.stage, &cancel) {
        Ok(report) => StageResult::Done(Copied {
            files: report.files + report.files_skipped,
            bytes: Bytes(report.bytes),
        }),
        Err(text) => StageResult::Failed(text),
    };
    let mut line = serde_json::to_vec(&said)?;
    line.push(b'\n');
    result.write_all(&line)?;
    Ok(result.sync_all()?)
}

/// Becomes the user for good. The process has one thread: the system's calls change that one only, glibc's all.
fn become_user(uid: u32, gid: u32) -> std::io::Result<()> {
    let checked = |code: libc::c_int| if code == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) };
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let groups = groups_of(uid, gid);
    // SAFETY: the kernel reads as many groups as there are in the vector, which outlives the call.
    checked(unsafe { libc::setgroups(groups.len(), groups.as_ptr()) })?;
    // SAFETY: plain numbers.
    checked(unsafe { libc::setresgid(gid, gid, gid) })?;
    // SAFETY: plain numbers.
    checked(unsafe { libc::setresuid(uid, uid, uid) })?;
    // Root itself stages as root and keeps what it has.
    rustix::thread::set_no_new_privs(true)?;
    Ok(())
}

/// The user's groups as the system's databases have them; for a user they do not know, the one that was named.
fn groups_of(uid: u32, gid: u32) -> Vec<libc::gid_t> {
    let mut buffer = vec![0; 16 << 10];
    // SAFETY: an all-zero `passwd` is a valid one of null pointers and zeros; it is written before it is read.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: every pointer is to something that outlives the call, and the length is that of the buffer.
    let code = unsafe { libc::getpwuid_r(uid, &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found) };
    if code != 0 || found.is_null() {
        return vec![gid];
    }
    // SAFETY: the entry was found, so its name is a string in the buffer, which lives on.
    let name = unsafe { CStr::from_ptr(entry.pw_name) };
    let mut groups: Vec<libc::gid_t> = vec![0; 64];
    loop {
        let mut count = groups.len() as libc::c_int;
        // SAFETY: the system writes at most `count` groups, which is the length of the vector.
        let code = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &mut count) };
        let count = usize::try_from(count).unwrap_or(0);
        if code >= 0 {
            groups.truncate(count);
            return groups;
        }
        if count <= groups.len() || count > GROUPS_MAX {
            return vec![gid];
        }
        groups.resize(count, 0);
    }
}

/// Copies; an error is a sentence for the user.
fn copy(
    file: &InstanceFile,
    token: forebay_wire::Secret,
    stage: &StageRow,
    cancel: &CancelToken,
) -> Result<StageReport, String> {
    let task = task(stage)?;
    let attached = remote::attach(file, token).map_err(|error| error.to_string())?;
    let volume = Volume::new(attached.metadata.clone(), attached.data.clone());
    let volume = Arc::new(volume.with_locks(attached.locks.clone()));
    let inside = VolumeTree::new(volume.clone(), Path::new(SHOWN), Arc::default());
    let outside = PosixTree::everywhere().map_err(|error| format!("preparing to stage: {error}"))?;
    let (source, destination): (&dyn Tree, &dyn Tree) = match task.direction {
        Direction::In => (&outside, &inside),
        Direction::Out => (&inside, &outside),
    };
    let request = StageRequest { direction: task.direction, source, destination, what: task.what };
    let done = forebay_stager::stage(&request, &task.options, &|_| (), cancel);
    drop(inside);
    let synced = volume.sync().map_err(|error| format!("{SHOWN}: writing back failed: {error}; stage again"));
    drop(volume);
    attached.close();
    let report = done.map_err(|failure| text_of(&failure))?;
    synced.map(|()| report)
}

fn text_of(failure: &StageFailure) -> String {
    match failure.failures_total {
        0 | 1 => failure.first.to_string(),
        total => format!("{} ({} others failed too)", failure.first, total - 1),
    }
}

fn task(stage: &StageRow) -> Result<StageTask, String> {
    let direction = match stage.direction {
        StageDirection::In => Direction::In,
        StageDirection::Out => Direction::Out,
    };
    let options = StageOptions {
        tolerate_errors: stage.tolerate_errors,
        // Said to be done to a controller that remembers it.
        durable: Some(true),
        ..StageOptions::default()
    };
    let pfs = Path::new(OsStr::from_bytes(&stage.pfs));
    let inside = stage.instance_path.as_slice();
    Ok(match stage.kind {
        StageKind::File => StageTask::file(stage.configuration, direction, pfs, inside, options),
        StageKind::Directory => StageTask::directory(stage.configuration, direction, pfs, inside, options),
        StageKind::List => {
            StageTask::list(stage.configuration, direction, &read_list(pfs, stage.direction)?, options)
        }
    })
}

/// The files of a list, read as the user.
fn read_list(list: &Path, direction: StageDirection) -> Result<Vec<(PathBuf, Vec<u8>)>, String> {
    let failed = |problem: String| format!("{}: the list cannot be read: {problem}", list.display());
    let mut text = Vec::new();
    let file = File::open(list).map_err(|error| failed(error.to_string()))?;
    file.take(LIST_MAX + 1).read_to_end(&mut text).map_err(|error| failed(error.to_string()))?;
    if text.len() as u64 > LIST_MAX {
        return Err(failed(format!("it is larger than {LIST_MAX} bytes; split it")));
    }
    let direction = match direction {
        StageDirection::In => forebay_directive::Direction::In,
        StageDirection::Out => forebay_directive::Direction::Out,
    };
    let parsed = parse_stage_list(&text, direction, &[InstanceRef::Job]);
    if let Some(first) = parsed.errors.first() {
        let first = first.render(&list.to_string_lossy(), &text);
        return Err(first.lines().collect::<Vec<_>>().join(" "));
    }
    let entries = parsed.entries.into_iter().map(|entry| entry.value);
    Ok(entries.map(|entry| (PathBuf::from(OsStr::from_bytes(&entry.pfs)), entry.path)).collect())
}
