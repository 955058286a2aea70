//! The commands: `forebay`, `dwstat`, `dwcli`, and `dw_wlm_cli`, which Slurm calls.
//!
//! `forebay run` is the controller, the agent and the workload manager of one machine in one process: it reads the
//! script's directives, asks the registry for space, has the agent library make, fill, mount and empty it, and runs the
//! script in between. User-facing text and exit statuses are made here and only here.

// What is said goes through `say`: the macros end the process when the reader is gone.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod args;
pub mod command;
pub mod config;
pub mod doctor;
pub mod dwcli;
pub mod dwstat;
pub mod error;
pub mod exit;
pub mod interrupt;
pub mod job;
pub mod machine;
pub mod offer;
pub mod say;
pub mod state_dir;
pub mod user;
pub mod wlm;
