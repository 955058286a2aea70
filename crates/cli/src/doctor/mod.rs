//! `forebay doctor`: looks over a machine, or a cluster from one of its machines, and says what to change.
//!
//! Looks only. Each module judges one thing and gives findings; [`slurm`] and [`nodes`] are pure, the others read the
//! machine. Which of them apply follows from the machine's configuration files, or from `--role`.

pub mod clock;
pub mod command;
pub mod controller;
pub mod custody;
pub mod finding;
pub mod kernel;
pub mod munge;
pub mod nodes;
pub mod pipes;
pub mod ports;
pub mod role;
pub mod slurm;
pub mod slurm_files;
pub mod storage;
pub mod versions;
