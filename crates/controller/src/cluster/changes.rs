//! Limits of instances and configurations that are changed while they are used.
//!
//! The rows say what is wanted; file servers learn it when their fragments are ordered once more, and clients wait meanwhile. Who
//! is no operator can only make limits stricter, so what an operator set stays.

use super::effect::{Answer, ObjectKind};
use super::plan::{adds_to, check_window};
use super::refusal::{Refusal, Role};
use super::request::{Caller, ConfigurationChange, InstanceChange};
use super::row::{ConfigurationRow, InstanceRow};
use super::step::{Reply, Step};
use crate::request::{AccessRequest, WindowRequest};
use forebay_model::ids::{ConfigurationId, InstanceId};
use forebay_model::limits::{InstancePolicies, WINDOW_LENGTH_S, WINDOW_MULTIPLIER};

impl Step<'_> {
    /// Changes the write window and the policies of an instance.
    pub fn change_instance(
        &mut self,
        caller: Caller,
        id: InstanceId,
        change: &InstanceChange,
    ) -> Result<Reply, Refusal> {
        let row = self.own_instance(caller, id)?;
        if *change == InstanceChange::default() {
            return Err(nothing("write_window_length_s, write_window_multiplier or policies"));
        }
        let (window, policies) = (change.window_of(&row), change.policies_of(row.policies));
        check_window(window)?;
        let stricter = adds_to(policies, row.policies) && is_within(window, row.write_window);
        self.check_stricter(caller, stricter)?;
        if (window, policies) != (row.write_window, row.policies) {
            self.state.tables.instances.edit(&id, |row| {
                row.write_window = window;
                row.policies = policies;
            });
            self.serve_anew(id);
        }
        Ok(Reply::Now(Answer::Accepted { kind: ObjectKind::Instance, id: id.0 }))
    }

    /// Changes the limits of a configuration.
    pub fn change_configuration(
        &mut self,
        caller: Caller,
        id: ConfigurationId,
        change: ConfigurationChange,
    ) -> Result<Reply, Refusal> {
        let row = self.configuration(id)?;
        self.own_instance(caller, row.instance)?;
        if change == ConfigurationChange::default() {
            return Err(nothing("max_file_size or max_files"));
        }
        let access = change.access_of(&row.access);
        let stricter = is_at_most(access.max_file_size, row.access.max_file_size)
            && is_at_most(access.max_files, row.access.max_files);
        self.check_stricter(caller, stricter)?;
        if access != row.access {
            self.state.tables.configurations.edit(&id, |row| row.access = access);
            self.serve_anew(row.instance);
        }
        Ok(Reply::Now(Answer::Accepted { kind: ObjectKind::Configuration, id: id.0 }))
    }

    fn configuration(&self, id: ConfigurationId) -> Result<ConfigurationRow, Refusal> {
        let missing = Refusal::NoObject { kind: ObjectKind::Configuration, id: id.0 };
        self.state.tables.configurations.get(&id).cloned().ok_or(missing)
    }

    /// An instance of the caller that stays.
    fn own_instance(&self, caller: Caller, id: InstanceId) -> Result<InstanceRow, Refusal> {
        let missing = Refusal::NoObject { kind: ObjectKind::Instance, id: id.0 };
        let row = self.state.tables.instances.get(&id).cloned().ok_or(missing)?;
        self.check_owner(caller, ObjectKind::Instance, id.0, row.owner)?;
        self.living_session(caller, row.session)?;
        Ok(row)
    }

    fn check_stricter(&self, caller: Caller, stricter: bool) -> Result<(), Refusal> {
        if stricter || self.state.settings.is_operator(caller.uid) {
            return Ok(());
        }
        let what = "limits that let through more, or log less, than those there are".to_owned();
        Err(Refusal::NotAllowed { uid: caller.uid, what, role: Role::Operators })
    }
}

impl InstanceChange {
    /// The write window afterwards. What is not said of a new one is the usual.
    fn window_of(&self, row: &InstanceRow) -> Option<WindowRequest> {
        let (length_s, multiplier) = (self.write_window_length_s, self.write_window_multiplier);
        if length_s.is_none() && multiplier.is_none() {
            return row.write_window;
        }
        let usual = WindowRequest { length_s: WINDOW_LENGTH_S, multiplier: WINDOW_MULTIPLIER };
        let before = row.write_window.unwrap_or(usual);
        let (length_s, multiplier) =
            (length_s.unwrap_or(before.length_s), multiplier.unwrap_or(before.multiplier));
        Some(WindowRequest { length_s, multiplier })
    }

    fn policies_of(&self, before: InstancePolicies) -> InstancePolicies {
        InstancePolicies {
            write_window: self.policies.write_window.unwrap_or(before.write_window),
            file_size: self.policies.file_size.unwrap_or(before.file_size),
            file_count: self.policies.file_count.unwrap_or(before.file_count),
        }
    }
}

impl ConfigurationChange {
    fn access_of(&self, before: &AccessRequest) -> AccessRequest {
        let max_file_size = self.max_file_size.or(before.max_file_size);
        AccessRequest { max_file_size, max_files: self.max_files.or(before.max_files), ..*before }
    }
}

/// No more may be written in any span of time than before.
fn is_within(window: Option<WindowRequest>, before: Option<WindowRequest>) -> bool {
    match (window, before) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(window), Some(before)) => {
            window.length_s >= before.length_s && window.multiplier <= before.multiplier
        }
    }
}

fn is_at_most<T: PartialOrd>(limit: Option<T>, before: Option<T>) -> bool {
    before.is_none_or(|before| limit.is_some_and(|limit| limit <= before))
}

fn nothing(members: &str) -> Refusal {
    Refusal::Invalid { what: format!("nothing is to be changed: name {members}") }
}
