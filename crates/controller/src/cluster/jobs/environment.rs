//! Where a job finds its mounts, and the variables that say so.

use crate::cluster::effect::Answer;
use crate::cluster::refusal::Refusal;
use crate::cluster::request::Caller;
use crate::cluster::row::{InstanceRow, SessionRow};
use crate::cluster::step::{Reply, Step};
use forebay_model::ids::ConfigurationId;
use forebay_model::objects::AccessMode;

impl Step<'_> {
    /// `paths`. The values end with a slash: programs put file names right behind them.
    pub fn paths(&mut self, caller: Caller, token: &str) -> Result<Reply, Refusal> {
        self.check_workload_manager(caller, "paths")?;
        let job = self.job(token)?;
        let registrations = self.state.links.registrations.of(&job.id);
        let rows = registrations.filter_map(|id| self.state.tables.registrations.get(id));
        let variable = |id| Some((self.variable(job, id)?, format!("{}/", self.mount_path(job, id))));
        Ok(Reply::Now(Answer::Paths(rows.filter_map(|row| variable(row.configuration)).collect())))
    }

    fn variable(&self, job: &SessionRow, id: ConfigurationId) -> Option<String> {
        let (mode, instance) = self.use_of(id)?;
        let mode = mode.name().to_ascii_uppercase();
        Some(match instance.session == job.id {
            true => format!("DW_JOB_{mode}"),
            false => format!("DW_PERSISTENT_{mode}_{}", instance.label),
        })
    }

    /// Where a session finds a configuration mounted, on every client the same.
    pub fn mount_path(&self, session: &SessionRow, id: ConfigurationId) -> String {
        let (root, token) = (&self.state.settings.mount_root, &session.token);
        match self.use_of(id) {
            Some((mode, instance)) if instance.session != session.id => {
                format!("{root}/{}_{token}_{}_scratch", instance.label, mode.name())
            }
            Some((mode, instance)) if self.has_several_instances(session) => {
                format!("{root}/{token}_{}_{}_scratch", instance.id, mode.name())
            }
            Some((mode, _)) => format!("{root}/{token}_{}_scratch", mode.name()),
            None => format!("{root}/{token}_configuration_{id}"),
        }
    }

    fn has_several_instances(&self, session: &SessionRow) -> bool {
        self.state.links.instances.count(&session.id) > 1
    }

    fn use_of(&self, id: ConfigurationId) -> Option<(AccessMode, &InstanceRow)> {
        let configuration = self.state.tables.configurations.get(&id)?;
        let instance = self.state.tables.instances.get(&configuration.instance)?;
        Some((configuration.access.mode, instance))
    }
}
