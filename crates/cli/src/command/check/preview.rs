//! What an allocation would be in an idle pool.
//!
//! Pure.

use crate::offer::Offers;
use forebay_model::allocate::{AllocationError, Strategy, allocate, allocate_nodes};
use forebay_model::capacity::Capacity;
use forebay_model::capacity::format::{SizeStyle, format_size};
use forebay_model::pool::{NodeSpace, granules_for, granules_within};
use forebay_model::units::{Bytes, Granules};
use serde::Serialize;
use std::fmt;

/// Space as it would be given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "result", rename_all = "snake_case")]
pub enum Preview {
    /// It fits.
    Fits {
        /// The pool.
        pool: String,
        /// Size of a granule in bytes.
        granularity: Bytes,
        /// How many.
        granules: Granules,
        /// Their size together in bytes.
        bytes: Bytes,
        /// Nodes that give some.
        nodes: usize,
    },
    /// The whole pool is too small.
    TooLarge {
        /// The pool.
        pool: String,
        /// Size of a granule in bytes.
        granularity: Bytes,
        /// Granules needed.
        granules: Granules,
        /// Bytes of the whole pool.
        pool_bytes: Bytes,
    },
    /// No node of the pool can be used.
    NoNode {
        /// The pool.
        pool: String,
        /// Why not, for each of them.
        reasons: Vec<String>,
    },
    /// There is no such pool.
    UnknownPool {
        /// What was asked for.
        pool: String,
        /// What there is.
        known: Vec<String>,
    },
}

/// The allocation of `capacity` in an idle pool, the default one if `pool` is `None`.
pub fn preview(capacity: Capacity, pool: Option<&str>, strategy: Strategy, offers: &Offers) -> Preview {
    let found = offers.pools.iter().find(|offer| pool.map_or(offer.default, |name| offer.name == name));
    let Some(found) = found else {
        let known = offers.pools.iter().map(|offer| offer.name.clone()).collect();
        return Preview::UnknownPool { pool: pool.unwrap_or_default().to_string(), known };
    };
    let (pool, granularity) = (found.name.clone(), found.granularity);
    let reasons = offers.of_dead(&pool);
    if !reasons.is_empty() {
        return Preview::NoNode { pool, reasons: reasons.iter().map(ToString::to_string).collect() };
    }
    let space = |offer: &forebay_controller::request::NodeOffer| NodeSpace {
        online: offer.online,
        drain: offer.drain,
        ..NodeSpace::idle(granules_within(offer.capacity, granularity))
    };
    let nodes: Vec<NodeSpace> = found.nodes.iter().map(space).collect();
    let (wanted, shares) = match capacity {
        Capacity::Bytes(bytes) => {
            let granules = granules_for(bytes, granularity);
            (granules, allocate(&nodes, granularity, granules, strategy))
        }
        Capacity::Nodes(count) => (Granules(count), allocate_nodes(&nodes, count)),
    };
    match shares {
        Ok(shares) => {
            let granules = Granules(shares.iter().map(|share| share.granules.0).sum());
            let bytes = Bytes(granules.0.saturating_mul(granularity.0));
            Preview::Fits { pool, granularity, granules, bytes, nodes: shares.len() }
        }
        Err(AllocationError::NoSpace { .. } | AllocationError::NoNodes { .. } | AllocationError::Nothing) => {
            let all: u64 = nodes.iter().map(|node| node.quantity.0).sum();
            let pool_bytes = Bytes(all.saturating_mul(granularity.0));
            Preview::TooLarge { pool, granularity, granules: wanted, pool_bytes }
        }
    }
}

impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |bytes: &Bytes| format_size(*bytes, SizeStyle::Binary);
        let plural = |count: u64| if count == 1 { "" } else { "s" };
        match self {
            Preview::Fits { pool, granularity, granules, bytes, nodes } => write!(
                f,
                "{} granule{} of {} = {} ({} bytes) on {nodes} node{} of {pool}",
                granules.0,
                plural(granules.0),
                size(granularity),
                size(bytes),
                bytes.0,
                plural(*nodes as u64)
            ),
            Preview::TooLarge { pool, granularity, granules, pool_bytes } => write!(
                f,
                "{} granule{} of {} do not fit: the whole of {pool} has {}; use --capacity or more --pool-dir",
                granules.0,
                plural(granules.0),
                size(granularity),
                size(pool_bytes)
            ),
            Preview::NoNode { pool, reasons } => {
                write!(f, "no storage node of {pool} can be used: {}", reasons.join("; "))
            }
            Preview::UnknownPool { pool, known } => {
                write!(f, "pool {pool} is not configured here; there is {}", known.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offer::Unusable;
    use forebay_controller::request::{NodeOffer, PoolOffer};

    fn cori(nodes: usize) -> Offers {
        let node = |index| NodeOffer {
            name: format!("nid{index:05}"),
            directory: "/ssd".into(),
            capacity: Bytes(6_400_000_000_000),
            granularity: Bytes(16 << 20),
            online: true,
            drain: false,
        };
        let pool = PoolOffer {
            name: "wlm_pool".into(),
            granularity: Bytes(82_496 << 20),
            default: true,
            nodes: (0..nodes).map(node).collect(),
        };
        Offers { pools: vec![pool], unusable: Vec::new() }
    }

    #[test]
    fn the_tutorials_request_on_the_tutorials_machine() {
        let text = preview("200GB".parse().unwrap(), None, Strategy::Bandwidth, &cori(288)).to_string();
        assert_eq!(text, "3 granules of 80.56GiB = 241.69GiB (259509977088 bytes) on 3 nodes of wlm_pool");
    }

    #[test]
    fn a_pool_whose_nodes_cannot_be_used_says_why() {
        let mut offers = cori(1);
        offers.pools[0].nodes[0].online = false;
        let (node, source) = ("nid00000".to_owned(), std::io::ErrorKind::NotFound.into());
        offers.unusable.push(Unusable { node, directory: "/ssd".into(), source });
        let text = preview("1GB".parse().unwrap(), None, Strategy::Bandwidth, &offers).to_string();
        assert!(text.contains("no storage node of wlm_pool can be used: storage node nid00000"), "{text}");
        assert!(text.contains("\"/ssd\"") && !text.contains("do not fit"), "{text}");
        offers.pools[0].nodes.extend(cori(2).pools.remove(0).nodes.pop());
        let text = preview("100TB".parse().unwrap(), None, Strategy::Bandwidth, &offers).to_string();
        assert!(text.contains("do not fit"), "one node is there: {text}");
    }

    #[test]
    fn what_does_not_fit_says_what_there_is() {
        let text = preview("100TB".parse().unwrap(), None, Strategy::Bandwidth, &cori(1)).to_string();
        assert!(text.contains("do not fit") && text.contains("--capacity"), "{text}");
        let text =
            preview("1GB".parse().unwrap(), Some("dev_pool"), Strategy::Bandwidth, &cori(1)).to_string();
        assert_eq!(text, "pool dev_pool is not configured here; there is wlm_pool");
    }
}
