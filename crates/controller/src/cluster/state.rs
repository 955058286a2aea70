//! Everything that the cluster's controller knows.
//!
//! The tables are what the registry holds; the rest is built from them ([`State::restore`]) or learnt again from agents:
//! a controller that starts has heard of nobody yet and waits a while before it takes an agent for lost.
//!
//! One thread owns a state; [`super::step`] changes it.

use super::links::Links;
use super::row::*;
use super::settings::Settings;
use super::waiting::WaitingRoom;
use forebay_model::ids::*;
use forebay_model::pool::{NodeSpace, granules_within};
use forebay_model::units::{Bytes, Granules};
use std::collections::{BTreeMap, BTreeSet};

/// The state.
#[derive(Clone, Debug)]
pub struct State {
    pub(super) settings: Settings,
    pub(super) tables: Tables,
    pub(super) links: Links,
    pub(super) now: i64,
    pub(super) heard: BTreeMap<String, i64>,
    pub(super) written: BTreeMap<String, Bytes>,
    /// Tasks that wait for their next attempt, by its time.
    pub(super) due: BTreeSet<(i64, TaskId)>,
    pub(super) waiting: WaitingRoom,
}

/// Why the rows of a registry cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// A row names another that is not there.
    #[error("the registry is damaged: {row:?} refers to a {missing} that is not there")]
    Dangling {
        /// The row.
        row: Key,
        /// What is missing.
        missing: &'static str,
    },
    /// Two sessions with one token.
    #[error("the registry is damaged: two sessions have the token {token}")]
    TwoTokens {
        /// The token.
        token: String,
    },
    /// A row has an id that was not given out.
    #[error("the registry is damaged: {row:?} has a number that was never given out")]
    NotGiven {
        /// The row.
        row: Key,
    },
    /// The configuration gives a pool in use another granularity.
    #[error(
        "pool {pool} has granules of {} bytes and instances that use them: the configuration cannot change that to {} bytes; use another pool name", .stored.0, .configured.0
    )]
    Granularity {
        /// The pool.
        pool: String,
        /// As it is.
        stored: Bytes,
        /// As it was to be.
        configured: Bytes,
    },
    /// A granule of no size.
    #[error("pool {pool} has a granularity of zero: give it a size")]
    NoGranularity {
        /// The pool.
        pool: String,
    },
}

impl State {
    /// An empty registry's state.
    ///
    /// # Errors
    /// [`RestoreError::NoGranularity`].
    pub fn new(settings: Settings) -> Result<State, RestoreError> {
        State::restore(settings, Vec::new())
    }

    /// The state that these rows were stored from.
    ///
    /// # Errors
    /// [`RestoreError`]; nothing is repaired silently.
    pub fn restore(settings: Settings, rows: Vec<Row>) -> Result<State, RestoreError> {
        let mut tables = Tables::default();
        for row in rows {
            tables.load(row);
        }
        if tables.counters.is_empty() {
            tables.load(Row::Counters(Counters::default()));
        }
        check(&tables)?;
        add_pools(&mut tables, &settings)?;
        let links = Links::of(&tables);
        let due = tables.tasks.values().map(|task| (task.not_before, task.id)).collect();
        Ok(State {
            settings,
            tables,
            links,
            now: 0,
            heard: BTreeMap::new(),
            written: BTreeMap::new(),
            due,
            waiting: WaitingRoom::default(),
        })
    }

    /// Whether a node holds a fragment of an instance.
    pub fn is_served_by(&self, instance: InstanceId, node: &str) -> bool {
        let mut fragments = self.links.fragments.of(&instance).filter_map(|id| self.tables.fragments.get(id));
        fragments.any(|row| row.node == node)
    }

    /// The rows.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The configuration.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Time of the latest tick, seconds since the epoch.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// The session with this token.
    pub fn session_of(&self, token: &str) -> Option<&SessionRow> {
        self.tables.sessions.get(self.links.by_token.get(token)?)
    }

    /// Whether the agent of this node answers.
    pub fn is_online(&self, node: &str) -> bool {
        self.tables.nodes.get(node).is_some_and(|node| node.online)
    }

    /// What the allocator has to know of a node.
    pub fn space_of(&self, node: &NodeRow) -> NodeSpace {
        let granularity = node.pool.as_ref().and_then(|pool| self.tables.pools.get(pool));
        let quantity =
            granularity.map_or(Granules(0), |pool| granules_within(node.capacity, pool.granularity));
        let used = self.links.used.get(&node.name).copied().unwrap_or_default();
        NodeSpace {
            quantity,
            free: Granules(quantity.0.saturating_sub(used.granules)),
            online: node.online,
            drain: node.drain,
            instances: used.fragments,
            bytes_written: self.written.get(&node.name).copied().unwrap_or_default(),
        }
    }

    /// The links must always be those of the tables; for tests, since it looks at every row.
    pub fn has_right_links(&self) -> bool {
        self.links == Links::of(&self.tables)
    }

    pub(super) fn insert(&mut self, row: Row) {
        self.links.link(&row);
        self.tables.insert(row);
    }

    pub(super) fn remove(&mut self, key: Key) {
        if let Some(row) = self.tables.remove(&key) {
            self.links.unlink(&row);
        }
    }

    /// Replaces a node's row: its pool is a link.
    pub(super) fn replace_node(&mut self, row: NodeRow) {
        self.remove(Key::Node(row.name.clone()));
        self.insert(Row::Node(row));
    }

    /// Draws the next number of a kind.
    pub(super) fn draw(&mut self, of: impl FnOnce(&mut Counters) -> &mut u64) -> u64 {
        let mut drawn = 0;
        self.tables.counters.edit(&(), |counters| {
            let counter = of(counters);
            *counter += 1;
            drawn = *counter;
        });
        drawn
    }

    /// The numbers drawn so far.
    pub(super) fn counters(&self) -> Counters {
        self.tables.counters.get(&()).cloned().unwrap_or_default()
    }

    /// Whether an agent is lost, or silent for so long that it may be.
    pub(super) fn is_doubtful(&self, node: &str) -> bool {
        let silent =
            self.heard.get(node).is_some_and(|heard| self.now - heard >= self.settings.lost_after_s / 2);
        silent || !self.is_online(node)
    }

    /// Whether an agent was silent for too long.
    pub(super) fn is_silent(&self, node: &str) -> bool {
        self.heard.get(node).is_some_and(|heard| self.now - heard >= self.settings.lost_after_s)
    }
}

/// Pools of the configuration that the registry does not know yet.
fn add_pools(tables: &mut Tables, settings: &Settings) -> Result<(), RestoreError> {
    for (name, granularity) in &settings.pools {
        let name = name.clone();
        if granularity.0 == 0 {
            return Err(RestoreError::NoGranularity { pool: name });
        }
        let stored = tables.pools.get(&name).map(|pool| pool.granularity);
        let used = tables.instances.values().any(|instance| instance.pool == name);
        match stored {
            Some(stored) if stored == *granularity => {}
            Some(stored) if used => {
                return Err(RestoreError::Granularity { pool: name, stored, configured: *granularity });
            }
            _ => tables.insert(Row::Pool(PoolRow { name, granularity: *granularity })),
        }
    }
    Ok(())
}

fn check(tables: &Tables) -> Result<(), RestoreError> {
    let mut tokens = BTreeSet::new();
    for session in tables.sessions.values() {
        if !tokens.insert(&session.token) {
            return Err(RestoreError::TwoTokens { token: session.token.clone() });
        }
    }
    tables.rows().iter().try_for_each(|row| check_row(tables, row))
}

fn check_row(tables: &Tables, row: &Row) -> Result<(), RestoreError> {
    let dangling = |missing| RestoreError::Dangling { row: row.key(), missing };
    let require = |there: bool, missing| if there { Ok(()) } else { Err(dangling(missing)) };
    let counters = tables.counters.get(&()).cloned().unwrap_or_default();
    let given = |id: u64, last: u64| {
        if id <= last { Ok(()) } else { Err(RestoreError::NotGiven { row: row.key() }) }
    };
    let session = |id: &SessionId| require(tables.sessions.contains(id), "session");
    let configuration = |id: &ConfigurationId| require(tables.configurations.contains(id), "configuration");
    match row {
        Row::Counters(_) | Row::Pool(_) => Ok(()),
        Row::Node(node) => {
            let pool = node.pool.as_ref();
            require(pool.is_none_or(|pool| tables.pools.contains(pool)), "pool")
        }
        Row::Session(row) => given(row.id.0, counters.sessions),
        Row::Instance(row) => {
            given(row.id.0, counters.instances)?;
            require(tables.pools.contains(&row.pool), "pool")
        }
        Row::Configuration(row) => {
            given(row.id.0, counters.configurations)?;
            require(tables.instances.contains(&row.instance), "instance")
        }
        Row::Fragment(row) => given(row.id.0, counters.fragments),
        Row::Namespace(row) => {
            given(row.id.0, counters.namespaces)?;
            configuration(&row.configuration)
        }
        Row::Registration(row) => {
            given(row.id.0, counters.registrations)?;
            session(&row.session)?;
            configuration(&row.configuration)
        }
        Row::Activation(row) => {
            given(row.id.0, counters.activations)?;
            session(&row.session)?;
            configuration(&row.configuration)
        }
        Row::Mount(row) => require(tables.activations.contains(&row.activation), "activation"),
        Row::Stage(row) => {
            given(row.id.0, counters.stages)?;
            session(&row.session)
        }
        Row::Task(row) => {
            given(row.id.0, counters.tasks)?;
            require(tables.nodes.contains(&row.node), "node")?;
            check_subject(tables, row, require)
        }
    }
}

fn check_subject(
    tables: &Tables,
    task: &TaskRow,
    require: impl Fn(bool, &'static str) -> Result<(), RestoreError>,
) -> Result<(), RestoreError> {
    match &task.subject {
        Subject::Fragment(id) => require(tables.fragments.contains(id), "fragment"),
        Subject::Stage(id) => require(tables.stages.contains(id), "staging"),
        // What an ended job left mounted is unmounted without a row.
        Subject::Mount(..) if task.verb == Verb::Unmount => Ok(()),
        Subject::Mount(id, node) => require(tables.mounts.contains(&(*id, node.clone())), "mount"),
    }
}
