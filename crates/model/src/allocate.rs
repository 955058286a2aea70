//! Which nodes of a pool give the granules of a new instance.
//!
//! Granules are dealt like cards: one to each node in the order of the strategy, then again from the first, passing
//! over nodes that are full. Offline and drained nodes are not at the table.
//!
//! Invariants:
//! - the shares sum up to what was asked for, and no node gives more than its room;
//! - among the nodes at the table that have room left after the deal, no two shares differ by more than one (a full
//!   node cannot take more, so it may have less than the others);
//! - the same input gives the same answer.
//!
//! Pure; any thread may call it. Nothing is taken here: the caller books the shares.

use crate::pool::NodeSpace;
use crate::units::{Bytes, Granules};
use serde::{Deserialize, Serialize};

/// How nodes are chosen (`optimization_strategy=`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// As many nodes as possible. All nodes with room are at the table, those with the most free granules first, then
    /// in the order given.
    #[default]
    Bandwidth,
    /// As little sharing with other instances as possible. Nodes are ranked by the number of their instances; only
    /// the lowest ranks that together have room enough are at the table, so that a request that fits on unshared
    /// nodes stays there, even if that is fewer nodes. Within the table: fewest instances first, then as bandwidth.
    Interference,
    /// Least worn nodes first: bytes ever written divided by capacity, then as bandwidth. All nodes with room are at
    /// the table, so the width is that of bandwidth.
    Wear,
}

/// What one node gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Index of the node in the slice that was passed in.
    pub node: usize,
    /// Granules it gives, at least one.
    pub granules: Granules,
}

/// Why there is no allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocationError {
    /// The pool has fewer free granules. The user can ask for less or wait, if `requested` is at most `quantity`.
    #[error("{} granules requested, {} of {} are free", .requested.0, .free.0, .quantity.0)]
    NoSpace {
        /// Granules asked for.
        requested: Granules,
        /// Granules free on nodes that take new fragments.
        free: Granules,
        /// All granules of those nodes.
        quantity: Granules,
        /// Size of a granule.
        granularity: Bytes,
    },
    /// The pool has fewer nodes that are wholly free.
    #[error("{requested} whole nodes requested, {free} of {nodes} are wholly free")]
    NoNodes {
        /// Nodes asked for.
        requested: u64,
        /// Nodes that take new fragments and hold none.
        free: u64,
        /// Nodes that take new fragments.
        nodes: u64,
    },
    /// An instance has at least one granule.
    #[error("nothing requested")]
    Nothing,
}

/// Deals `want` granules over `nodes`. The shares come in the order of the deal: the first node of an instance is the
/// one with the metadata.
///
/// # Errors
/// [`AllocationError::NoSpace`] when there is not enough room, [`AllocationError::Nothing`] for zero granules.
pub fn allocate(
    nodes: &[NodeSpace],
    granularity: Bytes,
    want: Granules,
    strategy: Strategy,
) -> Result<Vec<Share>, AllocationError> {
    if want.0 == 0 {
        return Err(AllocationError::Nothing);
    }
    let (free, quantity) = totals(nodes);
    if want > free {
        return Err(AllocationError::NoSpace { requested: want, free, quantity, granularity });
    }
    Ok(deal(nodes, &table(nodes, want, strategy), want))
}

/// Takes `count` nodes whole (`capacity=2N`): nodes that take new fragments, hold none and have all their granules
/// free, the largest first, then in the order given.
///
/// # Errors
/// [`AllocationError::NoNodes`] when fewer nodes are wholly free, [`AllocationError::Nothing`] for zero nodes.
pub fn allocate_nodes(nodes: &[NodeSpace], count: u64) -> Result<Vec<Share>, AllocationError> {
    if count == 0 {
        return Err(AllocationError::Nothing);
    }
    let mut whole: Vec<usize> = (0..nodes.len()).filter(|&index| is_wholly_free(&nodes[index])).collect();
    if (whole.len() as u64) < count {
        let taking = nodes.iter().filter(|node| node.takes_new()).count() as u64;
        return Err(AllocationError::NoNodes { requested: count, free: whole.len() as u64, nodes: taking });
    }
    whole.sort_by_key(|&index| std::cmp::Reverse(nodes[index].quantity));
    let share = |&node: &usize| Share { node, granules: nodes[node].quantity };
    Ok(whole.iter().take(count as usize).map(share).collect())
}

/// Free and all granules of the nodes that take new fragments: `free` and `quantity` of the pool.
pub fn totals(nodes: &[NodeSpace]) -> (Granules, Granules) {
    let taking = nodes.iter().filter(|node| node.takes_new());
    taking.fold((Granules(0), Granules(0)), |(free, quantity), node| {
        (Granules(free.0.saturating_add(node.room().0)), Granules(quantity.0.saturating_add(node.quantity.0)))
    })
}

fn is_wholly_free(node: &NodeSpace) -> bool {
    node.takes_new() && node.instances == 0 && node.quantity.0 > 0 && node.free == node.quantity
}

/// The nodes that granules are dealt to, in the order of the deal.
fn table(nodes: &[NodeSpace], want: Granules, strategy: Strategy) -> Vec<usize> {
    let mut order: Vec<usize> = (0..nodes.len()).filter(|&index| nodes[index].room().0 > 0).collect();
    // Both sorts are stable: equal nodes keep the order they were given in.
    order.sort_by_key(|&index| std::cmp::Reverse(nodes[index].room()));
    match strategy {
        Strategy::Bandwidth => {}
        Strategy::Wear => order.sort_by(|&a, &b| by_wear(&nodes[a], &nodes[b])),
        Strategy::Interference => {
            order.sort_by_key(|&index| nodes[index].instances);
            order.truncate(least_shared(nodes, &order, want));
        }
    }
    order
}

/// Compares written / quantity of two nodes without a division.
fn by_wear(a: &NodeSpace, b: &NodeSpace) -> std::cmp::Ordering {
    let left = u128::from(a.bytes_written.0) * u128::from(b.quantity.0);
    let right = u128::from(b.bytes_written.0) * u128::from(a.quantity.0);
    left.cmp(&right)
}

/// How many nodes of `order` (sorted by instances) make up the lowest ranks with room for `want`.
fn least_shared(nodes: &[NodeSpace], order: &[usize], want: Granules) -> usize {
    let mut room: u128 = 0;
    let mut last_rank = None;
    for (position, &index) in order.iter().enumerate() {
        let rank = nodes[index].instances;
        if last_rank != Some(rank) && room >= u128::from(want.0) {
            return position;
        }
        last_rank = Some(rank);
        room += u128::from(nodes[index].room().0);
    }
    order.len()
}

/// Deals to the nodes of `table`, which together have room for `want`.
///
/// Round by round would take as long as the request is large. Instead: `full_rounds` is the largest number of rounds
/// in which not more than `want` is dealt, and what is left is one more round that ends early.
fn deal(nodes: &[NodeSpace], table: &[usize], want: Granules) -> Vec<Share> {
    let room = |index: usize| nodes[index].room().0;
    let dealt = |rounds: u64| table.iter().map(|&index| u128::from(room(index).min(rounds))).sum::<u128>();
    let full_rounds = largest_within(want.0, |rounds| dealt(rounds) <= u128::from(want.0));
    // At most one granule per node is left, so the difference fits.
    let mut left = u128::from(want.0).saturating_sub(dealt(full_rounds));
    let mut shares = Vec::new();
    for &node in table {
        let extra = u64::from(left > 0 && room(node) > full_rounds);
        left -= u128::from(extra);
        let granules = Granules(room(node).min(full_rounds) + extra);
        if granules.0 > 0 {
            shares.push(Share { node, granules });
        }
    }
    shares
}

/// The largest number in `0..=limit` that `fits`, where everything below a fitting number fits and zero does.
fn largest_within(limit: u64, fits: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, limit);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests;
