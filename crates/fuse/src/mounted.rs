//! A mount that is being served.
//!
//! One thread runs the session and ends when the kernel says that the mount is gone; whoever waits is told. Killing the
//! process leaves a dead mount, which [`crate::unmount_stale`] removes; everything acknowledged to programs is in the
//! fragments by then, as far as the volume promises.

use crate::adapter::Shared;
use crate::cache::KernelCache;
use crate::error::UnmountError;
use crate::kernel::KernelVersion;
use crate::negotiate::DataPath;
use crate::unmount::{Removal, Target, Unmount};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Requests that were under way when the mount was taken away are finished within this; a sync of much data to a slow
/// disk is the longest.
const SERVED_WITHIN: Duration = Duration::from_secs(120);

/// A mount somebody else took away is known to be in use no longer when its session ends within this.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

/// What the mount really uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// The kernel.
    pub kernel: KernelVersion,
    /// How contents travel.
    pub data: DataPath,
    /// Files in one local file are handed to the kernel.
    pub passthrough: bool,
    /// Serving threads.
    pub threads: usize,
    /// Each thread has a queue of its own; otherwise all share one: `/dev/fuse` cannot be opened again, or there
    /// is one thread only.
    pub queue_per_thread: bool,
    /// Requests come over io_uring; the number of threads is then two for each processor.
    pub io_uring: bool,
    /// Mounted by this process rather than by the helper.
    pub mounted_directly: bool,
}

/// Set once, when the session has ended.
pub(crate) struct Ended {
    result: Mutex<Option<Result<(), String>>>,
    changed: Condvar,
    /// A second descriptor of the connection while it is served. Closed with the others: the kernel fails the requests
    /// of a mount whose last descriptor is closed.
    device: Mutex<Option<OwnedFd>>,
}

impl Ended {
    /// Not yet; `device` is a descriptor of the connection.
    pub(crate) fn not_yet(device: OwnedFd) -> Ended {
        Ended { result: Mutex::default(), changed: Condvar::default(), device: Mutex::new(Some(device)) }
    }

    /// The kernel still has the mount somewhere. When it lets go of the last one, the connection is cut at once, before
    /// umount(2) returns; requests that were under way may take longer.
    fn is_connected(&self) -> bool {
        let device = self.device.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(device) = device.as_ref() else { return false };
        let mut asked = [PollFd::new(device, PollFlags::empty())];
        let answer = rustix::event::poll(&mut asked, Some(&Timespec::default()));
        answer.is_ok() && !asked[0].revents().contains(PollFlags::ERR)
    }

    pub(crate) fn set(&self, result: io::Result<()>) {
        *self.device.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
        let mut slot = self.result.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *slot = Some(result.map_err(|error| error.to_string()));
        self.changed.notify_all();
    }

    fn wait(&self, limit: Option<Duration>) -> Option<Result<(), String>> {
        let slot = self.result.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let running = |slot: &mut Option<_>| slot.is_none();
        let slot = match limit {
            None => self.changed.wait_while(slot, running).unwrap_or_else(|poisoned| poisoned.into_inner()),
            Some(limit) => {
                self.changed.wait_timeout_while(slot, limit, running).unwrap_or_else(|p| p.into_inner()).0
            }
        };
        slot.clone()
    }
}

/// A mount. Dropping it unmounts, lazily if it is in use; [`Mounted::unmount`] says how that went.
pub struct Mounted {
    unmounter: Unmounter,
    features: Features,
    shared: Arc<Shared>,
    cache: KernelCache,
}

/// Unmounts from anywhere, for example from a thread that waits for signals.
#[derive(Clone)]
pub struct Unmounter {
    target: Arc<Target>,
    ended: Arc<Ended>,
}

impl Unmounter {
    /// Takes the mount away. After [`Unmount::Clean`] every request has been served and the volume is no longer used
    /// by the mount; after [`Unmount::Lazy`] it is, until the last user is gone. Doing it again is harmless.
    pub fn unmount(&self) -> Result<Unmount, UnmountError> {
        let path = || self.target.mountpoint.clone();
        let ended = match self.remove()? {
            Removal::Detached => return Ok(Unmount::Lazy),
            // A mount namespace that was copied from ours while it was mounted has it too.
            Removal::Removed if self.ended.is_connected() => return Ok(Unmount::Lazy),
            Removal::Removed => self.ended.wait(Some(SERVED_WITHIN)),
            Removal::GoneBefore => match self.ended.wait(Some(ENDS_WITHIN)) {
                None => return Ok(Unmount::Lazy),
                ended => ended,
            },
        };
        match ended {
            Some(Ok(())) => Ok(Unmount::Clean),
            Some(Err(message)) => Err(UnmountError::Session { path: path(), message }),
            None => Err(UnmountError::StillServing { path: path(), waited: SERVED_WITHIN }),
        }
    }

    fn remove(&self) -> Result<Removal, UnmountError> {
        self.target.remove(self.ended.is_connected())
    }
}

impl Mounted {
    pub(crate) fn new(
        target: Target,
        ended: Arc<Ended>,
        features: Features,
        shared: Arc<Shared>,
        cache: KernelCache,
    ) -> Mounted {
        let unmounter = Unmounter { target: Arc::new(target), ended };
        Mounted { unmounter, features, shared, cache }
    }

    /// Where it is mounted, without symbolic links.
    pub fn mountpoint(&self) -> &Path {
        &self.unmounter.target.mountpoint
    }

    /// What it uses, as of now.
    pub fn features(&self) -> Features {
        Features { passthrough: self.passthrough(), ..self.features }
    }

    /// Files in one local file are handed to the kernel.
    pub fn passthrough(&self) -> bool {
        self.shared.backing.is_on()
    }

    /// For announcing changes made beside the mount.
    pub fn kernel_cache(&self) -> &KernelCache {
        &self.cache
    }

    /// For unmounting from another thread.
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// Waits until the mount is gone, whoever removed it, and every request is served.
    pub fn wait(&self) -> Result<(), UnmountError> {
        match self.unmounter.ended.wait(None) {
            Some(Err(message)) => Err(UnmountError::Session { path: self.mountpoint().into(), message }),
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// Takes the mount away: [`Unmounter::unmount`].
    pub fn unmount(self) -> Result<Unmount, UnmountError> {
        self.unmounter.unmount()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = self.unmounter.remove() {
            crate::complaint::complain("unmounting", &error);
        }
    }
}
