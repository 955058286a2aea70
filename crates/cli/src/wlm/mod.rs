//! `dw_wlm_cli`: what the workload manager calls.
//!
//! Slurm's own `burst_buffer/datawarp` plugin runs it once for every step of a job, as Slurm's user, with both streams in
//! one pipe. It turns the words of a call into one request to the controller and waits for the answer; it keeps nothing
//! itself, so it may be killed at any moment and called again. `docs/dw_wlm_cli.md` describes every verb.
//!
//! Everything here is pure but for [`script::JobScript::read`], [`hosts::NodeFile::read`], [`paths_file::write`],
//! [`settings`], [`log`], [`carry_out`] and [`command`].

pub mod call;
pub mod carry_out;
pub mod command;
pub mod hosts;
pub mod job;
pub mod json;
pub mod log;
pub mod options;
pub mod paths_file;
pub mod persistent;
pub mod pool_size;
pub mod reading;
pub mod script;
pub mod settings;
pub mod text;
