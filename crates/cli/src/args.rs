//! The command line of `forebay`.
//!
//! Options that choose pools are shared by the commands that allocate. Pure declarations; each command's module says
//! what it does.

use crate::config::PoolOptions;
use crate::doctor::command::Doctor;
use clap::{Args, Parser, Subcommand, ValueEnum};
use forebay_agent::Serving;
use forebay_agent::node::{IoUring, KeepAwake};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// An open burst buffer on one machine: fast, short-lived space for batch scripts with #DW lines.
#[derive(Debug, Parser)]
#[command(name = "forebay", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Arguments {
    /// Where state is kept [default: $FOREBAY_STATE_DIR, $XDG_STATE_HOME/forebay, ~/.local/state/forebay].
    #[arg(long, global = true, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// The configuration file [default: $FOREBAY_CONFIG, ~/.config/forebay/forebay.toml, /etc/forebay/forebay.toml].
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a batch script with its burst buffer: allocate, stage in, run, stage out, clean up.
    Run(Run),
    /// An interactive shell with a burst buffer, as with `salloc --bbf`.
    Shell(Shell),
    /// Show what a script's directives mean and would allocate; exit status 0, or 2 when they are refused.
    Check(Check),
    /// Make a persistent instance, as `#BB create_persistent` does.
    CreatePersistent(CreatePersistent),
    /// Remove a persistent instance and its data, as `#BB destroy_persistent` does.
    DestroyPersistent(DestroyPersistent),
    /// Finish or discard what interrupted jobs left.
    Recover(Recover),
    /// Print the effective configuration.
    Config(PoolArguments),
    /// Serve this machine's part of instances to the nodes of a cluster; --config names the server's configuration.
    Serve(ServeNode),
    /// Allocate the burst buffer of a cluster; --config names the configuration [default: /etc/forebay/controller.toml].
    Controller(Controller),
    /// Carry out the controller's orders on this node; --config names the agent's configuration.
    Agent(Agent),
    /// Look over this machine, or the cluster from here, and say what to change; exit status 1 if something does not work.
    Doctor(Doctor),
    /// Mount a namespace of an instance that servers serve.
    Mount(Mount),
    /// Unmount what `forebay mount` mounted.
    Umount(Umount),
    /// Show what is stored in an instance, its limits and how far they are used up.
    Status(Status),
    /// Check the fragments of a server that does not run; --config names its configuration.
    Fsck(Fsck),
    /// Serve, mount or stage; started by the agent.
    #[command(hide = true)]
    AgentWorker {
        /// Passed on.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Wait for a word and become a job's script; started by `forebay run`.
    #[command(hide = true)]
    ScriptProcess {
        /// Passed on.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Serve one instance; started by the other commands.
    #[command(hide = true)]
    InstanceProcess {
        /// Passed on.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// Which storage nodes there are.
#[derive(Args, Clone, Debug, Default)]
pub struct PoolArguments {
    /// Lay the default pool over N storage nodes; files are striped over them.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=crate::config::NODES_MAX as i64))]
    pub nodes: Option<u16>,
    /// Keep the nodes' fragments in DIR; may be repeated, nodes are dealt over the directories in turn.
    #[arg(long, value_name = "DIR")]
    pub pool_dir: Vec<PathBuf>,
}

impl PoolArguments {
    /// As the configuration takes them. Relative directories are taken from the working directory.
    pub fn options(&self) -> std::io::Result<PoolOptions> {
        let directories = self.pool_dir.iter().map(std::path::absolute).collect::<Result<_, _>>()?;
        Ok(PoolOptions { nodes: self.nodes.map(usize::from), directories })
    }
}

/// How an instance reaches the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Serve {
    /// One fragment of fixed size, reached directly (root).
    Direct,
    /// DWFS through FUSE.
    Fuse,
    /// DWFS through FUSE, with kernel passthrough for files on one node (root).
    Passthrough,
    /// A plain directory: neither size nor striping is enforced.
    Directory,
}

impl From<Serve> for Serving {
    fn from(serve: Serve) -> Serving {
        match serve {
            Serve::Direct => Serving::DirectXfs,
            Serve::Fuse => Serving::Fuse { passthrough: false },
            Serve::Passthrough => Serving::Fuse { passthrough: true },
            Serve::Directory => Serving::PlainDirectory,
        }
    }
}

/// `forebay run`
#[derive(Args, Debug)]
#[command(override_usage = "forebay run [OPTIONS] SCRIPT [ARGUMENTS]...")]
pub struct Run {
    /// The pools.
    #[command(flatten)]
    pub pool: PoolArguments,
    /// Take SIZE instead of the script's `capacity=` of `#DW jobdw`.
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<String>,
    /// Serve new instances this way [default: the fastest that enforces everything].
    #[arg(long, value_name = "WAY")]
    pub serve: Option<Serve>,
    /// Say what would be done, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Keep the job's space after stage-out, until `forebay recover`.
    #[arg(long)]
    pub keep: bool,
    /// No progress and no summary; errors only.
    #[arg(long, short)]
    pub quiet: bool,
    /// The batch script, and its arguments: all that stands behind the script is the script's, options too.
    #[arg(required = true, trailing_var_arg = true, value_name = "SCRIPT")]
    pub script_and_arguments: Vec<OsString>,
}

impl Run {
    /// The batch script, and its arguments.
    pub fn script(&self) -> (&Path, &[OsString]) {
        // None at all is refused before.
        let words = &self.script_and_arguments;
        words.split_first().map_or((Path::new(""), &[]), |(script, arguments)| (Path::new(script), arguments))
    }
}

/// `forebay shell`
#[derive(Args, Debug)]
pub struct Shell {
    /// The pools.
    #[command(flatten)]
    pub pool: PoolArguments,
    /// A file with `#DW` and `#BB` lines.
    #[arg(long, value_name = "FILE")]
    pub bbf: Option<PathBuf>,
    /// A request as for `salloc --bb`: `capacity=1G access=striped type=scratch`.
    #[arg(long, value_name = "REQUEST", conflicts_with = "bbf")]
    pub bb: Option<String>,
    /// Take SIZE instead of the file's `capacity=` of `#DW jobdw`.
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<String>,
    /// Serve new instances this way [default: the fastest that enforces everything].
    #[arg(long, value_name = "WAY")]
    pub serve: Option<Serve>,
    /// Keep the space after stage-out, until `forebay recover`.
    #[arg(long)]
    pub keep: bool,
    /// No progress and no summary; errors only.
    #[arg(long, short)]
    pub quiet: bool,
    /// What to run [default: $SHELL].
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

/// `forebay check`
#[derive(Args, Debug)]
pub struct Check {
    /// The pools.
    #[command(flatten)]
    pub pool: PoolArguments,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// The batch script.
    pub script: PathBuf,
}

/// `forebay create-persistent`
#[derive(Args, Debug)]
pub struct CreatePersistent {
    /// The pools.
    #[command(flatten)]
    pub pool: PoolArguments,
    /// Its name (or the whole request as in `#BB create_persistent`: `name=NAME capacity=SIZE ...`).
    #[arg(value_name = "NAME", required = true)]
    pub words: Vec<String>,
    /// Its size, for example 10GiB.
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<String>,
    /// `striped`, `private` or both [default: striped].
    #[arg(long, value_name = "MODE", alias = "access")]
    pub access_mode: Option<String>,
    /// `scratch`.
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<String>,
    /// The pool [default: the default pool].
    #[arg(long = "pool", value_name = "POOL")]
    pub pool_name: Option<String>,
    /// Serve it this way [default: the fastest that enforces everything].
    #[arg(long, value_name = "WAY")]
    pub serve: Option<Serve>,
}

/// `forebay destroy-persistent`
#[derive(Args, Debug)]
pub struct DestroyPersistent {
    /// Its name.
    pub name: String,
    /// Also when jobs are attached, or were when they were killed.
    #[arg(long)]
    pub hurry: bool,
}

/// `forebay recover`
#[derive(Args, Debug)]
pub struct Recover {
    /// Jobs to recover [default: all that need it].
    pub tokens: Vec<String>,
    /// Give their results up instead of staging them out. The jobs must be named.
    #[arg(long, requires = "tokens")]
    pub discard: bool,
    /// Only show what there is to recover.
    #[arg(long, conflicts_with = "discard")]
    pub list: bool,
}

/// `forebay serve`
#[derive(Args, Debug)]
pub struct ServeNode {
    /// Print the effective configuration and do nothing.
    #[arg(long)]
    pub print_config: bool,
}

/// `forebay controller`
#[derive(Args, Debug)]
pub struct Controller {
    /// Print the effective configuration and do nothing.
    #[arg(long)]
    pub print_config: bool,
}

/// `forebay agent`
#[derive(Args, Debug)]
pub struct Agent {
    /// Print the effective configuration and do nothing.
    #[arg(long)]
    pub print_config: bool,
}

/// `forebay mount`
#[derive(Args, Debug)]
pub struct Mount {
    /// The description of the instance.
    #[arg(long, value_name = "FILE")]
    pub instance: PathBuf,
    /// Return when it is mounted; a process goes on in the background.
    #[arg(long, conflicts_with = "foreground")]
    pub background: bool,
    /// Stay until it is unmounted; this is the default.
    #[arg(long)]
    pub foreground: bool,
    /// With --background: append what goes wrong later to FILE [default: nobody is told].
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Let other users in, as their rights allow [default for root].
    #[arg(long)]
    pub allow_other: bool,
    /// Requests over io_uring instead of /dev/fuse: never, where root has switched that on (if-on), or switched on for the
    /// machine by this command (switch-on, as root).
    #[arg(long, value_name = "WHEN", default_value = "if-on", value_parser = io_uring)]
    pub io_uring: IoUring,
    /// Keep the machine's processors awake while many calls are answered, as root: never, in virtual machines
    /// (in-guests), or on every machine (always).
    #[arg(long, value_name = "WHEN", default_value = "in-guests", value_parser = keep_awake)]
    pub keep_awake: KeepAwake,
    /// How the process in the background is started.
    #[arg(long, hide = true, conflicts_with_all = ["background", "foreground"])]
    pub detached: bool,
    /// An empty directory.
    pub mountpoint: PathBuf,
}

fn io_uring(word: &str) -> Result<IoUring, String> {
    one_of(&IoUring::WORDS, word).ok_or_else(|| "expected never, if-on or switch-on".to_owned())
}

fn keep_awake(word: &str) -> Result<KeepAwake, String> {
    one_of(&KeepAwake::WORDS, word).ok_or_else(|| "expected never, in-guests or always".to_owned())
}

fn one_of<T: Copy>(words: &[(&str, T)], word: &str) -> Option<T> {
    words.iter().find(|(known, _)| *known == word).map(|(_, value)| *value)
}

/// `forebay umount`
#[derive(Args, Debug)]
pub struct Umount {
    /// Also when somebody uses it: the path is free at once, the mount is gone with its last user.
    #[arg(long)]
    pub lazy: bool,
    /// Where it is mounted.
    pub mountpoint: PathBuf,
}

/// `forebay status`
#[derive(Args, Debug)]
pub struct Status {
    /// The id of a job, or the name of a persistent instance: of the cluster whose controller is named, otherwise of this
    /// machine.
    #[arg(required_unless_present = "instance", conflicts_with = "instance")]
    pub name: Option<String>,
    /// The description of an instance that servers serve.
    #[arg(long, value_name = "FILE")]
    pub instance: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `forebay fsck`
#[derive(Args, Debug)]
pub struct Fsck {
    /// Move what belongs to nothing to lost+found of its fragment; otherwise nothing is changed.
    #[arg(long)]
    pub repair: bool,
    /// The configuration of another server on this machine, whose fragments are checked together; may be repeated.
    #[arg(long, value_name = "FILE")]
    pub also: Vec<PathBuf>,
}
