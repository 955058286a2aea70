//! The configuration of the controller: one TOML file, unknown keys refused, the effective one printable.

use crate::client::DEFAULT_SOCKET;
use crate::cluster::limits::{LOST_AFTER_S, STORAGE_WAIT_S};
use crate::cluster::settings::MOUNT_ROOT;
use crate::cluster::{Settings, SpaceByHand};
use forebay_model::capacity::text::SizeText;
use forebay_model::capacity::{Capacity, parse_bytes};
use forebay_model::limits::InstancePolicies;
use forebay_model::units::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Where the registry is, unless said otherwise.
pub const DEFAULT_STATE: &str = "/var/lib/forebay/controller";
/// Name of the registry, unless said otherwise.
pub const DEFAULT_REGISTRY: &str = "forebay";
/// Who is the workload manager where such a user exists and nobody else is named.
pub const DEFAULT_WORKLOAD_MANAGER: &str = "slurm";
/// The words of `space_by_hand`.
const BY_OPERATORS: &str = "operators";
const UNLIMITED: &str = "unlimited";
/// Shortest time after which an agent may be taken for lost: it speaks every few seconds.
const MIN_LOST_AFTER_S: i64 = 5;
const MAX_LOST_AFTER_S: i64 = 86_400;
/// Longest that a mount may wait for its storage nodes: a workload manager would not wait so long.
const MAX_STORAGE_WAIT_S: i64 = 3600;

/// The configuration, with all names resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// `host:port` to listen on; none is only the socket.
    pub listen: Vec<String>,
    /// Unix socket.
    pub socket: Option<PathBuf>,
    /// Directory of the registry.
    pub state: PathBuf,
    /// Name of the registry.
    pub registry: String,
    /// Uids of operators.
    pub operators: BTreeSet<u32>,
    /// Uids of the workload manager.
    pub workload_managers: BTreeSet<u32>,
    /// Directory of mounts on clients.
    pub mount_root: String,
    /// Pools, the default one first.
    pub pools: Vec<(String, Bytes)>,
    /// What happens at the limits of their instances, where it is not the usual.
    pub policies: BTreeMap<String, InstancePolicies>,
    /// How much space users may make by hand.
    pub space_by_hand: SpaceByHand,
    /// Socket of munged, if another than the usual one.
    pub munge_socket: Option<PathBuf>,
    /// An agent that is silent for so long is lost.
    pub lost_after_s: i64,
    /// A mount whose storage nodes are away is tried for so long.
    pub storage_wait_s: i64,
}

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// It is no TOML, or has keys that nobody knows.
    #[error("{}: {reason}", path.display())]
    Syntax {
        /// Which.
        path: PathBuf,
        /// Where and why.
        reason: String,
    },
    /// A value makes no sense.
    #[error("{}: {key}: {problem}", path.display())]
    Value {
        /// Which.
        path: PathBuf,
        /// The key.
        key: String,
        /// What is wrong and what to write.
        problem: String,
    },
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum User {
    Uid(u32),
    Name(String),
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct PoolEntry {
    name: String,
    granularity: SizeText,
    #[serde(default, skip_serializing_if = "InstancePolicies::are_usual")]
    policy: InstancePolicies,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct MungeEntry {
    socket: Option<PathBuf>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    listen: Vec<String>,
    #[serde(default = "default_socket")]
    socket: PathBuf,
    #[serde(default = "default_state")]
    state: PathBuf,
    #[serde(default = "default_registry")]
    registry: String,
    #[serde(default)]
    operators: Vec<User>,
    workload_managers: Option<Vec<User>>,
    #[serde(default = "default_mount_root")]
    mount_root: PathBuf,
    #[serde(default = "default_by_hand")]
    space_by_hand: String,
    #[serde(default = "default_lost_after")]
    lost_after_s: i64,
    #[serde(default = "default_storage_wait")]
    storage_wait_s: i64,
    #[serde(default)]
    munge: MungeEntry,
    #[serde(default, rename = "pool")]
    pools: Vec<PoolEntry>,
}

fn default_socket() -> PathBuf {
    DEFAULT_SOCKET.into()
}

fn default_state() -> PathBuf {
    DEFAULT_STATE.into()
}

fn default_registry() -> String {
    DEFAULT_REGISTRY.into()
}

fn default_mount_root() -> PathBuf {
    MOUNT_ROOT.into()
}

fn default_by_hand() -> String {
    BY_OPERATORS.into()
}

fn default_lost_after() -> i64 {
    LOST_AFTER_S
}

fn default_storage_wait() -> i64 {
    STORAGE_WAIT_S
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError::Unreadable { path: path.to_owned(), reason: error.to_string() })?;
        Config::parse(&text, path)
    }

    /// The configuration in a text; the path is for messages.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let file: File = toml::from_str(text).map_err(|error| ConfigError::Syntax {
            path: path.to_owned(),
            reason: error.to_string().trim_end().into(),
        })?;
        resolve(file).map_err(|(key, problem)| ConfigError::Value { path: path.to_owned(), key, problem })
    }

    /// What the core depends on.
    pub fn settings(&self) -> Settings {
        Settings {
            registry: self.registry.clone(),
            operators: self.operators.clone(),
            workload_managers: self.workload_managers.clone(),
            mount_root: self.mount_root.clone(),
            pools: self.pools.clone(),
            policies: self.policies.clone(),
            space_by_hand: self.space_by_hand,
            lost_after_s: self.lost_after_s,
            storage_wait_s: self.storage_wait_s,
        }
    }

    /// The effective configuration as a file that reads back to it.
    pub fn render(&self) -> String {
        let users = |uids: &BTreeSet<u32>| uids.iter().map(|uid| User::Uid(*uid)).collect::<Vec<_>>();
        let file = File {
            listen: self.listen.clone(),
            socket: self.socket.clone().unwrap_or_default(),
            state: self.state.clone(),
            registry: self.registry.clone(),
            operators: users(&self.operators),
            workload_managers: Some(users(&self.workload_managers)),
            mount_root: self.mount_root.clone().into(),
            space_by_hand: by_hand_text(self.space_by_hand),
            lost_after_s: self.lost_after_s,
            storage_wait_s: self.storage_wait_s,
            munge: MungeEntry { socket: self.munge_socket.clone() },
            pools: self.pools.iter().map(|pool| self.pool_entry(pool)).collect(),
        };
        toml::to_string(&file).unwrap_or_default()
    }

    fn pool_entry(&self, (name, granularity): &(String, Bytes)) -> PoolEntry {
        let policy = self.policies.get(name).copied().unwrap_or_default();
        PoolEntry { name: name.clone(), granularity: SizeText(granularity.0.to_string()), policy }
    }
}

type Problem = (String, String);

fn resolve(file: File) -> Result<Config, Problem> {
    let at = |key: &str| {
        let key = key.to_owned();
        move |problem: String| (key.clone(), problem)
    };
    for address in &file.listen {
        check_listen(address).map_err(at("listen"))?;
    }
    // An empty path is no socket.
    let socket = Some(file.socket).filter(|path| !path.as_os_str().is_empty());
    if let Some(socket) = &socket {
        check_path(socket).map_err(at("socket"))?;
    }
    if socket.is_none() && file.listen.is_empty() {
        return Err(at("listen")("without a socket there has to be an address to listen on".into()));
    }
    check_path(&file.state).map_err(at("state"))?;
    check_name(&file.registry).map_err(at("registry"))?;
    if !(MIN_LOST_AFTER_S..=MAX_LOST_AFTER_S).contains(&file.lost_after_s) {
        let range = format!("{} is not between {MIN_LOST_AFTER_S} and {MAX_LOST_AFTER_S}", file.lost_after_s);
        return Err(at("lost_after_s")(range));
    }
    if !(0..=MAX_STORAGE_WAIT_S).contains(&file.storage_wait_s) {
        let range = format!("{} is not between 0 and {MAX_STORAGE_WAIT_S}", file.storage_wait_s);
        return Err(at("storage_wait_s")(range));
    }
    if let Some(socket) = &file.munge.socket {
        check_path(socket).map_err(at("munge.socket"))?;
    }
    Ok(Config {
        listen: file.listen,
        socket,
        state: file.state,
        registry: file.registry,
        operators: uids(file.operators).map_err(at("operators"))?,
        workload_managers: managers(file.workload_managers).map_err(at("workload_managers"))?,
        mount_root: mount_root(&file.mount_root).map_err(at("mount_root"))?,
        policies: policies(&file.pools),
        pools: pools(file.pools).map_err(at("pool"))?,
        space_by_hand: by_hand(&file.space_by_hand).map_err(at("space_by_hand"))?,
        munge_socket: file.munge.socket,
        lost_after_s: file.lost_after_s,
        storage_wait_s: file.storage_wait_s,
    })
}

fn check_listen(address: &str) -> Result<(), String> {
    let good =
        address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    if good { Ok(()) } else { Err(format!("{address:?} is not host:port")) }
}

fn check_path(path: &Path) -> Result<(), String> {
    if path.is_absolute() { Ok(()) } else { Err(format!("{path:?} is no full path")) }
}

fn check_name(name: &str) -> Result<(), String> {
    crate::cluster::check_word(name).map_err(|refusal| refusal.to_string())
}

fn mount_root(path: &Path) -> Result<String, String> {
    check_path(path)?;
    let text = path.to_str().ok_or_else(|| format!("{path:?} is no UTF-8"))?;
    let text = text.trim_end_matches('/');
    if text.is_empty() || text.contains(char::is_control) {
        return Err(format!("{path:?} cannot hold the mounts: name a directory below /"));
    }
    Ok(text.to_owned())
}

fn policies(entries: &[PoolEntry]) -> BTreeMap<String, InstancePolicies> {
    let other = entries.iter().filter(|entry| !entry.policy.are_usual());
    other.map(|entry| (entry.name.clone(), entry.policy)).collect()
}

fn pools(entries: Vec<PoolEntry>) -> Result<Vec<(String, Bytes)>, String> {
    let mut pools: Vec<(String, Bytes)> = Vec::new();
    for PoolEntry { name, granularity, .. } in entries {
        check_name(&name)?;
        let size = granularity.0.parse::<Capacity>();
        let Ok(Capacity::Bytes(bytes)) = size else {
            return Err(format!(
                "granularity \"{granularity}\" of {name} is no size: write 16MiB, for example"
            ));
        };
        if pools.iter().any(|(other, _)| *other == name) {
            return Err(format!("{name} is there twice"));
        }
        pools.push((name, bytes));
    }
    Ok(pools)
}

fn by_hand(text: &str) -> Result<SpaceByHand, String> {
    match text {
        BY_OPERATORS => Ok(SpaceByHand::Operators),
        UNLIMITED => Ok(SpaceByHand::Unlimited),
        size => parse_bytes(size).map(SpaceByHand::UpTo).map_err(|error| {
            format!("{size:?} is not \"{BY_OPERATORS}\", \"{UNLIMITED}\" or a size for each user ({error})")
        }),
    }
}

fn by_hand_text(by_hand: SpaceByHand) -> String {
    match by_hand {
        SpaceByHand::Operators => BY_OPERATORS.into(),
        SpaceByHand::Unlimited => UNLIMITED.into(),
        SpaceByHand::UpTo(bytes) => bytes.0.to_string(),
    }
}

fn managers(named: Option<Vec<User>>) -> Result<BTreeSet<u32>, String> {
    match named {
        Some(named) => uids(named),
        None => Ok(uid_of(DEFAULT_WORKLOAD_MANAGER)?.into_iter().collect()),
    }
}

fn uids(users: Vec<User>) -> Result<BTreeSet<u32>, String> {
    let uid = |user| match user {
        User::Uid(uid) => Ok(uid),
        User::Name(name) => uid_of(&name)?.ok_or_else(|| format!("there is no user {name:?}")),
    };
    users.into_iter().map(uid).collect()
}

fn uid_of(name: &str) -> Result<Option<u32>, String> {
    let user = nix::unistd::User::from_name(name);
    user.map(|user| user.map(|user| user.uid.as_raw()))
        .map_err(|error| format!("cannot look up {name:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_model::limits::Policy;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("/etc/c.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_printed_reads_back() {
        let text = "listen = ['0.0.0.0:4040']\noperators = ['root', 77]\nworkload_managers = [5]\nspace_by_hand = '20TiB'\n[munge]\nsocket='/m'\n[[pool]]\nname='wlm_pool'\ngranularity='82496MiB'\n[[pool]]\nname='b'\ngranularity='1GiB'\npolicy = { write_window = 'log', file_count = 'both' }\n";
        let config = parse(text).unwrap();
        assert_eq!(config.operators, BTreeSet::from([0, 77]));
        assert_eq!(config.space_by_hand, SpaceByHand::UpTo(Bytes(20 << 40)));
        assert_eq!(config.pools[0], ("wlm_pool".into(), Bytes(82_496 << 20)));
        let policies = InstancePolicies {
            write_window: Policy::Log,
            file_count: Policy::Both,
            ..InstancePolicies::default()
        };
        assert_eq!(config.policies, BTreeMap::from([("b".to_owned(), policies)]));
        assert_eq!(parse(&config.render()), Ok(config));
        for (text, by_hand) in [
            ("", SpaceByHand::Operators),
            ("space_by_hand = 'operators'", SpaceByHand::Operators),
            ("space_by_hand = 'unlimited'", SpaceByHand::Unlimited),
        ] {
            let config = parse(text).unwrap();
            assert_eq!(config.space_by_hand, by_hand);
            assert_eq!(parse(&config.render()), Ok(config));
        }
    }

    #[test]
    fn nothing_is_taken_for_something_else() {
        for (text, expected) in [
            ("lisen = []", "lisen"),
            ("\n\nsocket = 5", "line 3"),
            ("listen = ['4040']", "host:port"),
            ("socket = 'run/x'", "full path"),
            ("socket = ''", "address to listen on"),
            ("operators = ['nobody-of-that-name']", "no user"),
            ("mount_root = '/'", "below /"),
            ("lost_after_s = 1", "between"),
            ("storage_wait_s = -1", "not between 0 and 3600"),
            ("registry = 'a b'", "registry"),
            (
                "space_by_hand = 'nobody'",
                "space_by_hand: \"nobody\" is not \"operators\", \"unlimited\" or a size",
            ),
            ("space_by_hand = '1.5TB'", "or a size for each user"),
            ("space_by_hand = 5", "line 1"),
            ("[[pool]]\nname='a'\ngranularity='1'\npolicy={file_size='warn'}", "unknown variant `warn`"),
            ("[[pool]]\nname='a'\ngranularity='1'\npolicy={files='log'}", "unknown field `files`"),
            ("[[pool]]\nname = 'a'\ngranularity = '0'", "no size"),
            ("[[pool]]\nname = 'a'\ngranularity = '2N'", "no size"),
            ("[[pool]]\nname = 'a'\ngranularity = 'lots'", "no size"),
            ("[[pool]]\nname = 'a'\ngranularity = 16777216", "write \"16MiB\""),
            ("[[pool]]\nname='a'\ngranularity='1'\n[[pool]]\nname='a'\ngranularity='1'", "twice"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(expected) && error.contains("/etc/c.toml"), "{text}: {error}");
        }
    }
}
