//! The process of a staging.
//!
//! It begins as root, reads the instances' tokens, opens its journals, and then becomes the user for good, before it has a
//! thread: nobody reads through it what he could not read himself, and nobody reads a token out of it, because a process that has
//! changed its user cannot be looked into. Inside an instance it goes the way of every client, without a mount.
//!
//! The files that the lines of a list name are copied instance by instance, in the order in which the controller named the
//! instances; the first one that fails ends it.

use super::stages::{PROCESS, RESULT, STAGE, SpaceOrder, StageOrder, StageResult};
use super::state;
use super::worker::{note, say_ready};
use crate::node::{InstanceFile, read_secret, remote};
use crate::process::lifelock::LifeLock;
use crate::stage::{self, StageTask};
use crate::volume_tree::VolumeTree;
use forebay_client::Volume;
use forebay_client::remote::Attached;
use forebay_controller::cluster::event::Copied;
use forebay_controller::cluster::row::StageRow;
use forebay_controller::request::{StageDirection, StageKind};
use forebay_directive::{InstanceRef, StageListEntry, parse_stage_list};
use forebay_model::ids::ConfigurationId;
use forebay_model::units::Bytes;
use forebay_stager::{
    CancelToken, Direction, PosixTree, StageFailure, StageOptions, StageReport, StageRequest, Tree, TreeError,
};
use forebay_wire::{Moved, Secret};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::error::Error;
use std::ffi::{CStr, OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Largest list of files, in bytes.
const LIST_MAX: u64 = 256 << 20;
/// A list in an instance is read in pieces of this size.
const LIST_PIECE: usize = 1 << 20;
/// Most supplementary groups of a user that Linux has.
const GROUPS_MAX: usize = 65_536;

/// The process.
pub(super) fn run(directory: &Path) -> Result<(), Box<dyn Error>> {
    let Some(_lock) = LifeLock::take(&directory.join(PROCESS))? else {
        return Err("another process does this staging".into());
    };
    let order: StageOrder =
        state::read(&directory.join(STAGE))?.ok_or("it is not said what is to be staged")?;
    let spaces = order.spaces.iter().map(Space::open).collect::<Result<Vec<_>, _>>()?;
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
    let said = match (Copy { spaces, stage: &order.stage, cancel: &cancel }).all() {
        Ok(copied) => StageResult::Done(copied),
        Err(text) => StageResult::Failed(text),
    };
    let mut line = serde_json::to_vec(&said)?;
    line.push(b'\n');
    result.write_all(&line)?;
    Ok(result.sync_all()?)
}

/// Why a staging is not done as its user.
#[derive(Debug, thiserror::Error)]
enum BecomeError {
    /// Only root can become others.
    #[error("this agent runs as uid {own} and cannot stage for uid {uid}: run it as root")]
    NotRoot { own: u32, uid: u32 },
    /// The system refuses it to root too.
    #[error(
        "this agent cannot become uid {uid} with group {gid}: {source}; it needs CAP_SETUID and CAP_SETGID"
    )]
    Refused { uid: u32, gid: u32, source: std::io::Error },
}

/// Becomes the user for good. Who is not root is himself already, or refuses: he would read and write what the user may not, or
/// not what he may.
fn become_user(uid: u32, gid: u32) -> Result<(), BecomeError> {
    let own = rustix::process::geteuid();
    if own.is_root() {
        return exchange(uid, gid).map_err(|source| BecomeError::Refused { uid, gid, source });
    }
    let own = own.as_raw();
    if own == uid { Ok(()) } else { Err(BecomeError::NotRoot { own, uid }) }
}

/// Exchanges user and groups. The process has one thread: the system's calls change that one only, glibc's all.
fn exchange(uid: u32, gid: u32) -> std::io::Result<()> {
    let checked = |code: libc::c_int| if code == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) };
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

/// An instance that is read or written, with what root alone can open.
struct Space {
    name: InstanceRef,
    configuration: ConfigurationId,
    file: InstanceFile,
    token: Secret,
    journal: Arc<File>,
}

impl Space {
    fn open(order: &SpaceOrder) -> Result<Space, Box<dyn Error>> {
        let file = InstanceFile::read(&order.directory.join("instance.toml"))?;
        let token = read_secret(&file.token_file)?;
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let journal = options.open(&order.journal);
        let journal = journal.map_err(|error| format!("{}: {error}", order.journal.display()))?;
        let name = order.persistent.clone().map_or(InstanceRef::Job, InstanceRef::Persistent);
        let configuration = order.configuration;
        Ok(Space { name, configuration, file, token, journal: Arc::new(journal) })
    }

    fn attach(&self) -> Result<Inside, String> {
        let attached = remote::attach_expected(&self.file, &self.token).map_err(|error| error.to_string())?;
        let volume = Volume::new(attached.metadata.clone(), attached.data.clone());
        let volume = Arc::new(volume.with_locks(attached.locks.clone()));
        let shown = self.name.to_string();
        let tree = VolumeTree::new(volume.clone(), Path::new(&shown), Arc::default());
        Ok(Inside { tree, volume, shown, attached })
    }
}

/// An instance from the inside.
struct Inside {
    // Dropped in this order: the tree uses the volume, and that the attachment.
    tree: VolumeTree,
    volume: Arc<Volume>,
    shown: String,
    attached: Attached,
}

impl Inside {
    /// Everything is written back, and the servers are told that nobody is here any more.
    fn leave(self) -> Result<(), String> {
        drop(self.tree);
        let synced = self.volume.sync();
        drop(self.volume);
        self.attached.close();
        synced.map_err(|error| format!("{}: writing back failed: {error}; stage again", self.shown))
    }

    fn copy(&self, task: &StageTask, cancel: &CancelToken) -> Result<StageReport, String> {
        let outside = PosixTree::everywhere().map_err(|error| format!("preparing to stage: {error}"))?;
        let (source, destination): (&dyn Tree, &dyn Tree) = match task.direction {
            Direction::In => (&outside, &self.tree),
            Direction::Out => (&self.tree, &outside),
        };
        let (direction, what) = (task.direction, task.what.clone());
        let request = StageRequest { direction, source, destination, what };
        let done = forebay_stager::stage(&request, &task.options, &|_| (), cancel);
        self.tell_moved(stage::moved(task.direction, &done));
        done.map_err(|failure| text_of(&failure))
    }

    /// For the accounting. What jobs read and wrote is told by their mounts; the reads and writes of this volume are not that.
    fn tell_moved(&self, (stage_bytes_read, stage_bytes_written): (u64, u64)) {
        let moved = Moved { stage_bytes_read, stage_bytes_written, ..Moved::default() };
        // A server that is not there is found by who writes back, and named.
        let _ = self.attached.metadata.report(moved);
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        let failed = |error: TreeError| error.cause.to_string();
        let file = self.tree.open(path).map_err(failed)?;
        let mut text = Vec::new();
        while text.len() as u64 <= LIST_MAX {
            let begin = text.len();
            text.resize(begin + LIST_PIECE, 0);
            let read = file.read_at(begin as u64, &mut text[begin..]).map_err(failed)?;
            text.truncate(begin + read);
            if read == 0 {
                break;
            }
        }
        Ok(text)
    }
}

fn text_of(failure: &StageFailure) -> String {
    match failure.failures_total {
        0 | 1 => failure.first.to_string(),
        total => format!("{} ({} others failed too)", failure.first, total - 1),
    }
}

/// All that is to be copied; an error is a sentence for the user.
struct Copy<'a> {
    spaces: Vec<Space>,
    stage: &'a StageRow,
    cancel: &'a CancelToken,
}

impl Copy<'_> {
    fn all(&self) -> Result<Copied, String> {
        let own = self.spaces.first().ok_or("it is not said from where or where to")?;
        let (stage, direction) = (self.stage, self.direction());
        let pfs = Path::new(OsStr::from_bytes(&stage.pfs));
        let (inside, options) = (stage.instance_path.as_slice(), self.options(own));
        match stage.kind {
            StageKind::File => {
                let task = StageTask::file(own.configuration, direction, pfs, inside, options);
                self.copy(own, &task)
            }
            StageKind::Directory => {
                let task = StageTask::directory(own.configuration, direction, pfs, inside, options);
                self.copy(own, &task)
            }
            StageKind::List => self.list(own),
        }
    }

    fn direction(&self) -> Direction {
        match self.stage.direction {
            StageDirection::In => Direction::In,
            StageDirection::Out => Direction::Out,
        }
    }

    fn options(&self, space: &Space) -> StageOptions {
        StageOptions {
            tolerate_errors: self.stage.tolerate_errors,
            // Said to be done to a controller that remembers it.
            durable: Some(true),
            journal_file: Some(space.journal.clone()),
            ..StageOptions::default()
        }
    }

    fn copy(&self, space: &Space, task: &StageTask) -> Result<Copied, String> {
        let inside = space.attach()?;
        let done = inside.copy(task, self.cancel);
        let left = inside.leave();
        let report = done?;
        left?;
        if report.files_skipped > 0 {
            note(format_args!(
                "of {} files {} were complete already",
                report.files + report.files_skipped,
                report.files_skipped
            ));
        }
        Ok(Copied {
            files: report.files + report.files_skipped,
            bytes: Bytes(report.bytes + report.bytes_skipped),
            skipped: report.files_skipped,
        })
    }

    fn list(&self, own: &Space) -> Result<Copied, String> {
        let entries = self.entries(own)?;
        let mut whole = Copied::default();
        for space in &self.spaces {
            let named = entries.iter().filter(|entry| entry.target == space.name);
            let files: Vec<(PathBuf, Vec<u8>)> = named
                .map(|entry| (OsString::from_vec(entry.pfs.clone()).into(), entry.path.clone()))
                .collect();
            if files.is_empty() {
                continue;
            }
            let options = self.options(space);
            let task = StageTask::list(space.configuration, self.direction(), &files, options);
            let part = self.copy(space, &task)?;
            whole.files += part.files;
            whole.bytes.0 += part.bytes.0;
            whole.skipped += part.skipped;
        }
        Ok(whole)
    }

    /// The files of the list, which is read as the user.
    fn entries(&self, own: &Space) -> Result<Vec<StageListEntry>, String> {
        let (name, text) = match self.stage.pfs.as_slice() {
            [] => {
                let path = Path::new(OsStr::from_bytes(&self.stage.instance_path));
                let inside = own.attach()?;
                let text = inside.read(path);
                inside.leave()?;
                (Path::new(&own.name.to_string()).join(path), text)
            }
            pfs => (PathBuf::from(OsStr::from_bytes(pfs)), read_outside(Path::new(OsStr::from_bytes(pfs)))),
        };
        let name = name.to_string_lossy();
        let failed = |problem: String| format!("{name}: the list cannot be read: {problem}");
        let text = text.map_err(failed)?;
        if text.len() as u64 > LIST_MAX {
            return Err(failed(format!("it is larger than {LIST_MAX} bytes; split it")));
        }
        let direction = match self.stage.direction {
            StageDirection::In => forebay_directive::Direction::In,
            StageDirection::Out => forebay_directive::Direction::Out,
        };
        let known: Vec<InstanceRef> = self.spaces.iter().map(|space| space.name.clone()).collect();
        let parsed = parse_stage_list(&text, direction, &known);
        if let Some(first) = parsed.errors.first() {
            // One sentence: it ends up in the reason of a job, where an excerpt with a mark below it is no help.
            let first = first.render(&name, &text);
            return Err(first.lines().next().unwrap_or_default().to_owned());
        }
        Ok(parsed.entries.into_iter().map(|entry| entry.value).collect())
    }
}

fn read_outside(list: &Path) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    let read = File::open(list).and_then(|file| file.take(LIST_MAX + 1).read_to_end(&mut text));
    read.map(|_| text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::Uid;

    const NOBODY: u32 = 65_534;
    const OTHER: u32 = 1_000;

    /// The kernel's answer for this thread only: the other tests stay who they are.
    fn as_nobody<T: Send + 'static>(act: impl FnOnce(u32) -> T + Send + 'static) -> T {
        let thread = std::thread::spawn(move || {
            if rustix::process::geteuid().is_root() {
                let nobody = Uid::from_raw(NOBODY);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            act(rustix::process::geteuid().as_raw())
        });
        thread.join().unwrap()
    }

    #[test]
    fn without_root_nobody_else_is_staged_for() {
        let (own, refused) = as_nobody(|own| (own, become_user(OTHER, OTHER).unwrap_err().to_string()));
        let told = format!("this agent runs as uid {own} and cannot stage for uid {OTHER}: run it as root");
        assert_eq!(refused, told);
    }

    #[test]
    fn without_root_the_own_user_is_staged_for() {
        as_nobody(|own| become_user(own, own).unwrap());
    }
}
