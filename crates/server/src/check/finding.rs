//! What a check finds.

use forebay_wire::FileId;
use std::fmt;
use std::path::PathBuf;

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The server whose fragment it is in.
    pub position: u32,
    /// The namespace, if it is in one.
    pub namespace: Option<String>,
    /// What it is.
    pub problem: Problem,
    /// What was done.
    pub outcome: Outcome,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The fragment does not say which one it is, although there is something in it.
    NoRecord,
    /// It does, but not in words that are understood.
    UnknownRecord,
    /// It belongs to another instance than the first of the fragments.
    OtherInstance,
    /// It belongs to another place.
    OtherPlace {
        /// Position that it was made for.
        index: u32,
        /// Servers that its instance was made with.
        count: u32,
    },
    /// The configuration has no such namespace: its data is not judged.
    UnknownNamespace,
    /// A stub or a directory cannot be read; what it names is unknown.
    Unreadable {
        /// Below the tree of names.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A stub spreads its file over more or fewer servers than the instance has.
    OtherServers {
        /// Below the tree of names.
        path: PathBuf,
        /// Servers of its layout.
        servers: u32,
    },
    /// Two files say that the same content is theirs.
    SharedContent {
        /// The later one found, below the tree of names.
        path: PathBuf,
        /// The content.
        file: FileId,
    },
    /// No stub names this content.
    Orphan(Substripe),
    /// The stub's layout has no such substripe file on this server.
    Misplaced(Substripe),
    /// It reaches beyond the length of the file; the next start settles which of the two counts.
    Beyond {
        /// Which one.
        substripe: Substripe,
        /// How long it can be by the length of the file, in bytes.
        expected: u64,
    },
    /// Something that the file system did not make.
    Foreign {
        /// Below the data of the namespace.
        path: PathBuf,
    },
}

/// A substripe file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Substripe {
    /// Its content.
    pub file: FileId,
    /// Which of the server's substripe files of that content.
    pub index: u32,
    /// Length in bytes.
    pub length: u64,
}

/// What was done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing: it is for a person, or for the next start.
    Left,
    /// Nothing, because only looking was asked for; a repair would move it.
    CanBeMoved,
    /// It was moved there, below the fragment.
    Moved(PathBuf),
    /// It held no data and was removed.
    Removed,
}

impl Finding {
    pub(super) fn left(position: u32, namespace: Option<&str>, problem: Problem) -> Finding {
        Finding { position, namespace: namespace.map(str::to_owned), problem, outcome: Outcome::Left }
    }

    /// It needs no attention: a start settles it.
    pub fn is_harmless(&self) -> bool {
        matches!(self.problem, Problem::Beyond { .. })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {}", self.position)?;
        if let Some(namespace) = &self.namespace {
            write!(f, ", namespace {namespace}")?;
        }
        write!(f, ": {}", self.problem)?;
        match &self.outcome {
            Outcome::Left if self.is_harmless() => f.write_str("; the next start settles it"),
            Outcome::Left => f.write_str("; nothing was changed"),
            Outcome::CanBeMoved => f.write_str("; a repair moves it to lost+found"),
            Outcome::Moved(to) => write!(f, "; moved to {}", to.display()),
            Outcome::Removed => f.write_str("; removed, there was no data in it"),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NoRecord => f.write_str("fragment.json is missing beside data"),
            Problem::UnknownRecord => f.write_str("fragment.json cannot be read"),
            Problem::OtherInstance => f.write_str("the fragment is of another instance"),
            Problem::OtherPlace { index, count } => {
                write!(f, "the fragment was made for server {index} of {count}")
            }
            Problem::UnknownNamespace => f.write_str("the configuration has no such namespace"),
            Problem::Unreadable { path, reason } => {
                write!(f, "{path:?} cannot be read ({reason}), so the data is not judged")
            }
            Problem::OtherServers { path, servers } => write!(f, "{path:?} is spread over {servers} servers"),
            Problem::SharedContent { path, file } => {
                write!(f, "{path:?} and another file have the same content {:x}", file.0)
            }
            Problem::Orphan(substripe) => write!(f, "{substripe} belongs to no file"),
            Problem::Misplaced(substripe) => write!(f, "{substripe} is not where its file has it"),
            Problem::Beyond { substripe, expected } => {
                write!(f, "{substripe} is longer than the {expected} bytes that its file has there")
            }
            Problem::Foreign { path } => write!(f, "{path:?} was not made by the file system"),
        }
    }
}

impl fmt::Display for Substripe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "substripe {} of content {:x} ({} bytes)", self.index, self.file.0, self.length)
    }
}

/// A check in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Files with content in substripe files.
    pub files: u64,
    /// Substripe files that were held against names.
    pub judged: u64,
    /// Substripe files whose names are not on this machine or could not all be read.
    pub not_judged: u64,
    /// Findings that need no attention.
    pub harmless: u64,
    /// Findings that were repaired.
    pub repaired: u64,
    /// Findings that are left.
    pub left: u64,
}

impl Summary {
    pub(super) fn count(&mut self, finding: &Finding) {
        match finding.outcome {
            _ if finding.is_harmless() => self.harmless += 1,
            Outcome::Left | Outcome::CanBeMoved => self.left += 1,
            Outcome::Moved(_) | Outcome::Removed => self.repaired += 1,
        }
    }
}
