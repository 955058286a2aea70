//! What users ask about their own objects, and operators about all.
//!
//! The answer is that it was accepted; how it goes is seen in the objects' states. Removal of a session waits, so that
//! its failure can be told.

use super::effect::{Answer, ObjectKind};
use super::limits::*;
use super::plan::{check_access, check_label};
use super::refusal::{Refusal, Role};
use super::request::*;
use super::row::*;
use super::step::{Reply, Step};
use super::word::{check_name, check_word};
use crate::request::AccessRequest;
use forebay_model::ids::*;
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::state::Goal;

impl Step<'_> {
    /// Requests about one's own objects.
    pub fn serve_user(&mut self, caller: Caller, request: Request) -> Result<Reply, Refusal> {
        match request {
            Request::CreateSession { token, owner, group, hosts, creator } => {
                let creator = creator.as_deref().unwrap_or("dwcli");
                self.create_session(caller, &token, (creator, owner, group), hosts)
            }
            Request::CreateInstance { session, label, space } => {
                self.create_instance(caller, session, label, &space)
            }
            Request::CreateConfiguration { instance, kind, access } => {
                self.create_configuration(caller, instance, kind, access)
            }
            Request::CreateActivation { session, configuration, mount } => {
                self.create_activation(caller, session, configuration, mount)
            }
            Request::Remove { object, hurry } => self.remove_object(caller, object, hurry),
            Request::ChangeInstance { instance, change } => self.change_instance(caller, instance, &change),
            Request::ChangeConfiguration { configuration, change } => {
                self.change_configuration(caller, configuration, change)
            }
            Request::NoWait { registration } => self.no_wait(caller, registration),
            Request::Stage { session, configuration, stage } => {
                self.stage_now(caller, session, configuration, &stage)
            }
            Request::StageTerminate { stage } => self.stage_terminate(caller, stage),
            other => {
                let what = format!("{} is no request of users", other.name());
                Err(Refusal::Invalid { what })
            }
        }
    }

    /// Judges whether the caller may change this session; it must not be on its way out.
    fn own_session(&self, caller: Caller, id: SessionId) -> Result<SessionRow, Refusal> {
        let kind = ObjectKind::Session;
        let row = self.state.tables.sessions.get(&id).ok_or(Refusal::NoObject { kind, id: id.0 })?;
        self.check_owner(caller, kind, id.0, row.owner)?;
        Ok(row.clone())
    }

    pub(super) fn check_owner(
        &self,
        caller: Caller,
        kind: ObjectKind,
        id: u64,
        owner: u32,
    ) -> Result<(), Refusal> {
        if caller.uid == owner || self.state.settings.is_operator(caller.uid) {
            return Ok(());
        }
        Err(Refusal::NotYours { uid: caller.uid, kind, id, owner })
    }

    pub(super) fn living_session(&self, caller: Caller, id: SessionId) -> Result<SessionRow, Refusal> {
        let row = self.own_session(caller, id)?;
        if row.state.goal == Goal::Destroy {
            return Err(Refusal::TornDown { token: row.token });
        }
        Ok(row)
    }

    fn create_session(
        &mut self,
        caller: Caller,
        token: &str,
        person: (&str, u32, u32),
        hosts: Vec<String>,
    ) -> Result<Reply, Refusal> {
        let (creator, owner, _) = person;
        let operator = self.state.settings.is_operator(caller.uid);
        if !operator && (owner != caller.uid || !hosts.is_empty()) {
            let what = "a session of somebody else, or with client nodes".to_owned();
            return Err(Refusal::NotAllowed { uid: caller.uid, what, role: Role::Operators });
        }
        self.check_by_hand(caller)?;
        check_name(token)?;
        check_word(creator)?;
        if let Some(present) = self.state.session_of(token) {
            return Err(Refusal::Exists { token: token.to_owned(), owner: present.owner });
        }
        self.check_room_for_session(owner)?;
        let hosts = self.check_hosts(hosts)?;
        let session = self.make_session(token, person, SessionKind::Plain, String::new());
        self.state.tables.sessions.edit(&session.id, |row| row.hosts = hosts);
        self.touch(session.id);
        Ok(accepted(ObjectKind::Session, session.id.0))
    }

    fn create_instance(
        &mut self,
        caller: Caller,
        session: SessionId,
        label: String,
        space: &Space,
    ) -> Result<Reply, Refusal> {
        let session = self.living_session(caller, session)?;
        self.check_by_hand(caller)?;
        check_label(&label)?;
        self.check_room_for_session(session.owner)?;
        if self.state.links.instances.count(&session.id) >= MAX_INSTANCES_PER_SESSION {
            return Err(Refusal::TooMany {
                what: "instances of a session",
                limit: MAX_INSTANCES_PER_SESSION,
            });
        }
        self.check_policies(caller, space)?;
        let plan = self.plan(space)?.by_hand(!self.state.settings.is_operator(caller.uid));
        self.check_share(caller, session.owner, plan.bytes())?;
        let id = self.make_instance(&session, plan, label, false);
        self.touch(session.id);
        Ok(accepted(ObjectKind::Instance, id.0))
    }

    fn create_configuration(
        &mut self,
        caller: Caller,
        instance: InstanceId,
        kind: ConfigurationType,
        access: AccessRequest,
    ) -> Result<Reply, Refusal> {
        let missing = Refusal::NoObject { kind: ObjectKind::Instance, id: instance.0 };
        let row = self.state.tables.instances.get(&instance).ok_or(missing)?.clone();
        self.check_owner(caller, ObjectKind::Instance, instance.0, row.owner)?;
        let session = self.living_session(caller, row.session)?;
        check_access(kind, access.mode)?;
        if self.state.links.configurations.count(&instance) >= MAX_CONFIGURATIONS_PER_INSTANCE {
            let limit = MAX_CONFIGURATIONS_PER_INSTANCE;
            return Err(Refusal::TooMany { what: "configurations of an instance", limit });
        }
        let id = self.make_configuration(instance, kind, access);
        self.state.tables.configurations.edit(&id, |new| new.state = row.state);
        for namespace in self.state.links.namespaces.list(&id) {
            self.state.tables.namespaces.edit(&namespace, |new| new.state = row.state);
        }
        self.make_registration(session.id, id);
        self.serve_anew(instance);
        self.touch(session.id);
        Ok(accepted(ObjectKind::Configuration, id.0))
    }

    /// Judges whether the session may use the configuration: its own one, or one that it registered.
    fn check_use(&self, session: SessionId, id: ConfigurationId) -> Result<&ConfigurationRow, Refusal> {
        let missing = Refusal::NoObject { kind: ObjectKind::Configuration, id: id.0 };
        let row = self.state.tables.configurations.get(&id).ok_or(missing)?;
        if self.registration_of(session, id).is_none() {
            let what = format!("session {session} has no registration for configuration {id}");
            return Err(Refusal::Invalid { what });
        }
        Ok(row)
    }

    fn create_activation(
        &mut self,
        caller: Caller,
        session: SessionId,
        configuration: ConfigurationId,
        mount: Option<String>,
    ) -> Result<Reply, Refusal> {
        let session = self.living_session(caller, session)?;
        self.check_use(session.id, configuration)?;
        if session.hosts.is_empty() {
            let what = format!("session {} has no client nodes to mount on", session.id);
            return Err(Refusal::Invalid { what });
        }
        let place = |mount: String| self.check_mount_place(caller, &session, configuration, &mount);
        let mount = mount.map(place).transpose()?;
        self.state.tables.sessions.edit(&session.id, |row| row.ran = true);
        let id = self.activate(&session, configuration, mount);
        self.touch(session.id);
        Ok(accepted(ObjectKind::Activation, id.0))
    }

    fn remove_object(&mut self, caller: Caller, object: ObjectId, hurry: bool) -> Result<Reply, Refusal> {
        match object {
            ObjectId::Session(id) => {
                let session = self.own_session(caller, id)?;
                self.end_session(session.id, hurry)
            }
            ObjectId::Activation(id) => {
                let missing = Refusal::NoObject { kind: ObjectKind::Activation, id: id.0 };
                let session = self.state.tables.activations.get(&id).ok_or(missing)?.session;
                self.own_session(caller, session)?;
                self.state.tables.activations.edit(&id, |row| row.state.goal = Goal::Destroy);
                self.rearm_mounts(session);
                self.touch(session);
                Ok(accepted(ObjectKind::Activation, id.0))
            }
            ObjectId::Registration(id) => self.remove_registration(caller, id),
        }
    }

    /// A registration goes with its session, unless nothing depends on it.
    fn remove_registration(&mut self, caller: Caller, id: RegistrationId) -> Result<Reply, Refusal> {
        let (tables, links) = (&self.state.tables, &self.state.links);
        let missing = Refusal::NoObject { kind: ObjectKind::Registration, id: id.0 };
        let row = tables.registrations.get(&id).ok_or(missing)?.clone();
        self.own_session(caller, row.session)?;
        let activations = links.activations.of(&row.session).filter_map(|id| tables.activations.get(id));
        let stages = links.stages.of(&row.session).filter_map(|id| tables.stages.get(id));
        let used = activations.map(|row| row.configuration).chain(stages.map(|row| row.configuration));
        if used.into_iter().any(|configuration| configuration == row.configuration) {
            let what =
                format!("registration {id} is used by mounts or stagings: remove session {}", row.session);
            return Err(Refusal::Invalid { what });
        }
        self.state.remove(Key::Registration(id));
        self.touch(row.session);
        Ok(accepted(ObjectKind::Registration, id.0))
    }

    fn no_wait(&mut self, caller: Caller, id: RegistrationId) -> Result<Reply, Refusal> {
        let missing = Refusal::NoObject { kind: ObjectKind::Registration, id: id.0 };
        let session = self.state.tables.registrations.get(&id).ok_or(missing)?.session;
        self.own_session(caller, session)?;
        self.state.tables.registrations.edit(&id, |row| row.wait = false);
        self.touch(session);
        Ok(accepted(ObjectKind::Registration, id.0))
    }

    fn stage_now(
        &mut self,
        caller: Caller,
        session: SessionId,
        configuration: ConfigurationId,
        stage: &Stage,
    ) -> Result<Reply, Refusal> {
        let session = self.living_session(caller, session)?;
        let row = self.check_use(session.id, configuration)?;
        if row.access.mode != AccessMode::Striped {
            let what = format!("configuration {configuration} is private and cannot be staged");
            return Err(Refusal::Invalid { what });
        }
        super::jobs::check_stage_paths(stage)?;
        if self.state.links.stages.count(&session.id) >= MAX_STAGES {
            return Err(Refusal::TooMany { what: "stagings of a session", limit: MAX_STAGES });
        }
        let id = self.make_stage(session.id, configuration, stage, true);
        self.touch(session.id);
        Ok(accepted(ObjectKind::Stage, id.0))
    }

    /// Breaks a staging off that was asked for while the job ran, or one of a script. What is staged out stays owed if a
    /// script asked for it; one made by hand is not owed any more.
    fn stage_terminate(&mut self, caller: Caller, id: StageId) -> Result<Reply, Refusal> {
        let missing = Refusal::NoObject { kind: ObjectKind::Stage, id: id.0 };
        let session = self.state.tables.stages.get(&id).ok_or(missing)?.session;
        self.own_session(caller, session)?;
        self.state.tables.stages.edit(&id, |row| row.live = false);
        self.cancel_stage(id);
        self.touch(session);
        Ok(accepted(ObjectKind::Stage, id.0))
    }
}

fn accepted(kind: ObjectKind, id: u64) -> Reply {
    Reply::Now(Answer::Accepted { kind, id })
}
