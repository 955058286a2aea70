//! The daemons of a site: where each runs, how it is started, how it is seen to be ready.

use super::accounts::{self, PATH};
use super::etc::{Directories, MUNGE_SOCKET};
use super::{Options, SiteError};
use crate::Identity;
use crate::cluster::{Host, HostId};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

/// A daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// Makes and reads credentials; on every host.
    Munged,
    /// Rules the burst buffer; on the control host.
    Controller,
    /// Works for the burst buffer; on storage and compute nodes.
    Agent,
    /// Slurm's head; on the control host.
    Slurmctld,
    /// Slurm's hands; on every compute node.
    Slurmd,
}

/// The order in which they are started.
pub(super) const ORDER: [Service; 5] =
    [Service::Munged, Service::Controller, Service::Agent, Service::Slurmctld, Service::Slurmd];

impl Service {
    /// Of its program.
    pub fn name(self) -> &'static str {
        match self {
            Service::Munged => "munged",
            Service::Controller => "controller",
            Service::Agent => "agent",
            Service::Slurmctld => "slurmctld",
            Service::Slurmd => "slurmd",
        }
    }
}

/// What runs on a host, in the order in which it is started.
pub(super) fn on(host: HostId, options: &Options) -> Vec<Service> {
    let buffer = options.buffer.is_some();
    let here = |service: &Service| match service {
        Service::Munged => true,
        Service::Controller => buffer && host == HostId::Control,
        Service::Agent => buffer && host != HostId::Control,
        Service::Slurmctld => host == HostId::Control,
        Service::Slurmd => matches!(host, HostId::Client(_)),
    };
    ORDER.into_iter().filter(here).collect()
}

/// The command that is started in the host.
pub(super) fn command(
    service: Service,
    host: HostId,
    directories: &Directories,
) -> Result<Command, SiteError> {
    let mut command = match service {
        Service::Munged => Command::new("/usr/sbin/munged"),
        Service::Controller | Service::Agent => Command::new(directories.programs.join("forebay")),
        Service::Slurmctld => Command::new("/usr/sbin/slurmctld"),
        Service::Slurmd => Command::new("/usr/sbin/slurmd"),
    };
    let who = match service {
        Service::Munged => account("munge")?,
        Service::Slurmctld => account("slurm")?,
        Service::Controller | Service::Agent | Service::Slurmd => Identity::root(),
    };
    match service {
        Service::Munged => command.args(["--foreground", "--force", "--seed-file=/run/munge/seed"]),
        Service::Controller => command.args(["controller", "--config", "/etc/forebay/controller.toml"]),
        Service::Agent => command.args(["agent", "--config", "/etc/forebay/agent.toml"]),
        Service::Slurmctld => command.arg("-D"),
        Service::Slurmd => command.args(["-D", "-N", &host.to_string()]),
    };
    command.env_clear().env("PATH", PATH).current_dir("/");
    who.apply(&mut command);
    Ok(command)
}

/// The account that a package made for its daemon.
pub(super) fn account(name: &'static str) -> Result<Identity, SiteError> {
    let file = Path::new("/etc/passwd");
    let passwd = fs::read_to_string(file).map_err(SiteError::file(file))?;
    accounts::of_machine(name, &passwd).ok_or(SiteError::NoAccount { name })
}

/// Whether it can be used.
pub(super) fn is_ready(service: Service, host: &Host, said: &str) -> bool {
    match service {
        Service::Munged => {
            let socket = host.seen(Path::new(MUNGE_SOCKET));
            socket.is_ok_and(|socket| UnixStream::connect(socket).is_ok())
        }
        Service::Controller => said.contains("controller ready"),
        Service::Agent => said.contains("asks the controller"),
        Service::Slurmctld => said.contains("Running as primary controller"),
        Service::Slurmd => said.contains("slurmd started on"),
    }
}
