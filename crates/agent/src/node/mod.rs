//! A node of a cluster: what its server serves and what its clients mount, as files say it.
//!
//! Two files, both TOML, both read and never written: the configuration of a server ([`ServerConfig`]) and the description
//! of an instance for its clients ([`InstanceFile`]). Unknown keys are refused with their line. Secrets are not in them but
//! in files of their own ([`read_secret`]), which nobody but their owner may read.
//!
//! What they say is carried out by [`ServerNode`] and [`ClientMount`], each in a process of its own.

mod client;
pub(crate) mod document;
mod endpoint;
mod error;
mod fsck;
mod instance_file;
mod keep_awake;
mod private;
pub(crate) mod remote;
mod running;
mod secret;
mod served;
mod server;
mod server_config;
mod sweeper;
mod umount;

pub use client::{ClientMount, IoUring, MountWishes, Servers, status, status_with};
pub use endpoint::{Endpoint, EndpointError};
pub use error::NodeError;
pub use fsck::{CheckedInstance, checked_instances};
pub use instance_file::{Cache, InstanceFile};
pub use keep_awake::KeepAwake;
pub use private::private_name;
pub use running::Whereabouts;
pub use secret::read_secret;
pub use server::{Room, ServerNode};
pub use server_config::{InstanceConfig, NamespaceConfig, Owner, ServerAddress, ServerConfig};
pub use umount::unmount;
