//! Small files that are either whole or not there.
//!
//! Order of events in [`write`]: write `.<name>.new` - rename it to `<name>` - fsync it. The one fsync comes last
//! because it makes content and name durable together on the journalling file systems (ext4, XFS, btrfs), and a commit of
//! the journal is what takes time. A crash of the process before the rename leaves a `.<name>.new`, which the next call
//! overwrites. A power cut before the fsync has returned may leave no file, or an empty one. Callers hold the instance's
//! gate, so no two of them write one file.

use crate::error::AgentError;
use crate::state_directory::remove_file;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Writes a new file, durably. It is readable for its owner alone.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<(), AgentError> {
    let new = new_name(path);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let fill = || -> std::io::Result<File> {
        let mut file = options.open(&new)?;
        file.write_all(content)?;
        Ok(file)
    };
    let file = fill().map_err(|error| AgentError::system("write", &new, error))?;
    std::fs::rename(&new, path).map_err(|error| AgentError::system("rename to", path, error))?;
    file.sync_all().map_err(|error| AgentError::system("sync", path, error))
}

/// Removes a file, and what a killed process left of writing it; either may be gone.
pub(crate) fn remove(path: &Path) -> Result<(), AgentError> {
    remove_file(&new_name(path))?;
    remove_file(path)
}

/// Reads at most `limit` bytes; `None` if the file does not exist, the size if it is larger.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Option<Content>, AgentError> {
    let failed = |error| AgentError::system("read", path, error);
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let size = file.metadata().map_err(failed)?.len();
    if size > limit {
        return Ok(Some(Content::TooLarge { size }));
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(failed)?;
    Ok(Some(Content::Bytes(bytes)))
}

/// What was found in a file.
pub(crate) enum Content {
    /// All of it.
    Bytes(Vec<u8>),
    /// More than anything we write.
    TooLarge {
        /// Size of the file.
        size: u64,
    },
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(path: &Path) -> Result<(), AgentError> {
    let sync = || File::open(path)?.sync_all();
    sync().map_err(|error| AgentError::system("sync directory", path, error))
}

/// The temporary name beside a file.
pub(crate) fn new_name(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.new"))
}
