//! The commands of the language and the keys each of them takes.

use crate::lines::Prefix;

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Space for the job.
    JobDw,
    /// Swap space.
    Swap,
    /// Copy in.
    StageIn,
    /// Copy out.
    StageOut,
    /// Attach a persistent instance.
    PersistentDw,
    /// Make a persistent instance.
    CreatePersistent,
    /// Remove a persistent instance.
    DestroyPersistent,
}

impl Command {
    const ALL: [Command; 7] = [
        Command::JobDw,
        Command::Swap,
        Command::StageIn,
        Command::StageOut,
        Command::PersistentDw,
        Command::CreatePersistent,
        Command::DestroyPersistent,
    ];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Command::JobDw => "jobdw",
            Command::Swap => "swap",
            Command::StageIn => "stage_in",
            Command::StageOut => "stage_out",
            Command::PersistentDw => "persistentdw",
            Command::CreatePersistent => "create_persistent",
            Command::DestroyPersistent => "destroy_persistent",
        }
    }

    /// The prefix it has to have.
    pub fn prefix(self) -> Prefix {
        match self {
            Command::CreatePersistent | Command::DestroyPersistent => Prefix::Bb,
            _ => Prefix::Dw,
        }
    }

    /// The keys it takes, in the order they are printed.
    pub fn keys(self) -> &'static [&'static str] {
        match self {
            Command::JobDw => &[
                "type",
                "access_mode",
                "capacity",
                "pool",
                "pfs",
                "write_window_length",
                "write_window_multiplier",
                "modified_threshold",
                "read_ahead",
                "sync_on_close",
                "sync_to_pfs",
                "optimization_strategy",
                "max_mds",
            ],
            Command::Swap => &["pool"],
            Command::StageIn | Command::StageOut => &["type", "source", "destination", "tolerate_errors"],
            Command::PersistentDw | Command::DestroyPersistent => &["name"],
            Command::CreatePersistent => &["name", "capacity", "access", "access_mode", "type", "pool"],
        }
    }

    /// Words it takes that have no value.
    pub fn flags(self) -> &'static [&'static str] {
        match self {
            Command::DestroyPersistent => &["hurry"],
            _ => &[],
        }
    }

    /// The command of this name.
    pub fn from_name(name: &[u8]) -> Option<Command> {
        Command::ALL.into_iter().find(|command| command.name().as_bytes() == name)
    }
}

/// The names of all commands.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    Command::ALL.into_iter().map(Command::name)
}

/// The names of the commands with a prefix, for messages.
pub(crate) fn names_with(prefix: Prefix) -> String {
    let with_prefix = Command::ALL.into_iter().filter(|command| command.prefix() == prefix);
    with_prefix.map(Command::name).collect::<Vec<_>>().join(", ")
}
