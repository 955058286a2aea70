//! The command line of `dwcli`: a verb, an object, options. Pure declarations.

use crate::dwstat::object::Object;
use clap::{Args, Parser, Subcommand, ValueEnum};
use forebay_model::limits::Policy;
use std::path::PathBuf;
use std::str::FromStr;

/// Manage the burst buffer: pools and nodes for operators, sessions with their space for everybody.
#[derive(Debug, Parser)]
#[command(name = "dwcli", version = concat!("(forebay) ", env!("CARGO_PKG_VERSION")), max_term_width = 100, disable_help_subcommand = true)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List names of pools and nodes, ids of all others, one a line.
    Ls {
        /// Which.
        #[arg(value_parser = object)]
        object: Object,
    },
    /// Make something. The answer comes at once; dwstat shows how it goes.
    #[command(subcommand)]
    Create(Create),
    /// Change something.
    #[command(subcommand)]
    Update(Update),
    /// Take something away.
    #[command(subcommand)]
    Rm(Remove),
    /// Try again what was given up.
    #[command(subcommand)]
    Retry(Retry),
    /// Copy between the parallel file system and the burst buffer.
    #[command(subcommand)]
    Stage(Stage),
    /// Save and restore pools and nodes.
    #[command(subcommand)]
    Config(Config),
}

fn object(word: &str) -> Result<Object, String> {
    let names: Vec<&str> = Object::ALL.iter().map(|object| object.name()).collect();
    let found = Object::ALL
        .into_iter()
        .find(|object| object.name() == word || object.name().strip_suffix('s') == Some(word));
    found.ok_or_else(|| format!("objects are {}", names.join(", ")))
}

fn number<T: FromStr>(word: &str) -> Result<T, String> {
    // One that is too large, negative or a name: what is needed is the same.
    word.parse().map_err(|_| "a whole number is needed".to_owned())
}

/// `dwcli create`
#[derive(Debug, Subcommand)]
pub enum Create {
    /// A pool.
    #[command(alias = "pools")]
    Pool {
        /// Its name.
        #[arg(long, value_name = "NAME")]
        name: String,
        /// Size of a granule, for example 16MiB.
        #[arg(long, value_name = "SIZE")]
        granularity: String,
    },
    /// A session.
    #[command(alias = "sessions")]
    Session {
        /// What it is known by; does not begin with a digit.
        #[arg(long, value_name = "TEXT")]
        token: String,
        /// Uid of its owner [default: the caller].
        #[arg(long, value_name = "UID", value_parser = number::<u32>)]
        owner: Option<u32>,
        /// Client nodes, where its activations are mounted.
        #[arg(long, value_name = "HOST", num_args = 1.., value_delimiter = ',')]
        hosts: Vec<String>,
        /// Who made it, as dwstat shows it [default: dwcli].
        #[arg(long, value_name = "TEXT")]
        creator: Option<String>,
    },
    /// An instance on a session.
    #[command(alias = "instances")]
    Instance(Instance),
    /// A configuration on an instance.
    #[command(alias = "configurations")]
    Configuration(Configuration),
    /// Mount a configuration on the session's client nodes.
    #[command(alias = "activations")]
    Activation {
        /// The session.
        #[arg(long, value_name = "ID", value_parser = number::<u64>)]
        session: u64,
        /// The configuration.
        #[arg(long, value_name = "ID", value_parser = number::<u64>)]
        configuration: u64,
        /// Where, an empty directory or none yet; for operators [default: the controller chooses, dwstat activations shows it].
        #[arg(long, value_name = "PATH")]
        mount: Option<PathBuf>,
    },
}

/// `dwcli create instance`
#[derive(Args, Debug)]
pub struct Instance {
    /// The session.
    #[arg(long, value_name = "ID", value_parser = number::<u64>)]
    pub session: u64,
    /// A label.
    #[arg(long, value_name = "TEXT")]
    pub label: String,
    /// Its size, for example 512MiB.
    #[arg(long, value_name = "SIZE")]
    pub capacity: String,
    /// The pool [default: the default pool].
    #[arg(long, value_name = "NAME")]
    pub pool: Option<String>,
    /// How nodes are chosen.
    #[arg(long, value_name = "WAY", default_value = "bandwidth")]
    pub optimization_strategy: Strategy,
    /// Its first configurations: stripe, private or both. Others are made with create configuration.
    #[arg(long, value_name = "MODE", value_delimiter = ',', default_value = "stripe")]
    pub access_mode: Vec<Mode>,
    /// Seconds in which no more may be written to it than its multiplier allows [default with a multiplier: a day].
    #[arg(long, value_name = "SECONDS", value_parser = number::<u64>)]
    pub write_window_length: Option<u64>,
    /// So many times its size may be written in that time [default with a length: 10].
    #[arg(long, value_name = "N", value_parser = number::<u64>)]
    pub write_window_multiplier: Option<u64>,
    /// What happens at a limit: write_window, file_size or file_count = log, error or both. Others than operators can
    /// only add to what the pool says.
    #[arg(long, value_name = "LIMIT=WHAT", value_delimiter = ',', value_parser = policy)]
    pub policy: Vec<(Limit, Policy)>,
}

/// A limit that has a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// More is written within the write window than allowed.
    WriteWindow,
    /// A file grows beyond the largest size.
    FileSize,
    /// More files are created than allowed.
    FileCount,
}

fn policy(word: &str) -> Result<(Limit, Policy), String> {
    let limit = |name: &str| match name {
        "write_window" => Some(Limit::WriteWindow),
        "file_size" => Some(Limit::FileSize),
        "file_count" => Some(Limit::FileCount),
        _ => None,
    };
    let found = word.split_once('=').and_then(|(name, what)| limit(name).zip(Policy::of_name(what)));
    found.ok_or_else(|| "limits are write_window, file_size and file_count; = log, error or both".to_owned())
}

/// How nodes are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Strategy {
    /// As many as possible.
    Bandwidth,
    /// Those with few other instances.
    Interference,
    /// Those written least.
    Wear,
}

/// `dwcli create configuration`
#[derive(Args, Debug)]
pub struct Configuration {
    /// The instance.
    #[arg(long, value_name = "ID", value_parser = number::<u64>)]
    pub instance: u64,
    /// Its type.
    #[arg(long = "type", value_name = "TYPE", default_value = "scratch")]
    pub kind: Kind,
    /// Who sees what.
    #[arg(long, value_name = "MODE")]
    pub access_mode: Mode,
    /// No file grows beyond this.
    #[arg(long, value_name = "SIZE")]
    pub max_file_size: Option<String>,
    /// No more files than this.
    #[arg(long, value_name = "N", value_parser = number::<u64>)]
    pub max_files: Option<u64>,
    /// Accepted: the root directory belongs to the session's owner, who may change its mode.
    #[arg(long, value_name = "MODE")]
    pub root_permissions: Option<String>,
    /// Accepted: the root directory has the group of the session's owner.
    #[arg(long, value_name = "GID", value_parser = number::<u32>)]
    pub group: Option<u32>,
    /// The directory that a cache accelerates.
    #[arg(long, value_name = "PFS")]
    pub backing_path: Option<PathBuf>,
}

/// Types of configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A file system of its own.
    Scratch,
    /// A cache.
    Cache,
}

/// Access modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// One tree for all client nodes.
    #[value(alias = "striped")]
    Stripe,
    /// A tree for each client node.
    Private,
    /// Copies on every server, for caches.
    Ldbalance,
}

/// `dwcli update`
#[derive(Debug, Subcommand)]
pub enum Update {
    /// Nodes: their pool, or whether they take new instances.
    #[command(group = clap::ArgGroup::new("change").required(true))]
    #[command(alias = "nodes")]
    Node {
        /// Their names.
        #[arg(long, value_name = "NAME", num_args = 1.., required = true)]
        name: Vec<String>,
        /// Put them into this pool.
        #[arg(long, value_name = "POOL", group = "change")]
        pool: Option<String>,
        /// Take them out of their pool.
        #[arg(long, group = "change")]
        no_pool: bool,
        /// Make no new instances there.
        #[arg(long, group = "change")]
        drain: bool,
        /// Make new instances there again.
        #[arg(long, group = "change")]
        no_drain: bool,
    },
    /// Instances: write window and policies. Others than operators can only make them stricter.
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
    #[command(alias = "instances")]
    Instance {
        /// Their ids.
        #[arg(short, long, value_name = "ID", num_args = 1.., required = true, value_parser = number::<u64>)]
        id: Vec<u64>,
        /// Seconds in which no more may be written than the multiplier allows.
        #[arg(long, value_name = "SECONDS", group = "change", value_parser = number::<u64>)]
        write_window_length: Option<u64>,
        /// So many times the size may be written in that time.
        #[arg(long, value_name = "N", group = "change", value_parser = number::<u64>)]
        write_window_multiplier: Option<u64>,
        /// What happens at a limit: write_window, file_size or file_count = log, error or both.
        #[arg(long, value_name = "LIMIT=WHAT", value_delimiter = ',', value_parser = policy, group = "change")]
        policy: Vec<(Limit, Policy)>,
    },
    /// Configurations: their limits. Others than operators can only make them stricter.
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
    #[command(alias = "configurations")]
    Configuration {
        /// Their ids.
        #[arg(short, long, value_name = "ID", num_args = 1.., required = true, value_parser = number::<u64>)]
        id: Vec<u64>,
        /// No file grows beyond this.
        #[arg(long, value_name = "SIZE", group = "change")]
        max_file_size: Option<String>,
        /// No more files than this.
        #[arg(long, value_name = "N", group = "change", value_parser = number::<u64>)]
        max_files: Option<u64>,
    },
    /// Registrations.
    #[command(alias = "registrations")]
    Registration {
        /// Their ids.
        #[arg(short, long, value_name = "ID", num_args = 1.., required = true, value_parser = number::<u64>)]
        id: Vec<u64>,
        /// Let the end of the session no longer wait for stage-outs.
        #[arg(long, required = true)]
        no_wait: bool,
    },
}

/// `dwcli rm`
#[derive(Debug, Subcommand)]
pub enum Remove {
    /// Sessions with all that belongs to them; waits until they are gone.
    #[command(alias = "sessions")]
    Session {
        /// Their ids.
        #[arg(short, long, value_name = "ID", num_args = 1.., required = true, value_parser = number::<u64>)]
        id: Vec<u64>,
        /// Give up what is not staged out.
        #[arg(long)]
        hurry: bool,
    },
    /// Activations: unmount.
    #[command(alias = "activations")]
    Activation {
        /// Their ids.
        #[arg(short, long, value_name = "ID", num_args = 1.., required = true, value_parser = number::<u64>)]
        id: Vec<u64>,
    },
    /// Registrations that nothing depends on.
    #[command(alias = "registrations")]
    Registration {
        /// Their ids.
        #[arg(short, long, value_name = "ID", num_args = 1.., required = true, value_parser = number::<u64>)]
        id: Vec<u64>,
    },
    /// Lost nodes, with everything that is on them.
    #[command(alias = "nodes")]
    Node {
        /// Their names.
        #[arg(long, value_name = "NAME", num_args = 1.., required = true)]
        name: Vec<String>,
    },
}

/// `dwcli retry`
#[derive(Debug, Subcommand)]
pub enum Retry {
    /// What was given up for sessions.
    #[command(alias = "sessions")]
    Session {
        /// Their ids.
        #[arg(short, long, value_name = "ID", num_args = 1.., required = true, value_parser = number::<u64>)]
        id: Vec<u64>,
    },
}

/// `dwcli stage`
#[derive(Debug, Subcommand)]
pub enum Stage {
    /// Copy into the burst buffer.
    In(StagePaths),
    /// Copy out of the burst buffer.
    Out(StagePaths),
    /// Show what is staged and what is still to be. Nothing remains to be staged out when the eighth column is -.
    Query(StageOf),
    /// Break off what is not done.
    Terminate(StageOf),
}

/// The session's configuration that is staged.
#[derive(Args, Clone, Copy, Debug)]
pub struct StageOf {
    /// The session.
    #[arg(long, value_name = "ID", value_parser = number::<u64>)]
    pub session: u64,
    /// The configuration.
    #[arg(long, value_name = "ID", value_parser = number::<u64>)]
    pub configuration: u64,
}

/// `dwcli stage in`, `dwcli stage out`
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true))]
pub struct StagePaths {
    /// Where.
    #[command(flatten)]
    pub of: StageOf,
    /// Full path on the parallel file system; of a directory with / at its end.
    #[arg(long, value_name = "PFS")]
    pub backing_path: PathBuf,
    /// A directory in the burst buffer, from its root, beginning with /.
    #[arg(long, value_name = "PATH", group = "what")]
    pub dir: Option<PathBuf>,
    /// A file in the burst buffer, from its root, beginning with /.
    #[arg(long, value_name = "PATH", group = "what")]
    pub file: Option<PathBuf>,
}

/// `dwcli config`
#[derive(Clone, Copy, Debug, Subcommand)]
pub enum Config {
    /// Print pools and nodes as JSON.
    Backup,
    /// Make pools and nodes as the JSON on standard input says.
    Restore,
}
