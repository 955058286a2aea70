//! The switch: a bridge in a namespace of its own, one port for each host.
//!
//! A host's end of the cable is `eth0`. Its hardware address follows from its position, so a host that boots again is found by
//! its neighbours without waiting for their tables to age.

use super::host::TOOL_LIMIT;
use super::namespaces::Namespaces;
use super::{ClusterError, Host};
use crate::leaks::Namespace;
use crate::process::{self, ProcessError};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use tempfile::NamedTempFile;

/// See the module.
#[derive(Debug)]
pub(super) struct Switch {
    namespaces: Namespaces,
}

/// Name of the port of the host at this position.
pub(super) fn port(position: usize) -> String {
    format!("port{position}")
}

impl Switch {
    pub(super) fn start(directory: &Path) -> Result<Switch, ClusterError> {
        let switch = Switch { namespaces: Namespaces::start("switch", directory, None)? };
        switch.ip("link set lo up\nlink add bridge type bridge\nlink set bridge up\n")?;
        Ok(switch)
    }

    /// Lays a cable between a port and a host, and gives the host its address.
    pub(super) fn connect(&self, position: usize, host: &Host) -> Result<(), ClusterError> {
        let (port, keeper) = (port(position), host.keeper()?);
        let hardware = format!("02:46:42:00:00:{:02x}", position + 1);
        self.ip(&format!(
            "link add {port} type veth peer name eth0 address {hardware} netns {keeper}\n\
             link set {port} master bridge\nlink set {port} up\n"
        ))?;
        let address = host.address();
        let lines = format!("link set lo up\naddress add {address}/24 dev eth0\nlink set eth0 up\n");
        host.in_network(|| batch("ip", &lines))??;
        Ok(())
    }

    /// Takes the cable away.
    pub(super) fn disconnect(&self, position: usize) -> Result<(), ClusterError> {
        // The kernel may have done so already, when it took the host's end away.
        let port = port(position);
        let gone = |error: &ClusterError| error.to_string().contains("Cannot find device");
        match self.ip(&format!("link delete {port}\n")) {
            Err(error) if !gone(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Gives `ip` these lines.
    pub(super) fn ip(&self, lines: &str) -> Result<(), ClusterError> {
        Ok(self.namespaces.in_network(|| batch("ip", lines))??)
    }

    /// Gives `bridge` these lines.
    pub(super) fn bridge(&self, lines: &str) -> Result<(), ClusterError> {
        Ok(self.namespaces.in_network(|| batch("bridge", lines))??)
    }

    /// Its own namespaces.
    pub(super) fn own(&self) -> &Namespaces {
        &self.namespaces
    }

    pub(super) fn namespaces(&self) -> Vec<Namespace> {
        self.namespaces.names().to_vec()
    }
}

/// Gives a program of iproute2 several commands at once, in the network of the calling thread.
pub(super) fn batch(program: &str, lines: &str) -> Result<(), ProcessError> {
    let start = |source| ProcessError::Start { program: format!("{program} -batch"), source };
    let mut input = NamedTempFile::new().map_err(start)?;
    input.write_all(lines.as_bytes()).map_err(start)?;
    let mut command = Command::new(program);
    command.arg("-batch").arg(input.path());
    process::run(&mut command, TOOL_LIMIT)?.success().map(drop)
}
