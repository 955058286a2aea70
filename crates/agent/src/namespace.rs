//! The tree of a configuration as a directory of the local file system, for the ways of serving without DWFS.
//!
//! It lies where DWFS would have it: `ns/c<id>/tree` in the first fragment.

use crate::error::AgentError;
use forebay_model::ids::ConfigurationId;
use std::fs::Permissions;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Permissions of a namespace's root, the original's default.
const ROOT_MODE: u32 = 0o755;

/// Name of a configuration's namespace inside the fragments.
pub(crate) fn name(configuration: ConfigurationId) -> String {
    format!("c{configuration}")
}

/// The tree, made if need be; a new one belongs to the caller. One that exists keeps the permissions that its owner
/// may have given it.
pub(crate) fn tree(fragment: &Path, configuration: ConfigurationId) -> Result<PathBuf, AgentError> {
    let parent = fragment.join("ns").join(name(configuration));
    let tree = parent.join("tree");
    let failed = |error| AgentError::system("make the namespace", &tree, error);
    std::fs::create_dir_all(&parent).map_err(failed)?;
    match std::fs::create_dir(&tree) {
        Ok(()) => std::fs::set_permissions(&tree, Permissions::from_mode(ROOT_MODE)).map_err(failed)?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    Ok(tree)
}
