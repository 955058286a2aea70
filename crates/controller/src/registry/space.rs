//! Space out of a pool: which granules of which nodes a new instance gets, and its rows.
//!
//! Runs within the caller's immediate transaction, so no other process allocates between the look and the booking.

use super::column::{path, path_bytes, process_text};
use super::{number, rows};
use crate::error::{RegistryError, SetupError};
use crate::process::ProcessId;
use crate::request::AllocationRequest;
use forebay_model::allocate::{AllocationError, Share, allocate, allocate_nodes};
use forebay_model::capacity::Capacity;
use forebay_model::ids::{InstanceId, SessionId};
use forebay_model::objects::AccessMode;
use forebay_model::pool::{NodeSpace, granules_for, granules_within};
use forebay_model::state::ObjectState;
use forebay_model::units::{Bytes, Granules};
use rusqlite::{Connection, OptionalExtension, Transaction};
use std::path::PathBuf;

/// The instance to be made.
pub struct NewInstance<'a> {
    pub session: SessionId,
    pub label: &'a str,
    pub persistent: bool,
    pub process: ProcessId,
    pub allocation: &'a AllocationRequest,
    /// Private mode has one namespace each.
    pub client_nodes: u64,
    pub now: i64,
}

/// A node that granules can be had from.
pub struct Candidate {
    pub name: String,
    pub directory: PathBuf,
    pub space: NodeSpace,
}

/// Allocates and records an instance, everything in state `C--T-`.
pub fn add_instance(tx: &Transaction<'_>, new: &NewInstance<'_>) -> Result<InstanceId, SetupError> {
    check_access(new.allocation)?;
    let (pool, granularity) = find_pool(tx, new.allocation.pool.as_deref())?;
    let nodes = candidates(tx, &pool, granularity)?;
    let shares = choose(&nodes, granularity, new.allocation).map_err(|error| refused(&pool, error))?;
    let instance = InstanceId(new.session.0);
    let state = ObjectState::CREATING.to_string();
    let window = new.allocation.write_window;
    tx.prepare_cached("INSERT INTO instances VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 1, ?7, ?8, ?9, ?10, ?11)")?
        .execute((
        instance.0,
        &state,
        new.session.0,
        &pool,
        granularity.0,
        new.now,
        new.label,
        new.persistent,
        process_text(new.process),
        window.map(|window| limit(window.length_s)),
        window.map(|window| limit(window.multiplier)),
    ))?;
    let fragments = add_fragments(tx, instance, &nodes, &shares)?;
    add_configurations(tx, instance, new, &fragments)?;
    Ok(instance)
}

/// A limit beyond what a signed 64-bit size can express is none that could be met.
fn limit(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn check_access(allocation: &AllocationRequest) -> Result<(), SetupError> {
    if allocation.access.is_empty() {
        return Err(SetupError::NoAccess);
    }
    for (position, access) in allocation.access.iter().enumerate() {
        if allocation.access[..position].iter().any(|earlier| earlier.mode == access.mode) {
            return Err(SetupError::AccessTwice { mode: access.mode });
        }
    }
    Ok(())
}

fn find_pool(tx: &Transaction<'_>, name: Option<&str>) -> Result<(String, Bytes), SetupError> {
    let query = match name {
        Some(_) => "SELECT name, granularity FROM pools WHERE name = ?1 AND offered",
        None => "SELECT name, granularity FROM pools WHERE is_default AND offered AND ?1 IS NULL",
    };
    let found = tx
        .prepare_cached(query)?
        .query_row([name], |row| Ok((row.get(0)?, Bytes(row.get(1)?))))
        .optional()?;
    match (found, name) {
        (Some(found), _) => Ok(found),
        (None, None) => Err(SetupError::NoPool),
        (None, Some(name)) => {
            let known =
                rows(
                    tx,
                    "SELECT name FROM pools WHERE offered ORDER BY position",
                    [],
                    |row| Ok(row.get(0)?),
                )?;
            Err(SetupError::UnknownPool { name: name.to_owned(), known })
        }
    }
}

/// The nodes of a pool in the order of its configuration, with what they have left.
pub fn candidates(
    connection: &Connection,
    pool: &str,
    granularity: Bytes,
) -> Result<Vec<Candidate>, RegistryError> {
    rows(
        connection,
        "SELECT nodes.*, coalesce(bytes_written, 0) AS bytes_written,
            (SELECT coalesce(sum(granules), 0) FROM fragments WHERE node = nodes.name) AS taken,
            (SELECT count(DISTINCT instance) FROM fragments WHERE node = nodes.name) AS instances
         FROM nodes LEFT JOIN wear ON wear.node = nodes.name WHERE pool = ?1 ORDER BY offered DESC, position, name",
        [pool],
        |row| {
            let quantity = granules_within(Bytes(row.get("capacity")?), granularity);
            let (taken, offered): (u64, bool) = (row.get("taken")?, row.get("offered")?);
            let space = NodeSpace {
                quantity,
                free: Granules(quantity.0.saturating_sub(taken)),
                online: row.get("online")?,
                drain: row.get::<_, bool>("drain")? || !offered,
                instances: row.get("instances")?,
                bytes_written: Bytes(row.get("bytes_written")?),
            };
            Ok(Candidate { name: row.get("name")?, directory: path(row, "directory")?, space })
        },
    )
}

fn choose(
    nodes: &[Candidate],
    granularity: Bytes,
    allocation: &AllocationRequest,
) -> Result<Vec<Share>, AllocationError> {
    let spaces: Vec<NodeSpace> = nodes.iter().map(|node| node.space).collect();
    match allocation.capacity {
        Capacity::Bytes(bytes) => {
            allocate(&spaces, granularity, granules_for(bytes, granularity), allocation.strategy)
        }
        Capacity::Nodes(count) => allocate_nodes(&spaces, count),
    }
}

fn refused(pool: &str, error: AllocationError) -> SetupError {
    let pool = pool.to_owned();
    match error {
        AllocationError::NoSpace { requested, free, quantity, granularity } => {
            SetupError::NoSpace { pool, requested, free, quantity, granularity }
        }
        AllocationError::NoNodes { requested, free, nodes } => {
            SetupError::NoNodes { pool, requested, free, nodes }
        }
        AllocationError::Nothing => SetupError::NoCapacity,
    }
}

fn add_fragments(
    tx: &Transaction<'_>,
    instance: InstanceId,
    nodes: &[Candidate],
    shares: &[Share],
) -> Result<Vec<u64>, RegistryError> {
    let state = ObjectState::CREATING.to_string();
    let mut fragments = Vec::new();
    for (position, share) in shares.iter().enumerate() {
        let (id, node) = (number::fragment(tx)?, &nodes[share.node]);
        tx.prepare_cached("INSERT INTO fragments VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?.execute((
            id,
            &state,
            instance.0,
            position,
            &node.name,
            path_bytes(&node.directory),
            share.granules.0,
        ))?;
        fragments.push(id);
    }
    Ok(fragments)
}

fn add_configurations(
    tx: &Transaction<'_>,
    instance: InstanceId,
    new: &NewInstance<'_>,
    fragments: &[u64],
) -> Result<(), RegistryError> {
    for access in &new.allocation.access {
        let id = number::next(tx, "configuration")?;
        tx.prepare_cached("INSERT INTO configurations VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, NULL)")?
            .execute((
                id,
                ObjectState::CREATING.to_string(),
                instance.0,
                new.allocation.kind.name(),
                access.mode.name(),
                access.max_file_size.map(|size| limit(size.0)),
                access.max_files.map(limit),
                access.client_cache,
            ))?;
        add_namespaces(tx, id, access.mode, new.client_nodes, fragments)?;
    }
    Ok(())
}

/// Striped: one tree, on the first fragment, with data on all of them. Private: a tree for every client node, dealt
/// over the fragments, each with its data where its tree is. Load-balanced: a full copy on every fragment.
fn add_namespaces(
    tx: &Transaction<'_>,
    configuration: u64,
    mode: AccessMode,
    client_nodes: u64,
    fragments: &[u64],
) -> Result<(), RegistryError> {
    let all = fragments.len() as u64;
    let (count, span) = match mode {
        AccessMode::Striped => (1, all),
        AccessMode::Private => (client_nodes.max(1), 1),
        AccessMode::Ldbalance => (all, 1),
    };
    for fragment in fragments.iter().cycle().take(usize::try_from(count).unwrap_or(usize::MAX)) {
        let id = number::next(tx, "namespace")?;
        tx.prepare_cached("INSERT INTO namespaces VALUES (?1, ?2, ?3, ?4, ?5)")?.execute((
            id,
            ObjectState::CREATING.to_string(),
            configuration,
            fragment,
            span,
        ))?;
    }
    Ok(())
}
