//! Exit statuses of the `forebay` command.
//!
//! `forebay run` ends with the script's own status. Its own troubles have statuses of their own, taken from the range
//! of sysexits(3) so that they seldom collide with a script's; docs/running.md lists them.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything worked.
    Success,
    /// `doctor` found something that does not work.
    Troubles,
    /// `fsck` found something, and repaired all of it.
    Corrected,
    /// `fsck` found something that it did not repair.
    Uncorrected,
    /// `check` found errors; wrong options.
    Usage,
    /// The script's directives were refused; nothing was run.
    Directives,
    /// No space, no such pool, no such persistent instance; nothing was run.
    Unavailable,
    /// A fault of forebay or of the machine that has no status of its own.
    Software,
    /// The space could not be made or mounted; nothing was run.
    SetUp,
    /// The configuration file was refused.
    Configuration,
    /// Stage-in failed; the script was not run.
    StageIn,
    /// Stage-out failed or was stopped; the data is kept for `forebay recover`.
    StageOut,
    /// The script's own status, 128 + signal when a signal ended it.
    Script(u8),
}

impl Exit {
    /// The number that the shell sees.
    pub fn status(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Troubles | Exit::Corrected => 1,
            Exit::Usage => 2,
            Exit::Uncorrected => 4,
            Exit::Directives => 65,
            Exit::Unavailable => 69,
            Exit::Software => 70,
            Exit::SetUp => 71,
            Exit::StageIn => 74,
            Exit::StageOut => 75,
            Exit::Configuration => 78,
            Exit::Script(status) => status,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.status())
    }
}
