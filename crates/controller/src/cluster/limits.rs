//! The limits of the cluster's controller: how much anybody may ask for, and how long it waits.
//!
//! Plain constants. What a limit refuses is refused before anything is changed.

/// Most characters of a token, label, pool or node name. Shown in one column of dwstat, used as a directory name.
pub const MAX_WORD: usize = 128;
/// Most bytes of a path.
pub const MAX_PATH_BYTES: usize = 4096;
/// Most bytes of the address of a file server: a host name and a port.
pub const MAX_ADDRESS: usize = 300;
/// Most characters of a failure's text: Slurm shows about 1 KB of it.
pub const MAX_TEXT: usize = 1000;
/// Most sessions at a time.
pub const MAX_SESSIONS: usize = 100_000;
/// Most sessions of one owner at a time.
pub const MAX_SESSIONS_PER_OWNER: usize = 20_000;
/// Most instances of a session.
pub const MAX_INSTANCES_PER_SESSION: usize = 64;
/// Most configurations of an instance.
pub const MAX_CONFIGURATIONS_PER_INSTANCE: usize = 8;
/// Most persistent instances that a job attaches.
pub const MAX_ATTACHED: usize = 64;
/// Most client nodes of a job: each is a namespace in private mode.
pub const MAX_HOSTS: usize = 65_536;
/// Most stagings of a session.
pub const MAX_STAGES: usize = 10_000;
/// Most nodes of the cluster, storage and compute.
pub const MAX_NODES: usize = 100_000;
/// Most pools.
pub const MAX_POOLS: usize = 256;
/// Most fragments, and most mounts, that an agent may report.
pub const MAX_HELD: usize = 100_000;
/// Most requests that wait for something.
pub const MAX_WAITING: usize = 200_000;
/// Most requests that wait for one session: repeated calls of one workload manager.
pub const MAX_WAITING_PER_SESSION: usize = 256;
/// Slurm keeps the ids of sessions and instances in 32 bits.
pub const MAX_ID: u64 = u32::MAX as u64;

/// An agent that is not heard of for so long is lost, unless the configuration says otherwise.
pub const LOST_AFTER_S: i64 = 60;
/// A mount whose storage nodes are away is tried for so long, unless the configuration says otherwise: less than the 240 s
/// that dw_wlm_cli waits for a controller, and the 300 s that Slurm means to wait for everything.
pub const STORAGE_WAIT_S: i64 = 200;
/// A failed task is tried so many times before the fuse blows and somebody has to act.
pub const MAX_ATTEMPTS: u32 = 5;
/// Pause before the second attempt; it doubles with every further one.
pub const FIRST_RETRY_S: i64 = 2;
/// Longest pause between two attempts.
pub const MAX_RETRY_S: i64 = 60;

/// The pause after so many failed attempts.
pub fn retry_pause_s(attempts: u32) -> i64 {
    let doublings = attempts.saturating_sub(1).min(16);
    (FIRST_RETRY_S << doublings).min(MAX_RETRY_S)
}
