//! Everything the threads of one stage share.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use xxhash_rust::xxh3::xxh3_64;

use super::account::Account;
use super::commit::Commit;
use super::crew::Running;
use super::early::Early;
use super::journal::Journal;
use super::links::Links;
use super::locate;
use super::node::Node;
use super::queue::Queue;
use super::throttle::Throttle;
use crate::cancel::CancelToken;
use crate::failure::{ItemFailure, Reason, Side, StageFailure};
use crate::report::StageReport;
use crate::request::{Direction, StageOptions, StageRequest};
use crate::tree::{Cause, Tree, TreeError};

/// Begins every temporary name. A checksum of the stage and one of the target follow, so that the next run of the same stage
/// finds and replaces what a crash left, and two different stages never meet.
const TEMPORARY_PREFIX: &str = ".forebay-part-";

/// In this time a stage needs no forecast of the time left and no memory of what is done: copying all of it again costs less than
/// keeping the account.
const YOUNG: Duration = Duration::from_millis(500);

/// See the module.
pub struct Run<'r> {
    pub request: &'r StageRequest<'r>,
    pub options: &'r StageOptions,
    pub queue: Queue<'r>,
    pub links: Links,
    pub journal: Option<Journal>,
    pub account: Account,
    pub throttle: Throttle,
    pub commit: Commit<'r>,
    pub early: Early<'r>,
    /// Who this process is.
    pub uid: u32,
    /// Whether this process may give files away.
    pub privileged: bool,
    /// The groups that it is in.
    pub groups: Vec<u32>,
    /// Whether sharing blocks instead of copying has not been refused yet.
    pub may_clone: AtomicBool,
    /// Workers where nobody says how many. Asked for once: the answer is read from a dozen files of the kernel.
    workers_by_cores: usize,
    /// Threads at work.
    pub running: Running,
    cancel: &'r CancelToken,
    stopped: AtomicBool,
    identity: u64,
    started: Instant,
}

/// Without the answer no group is kept but the first.
fn groups() -> Vec<u32> {
    let all = rustix::process::getgroups().unwrap_or_default();
    all.into_iter().chain([rustix::process::getegid()]).map(|group| group.as_raw()).collect()
}

impl<'r> Run<'r> {
    pub fn new(
        request: &'r StageRequest<'r>,
        options: &'r StageOptions,
        cancel: &'r CancelToken,
    ) -> Result<Self, ItemFailure> {
        let identity = identity(request);
        let durable = options.is_durable(request.direction);
        let journal = match (&options.journal_file, options.journal.as_deref()) {
            (Some(file), _) => Some(Journal::of_file(file, identity, durable)?),
            (None, Some(path)) => Some(Journal::open(path, identity, durable)?),
            (None, None) => None,
        };
        Ok(Self {
            request,
            options,
            queue: Queue::new(),
            links: Links::new(),
            journal,
            account: Account::new(options.items_listed_max, options.tolerate_errors),
            throttle: Throttle::new(),
            commit: Commit::new(request, durable),
            early: Early::new(),
            uid: rustix::process::geteuid().as_raw(),
            privileged: rustix::process::geteuid().is_root(),
            groups: groups(),
            may_clone: AtomicBool::new(true),
            workers_by_cores: workers_by_cores(),
            running: Running::default(),
            cancel,
            stopped: AtomicBool::new(false),
            identity,
            started: Instant::now(),
        })
    }

    pub fn source(&self) -> &'r dyn Tree {
        self.request.source
    }

    pub fn target(&self) -> &'r dyn Tree {
        self.request.destination
    }

    /// Whether the threads should end: cancelled, or failed and not tolerant.
    pub fn stopping(&self) -> bool {
        self.stopped.load(Ordering::Acquire) || self.cancel.is_cancelled()
    }

    /// Makes the threads end.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.queue.wake_all();
    }

    /// Waits, but not for longer than it takes to be stopped.
    pub fn pause(&self, time: Duration) {
        const SLICE: Duration = Duration::from_millis(50);
        let mut left = time;
        while !left.is_zero() && !self.stopping() {
            let slice = left.min(SLICE);
            std::thread::sleep(slice);
            left -= slice;
        }
    }

    /// Whether entries are looked at before their turn, for the totals. A look costs a tenth of copying a small file. Where a
    /// crash has left finished files, they have to be found first.
    pub fn looks_ahead(&self) -> bool {
        self.is_resumed() || self.started.elapsed() > YOUNG
    }

    /// The journal, once there is something worth to be remembered.
    pub fn remembers(&self) -> Option<&Journal> {
        self.journal.as_ref().filter(|_| self.is_resumed() || self.started.elapsed() > YOUNG)
    }

    fn is_resumed(&self) -> bool {
        self.journal.as_ref().is_some_and(|journal| !journal.is_empty())
    }

    /// Workers that may work at this moment.
    pub fn workers(&self) -> usize {
        let wanted = self.options.tuning.workers().or(self.options.workers);
        wanted.unwrap_or(self.workers_by_cores).clamp(1, StageOptions::WORKERS_MAX)
    }

    /// Bytes per second allowed at this moment.
    pub fn bytes_per_second_max(&self) -> Option<u64> {
        self.options.tuning.bytes_per_second_max().or(self.options.bytes_per_second_max)
    }

    /// Notes a failed item; ends the stage unless it is tolerant.
    pub fn fail(&self, failure: ItemFailure) {
        if self.account.fail(failure) {
            self.stop();
        }
    }

    /// Notes a failure that no tolerance covers.
    pub fn fail_wholly(&self, failure: ItemFailure) {
        self.account.fail_wholly(failure);
        self.stop();
    }

    /// Whether files of a directory get their final name at once. A stage-in may do that in a directory it has made itself:
    /// nothing is there to be replaced, and nobody is told of the directory before the stage is complete. A crash leaves a
    /// half file there; the next run finds the directory made and replaces what is in it by the usual way.
    pub fn writes_directly(&self, directory: &Node) -> bool {
        directory.is_fresh && self.request.direction == Direction::In
    }

    /// The temporary name of a target.
    pub fn temporary(&self, target: &Path) -> PathBuf {
        let sum = xxh3_64(target.as_os_str().as_encoded_bytes());
        target.with_file_name(format!("{}{sum:016x}", self.temporary_prefix()))
    }

    fn temporary_prefix(&self) -> String {
        format!("{TEMPORARY_PREFIX}{:016x}", self.identity)
    }

    /// Whether a name is a temporary one of this stage, of this run or an earlier one.
    pub fn is_temporary(&self, name: &OsStr) -> bool {
        let sum = name.as_encoded_bytes().strip_prefix(self.temporary_prefix().as_bytes());
        sum.is_some_and(|sum| sum.len() == 16 && sum.iter().all(u8::is_ascii_hexdigit))
    }

    /// Whether an earlier run of the same stage may have left temporary names. Without a journal nobody knows.
    pub fn may_have_leftovers(&self) -> bool {
        self.journal.as_ref().is_none_or(Journal::is_repeated)
    }

    /// A failure of the source, in the user's words.
    pub fn source_failure(&self, path: &Path, error: TreeError) -> ItemFailure {
        let reason = match error.cause {
            Cause::NotFound => locate::missing(self.source(), path),
            Cause::AccessDenied | Cause::NotPermitted => Reason::SourcePermission,
            Cause::LeadsOutside | Cause::SymbolicLink => {
                Reason::LinkUnusable { link: shown(self.source(), path) }
            }
            _ => either_side(error, Side::Source),
        };
        ItemFailure { path: shown(self.source(), path), reason }
    }

    /// A failure of the target, in the user's words. `size` is what was to be written.
    pub fn target_failure(&self, path: &Path, error: TreeError, size: u64) -> ItemFailure {
        let tree = self.target();
        let reason = match error.cause {
            Cause::NotFound if !locate::has_parent(tree, path) => {
                Reason::TargetDirectoryMissing { nearest: locate::nearest(tree, path) }
            }
            Cause::AccessDenied | Cause::NotPermitted => {
                Reason::TargetPermission { refused: shown(tree, path.parent().unwrap_or(path)) }
            }
            Cause::ReadOnly => Reason::ReadOnly,
            Cause::NoSpace => self.no_space(path, size),
            Cause::Quota => Reason::Quota,
            Cause::FileTooLarge => Reason::FileTooLarge { size },
            Cause::TooManyFiles => Reason::TooManyFiles,
            Cause::IsDirectory => Reason::TargetIsDirectory,
            Cause::LeadsOutside | Cause::SymbolicLink => Reason::LinkUnusable { link: shown(tree, path) },
            _ => either_side(error, Side::Target),
        };
        ItemFailure { path: shown(tree, path), reason }
    }

    /// What was still to be written, as far as it is known, and what is free now.
    fn no_space(&self, path: &Path, size: u64) -> Reason {
        let left = self.account.bytes_total().saturating_sub(self.account.bytes_done());
        let directory = path.parent().unwrap_or(Path::new(""));
        let free = self.target().space(directory).ok().map(|space| space.available);
        Reason::NoSpace { needed: Some(left.max(size)).filter(|needed| *needed > 0), free }
    }

    /// After the threads have ended: puts the last files in place and everything on disk.
    pub fn finish(&self) {
        self.queue.left_over().iter().for_each(|large| large.abandon(self));
        if self.cancel.is_cancelled() {
            self.account.fail_wholly(ItemFailure { path: self.request_path(), reason: Reason::Cancelled });
            self.commit.discard(self);
        } else {
            self.commit.flush(self);
            self.commit.sync(self);
        }
        if let Some(journal) = &self.journal
            && !self.account.has_failed()
            && self.account.failures_total() == 0
        {
            journal.remove();
        }
    }

    /// The destination as the request names it.
    fn request_path(&self) -> PathBuf {
        use crate::request::What;
        match &self.request.what {
            What::File(pair) | What::Directory(pair) => shown(self.target(), &pair.destination),
            What::List { .. } => self.target().root().to_path_buf(),
        }
    }

    /// The end of the account.
    pub fn into_result(self, elapsed: Duration) -> Result<StageReport, StageFailure> {
        self.account.into_result(elapsed)
    }
}

/// Causes that read the same on both sides.
fn either_side(error: TreeError, side: Side) -> Reason {
    match error.cause {
        Cause::NameTooLong => Reason::NameTooLong,
        Cause::TooManyOpenFiles => Reason::TooManyOpenFiles,
        cause => Reason::FileSystem { operation: error.operation.to_owned(), side, error: cause },
    }
}

/// A path as users see it.
pub fn shown(tree: &dyn Tree, path: &Path) -> PathBuf {
    if path.as_os_str() == OsStr::new("") { tree.root().to_path_buf() } else { tree.root().join(path) }
}

/// One for each core: on local disks more only wait for each other's locks. At least 2, to overlap reading and writing.
fn workers_by_cores() -> usize {
    std::thread::available_parallelism().map_or(2, |cores| cores.get().clamp(2, 16))
}

/// The same for every run of the same stage, different for different ones.
fn identity(request: &StageRequest<'_>) -> u64 {
    use crate::request::What;
    let mut text = Vec::new();
    let mut add = |bytes: &[u8]| {
        text.extend_from_slice(bytes);
        text.push(0);
    };
    add(format!("{:?}", request.direction).as_bytes());
    add(request.source.root().as_os_str().as_encoded_bytes());
    add(request.destination.root().as_os_str().as_encoded_bytes());
    let pairs = match &request.what {
        What::File(pair) | What::Directory(pair) => std::slice::from_ref(pair),
        What::List { pairs } => pairs.as_slice(),
    };
    for pair in pairs {
        add(pair.source.as_os_str().as_encoded_bytes());
        add(pair.destination.as_os_str().as_encoded_bytes());
    }
    xxh3_64(&text)
}
