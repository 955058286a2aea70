//! A file system served by a process of its own: started, awaited, and taken away with its owner.

use crate::process::{ProcessError, ProcessGuard};
use crate::{mounts, wait};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// How long a mount may take to appear, and its process to end after SIGTERM.
const LIMIT: Duration = Duration::from_secs(60);

/// A mounted file system and the process that serves it.
#[derive(Debug)]
pub struct MountedProcess {
    server: ProcessGuard,
    point: PathBuf,
}

/// The file system did not come up or did not end well.
#[derive(Debug, thiserror::Error)]
pub enum MountedError {
    /// Its process did not start.
    #[error(transparent)]
    Start(#[from] ProcessError),
    /// Its process ended before anything was mounted.
    #[error("the server of {} ended with {status} before it mounted", point.display())]
    EndedEarly {
        /// Where the mount was awaited.
        point: PathBuf,
        /// How the process ended.
        status: ExitStatus,
    },
    /// Nothing was mounted within the limit.
    #[error("nothing was mounted at {} within {LIMIT:?}", .0.display())]
    NoMount(PathBuf),
    /// The process ended with an error, or not at all, when it was told to unmount.
    #[error("the server of {} ended with {status:?} when it was told to unmount", point.display())]
    BadEnd {
        /// Where it was mounted.
        point: PathBuf,
        /// How it ended, if it did.
        status: Option<ExitStatus>,
    },
    /// The process is gone, the mount is not.
    #[error("{} is still mounted although its server has ended", .0.display())]
    StillMounted(PathBuf),
}

impl MountedProcess {
    /// Starts `command` and awaits a mount at `point`, an absolute path without symbolic links.
    pub fn start(command: &mut Command, point: &Path) -> Result<MountedProcess, MountedError> {
        let server = ProcessGuard::start(command)?;
        let mut mounted = MountedProcess { server, point: point.to_owned() };
        let mut ended = None;
        let settled = wait::wait_until("a mount", LIMIT, || {
            ended = mounted.server.ended();
            ended.is_some() || mounts::at(point).is_some()
        });
        match (ended, settled) {
            (Some(status), _) => Err(MountedError::EndedEarly { point: point.to_owned(), status }),
            (None, Err(_)) => Err(MountedError::NoMount(point.to_owned())),
            (None, Ok(())) => Ok(mounted),
        }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.point
    }

    /// The process that serves it.
    pub fn server(&mut self) -> &mut ProcessGuard {
        &mut self.server
    }

    /// Ends it the polite way: SIGTERM, and then the process must end well and the mount must be gone.
    pub fn unmount(mut self) -> Result<(), MountedError> {
        self.server.signal(libc::SIGTERM);
        let status = self.server.ends_within(LIMIT);
        if !status.is_some_and(|status| status.success()) {
            return Err(MountedError::BadEnd { point: self.point.clone(), status });
        }
        if mounts::at(&self.point).is_some() {
            return Err(MountedError::StillMounted(self.point.clone()));
        }
        Ok(())
    }
}

impl Drop for MountedProcess {
    fn drop(&mut self) {
        self.server.signal(libc::SIGKILL);
        let _ = self.server.ends_within(LIMIT);
        mounts::detach_below(&self.point);
    }
}
