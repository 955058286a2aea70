//! The agent: carries out the controller's tasks on one machine.
//!
//! It makes fragments (XFS images of fixed size, or directories), attaches instances, mounts their namespaces where the
//! job looks for them, stages data in and out, and removes everything again. The controller decides, the agent does;
//! it keeps no state but one directory per instance (`instance.json`, locks, socket and log of the instance process).
//!
//! Every step can be cut off by a crash and be done again: see [`Agent`] for the order of events.

// The macros end the process when standard error is closed or its disk is full.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod account;
mod agent;
mod atomic_file;
mod attachment;
mod capabilities;
mod clean;
mod create;
pub mod daemon;
mod description;
mod destroy;
mod error;
mod fragment;
mod holders;
mod lease;
mod loop_device;
mod mount_table;
mod mounting;
mod namespace;
pub mod node;
pub mod process;
mod record;
mod serving;
mod signpost;
mod stage;
mod state_directory;
mod usage;
mod volume_tree;
mod xfs_counters;

pub use agent::Agent;
pub use attachment::{Attachment, Unmounted};
pub use capabilities::{Capabilities, Feature, Lack};
pub use description::{ConfigurationDescription, FragmentDescription, InstanceDescription};
pub use error::{AgentError, DescriptionFault, RecordFault};
pub use holders::Holders;
pub use serving::{Obstacle, Serving};
pub use stage::{StageError, StageTask};
pub use usage::Usage;
