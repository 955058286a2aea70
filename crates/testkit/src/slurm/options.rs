//! What a site consists of.

use crate::cluster::Storage;

/// See the module.
#[derive(Clone, Debug)]
pub struct Options {
    /// Hosts with disks for the burst buffer.
    pub storage_nodes: usize,
    /// Hosts that run jobs.
    pub compute_nodes: usize,
    /// What the disks are.
    pub storage: Storage,
    /// Of the workload manager.
    pub slurm: SlurmOptions,
}

/// Deviations of `slurm.conf` from what [`super::etc`] writes.
#[derive(Clone, Debug)]
pub struct SlurmOptions {
    /// Processors that Slurm believes each compute node has; not more than it is given work.
    pub cpus: usize,
    /// Between the request to end and the end by force of a job's processes.
    pub kill_wait_s: u64,
    /// Lines that are added.
    pub more: String,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            storage_nodes: 2,
            compute_nodes: 4,
            storage: Storage::Directory,
            slurm: SlurmOptions { cpus: 2, kill_wait_s: 3, more: String::new() },
        }
    }
}
