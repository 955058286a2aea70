//! Space for a new instance: judged and dealt first, written afterwards.
//!
//! The granules are taken by writing the fragments' rows, in the same step that dealt them, so nothing is given twice.

use super::limits::*;
use super::refusal::{Refusal, Role};
use super::request::{Caller, Space};
use super::row::*;
use super::step::Step;
use super::word::{check_word, shown};
use crate::request::{AccessRequest, WindowRequest};
use forebay_model::allocate::{allocate, allocate_nodes};
use forebay_model::capacity::Capacity;
use forebay_model::ids::*;
use forebay_model::limits::{InstancePolicies, Policy, WINDOW_LENGTH_MAX_S, WINDOW_MULTIPLIER_MAX};
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::pool::{bytes_of, granules_for};
use forebay_model::state::ObjectState;
use forebay_model::units::{Bytes, Granules};

/// An instance that could be made right now.
pub(super) struct Plan {
    pool: String,
    granules: Granules,
    bytes: Bytes,
    /// Node, granules and bytes of every fragment, in the order of the deal.
    shares: Vec<(String, Granules, Bytes)>,
    kind: ConfigurationType,
    access: Vec<AccessRequest>,
    write_window: Option<WindowRequest>,
    policies: InstancePolicies,
    by_hand: bool,
}

impl Plan {
    /// The size of the instance.
    pub fn bytes(&self) -> Bytes {
        self.bytes
    }

    /// The same, counted as what its owner made by hand or not.
    pub fn by_hand(self, by_hand: bool) -> Plan {
        Plan { by_hand, ..self }
    }
}

impl Step<'_> {
    /// Deals the granules that this space needs.
    pub fn plan(&self, space: &Space) -> Result<Plan, Refusal> {
        check_use(space.kind, &space.access)?;
        check_window(space.write_window)?;
        let pool = self.pool_named(space.pool.as_deref())?;
        let nodes =
            self.state.links.nodes.of(&pool.name).filter_map(|name| self.state.tables.nodes.get(name));
        let nodes: Vec<&NodeRow> = nodes.collect();
        let room: Vec<_> = nodes.iter().map(|node| self.state.space_of(node)).collect();
        let dealt = match space.capacity {
            Capacity::Nodes(count) => allocate_nodes(&room, count),
            Capacity::Bytes(bytes) => {
                allocate(&room, pool.granularity, granules_for(bytes, pool.granularity), space.strategy)
            }
        };
        let dealt = dealt.map_err(|source| Refusal::NoSpace { pool: pool.name.clone(), source })?;
        let size = |granules| {
            let what = format!("an instance of this size does not fit into pool {}: ask for less", pool.name);
            bytes_of(granules, pool.granularity).ok_or(Refusal::Invalid { what })
        };
        let granules = Granules(dealt.iter().map(|share| share.granules.0).sum());
        let share = |share: &forebay_model::allocate::Share| {
            Ok((nodes[share.node].name.clone(), share.granules, size(share.granules)?))
        };
        let shares = dealt.iter().map(share).collect::<Result<_, Refusal>>()?;
        let (kind, access) = (space.kind, space.access.clone());
        let (pool, bytes, write_window) = (pool.name.clone(), size(granules)?, space.write_window);
        let policies = space.policies.unwrap_or_else(|| self.state.settings.policies_of(&pool));
        Ok(Plan { pool, granules, bytes, shares, kind, access, write_window, policies, by_hand: false })
    }

    /// Judges whether somebody who is no operator may have these policies: what the pool refuses or logs stays so.
    pub fn check_policies(&self, caller: Caller, space: &Space) -> Result<(), Refusal> {
        let Some(asked) = space.policies.filter(|_| !self.state.settings.is_operator(caller.uid)) else {
            return Ok(());
        };
        let of_pool = self.state.settings.policies_of(&self.pool_named(space.pool.as_deref())?.name);
        if adds_to(asked, of_pool) {
            return Ok(());
        }
        let what = "policies that let through, or do not log, what those of the pool do".to_owned();
        Err(Refusal::NotAllowed { uid: caller.uid, what, role: Role::Operators })
    }

    fn pool_named(&self, name: Option<&str>) -> Result<&PoolRow, Refusal> {
        let name = name.or(self.state.settings.default_pool()).unwrap_or_default();
        self.state.tables.pools.get(name).ok_or_else(|| {
            let names = self.state.tables.pools.values().map(|pool| pool.name.as_str());
            let known = names.take(10).collect::<Vec<_>>().join(", ");
            Refusal::NoPool { name: shown(name), known }
        })
    }

    /// Writes the planned instance with its parts, and registers its session for it.
    pub fn make_instance(
        &mut self,
        session: &SessionRow,
        plan: Plan,
        label: String,
        public: bool,
    ) -> InstanceId {
        let id = InstanceId(self.state.draw(|counters| &mut counters.instances));
        let state = ObjectState::CREATING;
        self.state.insert(Row::Instance(InstanceRow {
            id,
            state,
            session: session.id,
            owner: session.owner,
            pool: plan.pool,
            granules: plan.granules,
            bytes: plan.bytes,
            created: self.state.now,
            intact: true,
            label,
            public,
            write_window: plan.write_window,
            policies: plan.policies,
            by_hand: plan.by_hand,
        }));
        for (node, granules, bytes) in plan.shares {
            let fragment = FragmentId(self.state.draw(|counters| &mut counters.fragments));
            let step = FragmentStep::Planned;
            let row = FragmentRow { id: fragment, state, instance: id, node, granules, bytes, step };
            self.state.insert(Row::Fragment(row));
        }
        for access in plan.access {
            let configuration = self.make_configuration(id, plan.kind, access);
            self.make_registration(session.id, configuration);
        }
        id
    }

    /// Writes a configuration, with its tree if all clients share one.
    pub fn make_configuration(
        &mut self,
        instance: InstanceId,
        kind: ConfigurationType,
        access: AccessRequest,
    ) -> ConfigurationId {
        let id = ConfigurationId(self.state.draw(|counters| &mut counters.configurations));
        let state = ObjectState::CREATING;
        self.state.insert(Row::Configuration(ConfigurationRow { id, state, instance, kind, access }));
        if access.mode == AccessMode::Striped {
            self.make_namespace(id, instance, 0, None);
        }
        id
    }

    /// Writes a tree; its fragment is the one at this place, counted round.
    pub fn make_namespace(
        &mut self,
        configuration: ConfigurationId,
        instance: InstanceId,
        place: usize,
        client: Option<(SessionId, String)>,
    ) {
        let fragments = self.state.links.fragments.list(&instance);
        let Some(&fragment) = fragments.get(place % fragments.len().max(1)) else { return };
        let id = NamespaceId(self.state.draw(|counters| &mut counters.namespaces));
        let (state, span) = (ObjectState::CREATING, fragments.len() as u64);
        let row = NamespaceRow { id, state, configuration, fragment, span, client };
        self.state.insert(Row::Namespace(row));
    }

    /// Gives a session the right to use a configuration, if it has not got it.
    pub fn make_registration(&mut self, session: SessionId, configuration: ConfigurationId) {
        if self.registration_of(session, configuration).is_some() {
            return;
        }
        let id = RegistrationId(self.state.draw(|counters| &mut counters.registrations));
        let row = RegistrationRow { id, state: ObjectState::GOOD, session, configuration, wait: true };
        self.state.insert(Row::Registration(row));
    }

    /// A session's right to use a configuration.
    pub fn registration_of(&self, session: SessionId, to: ConfigurationId) -> Option<&RegistrationRow> {
        let tables = &self.state.tables;
        let mut rows =
            self.state.links.registrations.of(&session).filter_map(|id| tables.registrations.get(id));
        rows.find(|row| row.configuration == to)
    }

    /// Whether one more session and instance can be numbered and held.
    pub fn check_room_for_session(&self, owner: u32) -> Result<(), Refusal> {
        let counters = self.state.counters();
        if self.state.tables.sessions.len() >= MAX_SESSIONS {
            return Err(Refusal::TooMany { what: "sessions", limit: MAX_SESSIONS });
        }
        if self.state.links.of_owner.get(&owner).copied().unwrap_or(0) >= MAX_SESSIONS_PER_OWNER {
            return Err(Refusal::TooMany { what: "sessions of one owner", limit: MAX_SESSIONS_PER_OWNER });
        }
        if counters.sessions >= MAX_ID || counters.instances >= MAX_ID {
            return Err(Refusal::TooMany { what: "sessions over all time", limit: MAX_ID as usize });
        }
        Ok(())
    }
}

/// Judges what an instance is to be used as.
fn check_use(kind: ConfigurationType, access: &[AccessRequest]) -> Result<(), Refusal> {
    if access.is_empty() || access.len() > MAX_CONFIGURATIONS_PER_INSTANCE {
        let what = "an instance needs an access mode: striped, private, or both".to_owned();
        return Err(Refusal::Invalid { what });
    }
    for (index, one) in access.iter().enumerate() {
        check_access(kind, one.mode)?;
        if access[..index].iter().any(|other| other.mode == one.mode) {
            let what = format!("access mode {} is given twice: name it once", one.mode.name());
            return Err(Refusal::Invalid { what });
        }
    }
    Ok(())
}

/// Whether these policies refuse and log what others do.
pub(super) fn adds_to(asked: InstancePolicies, least: InstancePolicies) -> bool {
    let keeps =
        |asked: Policy, least: Policy| asked.refuses() >= least.refuses() && asked.logs() >= least.logs();
    keeps(asked.write_window, least.write_window)
        && keeps(asked.file_size, least.file_size)
        && keeps(asked.file_count, least.file_count)
}

/// Judges a write window.
pub(super) fn check_window(window: Option<WindowRequest>) -> Result<(), Refusal> {
    let fits = |window: WindowRequest| {
        (1..=WINDOW_LENGTH_MAX_S).contains(&window.length_s)
            && (1..=WINDOW_MULTIPLIER_MAX).contains(&window.multiplier)
    };
    if window.is_none_or(fits) {
        return Ok(());
    }
    let what = format!(
        "a write window is 1 to {WINDOW_LENGTH_MAX_S} seconds long, with a multiplier of 1 to {WINDOW_MULTIPLIER_MAX}"
    );
    Err(Refusal::Invalid { what })
}

/// Judges one use.
pub(super) fn check_access(kind: ConfigurationType, mode: AccessMode) -> Result<(), Refusal> {
    let instead = "use type=scratch";
    match (kind, mode) {
        (ConfigurationType::Cache, _) => Err(Refusal::NotOffered { what: "type=cache", instead }),
        (ConfigurationType::Swap, _) => Err(Refusal::NotOffered { what: "swap", instead }),
        (ConfigurationType::Scratch, AccessMode::Ldbalance) => {
            let what = "access_mode=ldbalance belongs to type=cache: use striped or private".to_owned();
            Err(Refusal::Invalid { what })
        }
        (ConfigurationType::Scratch, _) => Ok(()),
    }
}

/// Judges a label.
pub(super) fn check_label(label: &str) -> Result<(), Refusal> {
    check_word(label)
}
