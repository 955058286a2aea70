//! Running one job: from its script to its summary.
//!
//! `environment` and `sbatch` are pure; `held` starts the child process, `script` owns it.

pub mod description;
pub mod driver;
pub mod environment;
pub mod figures;
pub mod held;
pub mod interpreter;
pub mod plan;
pub mod progress;
pub mod report;
pub mod sbatch;
pub mod script;
pub mod summary;
