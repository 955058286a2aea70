//! From orders to what servers and clients have to know.
//!
//! Names of a registry's things in the file system: instance `I<id>`, the namespace of a configuration `c<id>`, a client's own one
//! [`private_name`]. They never change, so everybody makes the same of them.

use super::error::TaskError;
use super::state;
use crate::atomic_file;
use crate::error::AgentError;
use crate::node::{Endpoint, ServerAddress, private_name};
use forebay_controller::cluster::effect::{FileLayout, Part, Target};
use forebay_controller::request::AccessRequest;
use forebay_model::ids::{ConfigurationId, InstanceId};
use forebay_model::layout::LayoutChoice;
use forebay_model::limits::Policies;
use forebay_model::objects::AccessMode;
use forebay_server::local::{Limits, NamespaceSpec};
use std::fmt;
use std::fmt::Write;
use std::path::Path;

/// How long a server is waited for that is not heard of; then what was asked of it fails.
pub(super) const FINAL_S: u64 = 300;

/// The secrets of an instance.
#[derive(Clone)]
pub struct InstanceSecrets {
    /// For its clients.
    pub token: String,
    /// For its servers.
    pub seal: String,
}

impl fmt::Debug for InstanceSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InstanceSecrets")
    }
}

/// Writes a secret where its owner alone can read it.
pub(super) fn write_secret(path: &Path, secret: &str) -> Result<(), AgentError> {
    atomic_file::write(path, format!("{secret}\n").as_bytes())
}

/// What an instance is called.
pub(super) fn instance_name(id: InstanceId) -> String {
    format!("I{id}")
}

/// What the namespace of a configuration, or the template of its namespaces, is called.
pub(super) fn namespace_name(id: ConfigurationId) -> String {
    format!("c{id}")
}

/// A namespace, or a template, of a configuration.
pub(super) fn namespace_spec(
    id: ConfigurationId,
    access: &AccessRequest,
    layout: FileLayout,
    policies: Policies,
) -> NamespaceSpec {
    NamespaceSpec {
        name: namespace_name(id),
        layout: LayoutChoice {
            stripe_size: Some(layout.stripe_bytes.0),
            substripes: Some(layout.substripes),
            ..LayoutChoice::default()
        },
        limits: Limits { max_file_size: access.max_file_size, max_files: access.max_files, policies },
    }
}

/// The servers of an instance, in their order, as they are reached from a node. The same path is another server's socket on
/// another node.
pub(super) fn servers(parts: &[Part], node: &str) -> Result<Vec<ServerAddress>, TaskError> {
    parts.iter().map(|part| server(part, node)).collect()
}

fn server(part: &Part, node: &str) -> Result<ServerAddress, TaskError> {
    let address = part.address.as_ref().ok_or_else(|| TaskError::NoAddress { node: part.node.clone() })?;
    let address: Endpoint = address.parse().map_err(|error| TaskError::BadOrder {
        problem: format!("{address:?} is no address of the file server of node {}: {error}", part.node),
    })?;
    let socket = part.socket.as_ref().filter(|_| part.node == node);
    Ok(ServerAddress { address, socket: socket.map(Into::into) })
}

/// Writes what a client has to know of an instance: `instance.toml` and `token` in a directory.
pub(super) fn write_client(
    directory: &Path,
    node: &str,
    target: &Target,
    token: &str,
) -> Result<(), TaskError> {
    let home = target.home().ok_or_else(|| TaskError::BadOrder {
        problem: format!("fragment {} with the names is not one of the instance's", target.metadata),
    })?;
    state::make_directory(directory)?;
    let token_file = directory.join("token");
    write_secret(&token_file, token)?;
    let mut text = format!(
        "id = {}\nname = {:?}\nnamespace = {:?}\nhome = {home}\ntoken_file = {}\ncache = {:?}\nfinal_s = {FINAL_S}\n",
        target.instance.0,
        instance_name(target.instance),
        target_namespace(target, home),
        toml::Value::String(token_file.to_string_lossy().into_owned()),
        cache(target)
    );
    for server in servers(&target.fragments, node)? {
        let _ = writeln!(text, "\n[[server]]\naddress = \"{}\"", server.address);
        if let Some(socket) = server.socket {
            let socket = toml::Value::String(socket.to_string_lossy().into_owned());
            let _ = writeln!(text, "socket = {socket}");
        }
    }
    Ok(atomic_file::write(&directory.join("instance.toml"), text.as_bytes())?)
}

/// What the client keeps of files, in the words of its file: what it was asked to, and whatever nobody else changes.
fn cache(target: &Target) -> &'static str {
    let is_alone = target.access.mode == AccessMode::Private;
    if is_alone || target.access.client_cache { "close-to-open" } else { "none" }
}

/// How a client's mount is called in the mount table.
pub(super) fn mount_source(target: &Target, home: usize) -> String {
    format!("{}/{}", instance_name(target.instance), target_namespace(target, home))
}

fn target_namespace(target: &Target, home: usize) -> String {
    let name = namespace_name(target.configuration);
    match target.access.mode {
        AccessMode::Private => private_name(&name, target.namespace.0, home as u32),
        _ => name,
    }
}
