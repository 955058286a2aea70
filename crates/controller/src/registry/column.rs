//! How values stand in columns.
//!
//! Enums and states are words, so that a registry can be read with the `sqlite3` shell; paths are bytes. What does not
//! read back is [`RegistryError::Damaged`], never a guess.

use crate::error::RegistryError;
use crate::process::ProcessId;
use crate::request::{StageDirection, StageKind};
use forebay_model::objects::{AccessMode, ConfigurationType};
use forebay_model::state::ObjectState;
use rusqlite::Row;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Reads a column of words.
pub fn word<T>(
    row: &Row<'_>,
    column: &'static str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<T, RegistryError> {
    let value: String = row.get(column)?;
    read(&value).ok_or(RegistryError::Damaged { column, value })
}

/// Reads a column of words that may be NULL.
pub fn word_or_null<T>(
    row: &Row<'_>,
    column: &'static str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, RegistryError> {
    let value: Option<String> = row.get(column)?;
    let Some(value) = value else { return Ok(None) };
    read(&value).map(Some).ok_or(RegistryError::Damaged { column, value })
}

pub fn state(row: &Row<'_>) -> Result<ObjectState, RegistryError> {
    word(row, "state", ObjectState::from_letters)
}

pub fn path(row: &Row<'_>, column: &str) -> Result<PathBuf, RegistryError> {
    Ok(OsString::from_vec(row.get(column)?).into())
}

pub fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Arguments hold no NUL, so one behind each of them keeps empty ones apart from none.
pub fn args_bytes(args: &[OsString]) -> Vec<u8> {
    args.iter().flat_map(|arg| arg.as_bytes().iter().copied().chain([0])).collect()
}

pub fn args(bytes: &[u8]) -> Vec<OsString> {
    let mut args: Vec<OsString> =
        bytes.split(|&byte| byte == 0).map(|arg| OsStr::from_bytes(arg).into()).collect();
    args.pop();
    args
}

/// `pid:start:boot`, the boot in hexadecimal.
pub fn process_text(process: ProcessId) -> String {
    format!("{}:{}:{:032x}", process.pid, process.start_ticks, process.boot)
}

pub fn process(text: &str) -> Option<ProcessId> {
    let mut parts = text.split(':');
    let pid = parts.next()?.parse().ok()?;
    let start_ticks = parts.next()?.parse().ok()?;
    let boot = u128::from_str_radix(parts.next()?, 16).ok()?;
    parts.next().is_none().then_some(ProcessId { pid, start_ticks, boot })
}

pub fn configuration_type(text: &str) -> Option<ConfigurationType> {
    ConfigurationType::ALL.into_iter().find(|kind| kind.name() == text)
}

pub fn access_mode(text: &str) -> Option<AccessMode> {
    AccessMode::ALL.into_iter().find(|mode| mode.name() == text)
}

pub fn direction_text(direction: StageDirection) -> &'static str {
    match direction {
        StageDirection::In => "stage_in",
        StageDirection::Out => "stage_out",
    }
}

pub fn direction(text: &str) -> Option<StageDirection> {
    [StageDirection::In, StageDirection::Out].into_iter().find(|&direction| direction_text(direction) == text)
}

pub fn stage_kind_text(kind: StageKind) -> &'static str {
    match kind {
        StageKind::File => "file",
        StageKind::Directory => "directory",
        StageKind::List => "list",
    }
}

pub fn stage_kind(text: &str) -> Option<StageKind> {
    [StageKind::File, StageKind::Directory, StageKind::List]
        .into_iter()
        .find(|&kind| stage_kind_text(kind) == text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn arguments_come_back(given in proptest::collection::vec(proptest::collection::vec(1u8.., 0..9), 0..6)) {
            let given: Vec<OsString> = given.into_iter().map(OsString::from_vec).collect();
            prop_assert_eq!(args(&args_bytes(&given)), given);
        }

        #[test]
        fn processes_come_back(pid: u32, start_ticks: u64, boot: u128) {
            let given = ProcessId { pid, start_ticks, boot };
            prop_assert_eq!(process(&process_text(given)), Some(given));
        }
    }
}
