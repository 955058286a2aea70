//! `setup` and `create_persistent`: a new session with its space.
//!
//! Everything is judged first; then the session, its space and its stagings are written in one step, so the session is
//! listed from the moment its space is taken. The same request again waits for the same result. A request for a token
//! that is being torn down waits until that is over.

use crate::cluster::limits::*;
use crate::cluster::plan::Plan;
use crate::cluster::refusal::Refusal;
use crate::cluster::request::{Caller, CreatePersistent, Setup, Stage};
use crate::cluster::row::*;
use crate::cluster::step::{Reply, Step};
use crate::cluster::waiting::Until;
use crate::cluster::word::{check_name, check_word, shown};
use crate::request::{StageDirection, StageKind};
use forebay_model::ids::*;
use forebay_model::objects::AccessMode;
use forebay_model::state::{Goal, ObjectState};
use serde::Serialize;

/// What there is under a token already.
enum Present {
    Nothing,
    Same(SessionId),
    Leaving(SessionId),
}

impl Step<'_> {
    /// `setup`.
    pub fn setup(&mut self, caller: Caller, setup: Setup) -> Result<Reply, Refusal> {
        self.check_workload_manager(caller, "setup")?;
        check_word(&setup.token)?;
        let request = fingerprint(&setup);
        match self.present(&setup.token, setup.owner, &request)? {
            Present::Same(id) => {
                self.rearm_fragments(id);
                return Ok(Reply::Wait(id, Until::Ready));
            }
            Present::Leaving(id) => return Ok(Reply::Wait(id, Until::FreeForJob(Box::new(setup)))),
            Present::Nothing => {}
        }
        check_setup(&setup)?;
        self.check_room_for_session(setup.owner)?;
        let attached =
            setup.attach.iter().map(|name| self.persistent(name)).collect::<Result<Vec<_>, _>>()?;
        self.check_stages(&setup)?;
        let plan = setup.space.as_ref().map(|space| self.plan(space)).transpose()?;
        let id = self.write_job(&setup, request, plan, &attached);
        Ok(Reply::Wait(id, Until::Ready))
    }

    fn write_job(
        &mut self,
        setup: &Setup,
        request: String,
        plan: Option<Plan>,
        attached: &[InstanceId],
    ) -> SessionId {
        let person = (setup.creator.as_str(), setup.owner, setup.group);
        let session = self.make_session(&setup.token, person, SessionKind::Job, request);
        let own = plan.map(|plan| {
            let label = format!("I{}-0", session.id);
            self.make_instance(&session, plan, label, false)
        });
        for instance in attached {
            for configuration in self.state.links.configurations.list(instance) {
                self.make_registration(session.id, configuration);
            }
        }
        for stage in &setup.stages {
            if let Some(configuration) = self.aim(stage, own, attached) {
                self.make_stage(session.id, configuration, stage, false);
            }
        }
        session.id
    }

    /// The configuration that a staging is recorded with. The lines of a list say themselves what they mean: one that does not
    /// lie in an instance goes with whatever can be staged.
    fn aim(
        &self,
        stage: &Stage,
        own: Option<InstanceId>,
        attached: &[InstanceId],
    ) -> Option<ConfigurationId> {
        let named = stage.persistent.as_ref().map(|name| self.persistent(name).ok());
        let aimed = named.unwrap_or(own).and_then(|id| self.striped(id));
        let any = || attached.iter().find_map(|id| self.striped(*id));
        aimed.or_else(|| if names_itself(stage) { any() } else { None })
    }

    /// `create_persistent`.
    pub fn create_persistent(&mut self, caller: Caller, create: CreatePersistent) -> Result<Reply, Refusal> {
        self.check_workload_manager(caller, "create_persistent")?;
        check_name(&create.name)?;
        let request = fingerprint(&create);
        match self.present(&create.name, create.owner, &request)? {
            Present::Same(id) => {
                self.rearm_fragments(id);
                return Ok(Reply::Wait(id, Until::Ready));
            }
            Present::Leaving(id) => {
                return Ok(Reply::Wait(id, Until::FreeForPersistent(Box::new(create))));
            }
            Present::Nothing => {}
        }
        self.check_room_for_session(create.owner)?;
        check_word(&create.creator)?;
        let plan = self.plan(&create.space)?;
        let person = (create.creator.as_str(), create.owner, create.group);
        let session = self.make_session(&create.name, person, SessionKind::Persistent, request);
        self.make_instance(&session, plan, create.name, true);
        Ok(Reply::Wait(session.id, Until::Ready))
    }

    fn present(&self, token: &str, owner: u32, request: &str) -> Result<Present, Refusal> {
        let Some(session) = self.state.session_of(token) else { return Ok(Present::Nothing) };
        if session.state.goal == Goal::Destroy && session.kind != SessionKind::Plain {
            return Ok(Present::Leaving(session.id));
        }
        if session.request == request && session.owner == owner {
            return Ok(Present::Same(session.id));
        }
        Err(Refusal::Exists { token: token.to_owned(), owner: session.owner })
    }

    /// Writes a session.
    pub(in crate::cluster) fn make_session(
        &mut self,
        token: &str,
        (creator, owner, group): (&str, u32, u32),
        kind: SessionKind,
        request: String,
    ) -> SessionRow {
        let id = SessionId(self.state.draw(|counters| &mut counters.sessions));
        let row = SessionRow {
            id,
            state: ObjectState::CREATING,
            token: token.to_owned(),
            creator: creator.to_owned(),
            owner,
            group,
            created: self.state.now,
            kind,
            request,
            hosts: Vec::new(),
            ran: false,
            hurry: false,
        };
        self.state.insert(Row::Session(row.clone()));
        row
    }

    /// Writes a staging.
    pub(in crate::cluster) fn make_stage(
        &mut self,
        session: SessionId,
        configuration: ConfigurationId,
        stage: &Stage,
        live: bool,
    ) -> StageId {
        let id = StageId(self.state.draw(|counters| &mut counters.stages));
        self.state.insert(Row::Stage(StageRow {
            id,
            session,
            configuration,
            direction: stage.direction,
            kind: stage.kind,
            pfs: stage.pfs.clone(),
            instance_path: stage.instance_path.clone(),
            tolerate_errors: stage.tolerate_errors,
            live,
            wanted: live,
            outcome: StageOutcome::Pending,
        }));
        id
    }

    /// The instance of a persistent session that can be attached.
    fn persistent(&self, name: &str) -> Result<InstanceId, Refusal> {
        let session = self
            .state
            .session_of(name)
            .filter(|session| session.kind == SessionKind::Persistent && session.state.goal == Goal::Create);
        let instance = session.and_then(|session| self.state.links.instances.of(&session.id).next());
        let row = instance.and_then(|id| self.state.tables.instances.get(id));
        let name = || shown(name);
        let row = row.ok_or_else(|| Refusal::NoPersistent { name: name() })?;
        if row.intact { Ok(row.id) } else { Err(Refusal::NotIntact { label: row.label.clone() }) }
    }

    /// The configuration of an instance that can be staged.
    fn striped(&self, instance: InstanceId) -> Option<ConfigurationId> {
        let mut ids = self.state.links.configurations.of(&instance).copied();
        ids.find(|id| {
            let row = self.state.tables.configurations.get(id);
            row.is_some_and(|row| row.access.mode == AccessMode::Striped)
        })
    }

    /// Judges the stagings: their paths, and that they name something striped of this job.
    fn check_stages(&self, setup: &Setup) -> Result<(), Refusal> {
        for stage in &setup.stages {
            check_stage_paths(stage)?;
            self.check_stage_space(setup, stage)?;
        }
        Ok(())
    }

    fn check_stage_space(&self, setup: &Setup, stage: &Stage) -> Result<(), Refusal> {
        let own = setup.space.iter().flat_map(|space| &space.access);
        let has_own = own.into_iter().any(|access| access.mode == AccessMode::Striped);
        let is_striped = |name: &String| Ok::<_, Refusal>(self.striped(self.persistent(name)?).is_some());
        let what = match &stage.persistent {
            None if has_own => return Ok(()),
            None => {
                for name in setup.attach.iter().filter(|_| names_itself(stage)) {
                    if is_striped(name)? {
                        return Ok(());
                    }
                }
                "a staging names $DW_JOB_STRIPED, but the job has no striped space (private space cannot be staged): add access_mode=striped to #DW jobdw".to_owned()
            }
            Some(name) if !setup.attach.contains(name) => {
                let name = shown(name);
                format!(
                    "a staging names $DW_PERSISTENT_STRIPED_{name}, which the job does not attach: add #DW persistentdw name={name}"
                )
            }
            Some(name) if is_striped(name)? => return Ok(()),
            Some(name) => format!(
                "a staging names $DW_PERSISTENT_STRIPED_{0}, but persistent instance {0} has no striped space: private space cannot be staged",
                shown(name)
            ),
        };
        Err(Refusal::Invalid { what })
    }
}

fn check_setup(setup: &Setup) -> Result<(), Refusal> {
    check_word(&setup.creator)?;
    if setup.swap {
        let instead = "take the #DW swap line out of the script";
        return Err(Refusal::NotOffered { what: "swap on compute nodes", instead });
    }
    if setup.stages.len() > MAX_STAGES {
        return Err(Refusal::TooMany { what: "stagings of one job", limit: MAX_STAGES });
    }
    if setup.attach.len() > MAX_ATTACHED {
        return Err(Refusal::TooMany { what: "persistent instances of one job", limit: MAX_ATTACHED });
    }
    Ok(())
}

/// A list on the parallel file system.
fn names_itself(stage: &Stage) -> bool {
    stage.kind == StageKind::List && stage.instance_path.is_empty()
}

/// Judges the paths of a staging. Only a list to be staged out has none on the parallel file system: the job has written it
/// into the instance.
pub(in crate::cluster) fn check_stage_paths(stage: &Stage) -> Result<(), Refusal> {
    let bad = |what: &str| Err(Refusal::Invalid { what: what.to_owned() });
    let (pfs, inner) = (&stage.pfs, &stage.instance_path);
    if pfs.len() > MAX_PATH_BYTES || inner.len() > MAX_PATH_BYTES {
        return bad("a path of a staging is longer than 4096 bytes: shorten it");
    }
    if pfs.contains(&0) || inner.contains(&0) {
        return bad("a path of a staging has a zero byte in it: remove it");
    }
    let is_list_out = stage.kind == StageKind::List && stage.direction == StageDirection::Out;
    let is_inside = is_list_out && pfs.is_empty() && !inner.is_empty();
    if !is_inside && !pfs.starts_with(b"/") {
        return bad("a staging needs the full path on the parallel file system, beginning with a slash");
    }
    if inner.starts_with(b"/") || inner.split(|byte| *byte == b'/').any(|part| part == b"..") {
        return bad("the path of a staging leaves the instance: write it below the mount, without ..");
    }
    Ok(())
}

/// A short text that is the same for the same request. FNV-1a over its JSON, so that it outlives a new version.
fn fingerprint(request: &impl Serialize) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let text = serde_json::to_vec(request).unwrap_or_default();
    let hash = text.iter().fold(OFFSET, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    format!("{hash:016x}")
}
