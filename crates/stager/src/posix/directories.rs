//! Descriptors of directories by path.
//!
//! A small cache, because the files of one directory are staged one after the other: the path is resolved once, not once per
//! operation. A cached descriptor stays the directory it was even when somebody renames it; a stage that races with a rename
//! of its own directories sees the tree as it was found.
//!
//! Below a directory that is held ([`Directories::hold`]) every path is resolved from its descriptor, and no symbolic link is
//! followed: whoever may write there can put a link in the place of a directory at any moment, but leads nobody away by it.
//!
//! Any thread; one lock, held only for the look-up, never while the kernel resolves a path.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{self, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::beneath;
use super::cause::failed;
use crate::tree::{Cause, TreeError};

/// Descriptors kept.
const KEPT_MAX: usize = 32;
/// `RESOLVE_BENEATH` reports EAGAIN when a rename elsewhere races with it; the kernel's advice is to try again.
const AGAIN_MAX: u32 = 64;
const FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

type ByHand = fn(&Arc<OwnedFd>, &Path, &'static str) -> Result<Arc<OwnedFd>, TreeError>;

/// See the module.
pub struct Directories {
    root: Arc<OwnedFd>,
    confined: bool,
    /// Until it is refused.
    has_openat2: AtomicBool,
    recent: Mutex<VecDeque<(PathBuf, Arc<OwnedFd>)>>,
    /// A source and a target of a stage, at most.
    held: Mutex<Vec<(PathBuf, Arc<OwnedFd>)>>,
}

impl Directories {
    /// `root` is a directory.
    pub fn new(root: OwnedFd, confined: bool) -> Self {
        let (root, has_openat2) = (Arc::new(root), AtomicBool::new(true));
        Self { root, confined, has_openat2, recent: Mutex::default(), held: Mutex::default() }
    }

    /// From now on no symbolic link is followed below this directory.
    pub fn hold(&self, path: &Path) -> Result<(), TreeError> {
        let opened = self.open(path, "open directory")?;
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push((path.to_path_buf(), opened));
        Ok(())
    }

    /// The held directory that a path is in, and the way from there.
    fn held<'p>(&self, path: &'p Path) -> Option<(Arc<OwnedFd>, &'p Path)> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |(top, directory): &(PathBuf, Arc<OwnedFd>)| {
            Some((Arc::clone(directory), path.strip_prefix(top).ok()?))
        };
        held.iter().filter_map(of).min_by_key(|(_, rest)| rest.as_os_str().len())
    }

    /// A descriptor (`O_PATH`) of the directory at `path`.
    pub fn open(&self, path: &Path, operation: &'static str) -> Result<Arc<OwnedFd>, TreeError> {
        if path.as_os_str().is_empty() {
            return Ok(Arc::clone(&self.root));
        }
        if let Some(found) = self.cached(path) {
            return Ok(found);
        }
        let opened = self.resolve(path, operation)?;
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.push_front((path.to_path_buf(), Arc::clone(&opened)));
        recent.truncate(KEPT_MAX);
        Ok(opened)
    }

    fn cached(&self, path: &Path) -> Option<Arc<OwnedFd>> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let at = recent.iter().position(|(known, _)| known.as_os_str() == path.as_os_str())?;
        if at > 0 {
            recent.swap(0, at);
        }
        recent.front().map(|(_, directory)| Arc::clone(directory))
    }

    fn resolve(&self, path: &Path, operation: &'static str) -> Result<Arc<OwnedFd>, TreeError> {
        match self.held(path) {
            Some((directory, rest)) if rest.as_os_str().is_empty() => Ok(directory),
            Some((directory, rest)) => {
                let links = ResolveFlags::NO_SYMLINKS;
                self.resolve_below(&directory, rest, links, beneath::open_plain, operation)
            }
            None if self.confined => {
                self.resolve_below(&self.root, path, ResolveFlags::empty(), beneath::open, operation)
            }
            None => {
                let opened = fs::openat(&*self.root, path, FLAGS, Mode::empty());
                opened.map(Arc::new).map_err(failed(operation))
            }
        }
    }

    /// Resolves a path that must not leave a directory; `by_hand` does so where the kernel does not help.
    fn resolve_below(
        &self,
        directory: &Arc<OwnedFd>,
        path: &Path,
        more: ResolveFlags,
        by_hand: ByHand,
        operation: &'static str,
    ) -> Result<Arc<OwnedFd>, TreeError> {
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | more;
        for _ in 0..AGAIN_MAX {
            if !self.has_openat2.load(Ordering::Relaxed) {
                return by_hand(directory, path, operation);
            }
            match fs::openat2(&**directory, path, FLAGS, Mode::empty(), beneath) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::XDEV) => return Err(TreeError { operation, cause: Cause::LeadsOutside }),
                // An older kernel, or a filter of system calls; opening a directory as a path knows no EPERM of its own.
                Err(Errno::NOSYS | Errno::PERM) => self.has_openat2.store(false, Ordering::Relaxed),
                answer => return answer.map(Arc::new).map_err(failed(operation)),
            }
        }
        Err(TreeError { operation, cause: Cause::Stale })
    }
}
