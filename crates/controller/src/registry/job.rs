//! Jobs: where they stand, who carries them, how their stagings went, and their end.
//!
//! The driver records a step before it carries out the step's effect. So after a crash the recorded phase is the one
//! whose work may be half done, never one that was not reached.

use super::column::{args, direction, path, process, process_text, stage_kind, word, word_or_null};
use super::offer::forget_unoffered;
use super::{Registry, instance, rows};
use crate::error::RegistryError;
use crate::job::{Failure, JobState, ScriptEnd, Wish};
use crate::process::ProcessId;
use crate::record::{InstanceRecord, Job, StageId, StageRecord, StageResult};
use crate::request::{Script, StageSpec, StageTarget};
use forebay_model::ids::{ConfigurationId, InstanceId, SessionId};
use forebay_model::lifecycle::Phase;
use forebay_model::state::ObjectState;
use forebay_model::units::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, Transaction};

/// What nobody carries any more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Orphans {
    /// Jobs whose process is gone. Those in phase `Kept` wait for their owner's decision.
    pub jobs: Vec<Job>,
    /// Persistent instances half made (give them back) or half destroyed (finish it), whose process is gone.
    pub persistents: Vec<InstanceRecord>,
}

impl Registry {
    /// Every job, in the order of their sessions.
    pub fn jobs(&self) -> Result<Vec<Job>, RegistryError> {
        self.view(|tx| load_all(tx))
    }

    /// The job with this token.
    pub fn job(&self, token: &str) -> Result<Option<Job>, RegistryError> {
        self.view(|tx| {
            let session = tx
                .prepare_cached("SELECT id FROM sessions JOIN jobs ON session = id WHERE token = ?1")?
                .query_row([token], |row| Ok(SessionId(row.get(0)?)))
                .optional()?;
            session.map(|session| load(tx, session)).transpose()
        })
    }

    /// What is left of processes that are gone. `alive` is asked for every process that holds something.
    pub fn orphans(&self, alive: &dyn Fn(ProcessId) -> bool) -> Result<Orphans, RegistryError> {
        let (jobs, persistents) = self.view(|tx| {
            let unsettled = format!(
                "SELECT id FROM instances WHERE persistent AND state <> '{}' ORDER BY id",
                ObjectState::GOOD
            );
            Ok((load_all(tx)?, instance::load_all(tx, &unsettled)?))
        })?;
        Ok(Orphans {
            jobs: jobs.into_iter().filter(|job| !alive(job.owner)).collect(),
            persistents: persistents.into_iter().filter(|instance| !alive(instance.owner)).collect(),
        })
    }

    /// Records where a job stands after a step; call it before carrying out the step's effect.
    ///
    /// `Ended` removes what [`Registry::finish_teardown`] did not remove yet: an ended job holds nothing.
    ///
    /// # Errors
    /// [`RegistryError::Phase`] when the life cycle knows no such step: in particular results are not given up before
    /// they are staged out, unless the state says `Discard`.
    pub fn record(&self, session: SessionId, state: &JobState) -> Result<(), RegistryError> {
        self.change(|tx| {
            let Some((token, from)) = standing(tx, session)? else {
                let is_over = state.phase == Phase::Ended;
                return if is_over { Ok(()) } else { Err(RegistryError::NoSession(session)) };
            };
            let gives_up =
                state.wish == Wish::Discard && state.phase == Phase::Teardown && from.may_hold_results();
            if !from.may_become(state.phase) && !gives_up {
                return Err(RegistryError::Phase { token, from, to: state.phase });
            }
            match state.phase {
                Phase::Ended => remove(tx, session),
                _ => write_state(tx, session, state),
            }
        })
    }

    /// Records the process group that the script is going to run in, before it does, or that it is gone.
    pub fn record_script_group(
        &self,
        session: SessionId,
        group: Option<ProcessId>,
    ) -> Result<(), RegistryError> {
        self.change(|tx| {
            let text = group.map(process_text);
            let changed =
                tx.execute("UPDATE jobs SET script_group = ?1 WHERE session = ?2", (text, session.0))?;
            if changed == 0 { Err(RegistryError::NoSession(session)) } else { Ok(()) }
        })
    }

    /// Records how a staging went.
    pub fn record_stage(&self, stage: StageId, result: &StageResult) -> Result<(), RegistryError> {
        let (word, files, bytes, elapsed_ms, failure) = match result {
            StageResult::Pending => ("pending", 0, 0, 0, None),
            StageResult::Done { files, bytes, elapsed_ms } => ("done", *files, bytes.0, *elapsed_ms, None),
            StageResult::Failed { text } => ("failed", 0, 0, 0, Some(text)),
        };
        self.change(|tx| {
            let changed = tx.execute(
                "UPDATE stages SET result = ?2, files = ?3, bytes = ?4, elapsed_ms = ?5, failure = ?6 WHERE id = ?1",
                (stage.0, word, files, bytes, elapsed_ms, failure),
            )?;
            if changed == 0 { Err(RegistryError::NoObject { kind: "staging", id: stage.0 }) } else { Ok(()) }
        })
    }

    /// Makes `to` the process that carries a job, if `from` still is: of two recoveries only one gets it.
    ///
    /// # Errors
    /// [`RegistryError::NotOwner`] when somebody else was faster.
    pub fn take_over(
        &self,
        session: SessionId,
        from: ProcessId,
        to: ProcessId,
    ) -> Result<Job, RegistryError> {
        self.change(|tx| {
            let job = load(tx, session)?;
            if job.owner != from {
                return Err(RegistryError::NotOwner { token: job.token, pid: job.owner.pid });
            }
            tx.execute("UPDATE jobs SET process = ?1 WHERE session = ?2", (process_text(to), session.0))?;
            Ok(Job { owner: to, ..job })
        })
    }

    /// Removes the rows of a job whose instance is destroyed; its granules are free again. Repeating it is no error.
    ///
    /// # Errors
    /// [`RegistryError::NotTornDown`] in any phase before `Teardown`.
    pub fn finish_teardown(&self, session: SessionId) -> Result<(), RegistryError> {
        self.change(|tx| {
            let Some((token, phase)) = standing(tx, session)? else { return Ok(()) };
            if phase < Phase::Teardown {
                return Err(RegistryError::NotTornDown { token, phase });
            }
            remove(tx, session)
        })
    }
}

fn remove(tx: &Transaction<'_>, session: SessionId) -> Result<(), RegistryError> {
    tx.execute("DELETE FROM instances WHERE session = ?1", [session.0])?;
    tx.execute("DELETE FROM sessions WHERE id = ?1", [session.0])?;
    forget_unoffered(tx)
}

/// Token and phase of a job; `None` when its rows are gone.
fn standing(tx: &Transaction<'_>, session: SessionId) -> Result<Option<(String, Phase)>, RegistryError> {
    let query = "SELECT token, phase FROM jobs JOIN sessions ON id = session WHERE session = ?1";
    let found =
        rows(tx, query, [session.0], |row| Ok((row.get("token")?, word(row, "phase", Phase::from_name)?)))?;
    Ok(found.into_iter().next())
}

fn write_state(tx: &Transaction<'_>, session: SessionId, state: &JobState) -> Result<(), RegistryError> {
    let (status, signal) = match state.script {
        None => (None, None),
        Some(ScriptEnd::Exited(status)) => (Some(status), None),
        Some(ScriptEnd::Signaled(signal)) => (None, Some(signal)),
    };
    tx.prepare_cached(
        "UPDATE jobs SET phase = ?2, keep = ?3, script_status = ?4, script_signal = ?5, failure_phase = ?6,
         failure_cause = ?7 WHERE session = ?1",
    )?
    .execute((
        session.0,
        state.phase.name(),
        state.keep,
        status,
        signal,
        state.failure.as_ref().map(|failure| failure.phase.name()),
        state.failure.as_ref().map(|failure| &failure.cause),
    ))?;
    let letters = match state.phase {
        Phase::Setup => ObjectState::CREATING,
        Phase::Teardown | Phase::Ended => ObjectState::DESTROYING,
        _ => ObjectState::GOOD,
    };
    for table in ["sessions SET state = ?2 WHERE id = ?1", "registrations SET state = ?2 WHERE session = ?1"]
    {
        tx.prepare_cached(&format!("UPDATE {table}"))?.execute((session.0, letters.to_string()))?;
    }
    Ok(())
}

fn load_all(connection: &Connection) -> Result<Vec<Job>, RegistryError> {
    let sessions =
        rows(connection, "SELECT session FROM jobs ORDER BY session", [], |row| Ok(SessionId(row.get(0)?)))?;
    sessions.into_iter().map(|session| load(connection, session)).collect()
}

/// A job with all that belongs to it.
pub(super) fn load(connection: &Connection, session: SessionId) -> Result<Job, RegistryError> {
    let query = "SELECT * FROM jobs JOIN sessions ON id = session WHERE session = ?1";
    let found = rows(connection, query, [session.0], |row| {
        let args_bytes: Vec<u8> = row.get("args")?;
        let script = Script {
            path: path(row, "script")?,
            args: args(&args_bytes),
            working_directory: path(row, "working_directory")?,
            submit_directory: path(row, "submit_directory")?,
            name: row.get("name")?,
        };
        Ok(Job {
            session,
            token: row.get("token")?,
            creator: row.get("creator")?,
            owner_uid: row.get("owner")?,
            client_nodes: row.get("nodes")?,
            created: row.get("created")?,
            phase: word(row, "phase", Phase::from_name)?,
            owner: word(row, "process", process)?,
            script_group: word_or_null(row, "script_group", process)?,
            script,
            keep: row.get("keep")?,
            script_end: script_end(row)?,
            failure: failure(row)?,
            own: own(connection, session)?,
            attached: attached(connection, session)?,
            stages: stages(connection, session)?,
        })
    })?;
    found.into_iter().next().ok_or(RegistryError::NoSession(session))
}

fn script_end(row: &Row<'_>) -> Result<Option<ScriptEnd>, RegistryError> {
    let status: Option<i32> = row.get("script_status")?;
    let signal: Option<i32> = row.get("script_signal")?;
    Ok(status.map(ScriptEnd::Exited).or(signal.map(ScriptEnd::Signaled)))
}

fn failure(row: &Row<'_>) -> Result<Option<Failure>, RegistryError> {
    let Some(phase) = word_or_null(row, "failure_phase", Phase::from_name)? else { return Ok(None) };
    let cause: Option<String> = row.get("failure_cause")?;
    Ok(Some(Failure { phase, cause: cause.unwrap_or_default() }))
}

fn own(connection: &Connection, session: SessionId) -> Result<Option<InstanceRecord>, RegistryError> {
    let query = "SELECT id FROM instances WHERE session = ?1";
    let ids = rows(connection, query, [session.0], |row| Ok(InstanceId(row.get(0)?)))?;
    ids.first().map(|&id| instance::load(connection, id)).transpose()
}

fn attached(connection: &Connection, session: SessionId) -> Result<Vec<InstanceRecord>, RegistryError> {
    // The first registration of each instance stands for it: registrations are numbered in the order of the request.
    let query = "SELECT instance FROM registrations JOIN configurations ON configurations.id = configuration
        JOIN instances ON instances.id = instance
        WHERE registrations.session = ?1 AND instances.session <> ?1 GROUP BY instance ORDER BY min(registrations.id)";
    let ids = rows(connection, query, [session.0], |row| Ok(InstanceId(row.get(0)?)))?;
    ids.into_iter().map(|id| instance::load(connection, id)).collect()
}

fn stages(connection: &Connection, session: SessionId) -> Result<Vec<StageRecord>, RegistryError> {
    rows(connection, "SELECT * FROM stages WHERE session = ?1 ORDER BY id", [session.0], |row| {
        let persistent: Option<String> = row.get("persistent")?;
        let spec = StageSpec {
            direction: word(row, "direction", direction)?,
            kind: word(row, "kind", stage_kind)?,
            target: persistent.map_or(StageTarget::Job, StageTarget::Persistent),
            pfs: path(row, "pfs")?,
            instance_path: row.get("instance_path")?,
            tolerate_errors: row.get("tolerate_errors")?,
        };
        Ok(StageRecord {
            id: StageId(row.get("id")?),
            spec,
            instance: InstanceId(row.get("instance")?),
            configuration: ConfigurationId(row.get("configuration")?),
            result: stage_result(row)?,
        })
    })
}

fn stage_result(row: &Row<'_>) -> Result<StageResult, RegistryError> {
    let word: String = row.get("result")?;
    match word.as_str() {
        "pending" => Ok(StageResult::Pending),
        "done" => Ok(StageResult::Done {
            files: row.get("files")?,
            bytes: Bytes(row.get("bytes")?),
            elapsed_ms: row.get("elapsed_ms")?,
        }),
        "failed" => {
            let text: Option<String> = row.get("failure")?;
            Ok(StageResult::Failed { text: text.unwrap_or_default() })
        }
        _ => Err(RegistryError::Damaged { column: "result", value: word }),
    }
}
