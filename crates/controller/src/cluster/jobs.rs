//! What the workload manager asks.
//!
//! Every verb can be repeated, at the same time too: it writes down what is wanted and waits until it is so. A verb that
//! failed tries again when it is asked again. The order in which they come is not relied on.

mod environment;
mod setup;

pub(super) use setup::check_stage_paths;

use super::effect::Answer;
use super::limits::MAX_HOSTS;
use super::refusal::{Refusal, Role};
use super::request::Caller;
use super::row::*;
use super::step::{Reply, Step};
use super::waiting::Until;
use super::word::shown;
use crate::request::StageDirection;
use forebay_model::ids::*;
use forebay_model::state::{Goal, ObjectState};
use std::collections::BTreeSet;

/// So many names are told in a message.
const NAMES_SHOWN: usize = 5;

impl Step<'_> {
    /// Judges whether this caller may ask what the workload manager asks.
    pub(super) fn check_workload_manager(&self, caller: Caller, what: &str) -> Result<(), Refusal> {
        if self.state.settings.is_workload_manager(caller.uid) {
            return Ok(());
        }
        let role = Role::WorkloadManager;
        Err(Refusal::NotAllowed { uid: caller.uid, what: what.to_owned(), role })
    }

    /// The job with this token.
    fn job(&self, token: &str) -> Result<&SessionRow, Refusal> {
        let job = self.state.session_of(token).filter(|session| session.kind == SessionKind::Job);
        job.ok_or_else(|| no_token(token))
    }

    /// The job with this token, if it is not being torn down.
    fn living_job(&self, token: &str) -> Result<SessionRow, Refusal> {
        let job = self.job(token)?;
        if job.state.goal == Goal::Destroy {
            return Err(Refusal::TornDown { token: token.to_owned() });
        }
        Ok(job.clone())
    }

    /// `data_in`.
    pub fn data_in(&mut self, caller: Caller, token: &str) -> Result<Reply, Refusal> {
        self.check_workload_manager(caller, "data_in")?;
        let job = self.living_job(token)?;
        self.rearm_fragments(job.id);
        self.want_stages(job.id, StageDirection::In);
        Ok(Reply::Wait(job.id, Until::StagedIn))
    }

    /// `pre_run`.
    pub fn pre_run(&mut self, caller: Caller, token: &str, hosts: Vec<String>) -> Result<Reply, Refusal> {
        self.check_workload_manager(caller, "pre_run")?;
        let job = self.living_job(token)?;
        let hosts = self.check_hosts(hosts)?;
        self.state.tables.sessions.edit(&job.id, |row| (row.ran, row.hosts) = (true, hosts));
        for registration in self.state.links.registrations.list(&job.id) {
            if let Some(row) = self.state.tables.registrations.get(&registration) {
                let configuration = row.configuration;
                self.activate(&job, configuration, None);
            }
        }
        self.rearm_mounts(job.id);
        self.rearm_fragments(job.id);
        Ok(Reply::Wait(job.id, Until::Mounted))
    }

    /// Judges client nodes: all of them have an agent; sorted, none twice.
    pub(super) fn check_hosts(&self, hosts: Vec<String>) -> Result<Vec<String>, Refusal> {
        if hosts.len() > MAX_HOSTS {
            return Err(Refusal::TooMany { what: "client nodes", limit: MAX_HOSTS });
        }
        let hosts: BTreeSet<String> = hosts.into_iter().collect();
        let unknown = hosts.iter().filter(|host| !self.state.tables.nodes.contains(*host));
        let unknown: Vec<String> = unknown.take(NAMES_SHOWN).map(|host| shown(host)).collect();
        if unknown.is_empty() {
            return Ok(hosts.into_iter().collect());
        }
        Err(Refusal::UnknownNodes { nodes: unknown.join(", ") })
    }

    /// Wants a configuration mounted on the session's client nodes, at a place that was judged or where it belongs.
    pub(super) fn activate(
        &mut self,
        session: &SessionRow,
        configuration: ConfigurationId,
        mount: Option<String>,
    ) -> ActivationId {
        let tables = &self.state.tables;
        let known = self.state.links.activations.of(&session.id).copied();
        let known = known
            .filter(|id| tables.activations.get(id).is_some_and(|row| row.configuration == configuration));
        if let Some(id) = known.last() {
            let create = |row: &mut ActivationRow| row.state.goal = Goal::Create;
            self.state.tables.activations.edit(&id, create);
            return id;
        }
        let mount = mount.unwrap_or_else(|| self.mount_path(session, configuration));
        let id = ActivationId(self.state.draw(|counters| &mut counters.activations));
        let state = ObjectState::CREATING;
        let row = ActivationRow { id, state, session: session.id, configuration, mount };
        self.state.insert(Row::Activation(row));
        id
    }

    /// `post_run`. Also while the job is torn down: a restarted workload manager asks again.
    pub fn post_run(&mut self, caller: Caller, token: &str) -> Result<Reply, Refusal> {
        self.check_workload_manager(caller, "post_run")?;
        let job = self.job(token)?.id;
        self.deactivate_all(job);
        self.rearm_mounts(job);
        Ok(Reply::Wait(job, Until::Unmounted))
    }

    /// `data_out`. Implies `post_run`.
    pub fn data_out(&mut self, caller: Caller, token: &str) -> Result<Reply, Refusal> {
        self.check_workload_manager(caller, "data_out")?;
        let job = self.job(token)?;
        let (id, hurry) = (job.id, job.hurry);
        if hurry {
            return Err(Refusal::TornDown { token: token.to_owned() });
        }
        self.deactivate_all(id);
        self.rearm_mounts(id);
        self.rearm_fragments(id);
        self.want_stages(id, StageDirection::Out);
        Ok(Reply::Wait(id, Until::StagedOut))
    }

    /// `teardown`, of a job or a persistent instance.
    pub fn teardown(&mut self, caller: Caller, token: &str, hurry: bool) -> Result<Reply, Refusal> {
        self.check_workload_manager(caller, "teardown")?;
        let session = self.state.session_of(token).filter(|session| session.kind != SessionKind::Plain);
        let id = session.ok_or_else(|| no_token(token))?.id;
        self.end_session(id, hurry)
    }

    /// Wants a session gone, with all that it made.
    pub(super) fn end_session(&mut self, id: SessionId, hurry: bool) -> Result<Reply, Refusal> {
        self.check_unused(id)?;
        self.state.tables.sessions.edit(&id, |row| {
            row.state.goal = Goal::Destroy;
            row.hurry |= hurry;
        });
        self.deactivate_all(id);
        self.rearm_mounts(id);
        self.rearm_fragments(id);
        for stage in self.owed(id) {
            self.want_stage(stage);
        }
        Ok(Reply::Wait(id, Until::Gone))
    }

    /// Judges whether nobody else uses the instances of a session.
    fn check_unused(&self, id: SessionId) -> Result<(), Refusal> {
        let (links, tables) = (&self.state.links, &self.state.tables);
        let Some(session) = tables.sessions.get(&id) else { return Ok(()) };
        let configurations = links.instances.of(&id).flat_map(|id| links.configurations.of(id));
        let registrations = configurations.flat_map(|id| links.registered.of(id));
        let sessions = registrations.filter_map(|id| tables.registrations.get(id)).map(|row| row.session);
        let others = sessions.filter(|other| *other != id).collect::<BTreeSet<_>>();
        if others.is_empty() {
            return Ok(());
        }
        let tokens = others.iter().filter_map(|id| tables.sessions.get(id)).map(|row| row.token.as_str());
        let mut users = tokens.take(NAMES_SHOWN).collect::<Vec<_>>().join(", ");
        if others.len() > NAMES_SHOWN {
            users.push_str(&format!(" and {} more", others.len() - NAMES_SHOWN));
        }
        Err(Refusal::InUse { name: session.token.clone(), users })
    }

    /// Wants nothing of a session mounted any more.
    pub(super) fn deactivate_all(&mut self, session: SessionId) {
        for id in self.state.links.activations.list(&session) {
            self.state.tables.activations.edit(&id, |row| row.state.goal = Goal::Destroy);
        }
    }

    /// Wants the stagings of one direction that are not done.
    fn want_stages(&mut self, session: SessionId, direction: StageDirection) {
        for id in self.state.links.stages.list(&session) {
            if self.state.tables.stages.get(&id).is_some_and(|row| row.direction == direction) {
                self.want_stage(id);
            }
        }
    }

    /// Wants a staging done. One that failed is tried again.
    pub(super) fn want_stage(&mut self, id: StageId) {
        self.state.tables.stages.edit(&id, |row| {
            if !matches!(row.outcome, StageOutcome::Done { .. }) {
                (row.wanted, row.outcome) = (true, StageOutcome::Pending);
            }
        });
    }

    /// Stage-outs that must be done before the session's data may go.
    pub(super) fn owed(&self, id: SessionId) -> Vec<StageId> {
        let tables = &self.state.tables;
        let Some(session) = tables.sessions.get(&id).filter(|session| !session.hurry) else {
            return Vec::new();
        };
        let is_owed = |stage: &StageRow| {
            let waits = self.registration_of(id, stage.configuration).is_none_or(|row| row.wait);
            let done = matches!(stage.outcome, StageOutcome::Done { .. });
            stage.direction == StageDirection::Out && !done && waits && (session.ran || stage.live)
        };
        let stages = self.state.links.stages.of(&id).filter_map(|id| tables.stages.get(id));
        stages.filter(|stage| is_owed(stage)).map(|stage| stage.id).collect()
    }

    /// Mounts and unmounts that were given up are tried again.
    pub(super) fn rearm_mounts(&mut self, session: SessionId) {
        for activation in self.state.links.activations.list(&session) {
            for node in self.state.links.mounts.list(&activation) {
                self.rearm(&Subject::Mount(activation, node));
            }
        }
    }

    /// Fragments of the session's instances, and of those it attached, that were given up are tried again.
    pub(super) fn rearm_fragments(&mut self, session: SessionId) {
        for instance in self.used_instances(session) {
            for fragment in self.state.links.fragments.list(&instance) {
                self.rearm(&Subject::Fragment(fragment));
            }
        }
    }

    /// `real_size`, of a job or a persistent instance.
    pub fn real_size(&mut self, caller: Caller, token: &str) -> Result<Reply, Refusal> {
        self.check_workload_manager(caller, "real_size")?;
        let session = self.state.session_of(token).ok_or_else(|| no_token(token))?;
        let instances = self.state.links.instances.of(&session.id);
        let rows = instances.filter_map(|id| self.state.tables.instances.get(id));
        let bytes = rows.map(|row| row.bytes.0).fold(0, u64::saturating_add);
        Ok(Reply::Now(Answer::Size(forebay_model::units::Bytes(bytes))))
    }
}

fn no_token(token: &str) -> Refusal {
    Refusal::NoToken { token: shown(token) }
}
