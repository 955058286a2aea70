//! Persistent instances: created once, attached by many jobs, destroyed by name.
//!
//! Order of events. Create: recorded as `C--T-`, made by the agent, `instance_made`. Destroy: `DA-T-` here (no job can
//! attach any more), destroyed by the agent, `finish_destroy`. A crash in between leaves the state that says which of
//! both was going on, and [`Registry::orphans`] shows it.

use super::column::process_text;
use super::offer::forget_unoffered;
use super::setup::{Person, add_session, free_token, unknown_persistent};
use super::space::{NewInstance, add_instance};
use super::{Registry, instance, number, rows};
use crate::error::{RegistryError, SetupError};
use crate::process::ProcessId;
use crate::record::InstanceRecord;
use crate::request::PersistentRequest;
use forebay_model::ids::{InstanceId, SessionId};
use forebay_model::state::{Goal, ObjectState};
use rusqlite::{OptionalExtension, Transaction};

impl Registry {
    /// Allocates and records a persistent instance, to be made by the caller. `now`: seconds since the epoch.
    ///
    /// # Errors
    /// [`SetupError`]; nothing is recorded then.
    pub fn create_persistent(
        &self,
        request: &PersistentRequest,
        now: i64,
    ) -> Result<InstanceRecord, SetupError> {
        self.change(|tx| add(tx, request, now))
    }

    /// Records that a persistent instance is to go, so that nobody attaches it any more; `owner` destroys it. Repeating
    /// it, also by another process after a crash, is no error. With `hurry` jobs that have it attached lose it.
    ///
    /// # Errors
    /// [`SetupError::UnknownPersistent`], [`SetupError::Attached`]; nothing is changed then.
    pub fn begin_destroy_persistent(
        &self,
        name: &str,
        hurry: bool,
        owner: ProcessId,
    ) -> Result<InstanceRecord, SetupError> {
        self.change(|tx| {
            let Some(found) = instance::persistent(tx, name)? else {
                return Err(unknown_persistent(tx, name)?);
            };
            let jobs = jobs_of(tx, found.id)?;
            if !jobs.is_empty() && !hurry {
                return Err(SetupError::Attached { name: name.to_owned(), jobs });
            }
            tx.execute("UPDATE instances SET process = ?1 WHERE id = ?2", (process_text(owner), found.id.0))?;
            if hurry {
                tx.execute(
                    "UPDATE registrations SET wait = 0 WHERE configuration IN
                     (SELECT id FROM configurations WHERE instance = ?1)",
                    [found.id.0],
                )?;
            }
            instance::set_all(tx, found.id, ObjectState::DESTROYING)?;
            Ok(instance::load(tx, found.id)?)
        })
    }

    /// Removes the rows of a persistent instance that is destroyed, or that was never finished; its granules are free
    /// again. Repeating it is no error.
    ///
    /// # Errors
    /// [`RegistryError::NotDestroying`] for an instance that is wanted and real, or that belongs to a job.
    pub fn finish_destroy(&self, instance: InstanceId) -> Result<(), RegistryError> {
        self.change(|tx| {
            let is_there = tx
                .query_row("SELECT 1 FROM instances WHERE id = ?1", [instance.0], |_| Ok(()))
                .optional()?
                .is_some();
            if !is_there {
                return Ok(());
            }
            let found = instance::load(tx, instance)?;
            if !found.persistent || (found.state.goal == Goal::Create && found.state.actualized) {
                return Err(RegistryError::NotDestroying { instance, state: found.state });
            }
            tx.execute("DELETE FROM instances WHERE id = ?1", [instance.0])?;
            tx.execute("DELETE FROM sessions WHERE id = ?1", [found.session.0])?;
            forget_unoffered(tx)
        })
    }
}

pub(super) fn add(
    tx: &Transaction<'_>,
    request: &PersistentRequest,
    now: i64,
) -> Result<InstanceRecord, SetupError> {
    if instance::persistent(tx, &request.name)?.is_some() {
        return Err(SetupError::NameInUse { name: request.name.clone() });
    }
    let label = free_token(tx, &request.name)?;
    let session = SessionId(number::session(tx)?);
    let person = Person { creator: &request.creator, uid: request.owner_uid, nodes: 0 };
    add_session(tx, session, &label, person, now)?;
    let new = NewInstance {
        session,
        label: &label,
        persistent: true,
        process: request.owner,
        allocation: &request.allocation,
        client_nodes: 0,
        now,
    };
    let id = add_instance(tx, &new)?;
    Ok(instance::load(tx, id)?)
}

/// Tokens of the jobs that have an instance attached.
fn jobs_of(tx: &Transaction<'_>, instance: InstanceId) -> Result<Vec<String>, RegistryError> {
    let query =
        "SELECT DISTINCT token FROM sessions JOIN registrations ON registrations.session = sessions.id
        JOIN configurations ON configurations.id = configuration WHERE instance = ?1 ORDER BY token";
    rows(tx, query, [instance.0], |row| Ok(row.get(0)?))
}
