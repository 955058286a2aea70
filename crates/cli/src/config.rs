//! The configuration file of one machine.
//!
//! Everything works without it. It names further pools and the directories, on several disks, that their storage nodes
//! keep fragments in:
//!
//! ```toml
//! default_pool = "wlm_pool"
//!
//! [[pool]]
//! name = "wlm_pool"
//! granularity = "64MiB"
//! stripe_size = "8MiB"
//! substripes = 3
//!
//! [[pool.node]]
//! name = "ssd0"
//! directory = "/ssd0/forebay"
//! capacity = "500GiB"
//!
//! [policy]                    # at a limit: "error", "log" or "both"
//! write_window = "error"
//! file_size = "error"
//! file_count = "error"
//! ```
//!
//! Unknown keys are refused. The effective configuration is printed by `forebay config`. A file is read, never written.

use forebay_model::capacity::format::exact;
use forebay_model::capacity::text::SizeText;
use forebay_model::capacity::{CapacityError, UNITS, parse_bytes};
use forebay_model::limits::InstancePolicies;
use forebay_model::units::{Bytes, KIB, MIB};
use serde::Deserialize;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Environment variable that names the file.
pub const CONFIG_VARIABLE: &str = "FOREBAY_CONFIG";
/// Name of the pool that exists without a configuration file, DataWarp's usual one.
pub const DEFAULT_POOL: &str = "wlm_pool";
/// Granule of that pool: small, so that on one machine little is lost by rounding up.
pub const DEFAULT_GRANULARITY: Bytes = Bytes(16 * MIB);
/// Stripe size of new instances.
pub const DEFAULT_STRIPE_SIZE: Bytes = Bytes(8 * MIB);
/// Smallest granule: below it a fragment could not hold its own metadata.
const GRANULARITY_MIN: Bytes = Bytes(MIB);
/// Smallest stripe: a page, so that no page belongs to two servers.
const STRIPE_SIZE_MIN: Bytes = Bytes(4 * KIB);
/// Largest number of substripes on one node.
const SUBSTRIPES_MAX: u32 = 64;
/// Largest number of storage nodes of a pool on one machine.
pub const NODES_MAX: usize = 256;

/// Why a configuration was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration file {path:?}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Not TOML, an unknown key, a value of the wrong type; the message has line and column.
    #[error("the configuration file {path:?} is refused:\n{message}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, column and what was expected.
        message: String,
    },
    /// A value that cannot be.
    #[error("the configuration file {path:?} is refused: {key} = {value:?}: {problem}")]
    Value {
        /// The file.
        path: PathBuf,
        /// Its key, with the names of the tables around it.
        key: String,
        /// The value.
        value: String,
        /// What was expected.
        problem: String,
    },
}

/// The pools of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where it was read from; `None` for the built-in one.
    pub source: Option<PathBuf>,
    /// The pool of requests that name none.
    pub default_pool: String,
    /// At least one.
    pub pools: Vec<PoolConfig>,
    /// What happens when a limit of a new instance is reached.
    pub policy: InstancePolicies,
}

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Name, as in `pool=`.
    pub name: String,
    /// Size of a granule.
    pub granularity: Bytes,
    /// Bytes of a file on one node before the next one's turn.
    pub stripe_size: Bytes,
    /// Local files that a node's share of a file is dealt over; `None` chooses by the number of nodes.
    pub substripes: Option<u32>,
    /// Its storage nodes.
    pub nodes: Vec<NodeConfig>,
}

/// A storage node: on one machine, a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    /// Name, unique over all pools.
    pub name: String,
    /// Where it keeps fragments.
    pub directory: PathBuf,
    /// Space it offers; `None` is its share of what is free on the disk.
    pub capacity: Option<Bytes>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileToml {
    default_pool: Option<String>,
    #[serde(default)]
    pool: Vec<PoolToml>,
    #[serde(default)]
    policy: InstancePolicies,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolToml {
    name: String,
    granularity: Option<SizeText>,
    stripe_size: Option<SizeText>,
    substripes: Option<u32>,
    #[serde(default)]
    node: Vec<NodeToml>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeToml {
    name: Option<String>,
    directory: PathBuf,
    capacity: Option<SizeText>,
}

/// What the command line says about the default pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolOptions {
    /// `--nodes`
    pub nodes: Option<usize>,
    /// `--pool-dir`, any number.
    pub directories: Vec<PathBuf>,
}

impl PoolOptions {
    fn is_empty(&self) -> bool {
        self.nodes.is_none() && self.directories.is_empty()
    }

    /// Nodes dealt over the directories in turn. A node in a directory of the user's own carries a mark of that
    /// directory in its name, because a name stands for one place as long as fragments lie there.
    fn dealt(&self, state_pool: &Path) -> Vec<NodeConfig> {
        let own = [state_pool.to_path_buf()];
        let directories = if self.directories.is_empty() { &own[..] } else { &self.directories };
        let count = self.nodes.unwrap_or(directories.len());
        let node = |(index, directory): (usize, &PathBuf)| {
            let mark = if directory == state_pool { String::new() } else { format!("-{}", mark(directory)) };
            let name = format!("{}{mark}", node_name(index));
            NodeConfig { directory: directory.join(&name), name, capacity: None }
        };
        directories.iter().cycle().take(count).enumerate().map(node).collect()
    }
}

/// Four hexadecimal digits that tell directories apart.
fn mark(directory: &Path) -> String {
    let hash = xxhash_rust::xxh3::xxh3_64(directory.as_os_str().as_bytes());
    format!("{:04x}", hash & 0xffff)
}

impl Config {
    /// The pool that exists without a file.
    pub fn built_in(options: &PoolOptions, state_pool: &Path) -> Config {
        let pool = PoolConfig {
            name: DEFAULT_POOL.into(),
            granularity: DEFAULT_GRANULARITY,
            stripe_size: DEFAULT_STRIPE_SIZE,
            substripes: None,
            nodes: options.dealt(state_pool),
        };
        Config {
            source: None,
            default_pool: DEFAULT_POOL.into(),
            pools: vec![pool],
            policy: InstancePolicies::default(),
        }
    }

    /// The configuration that counts: the file's, if there is one, with the nodes of its default pool replaced by what
    /// the command line says.
    pub fn load(
        file: Option<&Path>,
        options: &PoolOptions,
        state_pool: &Path,
    ) -> Result<Config, ConfigError> {
        let Some(file) = file else { return Ok(Config::built_in(options, state_pool)) };
        let mut config = Config::read(file, state_pool)?;
        if !options.is_empty() {
            let default = config.default_pool.clone();
            for pool in config.pools.iter_mut().filter(|pool| pool.name == default) {
                pool.nodes = options.dealt(state_pool);
            }
        }
        Ok(config)
    }

    /// The file that the option or the environment names, or one of the usual places; `None` when there is none.
    pub fn find(option: Option<&Path>, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(named) = option.map(Path::to_path_buf).or_else(|| set(CONFIG_VARIABLE)) {
            return Some(named);
        }
        let user = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
        let user = user.map(|path| path.join("forebay/forebay.toml"));
        user.into_iter().chain([PathBuf::from("/etc/forebay/forebay.toml")]).find(|path| path.exists())
    }

    /// Reads and checks a file. `state_pool` is where nodes of pools without any are kept.
    pub fn read(path: &Path, state_pool: &Path) -> Result<Config, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_path_buf(), source })?;
        Config::parse(&text, path, state_pool)
    }

    fn parse(text: &str, path: &Path, state_pool: &Path) -> Result<Config, ConfigError> {
        let file: FileToml = toml::from_str(text)
            .map_err(|error| ConfigError::Syntax { path: path.to_path_buf(), message: error.to_string() })?;
        let reader = Reader { path, state_pool };
        let pools = file.pool.into_iter().map(|pool| reader.pool(pool)).collect::<Result<Vec<_>, _>>()?;
        let config = reader.check(file.default_pool, pools)?;
        Ok(Config { policy: file.policy, ..config })
    }
}

/// What is wrong with a size, and what to write instead.
pub fn size_problem(error: &CapacityError) -> String {
    match error {
        CapacityError::Fraction { integer: Some(integer), .. } => format!("{error}: write {integer}"),
        _ => format!("{error}: write a whole number and a unit of {UNITS}"),
    }
}

/// Name of the `index`th node without a name of its own: like the hosts of a DataWarp machine.
fn node_name(index: usize) -> String {
    format!("nid{:05}", index + 1)
}

/// Turns what the file says into a configuration, with the file's name in every complaint.
struct Reader<'a> {
    path: &'a Path,
    state_pool: &'a Path,
}

impl Reader<'_> {
    fn refuse(
        &self,
        key: impl Into<String>,
        value: impl Into<String>,
        problem: impl Into<String>,
    ) -> ConfigError {
        ConfigError::Value {
            path: self.path.to_path_buf(),
            key: key.into(),
            value: value.into(),
            problem: problem.into(),
        }
    }

    fn size(&self, key: String, SizeText(text): &SizeText, least: Bytes) -> Result<Bytes, ConfigError> {
        let size = parse_bytes(text).map_err(|error| self.refuse(&key, text, size_problem(&error)))?;
        if size < least {
            return Err(self.refuse(key, text, format!("at least {} is needed", exact(least))));
        }
        Ok(size)
    }

    fn pool(&self, pool: PoolToml) -> Result<PoolConfig, ConfigError> {
        let key = |name: &str| format!("pool {:?}: {name}", pool.name);
        if pool.name.is_empty() || !pool.name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        {
            return Err(self.refuse("pool: name", &pool.name, "use letters, digits, `_`, `-` and `.`"));
        }
        let size = |name: &str, text: &Option<SizeText>, default: Bytes, least: Bytes| match text {
            None => Ok(default),
            Some(text) => self.size(key(name), text, least),
        };
        let granularity = size("granularity", &pool.granularity, DEFAULT_GRANULARITY, GRANULARITY_MIN)?;
        let stripe_size = size("stripe_size", &pool.stripe_size, DEFAULT_STRIPE_SIZE, STRIPE_SIZE_MIN)?;
        if !stripe_size.0.is_multiple_of(STRIPE_SIZE_MIN.0) {
            return Err(self.refuse(
                key("stripe_size"),
                exact(stripe_size),
                "a multiple of 4096 bytes is needed",
            ));
        }
        if let Some(substripes) = pool.substripes.filter(|n| !(1..=SUBSTRIPES_MAX).contains(n)) {
            return Err(self.refuse(
                key("substripes"),
                substripes.to_string(),
                format!("1 to {SUBSTRIPES_MAX} is possible"),
            ));
        }
        let nodes = self.nodes(&pool)?;
        Ok(PoolConfig { name: pool.name, granularity, stripe_size, substripes: pool.substripes, nodes })
    }

    fn nodes(&self, pool: &PoolToml) -> Result<Vec<NodeConfig>, ConfigError> {
        if pool.node.len() > NODES_MAX {
            let problem = format!("one machine serves at most {NODES_MAX} nodes");
            return Err(self.refuse(
                format!("pool {:?}: node", pool.name),
                pool.node.len().to_string(),
                problem,
            ));
        }
        if pool.node.is_empty() {
            let name = format!("{}-{}", pool.name, node_name(0));
            return Ok(vec![NodeConfig { directory: self.state_pool.join(&name), name, capacity: None }]);
        }
        pool.node.iter().enumerate().map(|(index, node)| self.node(pool, index, node)).collect()
    }

    fn node(&self, pool: &PoolToml, index: usize, node: &NodeToml) -> Result<NodeConfig, ConfigError> {
        let name = node.name.clone().unwrap_or_else(|| format!("{}-{}", pool.name, node_name(index)));
        let key = |field: &str| format!("pool {:?}: node {name:?}: {field}", pool.name);
        if !node.directory.is_absolute() {
            return Err(self.refuse(
                key("directory"),
                node.directory.to_string_lossy(),
                "an absolute path is needed",
            ));
        }
        let capacity = node.capacity.as_ref().map(|text| self.size(key("capacity"), text, GRANULARITY_MIN));
        Ok(NodeConfig { directory: node.directory.clone(), capacity: capacity.transpose()?, name })
    }

    fn check(&self, default_pool: Option<String>, pools: Vec<PoolConfig>) -> Result<Config, ConfigError> {
        let Some(first) = pools.first() else {
            return Err(self.refuse("pool", "", "at least one [[pool]] is needed"));
        };
        let default_pool = default_pool.unwrap_or_else(|| first.name.clone());
        if !pools.iter().any(|pool| pool.name == default_pool) {
            let known: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
            let problem = format!("no [[pool]] has this name; there are {}", known.join(", "));
            return Err(self.refuse("default_pool", default_pool, problem));
        }
        let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
        self.unique("pool: name", &names)?;
        let nodes = || pools.iter().flat_map(|pool| &pool.nodes);
        self.unique("node: name", &nodes().map(|node| node.name.as_str()).collect::<Vec<_>>())?;
        let directories: Vec<String> =
            nodes().map(|node| node.directory.to_string_lossy().into_owned()).collect();
        self.unique("node: directory", &directories.iter().map(String::as_str).collect::<Vec<_>>())?;
        let (source, policy) = (Some(self.path.to_path_buf()), InstancePolicies::default());
        Ok(Config { source, default_pool, pools, policy })
    }

    fn unique(&self, key: &str, values: &[&str]) -> Result<(), ConfigError> {
        let mut seen = std::collections::BTreeSet::new();
        match values.iter().find(|value| !seen.insert(**value)) {
            None => Ok(()),
            Some(twice) => Err(self.refuse(key, *twice, "it is given twice")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, Path::new("/c.toml"), Path::new("/state/pool"))
    }

    #[test]
    fn a_whole_file() {
        let config = parse(
            "default_pool = \"fast\"\n[[pool]]\nname = \"wlm_pool\"\n[[pool]]\nname = \"fast\"\ngranularity = \"64MiB\"\n\
             stripe_size = \"1MiB\"\nsubstripes = 2\n[[pool.node]]\nname = \"ssd0\"\ndirectory = \"/ssd0\"\n\
             capacity = \"500GB\"\n[[pool.node]]\ndirectory = \"/ssd1\"\n",
        )
        .unwrap();
        assert_eq!(config.default_pool, "fast");
        assert_eq!(config.pools[0].nodes[0].directory, Path::new("/state/pool/wlm_pool-nid00001"));
        let fast = &config.pools[1];
        assert_eq!(
            (fast.granularity, fast.stripe_size, fast.substripes),
            (Bytes(64 * MIB), Bytes(MIB), Some(2))
        );
        assert_eq!(fast.nodes[0].capacity, Some(Bytes(500_000_000_000)));
        assert_eq!(fast.nodes[1].name, "fast-nid00002");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("", "at least one [[pool]]"),
            ("[[pool]]\nname = \"a\"\nfree = 1\n", "unknown field `free`"),
            ("[[pool]]\nname = \"a b\"\n", "use letters"),
            ("default_pool = \"b\"\n[[pool]]\nname = \"a\"\n", "there are a"),
            ("[[pool]]\nname = \"a\"\n[[pool]]\nname = \"a\"\n", "given twice"),
            ("[[pool]]\nname = \"a\"\ngranularity = \"1.5GiB\"\n", "1536MiB"),
            ("[[pool]]\nname = \"a\"\ngranularity = \"1KiB\"\n", "at least 1MiB"),
            ("[[pool]]\nname = \"a\"\nstripe_size = \"5000\"\n", "multiple of 4096"),
            ("[[pool]]\nname = \"a\"\nstripe_size = 65536\n", "write \"64KiB\""),
            ("[[pool]]\nname = \"a\"\nsubstripes = 0\n", "1 to 64"),
            ("[[pool]]\nname = \"a\"\n[[pool.node]]\ndirectory = \"x\"\n", "absolute path"),
            (
                "[[pool]]\nname = \"a\"\n[[pool.node]]\ndirectory = \"/x\"\n[[pool.node]]\ndirectory = \"/x\"\n",
                "given twice",
            ),
        ];
        for (text, wanted) in cases {
            let message = parse(text).unwrap_err().to_string();
            assert!(message.contains(wanted) && message.contains("/c.toml"), "{text:?}: {message}");
        }
    }

    #[test]
    fn nodes_are_dealt_over_directories() {
        let options = PoolOptions { nodes: Some(3), directories: vec!["/a".into(), "/b".into()] };
        let config = Config::built_in(&options, Path::new("/state/pool"));
        let parents: Vec<_> =
            config.pools[0].nodes.iter().map(|node| node.directory.parent().unwrap()).collect();
        assert_eq!(parents, [Path::new("/a"), Path::new("/b"), Path::new("/a")]);
        let own = Config::built_in(&PoolOptions::default(), Path::new("/state/pool"));
        assert_eq!(own.pools[0].nodes[0].directory, Path::new("/state/pool/nid00001"));
    }

    #[test]
    fn the_users_file_comes_before_the_machines() {
        let found = Config::find(Some(Path::new("/given.toml")), |_| None);
        assert_eq!(found.as_deref(), Some(Path::new("/given.toml")));
        let found = Config::find(None, |name| (name == CONFIG_VARIABLE).then(|| "/set.toml".into()));
        assert_eq!(found.as_deref(), Some(Path::new("/set.toml")));
    }
}
