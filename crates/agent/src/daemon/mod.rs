//! The agent of a cluster's node: works off the orders of the controller.
//!
//! ```text
//! controller <-- HTTP -- agent -- starts, finds again --> file server     one on a storage node, for all instances
//!                                                         mount           one for each activation on a client node
//!                                                         staging         one for each, as the job's user
//! ```
//!
//! Orders are carried out by [`Node`]: plain functions, each of which can be cut off anywhere and be done again. What the
//! node holds is what its disks and its mount table say, never what a process remembers. The processes are this program run
//! again ([`worker`]); they belong to nobody, so that the agent can be killed, updated and started while jobs go on. A
//! file server that dies is started again with the same instances.
//!
//! - `config`: the configuration.
//! - `state`: the agent's directory.
//! - `disk_mark`: whether the disk is the right one.
//! - `fragments`, `records`: space on the disks.
//! - `file_server`, `control`: the process that serves it, and what it is told.
//! - `mounts`, `evict`, `left_mounts`: mounts on client nodes, and who is in their way.
//! - `log_file`: logs within bounds.
//! - `stages`, `stage_worker`: copies.
//! - `duties`: which orders are worked on; pure.
//! - `agent`: the conversation with the controller.
//! - `wear`: what was written to the disk.

mod agent;
mod config;
mod control;
mod disk_mark;
mod duties;
mod error;
mod evict;
mod file_server;
mod fragments;
mod left_mounts;
mod log_file;
mod mount_place;
mod mounts;
mod node;
mod records;
mod stage_worker;
mod stages;
mod state;
mod tail;
mod targets;
mod wear;
pub mod worker;

pub use agent::{Agent, DaemonError, Stop};
pub use config::{AgentConfig, Holding, StorageConfig, StorageKind};
pub use error::TaskError;
pub use file_server::lives as file_server_lives;
pub use fragments::NewFragment;
pub use node::{Node, Serving};
pub use stages::{Cancel, StageSpace, Staging};
pub use targets::InstanceSecrets;
