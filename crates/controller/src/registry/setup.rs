//! Setting up a job: its session, space, registrations and stagings, in one transaction.
//!
//! Everything is recorded as wanted and not yet real (`C--T-`); the driver makes it real afterwards. A crash right after
//! the commit leaves an orphan in phase `Setup`, which recovery tears down.

use super::column::{args_bytes, direction_text, path_bytes, process_text, stage_kind_text};
use super::space::{NewInstance, add_instance};
use super::{MAX_WORD, Registry, instance, is_word, job, number, rows};
use crate::error::SetupError;
use crate::record::{InstanceRecord, Job};
use crate::request::{JobRequest, StageSpec, StageTarget};
use forebay_model::ids::SessionId;
use forebay_model::lifecycle::Phase;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::state::ObjectState;
use rusqlite::{OptionalExtension, Transaction};

/// Most client nodes of a job: each is a namespace in private mode.
pub const MAX_CLIENT_NODES: u64 = 65_536;

impl Registry {
    /// Records a job in phase `Setup` with all that belongs to it. `now`: seconds since the epoch.
    ///
    /// # Errors
    /// [`SetupError`]; nothing is recorded then.
    pub fn setup_job(&self, request: &JobRequest, now: i64) -> Result<Job, SetupError> {
        self.change(|tx| add_job_with_session(tx, request, now))
    }
}

pub(super) fn add_job_with_session(
    tx: &Transaction<'_>,
    request: &JobRequest,
    now: i64,
) -> Result<Job, SetupError> {
    if request.client_nodes > MAX_CLIENT_NODES {
        return Err(SetupError::TooManyNodes { asked: request.client_nodes, max: MAX_CLIENT_NODES });
    }
    let attached = find_attached(tx, &request.attach)?;
    let token = match &request.token {
        Some(token) => free_token(tx, token)?,
        None => number::token(tx, request.owner_uid)?,
    };
    let session = SessionId(number::session(tx)?);
    let person = Person { creator: &request.creator, uid: request.owner_uid, nodes: request.client_nodes };
    add_session(tx, session, &token, person, now)?;
    let own = add_own(tx, session, request, now)?;
    for instance in own.iter().chain(&attached) {
        register(tx, session, instance)?;
    }
    add_job(tx, session, request)?;
    for stage in &request.stages {
        add_stage(tx, session, stage, own.as_ref(), &attached)?;
    }
    Ok(job::load(tx, session)?)
}

/// Who a session belongs to.
#[derive(Clone, Copy)]
pub(super) struct Person<'a> {
    pub creator: &'a str,
    pub uid: u32,
    pub nodes: u64,
}

pub(super) fn add_session(
    tx: &Transaction<'_>,
    session: SessionId,
    token: &str,
    person: Person<'_>,
    now: i64,
) -> Result<(), SetupError> {
    tx.prepare_cached("INSERT INTO sessions VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, ?7)")?.execute((
        session.0,
        ObjectState::CREATING.to_string(),
        token,
        person.creator,
        person.uid,
        now,
        person.nodes,
    ))?;
    Ok(())
}

/// A token that dwstat can show in one column, that can name a directory, and that no session has.
pub(super) fn free_token(tx: &Transaction<'_>, token: &str) -> Result<String, SetupError> {
    if !is_word(token) || token.starts_with('.') {
        return Err(SetupError::BadToken { token: token.to_owned(), max: MAX_WORD });
    }
    let holder = tx
        .prepare_cached("SELECT id FROM sessions WHERE token = ?1")?
        .query_row([token], |row| Ok(SessionId(row.get(0)?)))
        .optional()?;
    match holder {
        Some(session) => Err(SetupError::TokenInUse { token: token.to_owned(), session }),
        None => Ok(token.to_owned()),
    }
}

fn find_attached(tx: &Transaction<'_>, names: &[String]) -> Result<Vec<InstanceRecord>, SetupError> {
    let mut attached: Vec<InstanceRecord> = Vec::new();
    for name in names {
        if attached.iter().any(|earlier| earlier.label == *name) {
            return Err(SetupError::AttachedTwice { name: name.clone() });
        }
        let found = instance::persistent(tx, name)?;
        match found {
            Some(found) if found.state.is_usable() => attached.push(found),
            Some(found) => {
                return Err(SetupError::PersistentNotReady { name: name.clone(), state: found.state });
            }
            None => return Err(unknown_persistent(tx, name)?),
        }
    }
    Ok(attached)
}

pub(super) fn unknown_persistent(tx: &Transaction<'_>, name: &str) -> Result<SetupError, SetupError> {
    let query = "SELECT label FROM instances WHERE persistent ORDER BY label";
    let known = rows(tx, query, [], |row| Ok(row.get(0)?))?;
    Ok(SetupError::UnknownPersistent { name: name.to_owned(), known })
}

fn add_own(
    tx: &Transaction<'_>,
    session: SessionId,
    request: &JobRequest,
    now: i64,
) -> Result<Option<InstanceRecord>, SetupError> {
    let Some(allocation) = &request.allocation else { return Ok(None) };
    let new = NewInstance {
        session,
        label: &format!("I{session}-0"),
        persistent: false,
        process: request.owner,
        allocation,
        client_nodes: request.client_nodes,
        now,
    };
    let id = add_instance(tx, &new)?;
    Ok(Some(instance::load(tx, id)?))
}

fn register(tx: &Transaction<'_>, session: SessionId, instance: &InstanceRecord) -> Result<(), SetupError> {
    for configuration in &instance.configurations {
        let id = number::next(tx, "registration")?;
        let state = ObjectState::CREATING.to_string();
        tx.prepare_cached("INSERT INTO registrations VALUES (?1, ?2, ?3, ?4, 1)")?.execute((
            id,
            state,
            session.0,
            configuration.id.0,
        ))?;
    }
    Ok(())
}

fn add_job(tx: &Transaction<'_>, session: SessionId, request: &JobRequest) -> Result<(), SetupError> {
    let script = &request.script;
    tx.prepare_cached(
        "INSERT INTO jobs (session, phase, process, script, args, working_directory, submit_directory, name, keep)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute((
        session.0,
        Phase::Setup.name(),
        process_text(request.owner),
        path_bytes(&script.path),
        args_bytes(&script.args),
        path_bytes(&script.working_directory),
        path_bytes(&script.submit_directory),
        &script.name,
        request.keep,
    ))?;
    Ok(())
}

fn add_stage(
    tx: &Transaction<'_>,
    session: SessionId,
    stage: &StageSpec,
    own: Option<&InstanceRecord>,
    attached: &[InstanceRecord],
) -> Result<(), SetupError> {
    let (instance, name) = match &stage.target {
        StageTarget::Job => (own, None),
        StageTarget::Persistent(name) => (attached.iter().find(|one| one.label == *name), Some(name)),
    };
    let striped = instance.and_then(|instance| {
        let is_striped = |c: &&crate::record::ConfigurationRecord| {
            c.access.mode == AccessMode::Striped && c.kind == ConfigurationType::Scratch
        };
        instance.configurations.iter().find(is_striped).map(|configuration| (instance.id, configuration.id))
    });
    let Some((instance, configuration)) = striped else {
        let target = match name {
            None => "the job".to_owned(),
            Some(name) => format!("the persistent instance {name}"),
        };
        let direction = direction_text(stage.direction);
        return Err(SetupError::StageTarget { direction, pfs: stage.pfs.clone(), target });
    };
    let id = number::next(tx, "stage")?;
    tx.prepare_cached(
        "INSERT INTO stages (id, session, direction, kind, persistent, pfs, instance_path, tolerate_errors, instance,
         configuration, result) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 'pending')",
    )?
    .execute((
        id,
        session.0,
        direction_text(stage.direction),
        stage_kind_text(stage.kind),
        name,
        path_bytes(&stage.pfs),
        &stage.instance_path,
        stage.tolerate_errors,
        instance.0,
        configuration.0,
    ))?;
    Ok(())
}
