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
    /// Slurm's head; on the control host.
    Slurmctld,
    /// Slurm's hands; on every compute node.
    Slurmd,
}

/// The order in which they are started.
pub(super) const ORDER: [Service; 3] = [Service::Munged, Service::Slurmctld, Service::Slurmd];

impl Service {
    /// Of its program.
    pub fn name(self) -> &'static str {
        match self {
            Service::Munged => "munged",
            Service::Slurmctld => "slurmctld",
            Service::Slurmd => "slurmd",
        }
    }
}

/// What runs on a host, in the order in which it is started.
pub(super) fn on(host: HostId, _options: &Options) -> Vec<Service> {
    let here = |service: &Service| match service {
        Service::Munged => true,
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
    let (program, arguments, who) = match service {
        Service::Munged => ("/usr/sbin/munged", vec!["--foreground".into()], account("munge")?),
        Service::Slurmctld => ("/usr/sbin/slurmctld", vec!["-D".into()], account("slurm")?),
        Service::Slurmd => {
            ("/usr/sbin/slurmd", vec!["-D".into(), "-N".into(), host.to_string()], Identity::root())
        }
    };
    let mut command = Command::new(program);
    command.args::<_, String>(arguments).env_clear().env("PATH", PATH).current_dir("/");
    if service == Service::Munged {
        command.arg("--seed-file=/run/munge/seed").arg("--force");
    }
    who.apply(&mut command);
    let _ = directories;
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
        Service::Slurmctld => said.contains("Running as primary controller"),
        Service::Slurmd => said.contains("slurmd started on"),
    }
}
