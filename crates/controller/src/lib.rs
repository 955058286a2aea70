//! Registry, allocation and the job life cycle.
//!
//! [`registry::Registry`] is the one durable record of what exists: pools, nodes, sessions, instances and the rest of
//! the DataWarp objects, and where every job stands. [`job::step`] is the pure rule that says what a job does next.
//! The crate moves no data bytes and mounts nothing: a driver reads the step's effect, has the agent carry it out and
//! reports back. Nothing here reads a clock; times come in as whole seconds since the epoch.

// Only `munge::library` needs it: it calls a C library.
#![deny(unsafe_code)]

pub mod client;
pub mod cluster;
pub mod custody;
pub mod error;
pub mod job;
pub mod munge;
pub mod path_text;
pub mod process;
pub mod protocol;
pub mod record;
pub mod registry;
pub mod request;
pub mod service;
