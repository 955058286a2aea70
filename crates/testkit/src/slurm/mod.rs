//! A site in a box: a cluster of namespaces on which real MUNGE, real Slurm and Forebay run, and where users work.
//!
//! The hosts are those of [`crate::cluster`]: `control` (slurmctld, where users log in), servers (storage nodes) and clients
//! (compute nodes, slurmd). Every host has `/etc`, `/run` and `/var/opt` of its own, so all daemons and commands find their
//! files where an administrator would have put them, and nothing of the machine is changed. `/etc/slurm` is the same directory on
//! all hosts. The users have no entry on the machine, only in the box.
//!
//! ```text
//! control    munged  slurmctld (as slurm)   forebay controller   alice$ sbatch job.sh
//! server0..  munged                         forebay agent        fragments of instances
//! client0..  munged  slurmd (as root)       forebay agent        mounts, tasks of jobs
//! ```
//!
//! Any thread may call. All of it ends with the test, also when the test is killed: see the module of clusters.

mod accounts;
mod buffer;
mod burst;
mod daemon;
mod error;
mod etc;
mod job;
mod options;
mod processes;
pub mod programs;
mod service;
mod witness;

pub use accounts::{ALICE, BOB, ROOT, User};
pub use burst::Burst;
pub use error::SiteError;
pub use job::{Job, JobId};
pub use options::{BufferOptions, FragmentKind, Options, PoolOptions, SlurmOptions};
pub use processes::Paused;
pub use service::Service;

use crate::cluster::{Cluster, Host, HostId, Plan};
use crate::process::Finished;
use crate::wait;
use daemon::Daemon;
use etc::Directories;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use witness::Witness;

/// Longest that anything takes that works, on a machine that is busy with other tests.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Time between two questions to Slurm: each is a process.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// A site; see the module. Gone when dropped; [`Site::finish`] checks that.
#[derive(Debug)]
pub struct Site {
    // Dropped in this order: what uses, then what is used.
    _witness: Witness,
    daemons: BTreeMap<(HostId, Service), Daemon>,
    directories: Directories,
    cluster: Cluster,
    options: Options,
}

impl Site {
    /// Builds the hosts, starts MUNGE and Slurm, and awaits that all compute nodes are ready for jobs.
    pub fn build(options: &Options) -> Result<Site, SiteError> {
        let mut site = Site::prepare(options)?;
        site.start_everywhere()?;
        site.await_nodes()?;
        Ok(site)
    }

    /// Builds the hosts with their files; nothing runs.
    pub fn prepare(options: &Options) -> Result<Site, SiteError> {
        let plan =
            Plan { servers: options.storage_nodes, clients: options.compute_nodes, storage: options.storage };
        let cluster = Cluster::build_ruled(&plan, options.sharing)?;
        let directories = Directories::make(&cluster, options)?;
        let witness = Witness::new(cluster.hosts().map(Host::directory));
        let (daemons, options) = (BTreeMap::new(), options.clone());
        let site = Site { _witness: witness, daemons, directories, cluster, options };
        for host in site.cluster.hosts() {
            etc::furnish(host, &site.directories)?;
        }
        Ok(site)
    }

    /// The hosts.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The host of slurmctld and of the users' shells.
    pub fn control(&self) -> &Host {
        self.cluster.host(HostId::Control)
    }

    /// A directory that all hosts see, as a parallel file system would be; each user's home is below.
    pub fn directory(&self) -> &Path {
        self.cluster.directory()
    }

    /// The home directory of a user, the same on all hosts.
    pub fn home(&self, user: &User) -> PathBuf {
        self.directories.homes.join(user.name)
    }

    /// Where `slurm.conf` and `burst_buffer.conf` are, for all hosts.
    pub fn slurm_directory(&self) -> &Path {
        &self.directories.slurm
    }

    /// Runs a shell script as a user on the control host; what it said, if it succeeded.
    pub fn shell(&self, user: &User, script: &str) -> Result<String, SiteError> {
        self.shell_on(HostId::Control, user, script)
    }

    /// The same on another host.
    pub fn shell_on(&self, host: HostId, user: &User, script: &str) -> Result<String, SiteError> {
        let finished = self.run_on(host, user, script)?;
        Ok(finished.success().map_err(crate::cluster::ClusterError::from)?.output)
    }

    /// Runs a shell script as a user; it may fail.
    pub fn run_on(&self, host: HostId, user: &User, script: &str) -> Result<Finished, SiteError> {
        Ok(self.cluster.host(host).run(&mut self.shell_command(user, script), LIMIT)?)
    }

    /// The command that [`Site::shell`] runs, to be started in a host by other means.
    pub fn shell_command(&self, user: &User, script: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-Eeuo", "pipefail", "-c", script]);
        user.become_in(&mut command, &self.home(user), &self.directories.programs);
        command
    }

    /// Starts a service on a host and awaits that it is ready.
    pub fn start(&mut self, host: HostId, service: Service) -> Result<(), SiteError> {
        self.launch(host, service)?;
        self.await_ready(host, service)
    }

    /// Kills a service with SIGKILL and awaits its end.
    pub fn kill(&mut self, host: HostId, service: Service) -> Result<(), SiteError> {
        self.take(host, service)?.end(libc::SIGKILL)
    }

    /// Ends a service with SIGTERM.
    pub fn stop(&mut self, host: HostId, service: Service) -> Result<(), SiteError> {
        self.take(host, service)?.end(libc::SIGTERM)
    }

    /// Sends a signal to a service that goes on running, such as SIGSTOP and SIGCONT.
    pub fn signal(&self, host: HostId, service: Service, signal: i32) -> Result<(), SiteError> {
        let daemon = self.daemons.get(&(host, service));
        daemon.map(|daemon| daemon.signal(signal)).ok_or(SiteError::NotRunning { host, service })
    }

    /// What a service has said since the site was built.
    pub fn said(&self, host: HostId, service: Service) -> String {
        let log = daemon::log_path(self.cluster.host(host), service);
        std::fs::read_to_string(log).unwrap_or_default()
    }

    /// Ends a host with all that runs there, as a panic would.
    pub fn crash(&mut self, host: HostId) -> Result<(), SiteError> {
        let here: Vec<_> = self.daemons.keys().filter(|(on, _)| *on == host).copied().collect();
        let daemons: Vec<_> = here.iter().filter_map(|key| self.daemons.remove(key)).collect();
        std::thread::scope(|scope| {
            // The end of a host waits until its processes are reaped.
            for mut daemon in daemons {
                scope.spawn(move || daemon.await_end());
            }
            self.cluster.crash(host)
        })?;
        Ok(())
    }

    /// Boots a host that crashed, and starts what belongs on it.
    pub fn boot(&mut self, host: HostId) -> Result<(), SiteError> {
        self.cluster.boot(host)?;
        etc::furnish(self.cluster.host(host), &self.directories)?;
        let services = service::on(host, &self.options);
        services.into_iter().try_for_each(|service| self.start(host, service))
    }

    /// Awaits that Slurm sees every compute node ready and idle.
    pub fn await_nodes(&self) -> Result<(), SiteError> {
        let wanted = self.options.compute_nodes;
        self.await_slurm("idle compute nodes", || {
            let listed = self.run_on(HostId::Control, &ROOT, "sinfo --noheader --Node --format=%T")?;
            Ok(listed.output.lines().filter(|state| *state == "idle").count() == wanted)
        })
    }

    /// Awaits that every compute node has answered slurmctld. Before, a step of a job that runs is put off, for minutes.
    pub fn await_answers(&self) -> Result<(), SiteError> {
        let wanted = self.options.compute_nodes;
        self.await_slurm("the answers of all compute nodes", || {
            let listed = self.run_on(HostId::Control, &ROOT, "sinfo --noheader --Node --format=%T")?;
            let answers = |state: &&str| matches!(*state, "idle" | "mixed" | "allocated");
            Ok(listed.output.lines().filter(answers).count() == wanted)
        })
    }

    /// Awaits that the controller knows every storage and compute node.
    pub fn await_agents(&self) -> Result<(), SiteError> {
        let wanted = self.options.storage_nodes + self.options.compute_nodes;
        self.await_slurm("the agents' registration", || {
            let listed = self.run_on(HostId::Control, &ROOT, "dwstat nodes")?;
            // The first line is the heading.
            Ok(listed.output.lines().skip(1).filter(|line| line.contains(" online ")).count() == wanted)
        })
    }

    /// Asks again and again until the answer is yes.
    pub fn await_slurm(
        &self,
        awaited: &str,
        mut ask: impl FnMut() -> Result<bool, SiteError>,
    ) -> Result<(), SiteError> {
        let mut failed = None;
        let waited = wait::wait_until_every(ASK_AGAIN_AFTER, awaited, LIMIT, || match ask() {
            Ok(yes) => yes,
            Err(error) => {
                failed = Some(error);
                true
            }
        });
        failed.map_or(Ok(waited?), Err)
    }

    /// Ends everything and checks that nothing is left.
    ///
    /// # Panics
    /// If a process, a namespace, a mount or a loop device of the site is still there.
    pub fn finish(self) {
        let Site { daemons, cluster, .. } = self;
        drop(daemons);
        cluster.finish();
    }

    fn start_everywhere(&mut self) -> Result<(), SiteError> {
        let hosts: Vec<_> = self.cluster.hosts().map(Host::id).collect();
        for service in service::ORDER {
            let here: Vec<_> =
                hosts.iter().filter(|host| service::on(**host, &self.options).contains(&service)).collect();
            for host in &here {
                self.launch(**host, service)?;
            }
            for host in here {
                self.await_ready(*host, service)?;
            }
            if service == Service::Agent && self.options.buffer.is_some() {
                self.await_agents()?;
            }
        }
        Ok(())
    }

    fn launch(&mut self, host: HostId, service: Service) -> Result<(), SiteError> {
        let command = service::command(service, host, &self.directories)?;
        let daemon = Daemon::launch(self.cluster.host(host), service, command)?;
        self.daemons.insert((host, service), daemon);
        Ok(())
    }

    fn await_ready(&mut self, host: HostId, service: Service) -> Result<(), SiteError> {
        let on = self.cluster.host(host);
        let daemon = self.daemons.get_mut(&(host, service)).expect("it was launched");
        daemon.await_ready(|said| service::is_ready(service, on, said))
    }

    fn take(&mut self, host: HostId, service: Service) -> Result<Daemon, SiteError> {
        self.daemons.remove(&(host, service)).ok_or(SiteError::NotRunning { host, service })
    }
}
