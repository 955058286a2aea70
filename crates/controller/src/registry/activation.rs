//! Activations: which configurations are mounted for which session.
//!
//! Recorded after the mount, removed after the unmount, both repeatable. After a crash the agent looks at the real
//! mounts; these rows are for `dwstat`.

use super::column::path_bytes;
use super::{Registry, number};
use crate::error::RegistryError;
use forebay_model::ids::{ActivationId, ConfigurationId, SessionId};
use forebay_model::state::ObjectState;
use rusqlite::OptionalExtension;
use std::path::Path;

impl Registry {
    /// Records that a configuration is mounted for a session. A second call changes the place.
    ///
    /// # Errors
    /// [`RegistryError::NotRegistered`].
    pub fn activate(
        &self,
        session: SessionId,
        configuration: ConfigurationId,
        mount: &Path,
    ) -> Result<ActivationId, RegistryError> {
        self.change(|tx| {
            let nodes: Option<u64> = tx
                .query_row(
                    "SELECT nodes FROM sessions JOIN registrations ON session = sessions.id
                     WHERE sessions.id = ?1 AND configuration = ?2",
                    [session.0, configuration.0],
                    |row| row.get(0),
                )
                .optional()?;
            let Some(nodes) = nodes else {
                return Err(RegistryError::NotRegistered { session, configuration });
            };
            let id = tx.query_row(
                "INSERT INTO activations VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (session, configuration)
                 DO UPDATE SET state = excluded.state, mount = excluded.mount RETURNING id",
                (
                    number::next(tx, "activation")?,
                    ObjectState::GOOD.to_string(),
                    session.0,
                    configuration.0,
                    nodes,
                    path_bytes(mount),
                ),
                |row| row.get(0),
            )?;
            Ok(ActivationId(id))
        })
    }

    /// Records that a configuration is no longer mounted for a session; no error when it was not.
    pub fn deactivate(
        &self,
        session: SessionId,
        configuration: ConfigurationId,
    ) -> Result<(), RegistryError> {
        self.change(|tx| {
            tx.execute(
                "DELETE FROM activations WHERE session = ?1 AND configuration = ?2",
                [session.0, configuration.0],
            )?;
            Ok(())
        })
    }
}
