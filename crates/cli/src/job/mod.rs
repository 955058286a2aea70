//! Running one job: from its script to its summary.
//!
//! `environment` and `sbatch` are pure; `held` starts the child process, `script` owns it, `forsaken` finds what a
//! forebay that was killed left of it.

pub mod description;
pub mod driver;
pub mod environment;
pub mod figures;
pub mod forsaken;
pub mod held;
pub mod interpreter;
pub mod plan;
pub mod progress;
pub mod report;
pub mod sbatch;
pub mod script;
pub mod summary;
