//! Taking over the configured pools and nodes.
//!
//! What fragments stand on is not pulled away: a node that holds some keeps its directory and capacity, and when it is
//! no longer offered it stays, without taking anything new, until they are gone or it is offered again.
//! Called at the start of every command; when nothing changes nothing is written.

use super::column::{path, path_bytes};
use super::{MAX_WORD, Registry, is_word, persistent, rows, setup};
use crate::error::{InvalidOffer, OfferError, OfferedError, RegistryError};
use crate::record::{InstanceRecord, Job};
use crate::request::{JobRequest, NodeOffer, PersistentRequest, PoolOffer};
use forebay_model::units::Bytes;
use rusqlite::{Connection, Transaction};
use std::collections::HashSet;
use std::path::PathBuf;

/// What became of an offer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfferOutcome {
    /// Nodes that were offered otherwise but keep what their fragments stand on.
    pub kept: Vec<KeptNode>,
    /// Nodes that were not offered but hold fragments: they take nothing new.
    pub drained: Vec<String>,
}

/// A node that could not follow its offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptNode {
    /// Its name.
    pub node: String,
    /// Where its fragments are, and new ones will be.
    pub directory: PathBuf,
    /// What it has.
    pub capacity: Bytes,
}

/// A pool and a node as they stand in the registry.
#[derive(PartialEq, Eq)]
struct PoolRow {
    name: String,
    granularity: u64,
    is_default: bool,
    offered: bool,
    position: usize,
}

#[derive(Clone, PartialEq, Eq)]
struct NodeRow {
    name: String,
    pool: String,
    position: usize,
    directory: PathBuf,
    capacity: u64,
    granularity: u64,
    online: bool,
    drain: bool,
    offered: bool,
}

impl Registry {
    /// Makes the configured pools and nodes the current ones. `pools` is the whole configuration.
    ///
    /// # Errors
    /// [`OfferError`]; nothing is changed then.
    pub fn offer(&self, pools: &[PoolOffer]) -> Result<OfferOutcome, OfferError> {
        check(pools)?;
        let outcome =
            self.view(|tx| Ok(plan(tx, pools).map(|plan| plan.unchanged.then_some(plan.outcome))))?;
        match outcome? {
            Some(outcome) => Ok(outcome),
            None => self.change(|tx| apply(tx, pools)),
        }
    }

    /// [`Registry::offer`] and [`Registry::setup_job`] in one change: another process with another configuration
    /// cannot come in between, so the job gets the nodes that it was offered or none.
    ///
    /// # Errors
    /// [`OfferedError`]; nothing is changed then.
    pub fn setup_job_on(
        &self,
        pools: &[PoolOffer],
        request: &JobRequest,
        now: i64,
    ) -> Result<(OfferOutcome, Job), OfferedError> {
        check(pools).map_err(|invalid| OfferedError::Offer(invalid.into()))?;
        self.change(|tx| {
            let outcome = apply(tx, pools).map_err(OfferedError::Offer)?;
            Ok((outcome, setup::add_job_with_session(tx, request, now).map_err(OfferedError::Setup)?))
        })
    }

    /// [`Registry::offer`] and [`Registry::create_persistent`] in one change, as [`Registry::setup_job_on`].
    ///
    /// # Errors
    /// [`OfferedError`]; nothing is changed then.
    pub fn create_persistent_on(
        &self,
        pools: &[PoolOffer],
        request: &PersistentRequest,
        now: i64,
    ) -> Result<(OfferOutcome, InstanceRecord), OfferedError> {
        check(pools).map_err(|invalid| OfferedError::Offer(invalid.into()))?;
        self.change(|tx| {
            let outcome = apply(tx, pools).map_err(OfferedError::Offer)?;
            Ok((outcome, persistent::add(tx, request, now).map_err(OfferedError::Setup)?))
        })
    }
}

fn apply(tx: &Transaction<'_>, pools: &[PoolOffer]) -> Result<OfferOutcome, OfferError> {
    let plan = plan(tx, pools)?;
    if !plan.unchanged {
        write(tx, &plan)?;
    }
    Ok(plan.outcome)
}

fn check(pools: &[PoolOffer]) -> Result<(), InvalidOffer> {
    let mut names = HashSet::new();
    for pool in pools {
        check_name(&pool.name)?;
        if pool.granularity.0 == 0 {
            return Err(InvalidOffer::NoGranularity { pool: pool.name.clone() });
        }
        check_size(&pool.name, pool.granularity)?;
        if !names.insert(&pool.name) {
            return Err(InvalidOffer::PoolTwice { pool: pool.name.clone() });
        }
    }
    match pools.iter().filter(|pool| pool.default).count() {
        1 => {}
        _ if pools.is_empty() => {}
        count => return Err(InvalidOffer::Defaults { count }),
    }
    let mut nodes = HashSet::new();
    pools.iter().flat_map(|pool| &pool.nodes).try_for_each(|node| check_node(node, &mut nodes))
}

fn check_node<'a>(node: &'a NodeOffer, seen: &mut HashSet<&'a str>) -> Result<(), InvalidOffer> {
    check_name(&node.name)?;
    if !seen.insert(&node.name) {
        return Err(InvalidOffer::NodeTwice { node: node.name.clone() });
    }
    check_size(&node.name, node.capacity)?;
    check_size(&node.name, node.granularity)?;
    if !node.directory.is_absolute() {
        return Err(InvalidOffer::RelativeDirectory {
            node: node.name.clone(),
            directory: node.directory.clone(),
        });
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), InvalidOffer> {
    if is_word(name) {
        return Ok(());
    }
    Err(InvalidOffer::BadName { name: name.to_owned(), max: MAX_WORD })
}

fn check_size(object: &str, size: Bytes) -> Result<(), InvalidOffer> {
    if i64::try_from(size.0).is_ok() {
        return Ok(());
    }
    Err(InvalidOffer::TooLarge { object: object.to_owned(), bytes: size.0 })
}

/// The tables as they are to be.
struct Plan {
    pools: Vec<PoolRow>,
    nodes: Vec<NodeRow>,
    outcome: OfferOutcome,
    unchanged: bool,
}

fn plan(connection: &Connection, offer: &[PoolOffer]) -> Result<Plan, OfferError> {
    let (old_pools, old_nodes) = (read_pools(connection)?, read_nodes(connection)?);
    let mut outcome = OfferOutcome::default();
    let mut nodes = Vec::new();
    for pool in offer {
        check_granularity(connection, pool, &old_pools)?;
        for (position, node) in pool.nodes.iter().enumerate() {
            let old = old_nodes.iter().find(|old| old.name == node.name);
            nodes.push(node_row(connection, pool, position, node, old, &mut outcome)?);
        }
    }
    for old in &old_nodes {
        if !nodes.iter().any(|node| node.name == old.name)
            && !holders_of_node(connection, &old.name)?.is_empty()
        {
            outcome.drained.push(old.name.clone());
            nodes.push(NodeRow { offered: false, ..old.clone() });
        }
    }
    let pools = pool_rows(offer, &old_pools, &nodes);
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    let unchanged = pools == old_pools && nodes == old_nodes;
    Ok(Plan { pools, nodes, outcome, unchanged })
}

/// Offered pools in their order, behind them those that only old fragments hold.
fn pool_rows(offer: &[PoolOffer], old: &[PoolRow], nodes: &[NodeRow]) -> Vec<PoolRow> {
    let offered = offer.iter().map(|pool| (pool.name.clone(), pool.granularity.0, pool.default, true));
    let left = old
        .iter()
        .filter(|old| !offer.iter().any(|pool| pool.name == old.name))
        .filter(|old| nodes.iter().any(|node| node.pool == old.name))
        .map(|old| (old.name.clone(), old.granularity, false, false));
    let numbered = offered.chain(left).enumerate();
    numbered
        .map(|(position, (name, granularity, is_default, offered))| PoolRow {
            name,
            granularity,
            is_default,
            offered,
            position,
        })
        .collect()
}

fn check_granularity(
    connection: &Connection,
    pool: &PoolOffer,
    old_pools: &[PoolRow],
) -> Result<(), OfferError> {
    let Some(old) = old_pools.iter().find(|old| old.name == pool.name) else { return Ok(()) };
    if old.granularity == pool.granularity.0 {
        return Ok(());
    }
    let holders = rows(
        connection,
        "SELECT DISTINCT token FROM sessions JOIN instances ON instances.session = sessions.id WHERE pool = ?1 ORDER BY token",
        [&pool.name],
        |row| Ok(row.get(0)?),
    )?;
    if holders.is_empty() {
        return Ok(());
    }
    Err(OfferError::GranularityInUse {
        pool: pool.name.clone(),
        current: Bytes(old.granularity),
        offered: pool.granularity,
        holders,
    })
}

fn node_row(
    connection: &Connection,
    pool: &PoolOffer,
    position: usize,
    node: &NodeOffer,
    old: Option<&NodeRow>,
    outcome: &mut OfferOutcome,
) -> Result<NodeRow, OfferError> {
    let mut row = NodeRow {
        name: node.name.clone(),
        pool: pool.name.clone(),
        position,
        directory: node.directory.clone(),
        capacity: node.capacity.0,
        granularity: node.granularity.0,
        online: node.online,
        drain: node.drain,
        offered: true,
    };
    let Some(old) = old else { return Ok(row) };
    let holders = holders_of_node(connection, &node.name)?;
    if holders.is_empty() {
        return Ok(row);
    }
    if old.pool != row.pool {
        let (node, current, offered) = (node.name.clone(), old.pool.clone(), row.pool);
        return Err(OfferError::NodeInUse { node, current, offered, holders });
    }
    if old.directory != row.directory || old.capacity != row.capacity {
        row.directory.clone_from(&old.directory);
        row.capacity = old.capacity;
        let (node, directory) = (row.name.clone(), row.directory.clone());
        outcome.kept.push(KeptNode { node, directory, capacity: Bytes(row.capacity) });
    }
    Ok(row)
}

fn holders_of_node(connection: &Connection, node: &str) -> Result<Vec<String>, RegistryError> {
    rows(
        connection,
        "SELECT DISTINCT token FROM sessions JOIN instances ON instances.session = sessions.id
         JOIN fragments ON fragments.instance = instances.id WHERE node = ?1 ORDER BY token",
        [node],
        |row| Ok(row.get(0)?),
    )
}

fn read_pools(connection: &Connection) -> Result<Vec<PoolRow>, RegistryError> {
    rows(connection, "SELECT * FROM pools ORDER BY position", [], |row| {
        Ok(PoolRow {
            name: row.get("name")?,
            granularity: row.get("granularity")?,
            is_default: row.get("is_default")?,
            offered: row.get("offered")?,
            position: row.get("position")?,
        })
    })
}

fn read_nodes(connection: &Connection) -> Result<Vec<NodeRow>, RegistryError> {
    rows(connection, "SELECT * FROM nodes ORDER BY name", [], |row| {
        Ok(NodeRow {
            name: row.get("name")?,
            pool: row.get("pool")?,
            position: row.get("position")?,
            directory: path(row, "directory")?,
            capacity: row.get("capacity")?,
            granularity: row.get("granularity")?,
            online: row.get("online")?,
            drain: row.get("drain")?,
            offered: row.get("offered")?,
        })
    })
}

/// New rows over old ones first, then the removal of what is not planned: references hold at every step.
fn write(tx: &Transaction<'_>, plan: &Plan) -> Result<(), RegistryError> {
    tx.execute_batch("UPDATE nodes SET offered = -1; UPDATE pools SET offered = -1")?;
    for pool in &plan.pools {
        tx.prepare_cached(
            "INSERT INTO pools VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (name) DO UPDATE SET
             granularity = excluded.granularity, is_default = excluded.is_default, offered = excluded.offered,
             position = excluded.position",
        )?
        .execute((&pool.name, pool.granularity, pool.is_default, pool.offered, pool.position))?;
    }
    for node in &plan.nodes {
        write_node(tx, node)?;
    }
    tx.execute_batch("DELETE FROM nodes WHERE offered = -1; DELETE FROM pools WHERE offered = -1")?;
    Ok(())
}

fn write_node(tx: &Transaction<'_>, node: &NodeRow) -> Result<(), RegistryError> {
    tx.prepare_cached(
        "INSERT INTO nodes VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (name) DO UPDATE SET
         pool = excluded.pool, position = excluded.position, directory = excluded.directory,
         capacity = excluded.capacity, granularity = excluded.granularity, online = excluded.online,
         drain = excluded.drain, offered = excluded.offered",
    )?
    .execute((
        &node.name,
        &node.pool,
        node.position,
        path_bytes(&node.directory),
        node.capacity,
        node.granularity,
        node.online,
        node.drain,
        node.offered,
    ))?;
    Ok(())
}

/// Removes nodes and pools that were kept only for fragments that are gone now.
pub(super) fn forget_unoffered(tx: &Transaction<'_>) -> Result<(), RegistryError> {
    tx.execute_batch(
        "DELETE FROM nodes WHERE offered = 0 AND name NOT IN (SELECT node FROM fragments);
         DELETE FROM pools WHERE offered = 0 AND name NOT IN (SELECT pool FROM nodes)
                           AND name NOT IN (SELECT pool FROM instances)",
    )?;
    Ok(())
}
