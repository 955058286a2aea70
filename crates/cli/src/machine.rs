//! This machine as a burst buffer: its state directory, configuration, registry and agent, opened together.

use crate::config::{Config, PoolOptions};
use crate::error::CommandError;
use crate::offer::offers;
use crate::state_dir::StateDir;
use forebay_agent::{Agent, Capabilities};
use forebay_controller::error::{OfferedError, SetupError};
use forebay_controller::registry::Registry;
use forebay_controller::request::PoolOffer;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What every command works with.
pub struct Machine {
    /// Where state is kept.
    pub state: StateDir,
    /// The pools.
    pub config: Config,
    /// The record of everything that exists.
    pub registry: Registry,
    /// Carries out what is decided.
    pub agent: Agent,
}

/// Where a command's state and configuration are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Places<'a> {
    /// `--state-dir`
    pub state_dir: Option<&'a Path>,
    /// `--config`
    pub config: Option<&'a Path>,
}

impl Places<'_> {
    /// The configuration that counts.
    pub fn config(&self, options: &PoolOptions, state: &StateDir) -> Result<Config, CommandError> {
        let file = Config::find(self.config, |name| std::env::var_os(name));
        Ok(Config::load(file.as_deref(), options, &state.pool())?)
    }
}

impl Machine {
    /// Opens everything; makes the state directory when there is none.
    pub fn open(places: Places<'_>, options: &PoolOptions) -> Result<Machine, CommandError> {
        let state = StateDir::from_environment(places.state_dir)?;
        state.make()?;
        let config = places.config(options, &state)?;
        let registry = Registry::open(&state.registry())?;
        let agent = Agent::new(state.instances(), Capabilities::detect());
        Ok(Machine { state, config, registry, agent })
    }

    /// Takes from what the nodes have to offer now. Those that cannot be used are named on standard error; of a pool that was to
    /// give and has no other nodes they are the error.
    pub fn take<T>(
        &self,
        take: impl FnOnce(&[PoolOffer]) -> Result<T, OfferedError>,
    ) -> Result<T, CommandError> {
        let mut offers = offers(&self.config, &self.state.pool());
        let taken = take(&offers.pools);
        let pool = taken.as_ref().err().and_then(pool_of);
        let dead = pool.map(|pool| offers.take_dead(pool)).unwrap_or_default();
        offers.unusable.iter().for_each(crate::say::note);
        if dead.is_empty() {
            taken.map_err(|error| CommandError::refused(error, &self.config.default_pool))
        } else {
            Err(CommandError::NoNode(dead))
        }
    }
}

/// The pool that had not enough.
fn pool_of(error: &OfferedError) -> Option<&str> {
    match error {
        OfferedError::Setup(SetupError::NoSpace { pool, .. } | SetupError::NoNodes { pool, .. }) => {
            Some(pool)
        }
        _ => None,
    }
}

/// Seconds since the epoch, as the registry stores times.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}
