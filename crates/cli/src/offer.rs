//! What the storage nodes of this machine have to offer right now.
//!
//! A node without a configured capacity offers its share of what is free on its disk; nodes on one disk share it
//! evenly, and a tenth stays unpromised for the metadata of fragments and for everybody else. The registry counts an
//! offer only while a node holds no fragment. Reads the disk, changes nothing.

use crate::config::{Config, NodeConfig, PoolConfig};
use forebay_controller::request::{NodeOffer, PoolOffer};
use forebay_model::units::{Bytes, MIB};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Of the free space of a disk, what is offered, in percent.
const OFFERED_PERCENT: u64 = 90;
/// Smallest piece that a node can hand out, as `dwstat nodes` shows it.
const NODE_GRANULARITY: Bytes = Bytes(16 * MIB);

/// A directory of a node cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "storage node {node}: cannot use the directory {directory:?}: {source}; make it, or name another one (--pool-dir or the configuration file)"
)]
pub struct Unusable {
    /// The node.
    pub node: String,
    /// Its directory.
    pub directory: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// Offers of all pools, and why nodes that cannot be used are offline.
#[derive(Debug, Default)]
pub struct Offers {
    /// One per pool, in the order of the configuration.
    pub pools: Vec<PoolOffer>,
    /// Nodes that are offline.
    pub unusable: Vec<Unusable>,
}

/// Looks at the disks of all nodes. Directories below `own` will be made when they are needed; others must exist, up to
/// the node's own one.
pub fn offers(config: &Config, own: &Path) -> Offers {
    let mut disks = Disks { own, free: BTreeMap::new() };
    let looked: Vec<(&PoolConfig, Vec<Result<Disk, Unusable>>)> = config
        .pools
        .iter()
        .map(|pool| (pool, pool.nodes.iter().map(|node| disks.look(node)).collect()))
        .collect();
    let mut offers = Offers::default();
    for (pool, found) in looked {
        let nodes =
            pool.nodes.iter().zip(found).map(|(node, found)| offers.node(node, found, &disks)).collect();
        offers.pools.push(PoolOffer {
            name: pool.name.clone(),
            granularity: pool.granularity,
            default: pool.name == config.default_pool,
            nodes,
        });
    }
    offers
}

impl Offers {
    /// The nodes of a pool, if none of them can be used; otherwise nothing.
    pub fn of_dead(&self, pool: &str) -> Vec<&Unusable> {
        let found = self.pools.iter().find(|one| one.name == pool);
        let Some(dead) = found.filter(|one| one.nodes.iter().all(|node| !node.online)) else {
            return Vec::new();
        };
        let is_of_it = |one: &&Unusable| dead.nodes.iter().any(|node| node.name == one.node);
        self.unusable.iter().filter(is_of_it).collect()
    }

    /// Takes them out.
    pub fn take_dead(&mut self, pool: &str) -> Vec<Unusable> {
        let names: Vec<String> = self.of_dead(pool).into_iter().map(|one| one.node.clone()).collect();
        self.unusable.extract_if(.., |one| names.contains(&one.node)).collect()
    }

    fn node(&mut self, node: &NodeConfig, found: Result<Disk, Unusable>, disks: &Disks) -> NodeOffer {
        let (online, capacity) = match found {
            Ok(disk) => (true, node.capacity.unwrap_or_else(|| disks.share(disk))),
            Err(unusable) => {
                self.unusable.push(unusable);
                (false, node.capacity.unwrap_or_default())
            }
        };
        NodeOffer {
            name: node.name.clone(),
            directory: node.directory.clone(),
            capacity,
            granularity: NODE_GRANULARITY,
            online,
            drain: false,
        }
    }
}

/// A file system that node directories lie on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Disk(u64);

/// Free bytes of every disk and the number of nodes that share them.
#[derive(Debug)]
struct Disks<'a> {
    own: &'a Path,
    free: BTreeMap<Disk, (u64, u64)>,
}

impl Disks<'_> {
    /// Finds the disk of a node; counts the node as a sharer unless its capacity is configured.
    fn look(&mut self, node: &NodeConfig) -> Result<Disk, Unusable> {
        let unusable =
            |source| Unusable { node: node.name.clone(), directory: node.directory.clone(), source };
        let (disk, free) = self.disk_of(&node.directory).map_err(unusable)?;
        let entry = self.free.entry(disk).or_insert((free, 0));
        if node.capacity.is_none() {
            entry.1 += 1;
        }
        Ok(disk)
    }

    fn share(&self, disk: Disk) -> Bytes {
        let (free, nodes) = self.free.get(&disk).copied().unwrap_or_default();
        Bytes(free / 100 * OFFERED_PERCENT / nodes.max(1))
    }

    /// The disk of a directory that exists or whose parent does (a node's own directory is made at its first fragment).
    fn disk_of(&self, directory: &Path) -> io::Result<(Disk, u64)> {
        let mut ancestors = directory.ancestors().filter(|ancestor| ancestor.exists());
        let existing = match ancestors.next() {
            Some(nearest) if directory.starts_with(self.own) => nearest,
            _ if directory.exists() => directory,
            _ => directory.parent().unwrap_or(directory),
        };
        let disk = Disk(std::fs::metadata(existing)?.dev());
        rustix::fs::access(existing, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK)?;
        let space = rustix::fs::statvfs(existing)?;
        Ok((disk, space.f_bavail.saturating_mul(space.f_frsize)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PoolOptions;

    #[test]
    fn nodes_on_one_disk_share_it() {
        let scratch = tempfile::tempdir().unwrap();
        let config = |nodes| {
            let options = PoolOptions { nodes: Some(nodes), directories: vec![scratch.path().into()] };
            offers(&Config::built_in(&options, Path::new("/unused")), Path::new("/unused"))
        };
        let one = config(1).pools.remove(0).nodes.remove(0).capacity.0;
        let four = config(4);
        assert!(four.unusable.is_empty());
        let sum: u64 = four.pools[0].nodes.iter().map(|node| node.capacity.0).sum();
        // Other tests write to the same disk meanwhile.
        assert!(sum.abs_diff(one) < one / 4, "{sum} {one}");
        assert!(four.pools[0].default && four.pools[0].nodes.iter().all(|node| node.online));
    }

    #[test]
    fn a_missing_directory_takes_its_node_offline() {
        let options = PoolOptions { nodes: None, directories: vec!["/nonexistent/place".into()] };
        let offers = offers(&Config::built_in(&options, Path::new("/unused")), Path::new("/unused"));
        assert!(!offers.pools[0].nodes[0].online);
        let message = offers.unusable[0].to_string();
        assert!(message.contains("nid00001") && message.contains("/nonexistent/place"), "{message}");
    }
}
