//! `dwcli config backup` and `dwcli config restore`: pools and nodes as JSON.
//!
//! A restore only adds and changes: it makes pools that are missing, puts nodes into their pools and drains them. What the
//! file does not name stays. Everything is judged first, so a file that does not fit changes nothing. Pure.

use forebay_controller::cluster::Request;
use forebay_controller::registry::Snapshot;
use forebay_model::units::Bytes;
use serde::{Deserialize, Serialize};

/// Which form this is.
const VERSION: u32 = 1;

/// What is saved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backup {
    version: u32,
    pools: Vec<PoolEntry>,
    nodes: Vec<NodeEntry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolEntry {
    name: String,
    /// Bytes of a granule.
    granularity: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeEntry {
    name: String,
    pool: Option<String>,
    drain: bool,
}

/// Why a file cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// It is not what `config backup` prints.
    #[error("this is not what dwcli config backup prints: {0}")]
    Form(#[from] serde_json::Error),
    /// Another form.
    #[error("the backup has version {found}, and this dwcli reads version {VERSION}")]
    Version {
        /// What it has.
        found: u32,
    },
    /// A pool that is there with other granules.
    #[error(
        "pool {name} has granules of {} bytes, and of {} in the backup: change the backup, or use another name", .is.0, .backup.0
    )]
    Granularity {
        /// The pool.
        name: String,
        /// As it is.
        is: Bytes,
        /// As it was.
        backup: Bytes,
    },
    /// Nodes that have never registered.
    #[error("no agent has registered from {}: start it there first, or take the node out of the backup", .names.join(", "))]
    UnknownNodes {
        /// Which.
        names: Vec<String>,
    },
}

impl Backup {
    /// What there is.
    pub fn of(snapshot: &Snapshot) -> Backup {
        let pools = snapshot.pools.iter();
        let nodes = snapshot.nodes.iter();
        Backup {
            version: VERSION,
            pools: pools
                .map(|pool| PoolEntry { name: pool.name.clone(), granularity: pool.granularity })
                .collect(),
            nodes: nodes
                .map(|node| NodeEntry { name: node.name.clone(), pool: node.pool.clone(), drain: node.drain })
                .collect(),
        }
    }

    /// As text.
    ///
    /// # Errors
    /// None that is known.
    pub fn to_text(&self) -> Result<String, BackupError> {
        Ok(format!("{}\n", serde_json::to_string_pretty(self)?))
    }

    /// From text.
    ///
    /// # Errors
    /// [`BackupError::Form`], [`BackupError::Version`]
    pub fn from_text(text: &str) -> Result<Backup, BackupError> {
        let backup: Backup = serde_json::from_str(text)?;
        match backup.version {
            VERSION => Ok(backup),
            found => Err(BackupError::Version { found }),
        }
    }

    /// What has to be asked for to get from `snapshot` to this.
    ///
    /// # Errors
    /// [`BackupError::Granularity`], [`BackupError::UnknownNodes`]
    pub fn requests(&self, snapshot: &Snapshot) -> Result<Vec<Request>, BackupError> {
        let mut requests = Vec::new();
        for PoolEntry { name, granularity } in &self.pools {
            match snapshot.pools.iter().find(|pool| pool.name == *name) {
                None => requests.push(Request::CreatePool { name: name.clone(), granularity: *granularity }),
                Some(pool) if pool.granularity == *granularity => {}
                Some(pool) => {
                    let (is, backup) = (pool.granularity, *granularity);
                    return Err(BackupError::Granularity { name: name.clone(), is, backup });
                }
            }
        }
        let mut unknown = Vec::new();
        for entry in &self.nodes {
            let Some(node) = snapshot.nodes.iter().find(|node| node.name == entry.name) else {
                unknown.push(entry.name.clone());
                continue;
            };
            if node.pool != entry.pool {
                requests.push(Request::AssignNode { node: entry.name.clone(), pool: entry.pool.clone() });
            }
            if node.drain != entry.drain {
                requests.push(Request::Drain { node: entry.name.clone(), drain: entry.drain });
            }
        }
        if unknown.is_empty() { Ok(requests) } else { Err(BackupError::UnknownNodes { names: unknown }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_model::objects::{Node, Pool};
    use forebay_model::units::Granules;

    fn snapshot(pools: &[(&str, u64)], nodes: &[(&str, Option<&str>, bool)]) -> Snapshot {
        let pool = |(name, granularity): &(&str, u64)| Pool {
            name: String::from(*name),
            granularity: Bytes(*granularity),
            quantity: Granules(1),
            free: Granules(1),
        };
        let node = |(name, pool, drain): &(&str, Option<&str>, bool)| Node {
            name: String::from(*name),
            pool: pool.map(String::from),
            online: true,
            drain: *drain,
            granularity: Bytes(1),
            capacity: Bytes(1),
            instances: 0,
            activations: 0,
        };
        let (pools, nodes) = (pools.iter().map(pool).collect(), nodes.iter().map(node).collect());
        Snapshot { pools, nodes, ..Snapshot::default() }
    }

    #[test]
    fn what_was_saved_is_there_again() {
        let before = snapshot(
            &[("a", 16), ("b", 32)],
            &[("n1", Some("a"), false), ("n2", Some("b"), true), ("c1", None, false)],
        );
        let backup = Backup::from_text(&Backup::of(&before).to_text().unwrap()).unwrap();
        assert_eq!(backup.requests(&before).unwrap(), []);
        let after = snapshot(&[("a", 16)], &[("n1", None, false), ("n2", None, false), ("c1", None, false)]);
        let asked = backup.requests(&after).unwrap();
        let assign =
            |node: &str, pool: &str| Request::AssignNode { node: node.into(), pool: Some(pool.into()) };
        let expected = [
            Request::CreatePool { name: "b".into(), granularity: Bytes(32) },
            assign("n1", "a"),
            assign("n2", "b"),
            Request::Drain { node: "n2".into(), drain: true },
        ];
        assert_eq!(asked, expected);
    }

    #[test]
    fn what_does_not_fit_is_told_and_changes_nothing() {
        let backup = Backup::of(&snapshot(&[("a", 16)], &[("n1", Some("a"), false)]));
        let text = |snapshot: &Snapshot| backup.requests(snapshot).unwrap_err().to_string();
        assert!(
            text(&snapshot(&[("a", 32)], &[("n1", None, false)])).starts_with("pool a has granules of 32")
        );
        assert!(text(&snapshot(&[], &[])).starts_with("no agent has registered from n1"));
        let form = |text: &str| Backup::from_text(text).unwrap_err().to_string();
        assert!(form("{\"version\":2,\"pools\":[],\"nodes\":[]}").contains("version 2"));
        assert!(form("{\"version\":1,\"pools\":[],\"nodes\":[],\"x\":1}").contains("`x`"));
    }
}
