//! Faults of the network, each with its repair.
//!
//! All of them lose packets and tell nobody, but for a pulled cable, which the host sees. Connections stay open on both
//! sides, as they do in a machine room: what notices is the time limit of the program, or TCP's own after minutes.

use super::switch::{batch, port};
use super::{Cluster, ClusterError, Host, HostId};

/// A hardware address that no host has: what is sent there is lost.
const NOWHERE: &str = "02:46:42:ff:ff:ff";

/// States of a bridge's port, numbers of the kernel.
const PORT_DISABLED: u8 = 0;
const PORT_FORWARDING: u8 = 3;

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The cable of a host is pulled: its network card has no carrier.
    Unplugged(HostId),
    /// The switch does not forward anything from or to a host, which sees a healthy link.
    Silent(HostId),
    /// Two hosts do not reach each other; both reach everybody else.
    Severed(HostId, HostId),
}

pub(super) fn set(cluster: &Cluster, fault: Fault, broken: bool) -> Result<(), ClusterError> {
    match fault {
        Fault::Unplugged(host) => {
            let port = port(cluster.position(host));
            let way = if broken { "down" } else { "up" };
            cluster.switch.ip(&format!("link set {port} {way}\n"))
        }
        Fault::Silent(host) => {
            let port = port(cluster.position(host));
            let state = if broken { PORT_DISABLED } else { PORT_FORWARDING };
            cluster.switch.bridge(&format!("link set dev {port} state {state}\n"))
        }
        Fault::Severed(one, other) => {
            let (one, other) = (cluster.host(one), cluster.host(other));
            turn_away(one, other, broken)?;
            turn_away(other, one, broken)
        }
    }
}

/// Makes what `from` sends to `to` go nowhere, by a wrong entry in its table of neighbours.
fn turn_away(from: &Host, to: &Host, broken: bool) -> Result<(), ClusterError> {
    let to = to.address();
    let line = if broken {
        format!("neighbour replace {to} lladdr {NOWHERE} dev eth0 nud permanent\n")
    } else {
        format!("neighbour delete {to} dev eth0\n")
    };
    Ok(from.in_network(|| batch("ip", &line))??)
}
