//! From files to the client library: what it takes to reach the servers of an instance.

use super::server_config::{InstanceConfig, NamespaceConfig, ServerAddress};
use super::{InstanceFile, NodeError};
use forebay_client::remote::{
    self, Address, AttachError, Attached, ConnectError, Description, Peers, Timeouts,
};
use forebay_wire::Secret;
use forebay_wire::message::RefusalReason;
use std::time::{Duration, Instant};

/// Pause before a server is asked again whether it serves an instance.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);

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

/// The same for who was told that it is served: a server that just came up may not have been told yet. That, and a server that
/// cannot be reached, is waited for as long as for one that goes away later.
pub(crate) fn attach_expected(file: &InstanceFile, token: &Secret) -> Result<Attached, NodeError> {
    let until = Instant::now() + file.final_wait;
    loop {
        match attach(file, token.clone()) {
            Err(error) if may_come(&error) && Instant::now() < until => std::thread::sleep(ASK_AGAIN_AFTER),
            attached => return attached,
        }
    }
}

fn may_come(error: &NodeError) -> bool {
    let NodeError::Attach { source: AttachError::Connect(source), .. } = error else { return false };
    let unknown = |reason: &RefusalReason| {
        matches!(reason, RefusalReason::UnknownInstance | RefusalReason::UnknownNamespace)
    };
    source.is_transient() || matches!(source, ConnectError::Refused { reason, .. } if unknown(reason))
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
