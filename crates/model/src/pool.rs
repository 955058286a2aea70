//! Granules of a pool: how many a size needs, and what each node of the pool has to give.
//!
//! Invariants: `free` of a node is never more than its `quantity`; what [`NodeSpace::take`] took,
//! [`NodeSpace::give_back`] returns in full. Pure; any thread may call it.

use crate::units::{Bytes, Granules};
use serde::{Deserialize, Serialize};

/// What the allocator has to know of one storage node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSpace {
    /// All granules of the node.
    pub quantity: Granules,
    /// Granules that no fragment holds.
    pub free: Granules,
    /// The node answers.
    pub online: bool,
    /// The node takes no new fragments.
    pub drain: bool,
    /// Instances with a fragment on the node.
    pub instances: u64,
    /// Bytes ever written to the node's disks.
    pub bytes_written: Bytes,
}

impl NodeSpace {
    /// An online node with all its granules free and no history.
    pub fn idle(quantity: Granules) -> NodeSpace {
        let (free, bytes_written) = (quantity, Bytes(0));
        NodeSpace { quantity, free, online: true, drain: false, instances: 0, bytes_written }
    }

    /// Whether the node may be given new fragments.
    pub fn takes_new(&self) -> bool {
        self.online && !self.drain
    }

    /// Granules that a new instance can have here: none on an offline or drained node.
    pub fn room(&self) -> Granules {
        if self.takes_new() { Granules(self.free.0.min(self.quantity.0)) } else { Granules(0) }
    }

    /// Takes granules away for a fragment of one more instance.
    ///
    /// # Errors
    /// [`PoolError::OverCommitted`] when the node has less room; nothing is changed then.
    pub fn take(&mut self, granules: Granules) -> Result<(), PoolError> {
        if granules > self.room() {
            return Err(PoolError::OverCommitted { wanted: granules, room: self.room() });
        }
        self.free.0 -= granules.0;
        self.instances += 1;
        Ok(())
    }

    /// Returns the granules of a fragment that is gone. A node that is offline or drained takes them back as well.
    ///
    /// # Errors
    /// [`PoolError::NotTaken`] when more would be free than the node has, or when no instance is here; nothing is
    /// changed then.
    pub fn give_back(&mut self, granules: Granules) -> Result<(), PoolError> {
        let free = self.free.0.checked_add(granules.0).filter(|free| *free <= self.quantity.0);
        let (Some(free), Some(instances)) = (free, self.instances.checked_sub(1)) else {
            let taken = Granules(self.quantity.0.saturating_sub(self.free.0));
            return Err(PoolError::NotTaken { returned: granules, taken });
        };
        self.free.0 = free;
        self.instances = instances;
        Ok(())
    }
}

/// Wrong book-keeping of a node's granules. Only a programming error in the caller can cause it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// More granules were taken than there is room for.
    #[error("{} granules taken from a node with room for {}", .wanted.0, .room.0)]
    OverCommitted {
        /// What was to be taken.
        wanted: Granules,
        /// What the node had.
        room: Granules,
    },
    /// More granules were returned than had been taken.
    #[error("{} granules returned to a node that had given {}", .returned.0, .taken.0)]
    NotTaken {
        /// What was to be returned.
        returned: Granules,
        /// What is taken at present.
        taken: Granules,
    },
}

/// Granules that hold at least `bytes`: `ceil(bytes / granularity)`.
///
/// A granularity of zero is none; the configuration refuses it. Here it counts as one byte, so that the arithmetic
/// is total.
pub fn granules_for(bytes: Bytes, granularity: Bytes) -> Granules {
    Granules(bytes.0.div_ceil(granularity.0.max(1)))
}

/// Whole granules that fit into a disk of `capacity`: `floor(capacity / granularity)`; the rest is not handed out.
///
/// A granularity of zero counts as one byte, as in [`granules_for`].
pub fn granules_within(capacity: Bytes, granularity: Bytes) -> Granules {
    Granules(capacity.0 / granularity.0.max(1))
}

/// Size of so many granules; `None` when it does not fit into 64 bits.
pub fn bytes_of(granules: Granules, granularity: Bytes) -> Option<Bytes> {
    granules.0.checked_mul(granularity.0).map(Bytes)
}

#[cfg(test)]
mod tests;
