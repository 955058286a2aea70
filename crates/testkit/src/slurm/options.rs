//! What a site consists of.

use crate::cluster::{Sharing, Storage};
use std::path::PathBuf;

/// See the module.
#[derive(Clone, Debug)]
pub struct Options {
    /// Hosts with disks for the burst buffer.
    pub storage_nodes: usize,
    /// Hosts that run jobs.
    pub compute_nodes: usize,
    /// What the disks are.
    pub storage: Storage,
    /// What the hosts have in common.
    pub sharing: Sharing,
    /// Of the workload manager.
    pub slurm: SlurmOptions,
    /// The burst buffer; without it jobs are plain.
    pub buffer: Option<BufferOptions>,
}

/// The burst buffer of a site.
#[derive(Clone, Debug)]
pub struct BufferOptions {
    /// Directory of the programs `forebay`, `dwstat`, `dwcli` and `dw_wlm_cli`.
    pub programs: PathBuf,
    /// Pools, the default one first; storage nodes are dealt over them in turns.
    pub pools: Vec<PoolOptions>,
    /// What keeps a fragment in its bounds.
    pub kind: FragmentKind,
    /// How long a node may be silent before it counts as lost.
    pub lost_after_s: u64,
    /// Lines of `burst_buffer.conf` that are added.
    pub more: String,
}

/// A pool.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Name.
    pub name: String,
    /// Unit of allocation, as the configuration writes it.
    pub granularity: String,
    /// What each storage node of the pool gives, as the configuration writes it.
    pub node_capacity: String,
}

/// What a fragment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentKind {
    /// An XFS image on a loop device, of exactly its size.
    Image,
    /// The same, taking space only as it is written: larger than the disk of the machine that plays the site.
    SparseImage,
    /// A directory, which counts.
    Directory,
}

impl FragmentKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            FragmentKind::Image | FragmentKind::SparseImage => "image",
            FragmentKind::Directory => "directory",
        }
    }
}

impl BufferOptions {
    /// One pool, `default`, of 16 MiB granules, 1 GiB on each node, in directories.
    pub fn new(programs: PathBuf) -> BufferOptions {
        let pool =
            PoolOptions { name: "default".into(), granularity: "16MiB".into(), node_capacity: "1GiB".into() };
        BufferOptions {
            programs,
            pools: vec![pool],
            kind: FragmentKind::Directory,
            lost_after_s: 10,
            more: String::new(),
        }
    }
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

impl Options {
    /// For programs with MPI. UCX, which carries MPICH's messages, hangs over TCP where more ranks than processors spin, and in
    /// common memory it looks for the processes of its partners.
    pub fn for_mpi() -> Options {
        Options { sharing: Sharing::MemoryAndProcesses, ..Options::default() }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            storage_nodes: 2,
            compute_nodes: 4,
            storage: Storage::Directory,
            sharing: Sharing::Nothing,
            slurm: SlurmOptions { cpus: 2, kill_wait_s: 3, more: String::new() },
            buffer: None,
        }
    }
}
