//! What the configuration says, as far as the core depends on it.

use forebay_model::limits::InstancePolicies;
use forebay_model::units::Bytes;
use std::collections::{BTreeMap, BTreeSet};

/// Where clients find their mounts, unless the configuration says otherwise. Darshan includes this path.
pub const MOUNT_ROOT: &str = "/var/opt/cray/dws/mounts/batch";

/// How much space a user who is no operator may make by hand, past the workload manager.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpaceByHand {
    /// None.
    #[default]
    Operators,
    /// So much at a time.
    UpTo(Bytes),
    /// As much as there is.
    Unlimited,
}

/// The configuration. Not stored: it is read anew at every start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Names this registry. Agents that hold fragments of another one are not admitted.
    pub registry: String,
    /// Uids that may do everything. Root always may.
    pub operators: BTreeSet<u32>,
    /// Uids that the workload manager calls with.
    pub workload_managers: BTreeSet<u32>,
    /// Directory of the mounts on clients; absolute, without a slash at the end.
    pub mount_root: String,
    /// Pools with the size of their granules; the first one is the default.
    pub pools: Vec<(String, Bytes)>,
    /// What happens at the limits of a new instance, by its pool; the usual where nothing is said.
    pub policies: BTreeMap<String, InstancePolicies>,
    /// How much space users may make by hand.
    pub space_by_hand: SpaceByHand,
    /// An agent that is not heard of for so long is lost.
    pub lost_after_s: i64,
    /// A mount whose storage nodes are away is tried for so long.
    pub storage_wait_s: i64,
}

impl Settings {
    /// The pool of requests that name none.
    pub fn default_pool(&self) -> Option<&str> {
        self.pools.first().map(|(name, _)| name.as_str())
    }

    /// What happens at the limits of a new instance in a pool.
    pub fn policies_of(&self, pool: &str) -> InstancePolicies {
        self.policies.get(pool).copied().unwrap_or_default()
    }

    /// Whether this uid may do everything.
    pub fn is_operator(&self, uid: u32) -> bool {
        uid == 0 || self.operators.contains(&uid)
    }

    /// Whether this uid may ask what the workload manager asks.
    pub fn is_workload_manager(&self, uid: u32) -> bool {
        self.is_operator(uid) || self.workload_managers.contains(&uid)
    }
}
