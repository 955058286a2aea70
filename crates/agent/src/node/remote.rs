//! From files to the client library: what it takes to reach the servers of an instance.

use super::server_config::{InstanceConfig, NamespaceConfig, ServerAddress};
use super::{InstanceFile, NodeError};
use forebay_client::remote::{self, Address, Attached, Description, Peers, Timeouts};
use forebay_wire::Secret;

/// Attaches the namespace that a file describes.
pub(crate) fn attach(file: &InstanceFile, token: Secret) -> Result<Attached, NodeError> {
    let description = Description {
        instance: file.name.clone(),
        namespace: file.namespace.clone(),
        servers: file.servers.iter().map(address).collect(),
        home: file.home,
        secret: token,
        timeouts: Timeouts { unreachable: file.final_wait, ..Timeouts::default() },
        direct: true,
    };
    remote::attach(&description).map_err(|source| NodeError::Attach {
        instance: file.name.clone(),
        namespace: file.namespace.clone(),
        source,
    })
}

/// The content of a namespace on all servers, for the one that keeps its names.
pub(super) fn peers(
    instance: &InstanceConfig,
    namespace: &NamespaceConfig,
    seal: Secret,
) -> Result<Peers, NodeError> {
    let description = Description {
        instance: instance.name.clone(),
        namespace: namespace.spec.name.clone(),
        servers: instance.servers.iter().map(address).collect(),
        home: namespace.home,
        secret: seal,
        timeouts: Timeouts { unreachable: instance.final_wait, ..Timeouts::default() },
        direct: false,
    };
    remote::peers(&description).map_err(|source| NodeError::Attach {
        instance: instance.name.clone(),
        namespace: namespace.spec.name.clone(),
        source,
    })
}

/// Where a server is.
pub(super) fn address(server: &ServerAddress) -> Address {
    Address { tcp: server.address.to_string(), unix: server.socket.clone() }
}
