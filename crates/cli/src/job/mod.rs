//! Running one job: from its script to its summary.
//!
//! `environment` and `sbatch` are pure; `script` owns the child process.

pub mod environment;
pub mod figures;
pub mod progress;
pub mod sbatch;
pub mod script;
