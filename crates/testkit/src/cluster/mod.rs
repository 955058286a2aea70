//! A cluster in a box: server and client hosts as Linux namespaces, joined by a switch, and the faults of their network.
//!
//! A host has a network, a mount table, process numbers and a host name of its own; all hosts share the machine's disk,
//! where each has a directory. Nothing of it has a name on the machine: a namespace lives by its processes, and the first of
//! them ends when the test does. So clusters of several tests stand side by side with the same addresses and port
//! numbers, and a test killed with SIGKILL leaves nothing behind: its hosts end because the pipe to them is closed, and a
//! [`reaper`](self::reaper) removes the directory.
//!
//! ```text
//! machine:  test process --pipe--> keeper of each host (process 1 of that host) and of the switch
//! network:  server0 eth0 --- port0 +
//!           server1 eth0 --- port1 +- bridge, in the switch's namespace
//!           client0 eth0 --- port2 +
//! ```
//!
//! Needs root and `ip`, `bridge` (iproute2); fragments on XFS need `mkfs.xfs` and the loop driver. Any thread may call.
//!
//! A [`crate::ProcessGuard`] of a program in a host must be dropped before the cluster, which is what happens when it is
//! declared after it: the end of a host waits until all its processes are gone.

mod error;
mod fault;
mod host;
mod namespaces;
mod reaper;
mod storage;
mod switch;

pub use error::ClusterError;
pub use fault::Fault;
pub use host::{Host, HostId};
pub use namespaces::Sharing;
pub use storage::Storage;

use crate::leaks::{self, Namespace};
use crate::{Scratch, wait};
use reaper::Reaper;
use std::path::Path;
use std::time::Duration;
use switch::Switch;

/// Most hosts of a cluster: one byte of their address tells them apart, and 0 and 255 are no hosts.
pub const HOSTS_MAX: usize = 250;

/// How long what was killed may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(20);

/// What a cluster consists of.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Hosts with a fragment.
    pub servers: usize,
    /// Hosts without.
    pub clients: usize,
    /// What the fragments of the servers are on.
    pub storage: Storage,
}

/// Hosts and the network between them; see the module. Gone when dropped.
#[derive(Debug)]
pub struct Cluster {
    // Dropped in this order: what uses, then what is used.
    hosts: Vec<Host>,
    switch: Switch,
    reaper: Reaper,
    scratch: Scratch,
    plan: Plan,
    ruled: bool,
    sharing: Sharing,
}

impl Cluster {
    /// Builds the hosts and connects them.
    pub fn build(plan: &Plan) -> Result<Cluster, ClusterError> {
        Cluster::build_hosts(plan, false, Sharing::Nothing)
    }

    /// The same with one more, [`HostId::Control`].
    pub fn build_ruled(plan: &Plan, sharing: Sharing) -> Result<Cluster, ClusterError> {
        Cluster::build_hosts(plan, true, sharing)
    }

    fn build_hosts(plan: &Plan, ruled: bool, sharing: Sharing) -> Result<Cluster, ClusterError> {
        let wanted = plan.servers + plan.clients + usize::from(ruled);
        if wanted > HOSTS_MAX {
            return Err(ClusterError::TooManyHosts { wanted });
        }
        let scratch = Scratch::new("cluster");
        let reaper = Reaper::watch(scratch.path())?;
        let switch = Switch::start(&scratch.directory("switch", 0o755))?;
        let mut cluster = Cluster { hosts: Vec::new(), switch, reaper, scratch, plan: *plan, ruled, sharing };
        let servers = (0..plan.servers).map(HostId::Server);
        let clients = (0..plan.clients).map(HostId::Client);
        for id in servers.chain(clients).chain(ruled.then_some(HostId::Control)) {
            let directory = cluster.scratch.directory(&id.to_string(), 0o755);
            cluster.hosts.push(Host::new(id, cluster.hosts.len(), directory));
            cluster.boot(id)?;
        }
        Ok(cluster)
    }

    /// Number of servers.
    pub fn servers(&self) -> usize {
        self.plan.servers
    }

    /// Number of clients.
    pub fn clients(&self) -> usize {
        self.plan.clients
    }

    /// A server.
    ///
    /// # Panics
    /// If the plan has fewer.
    pub fn server(&self, number: usize) -> &Host {
        self.host(HostId::Server(number))
    }

    /// A client.
    ///
    /// # Panics
    /// If the plan has fewer.
    pub fn client(&self, number: usize) -> &Host {
        self.host(HostId::Client(number))
    }

    /// A host.
    ///
    /// # Panics
    /// If the plan has no such host.
    pub fn host(&self, id: HostId) -> &Host {
        &self.hosts[self.position(id)]
    }

    /// All hosts: servers, clients, control.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter()
    }

    /// A directory that all hosts see under the same path, and that goes with the cluster.
    pub fn directory(&self) -> &Path {
        self.scratch.path()
    }

    fn position(&self, id: HostId) -> usize {
        let (position, there) = match id {
            HostId::Server(number) => (number, number < self.plan.servers),
            HostId::Client(number) => (self.plan.servers + number, number < self.plan.clients),
            HostId::Control => (self.plan.servers + self.plan.clients, self.ruled),
        };
        assert!(there, "the cluster has no {id}: {:?}", self.plan);
        position
    }

    /// Ends a host as a panic of its kernel would: every process is killed at once, its mounts and its link are gone. What
    /// was written to its disk is kept, synced or not: this is no power cut.
    pub fn crash(&mut self, id: HostId) -> Result<(), ClusterError> {
        let position = self.position(id);
        let host = &mut self.hosts[position];
        host.stop()?;
        self.switch.disconnect(position)?;
        storage::await_release(host.directory())
    }

    /// Starts a host that was crashed: new namespaces, the old address, its fragment mounted, nothing running.
    pub fn boot(&mut self, id: HostId) -> Result<(), ClusterError> {
        let position = self.position(id);
        let host = &mut self.hosts[position];
        host.start_namespaces((self.sharing == Sharing::MemoryAndProcesses).then_some(self.switch.own()))?;
        self.switch.connect(position, host)?;
        if matches!(id, HostId::Server(_)) {
            storage::prepare(host, self.plan.storage)?;
        }
        Ok(())
    }

    /// Makes a fault of the network.
    pub fn inject(&self, fault: Fault) -> Result<(), ClusterError> {
        fault::set(self, fault, true)
    }

    /// Ends a fault of the network.
    pub fn repair(&self, fault: Fault) -> Result<(), ClusterError> {
        fault::set(self, fault, false)
    }

    /// Ends the fault of a disk that fails ([`Storage::Failing`]); what it lost stays lost.
    pub fn repair_disk(&self, server: usize) -> Result<(), ClusterError> {
        storage::repair(self.server(server))
    }

    /// The namespaces that live now because of this cluster.
    pub fn namespaces(&self) -> Vec<Namespace> {
        let hosts = self.hosts.iter().flat_map(Host::namespaces);
        hosts.chain(self.switch.namespaces()).collect()
    }

    /// Ends everything and checks that nothing is left.
    ///
    /// # Panics
    /// If a namespace, a mount, a loop device or a process of the cluster is still there.
    pub fn finish(self) {
        let namespaces = self.namespaces();
        let Cluster { hosts, switch, reaper, scratch, .. } = self;
        drop((hosts, switch));
        let mut left = Vec::new();
        let gone = wait::wait_until("the end of all namespaces", GONE_WITHIN, || {
            left = leaks::holding(&namespaces);
            left.is_empty()
        });
        assert!(gone.is_ok(), "left behind: {left:?}");
        drop(reaper);
        scratch.finish();
    }
}
