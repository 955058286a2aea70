//! The texts of the failures: one per cause, each with the path, the reason and what to do.
//!
//! Pure. Golden copies are in `tests/failure_texts.rs`; documents and the command print them as they are.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use super::{ItemFailure, Reason, Side, StageFailure};
use crate::raw_path::encode;
use crate::tree::EntryKind;

impl Display for EntryKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Regular => "a regular file",
            Self::Directory => "a directory",
            Self::Symlink => "a symbolic link",
            Self::Fifo => "a named pipe",
            Self::Socket => "a socket",
            Self::CharDevice => "a character device",
            Self::BlockDevice => "a block device",
        })
    }
}

/// Whether a shell would have looked for names that fit. A file may have such a name all the same.
fn looks_like_pattern(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().iter().any(|byte| b"*?[".contains(byte))
}

/// A size as people read it: exact below 1 KiB, else with one decimal.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} bytes");
    }
    let exponent = (63 - bytes.leading_zeros()) / 10;
    let whole = (bytes as f64) / 2f64.powi(10 * i32::try_from(exponent).unwrap_or(6));
    format!("{whole:.1} {}", UNITS[(exponent as usize - 1).min(UNITS.len() - 1)])
}

impl Display for ItemFailure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", encode(&self.path), self.reason)?;
        if matches!(self.reason, Reason::SourceMissing { .. }) && looks_like_pattern(&self.path) {
            f.write_str(
                " Patterns are not expanded: stage the directory, or name the files in a list (type=list).",
            )?;
        }
        Ok(())
    }
}

impl Display for Reason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::SourceMissing { nearest, similar } => {
                write!(f, "the source does not exist; the path is right up to {}", encode(nearest))?;
                match similar {
                    Some(name) => write!(f, ", which has {}: did you mean that?", encode(name)),
                    None => write!(f, ". Check the rest of the path."),
                }
            }
            Self::TargetDirectoryMissing { nearest } => write!(
                f,
                "the target directory does not exist; the path is right up to {}. Make it with mkdir -p, or correct \
                 destination=.",
                encode(nearest)
            ),
            Self::SourcePermission => f.write_str(
                "no permission to read the source. Change its permissions, or leave it out of what is staged.",
            ),
            Self::TargetPermission { refused } => write!(
                f,
                "no permission to write to {}. Choose a destination you can write to, or change its permissions.",
                encode(refused)
            ),
            Self::ReadOnly => {
                f.write_str("the target's file system is read-only. Choose another destination, or ask the operator.")
            }
            Self::NoSpace { needed, free } => no_space(f, *needed, *free),
            Self::Quota => f.write_str("your quota on the target's file system is used up. Delete files there, or ask for more."),
            Self::NameTooLong => {
                f.write_str("the name or the path is longer than the file system allows. Shorten it.")
            }
            Self::FileTooLarge { size: bytes } => write!(
                f,
                "the file has {}, more than the target allows for one file. Raise the limit (MFS) or split the file.",
                size(*bytes)
            ),
            Self::TooManyFiles => f.write_str(
                "the limit on the number of files at the target is reached. Raise it (MFC), or pack the files with tar.",
            ),
            Self::SourceChanged { attempts } => write!(
                f,
                "the file changed while it was copied, {attempts} times in a row. Stop the program that writes it and stage \
                 again."
            ),
            Self::NotRegularFile { kind: EntryKind::Directory } => {
                f.write_str("the source is a directory, but a file was asked for. Write type=directory.")
            }
            Self::NotRegularFile { kind } => {
                write!(f, "the source is {kind}, but a regular file was asked for. Name a regular file.")
            }
            Self::NotDirectory { kind: EntryKind::Regular } => {
                f.write_str("the source is a regular file, but a directory was asked for. Write type=file.")
            }
            Self::NotDirectory { kind } => {
                write!(f, "the source is {kind}, but a directory was asked for. Name a directory.")
            }
            Self::TargetIsDirectory => f.write_str(
                "there is a directory where the file should be written. End the destination with / to write into it, or \
                 choose another name.",
            ),
            Self::TargetNotDirectory { kind } => write!(
                f,
                "there is {kind} where a directory is needed. Move it away, or choose another destination; it was left as it \
                 is."
            ),
            Self::DuplicateTarget { other } => write!(
                f,
                "two files of the list go to this target; the first is {}. Give one of them another destination.",
                encode(other)
            ),
            Self::Overlap { destination } => write!(
                f,
                "source and destination ({}) are the same directory or one lies inside the other. Choose a destination \
                 outside the source.",
                encode(destination)
            ),
            Self::LinkUnusable { link } => write!(
                f,
                "the symbolic link {} leads out of the instance or round in circles. Name the file it should lead to.",
                encode(link)
            ),
            Self::ChecksumMismatch { expected, found } => write!(
                f,
                "the copy differs from the source (checksum {expected:016x} read, {found:016x} found at the target); the target \
                 was not replaced. Stage again; if it happens again, tell the operator: a disk or memory is failing."
            ),
            Self::TooManyOpenFiles => {
                f.write_str("too many open files. Raise the limit (ulimit -n) or stage with fewer workers.")
            }
            Self::Journal { error } => write!(
                f,
                "the journal of finished files cannot be used ({error}). Make the state directory writable, or remove the \
                 journal to start again."
            ),
            Self::FileSystem { operation, side, error } => file_system(f, operation, *side, error),
            Self::Cancelled => f.write_str("stopped on request. Stage again to finish."),
        }
    }
}

fn no_space(f: &mut Formatter<'_>, needed: Option<u64>, free: Option<u64>) -> fmt::Result {
    f.write_str("the target is full")?;
    match (needed, free) {
        (Some(needed), Some(free)) => write!(f, ": {} needed, {} free", size(needed), size(free))?,
        (Some(needed), None) => write!(f, ": {} needed", size(needed))?,
        (None, Some(free)) => write!(f, ": {} free", size(free))?,
        (None, None) => {}
    }
    f.write_str(". Make room there, or choose another destination.")
}

fn file_system(
    f: &mut Formatter<'_>,
    operation: &str,
    side: Side,
    error: &crate::tree::Cause,
) -> fmt::Result {
    let side = match side {
        Side::Source => "source",
        Side::Target => "target",
    };
    write!(
        f,
        "{operation} at the {side} failed: {error}. Stage again; if it happens again, tell the operator."
    )
}

impl Display for StageFailure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        for item in self.failures.iter().filter(|item| **item != self.first) {
            write!(f, "\n{item}")?;
        }
        let named = self.failures.len().max(1) as u64;
        match self.failures_total.saturating_sub(named) {
            0 => Ok(()),
            more => write!(f, "\nand {more} more"),
        }
    }
}
