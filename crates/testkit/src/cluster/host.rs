//! One host of a cluster: where programs run, and where its files are.

use super::namespaces::Namespaces;
use super::{ClusterError, HOSTS_MAX};
use crate::leaks::Namespace;
use crate::process::{self, Finished, ProcessGuard};
use crate::{Identity, mounts};
use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The set-up programs of a host take milliseconds; this ends one that hangs.
pub(super) const TOOL_LIMIT: Duration = Duration::from_secs(60);

/// Which host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostId {
    /// A host with a fragment, from 0.
    Server(usize),
    /// A host without, from 0.
    Client(usize),
    /// The host of those who rule the others, in clusters that have one.
    Control,
}

/// Also its host name.
impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostId::Server(number) => write!(f, "server{number}"),
            HostId::Client(number) => write!(f, "client{number}"),
            HostId::Control => f.write_str("control"),
        }
    }
}

/// A host; see the module of clusters.
#[derive(Debug)]
pub struct Host {
    id: HostId,
    address: Ipv4Addr,
    directory: PathBuf,
    namespaces: Option<Namespaces>,
}

impl Host {
    pub(super) fn new(id: HostId, position: usize, directory: PathBuf) -> Host {
        debug_assert!(position < HOSTS_MAX);
        let last = position as u8 + 1;
        Host { id, address: Ipv4Addr::new(10, 77, 0, last), directory, namespaces: None }
    }

    /// Which one.
    pub fn id(&self) -> HostId {
        self.id
    }

    /// Its only address, reached by all other hosts and by nothing else. Every port is free.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Its own directory; the path is the same in all hosts and on the machine.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Where a server's fragment is. On XFS storage only the host itself sees the content, see [`Host::seen`].
    pub fn fragment(&self) -> PathBuf {
        self.directory.join("fragment")
    }

    /// The path under which the test itself reaches what the host sees at `path`, mounts included.
    pub fn seen(&self, path: &Path) -> Result<PathBuf, ClusterError> {
        let root = PathBuf::from(format!("/proc/{}/root", self.up()?.keeper()));
        Ok(root.join(path.strip_prefix("/").unwrap_or(path)))
    }

    /// What is mounted at exactly this path in the host.
    pub fn mounted_at(&self, path: &Path) -> Option<mounts::Mount> {
        let keeper = self.up().ok()?.keeper();
        mounts::of_process(keeper).into_iter().rfind(|mount| mount.point == path)
    }

    /// Starts a program in the host.
    pub fn start(&self, command: &mut Command) -> Result<ProcessGuard, ClusterError> {
        Ok(self.up()?.inside(|| ProcessGuard::start(command))??)
    }

    /// Runs a program in the host to its end; it may fail.
    pub fn run(&self, command: &mut Command, limit: Duration) -> Result<Finished, ClusterError> {
        Ok(self.up()?.inside(|| process::run(command, limit))??)
    }

    /// Runs a program that must succeed.
    pub fn success(&self, command: &mut Command, limit: Duration) -> Result<Finished, ClusterError> {
        Ok(self.run(command, limit)?.success()?)
    }

    /// Runs a shell script as somebody; what it said, if it succeeded.
    pub fn shell(&self, eyes: &Identity, script: &str, limit: Duration) -> Result<String, ClusterError> {
        let mut command = Command::new("bash");
        command.args(["-Eeuo", "pipefail", "-c", script]).current_dir("/");
        Ok(self.success(eyes.apply(&mut command), limit)?.output)
    }

    /// Does `work` in the network of the host, with the files and process numbers of the test.
    pub fn in_network<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, ClusterError> {
        self.up()?.in_network(work)
    }

    pub(super) fn namespaces(&self) -> Vec<Namespace> {
        self.namespaces.as_ref().map_or_else(Vec::new, |own| own.names().to_vec())
    }

    pub(super) fn keeper(&self) -> Result<u32, ClusterError> {
        Ok(self.up()?.keeper())
    }

    pub(super) fn start_namespaces(&mut self, beside: Option<&Namespaces>) -> Result<(), ClusterError> {
        self.namespaces = Some(Namespaces::start(&self.id.to_string(), &self.directory, beside)?);
        // Process numbers are the host's own, so `/proc` has to be.
        self.success(Command::new("mount").args(["-t", "proc", "proc", "/proc"]), TOOL_LIMIT).map(drop)
    }

    pub(super) fn stop(&mut self) -> Result<(), ClusterError> {
        self.namespaces.take().map(drop).ok_or(ClusterError::Down(self.id))
    }

    fn up(&self) -> Result<&Namespaces, ClusterError> {
        self.namespaces.as_ref().ok_or(ClusterError::Down(self.id))
    }
}
