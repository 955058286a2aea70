//! Instances: reading them with their parts, and recording how real they are.
//!
//! An instance and its fragments, configurations and namespaces become real and go away together, so their states are
//! changed together; [`Registry::set_state`] is for the cases where one part differs.

use super::column::{access_mode, configuration_type, path, process, state, word};
use super::{ObjectRef, Registry, rows};
use crate::error::RegistryError;
use crate::record::{ConfigurationRecord, FragmentRecord, InstanceRecord};
use crate::request::{AccessRequest, WindowRequest};
use forebay_model::ids::*;
use forebay_model::state::ObjectState;
use forebay_model::units::{Bytes, Granules};
use rusqlite::{Connection, OptionalExtension, Transaction};

const TABLES_OF_PARTS: [&str; 5] = [
    "instances SET state = ?1 WHERE id = ?2",
    "fragments SET state = ?1 WHERE instance = ?2",
    "configurations SET state = ?1 WHERE instance = ?2",
    "namespaces SET state = ?1 WHERE configuration IN (SELECT id FROM configurations WHERE instance = ?2)",
    // A persistent instance has its session to itself; a job's session follows the phase of the job.
    "sessions SET state = ?1 WHERE id = (SELECT session FROM instances WHERE id = ?2 AND persistent)",
];

impl Registry {
    /// All instances.
    pub fn instances(&self) -> Result<Vec<InstanceRecord>, RegistryError> {
        self.view(|tx| load_all(tx, "SELECT id FROM instances ORDER BY id"))
    }

    /// All persistent instances, in whatever state.
    pub fn persistents(&self) -> Result<Vec<InstanceRecord>, RegistryError> {
        self.view(|tx| load_all(tx, "SELECT id FROM instances WHERE persistent ORDER BY id"))
    }

    /// The persistent instance of this name, in whatever state.
    pub fn persistent(&self, name: &str) -> Result<Option<InstanceRecord>, RegistryError> {
        self.view(|tx| persistent(tx, name))
    }

    /// The instance exists now: it and its parts are `CA---`.
    pub fn instance_made(&self, instance: InstanceId) -> Result<(), RegistryError> {
        self.change(|tx| set_all(tx, instance, ObjectState::GOOD))
    }

    /// The instance is being removed: it and its parts are `DA-T-`.
    pub fn instance_unmaking(&self, instance: InstanceId) -> Result<(), RegistryError> {
        self.change(|tx| set_all(tx, instance, ObjectState::DESTROYING))
    }

    /// Records the state of one object.
    ///
    /// # Errors
    /// [`RegistryError::NoObject`] when it is not there.
    pub fn set_state(&self, object: ObjectRef, state: ObjectState) -> Result<(), RegistryError> {
        let (kind, table, id) = match object {
            ObjectRef::Session(id) => ("session", "sessions", id.0),
            ObjectRef::Instance(id) => ("instance", "instances", id.0),
            ObjectRef::Fragment(id) => ("fragment", "fragments", id.0),
            ObjectRef::Configuration(id) => ("configuration", "configurations", id.0),
            ObjectRef::Namespace(id) => ("namespace", "namespaces", id.0),
            ObjectRef::Registration(id) => ("registration", "registrations", id.0),
            ObjectRef::Activation(id) => ("activation", "activations", id.0),
        };
        self.change(|tx| {
            let changed =
                tx.execute(&format!("UPDATE {table} SET state = ?1 WHERE id = ?2"), (state.to_string(), id))?;
            if changed == 0 { Err(RegistryError::NoObject { kind, id }) } else { Ok(()) }
        })
    }

    /// A fragment of the instance is lost or was found again: the column `intact`.
    pub fn set_intact(&self, instance: InstanceId, intact: bool) -> Result<(), RegistryError> {
        self.change(|tx| {
            let changed =
                tx.execute("UPDATE instances SET intact = ?1 WHERE id = ?2", (intact, instance.0))?;
            if changed == 0 { Err(RegistryError::NoInstance(instance)) } else { Ok(()) }
        })
    }

    /// Adds what was written to the instance to the wear of the nodes that hold it, by the size of their fragments.
    pub fn record_written(&self, instance: InstanceId, written: Bytes) -> Result<(), RegistryError> {
        self.change(|tx| {
            let record = load(tx, instance)?;
            for fragment in &record.fragments {
                let share =
                    u128::from(written.0) * u128::from(fragment.granules.0) / u128::from(record.granules.0);
                add_wear(tx, &fragment.node, i64::try_from(share).unwrap_or(i64::MAX))?;
            }
            Ok(())
        })
    }
}

fn add_wear(tx: &Transaction<'_>, node: &str, written: i64) -> Result<(), RegistryError> {
    let before: Option<i64> = tx
        .prepare_cached("SELECT bytes_written FROM wear WHERE node = ?1")?
        .query_row([node], |row| row.get(0))
        .optional()?;
    let after = before.unwrap_or(0).saturating_add(written);
    tx.prepare_cached("INSERT OR REPLACE INTO wear VALUES (?1, ?2)")?.execute((node, after))?;
    Ok(())
}

pub(super) fn set_all(
    tx: &Transaction<'_>,
    instance: InstanceId,
    state: ObjectState,
) -> Result<(), RegistryError> {
    let mut found = 0;
    for part in TABLES_OF_PARTS {
        found += tx.prepare_cached(&format!("UPDATE {part}"))?.execute((state.to_string(), instance.0))?;
    }
    if found == 0 { Err(RegistryError::NoInstance(instance)) } else { Ok(()) }
}

/// The persistent instance of this name.
pub(super) fn persistent(
    connection: &Connection,
    name: &str,
) -> Result<Option<InstanceRecord>, RegistryError> {
    let id = connection
        .prepare_cached("SELECT id FROM instances WHERE persistent AND label = ?1")?
        .query_row([name], |row| Ok(InstanceId(row.get(0)?)))
        .optional()?;
    id.map(|id| load(connection, id)).transpose()
}

/// The instances whose ids a query yields.
pub(super) fn load_all(connection: &Connection, ids: &str) -> Result<Vec<InstanceRecord>, RegistryError> {
    let ids = rows(connection, ids, [], |row| Ok(InstanceId(row.get(0)?)))?;
    ids.into_iter().map(|id| load(connection, id)).collect()
}

/// An instance with its parts.
pub(super) fn load(connection: &Connection, id: InstanceId) -> Result<InstanceRecord, RegistryError> {
    let query = "SELECT instances.*, owner FROM instances JOIN sessions ON sessions.id = session WHERE instances.id = ?1";
    let found = rows(connection, query, [id.0], |row| {
        let granularity: u64 = row.get("granularity")?;
        let fragments = fragments(connection, id, granularity)?;
        let granules = fragments.iter().map(|fragment| fragment.granules.0).sum();
        Ok(InstanceRecord {
            id,
            session: SessionId(row.get("session")?),
            state: state(row)?,
            label: row.get("label")?,
            persistent: row.get("persistent")?,
            owner_uid: row.get("owner")?,
            owner: word(row, "process", process)?,
            pool: row.get("pool")?,
            granules: Granules(granules),
            bytes: Bytes(granules * granularity),
            created: row.get("created")?,
            write_window: window(row)?,
            fragments,
            configurations: configurations(connection, id)?,
        })
    })?;
    found.into_iter().next().ok_or(RegistryError::NoInstance(id))
}

pub(super) fn window(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<WindowRequest>> {
    let length: Option<u64> = row.get("write_window_length")?;
    let multiplier: Option<u64> = row.get("write_window_multiplier")?;
    Ok(length.zip(multiplier).map(|(length_s, multiplier)| WindowRequest { length_s, multiplier }))
}

fn fragments(
    connection: &Connection,
    instance: InstanceId,
    granularity: u64,
) -> Result<Vec<FragmentRecord>, RegistryError> {
    rows(connection, "SELECT * FROM fragments WHERE instance = ?1 ORDER BY position", [instance.0], |row| {
        let granules: u64 = row.get("granules")?;
        Ok(FragmentRecord {
            id: FragmentId(row.get("id")?),
            node: row.get("node")?,
            directory: path(row, "directory")?,
            granules: Granules(granules),
            capacity: Bytes(granules * granularity),
        })
    })
}

fn configurations(
    connection: &Connection,
    instance: InstanceId,
) -> Result<Vec<ConfigurationRecord>, RegistryError> {
    rows(connection, "SELECT * FROM configurations WHERE instance = ?1 ORDER BY id", [instance.0], |row| {
        let max_file_size: Option<u64> = row.get("max_file_size")?;
        let access = AccessRequest {
            mode: word(row, "access_mode", access_mode)?,
            max_file_size: max_file_size.map(Bytes),
            max_files: row.get("max_files")?,
            client_cache: row.get("client_cache")?,
        };
        let kind = word(row, "kind", configuration_type)?;
        Ok(ConfigurationRecord { id: ConfigurationId(row.get("id")?), kind, access })
    })
}
