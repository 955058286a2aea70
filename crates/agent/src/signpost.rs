//! The symbolic link that leads from where a job looks for its namespace to a plain directory.
//!
//! Without root's rights and without FUSE nothing can be mounted, but the job's path is the documented one all the same.
//! The link is put under the instance's gate when the first attachment mounts and taken away when the last one unmounts.
//! A crash leaves it; putting it again, or cleaning up, finds it. Only a link into the instance's own fragment is ever
//! removed.

use crate::error::AgentError;
use crate::mounting;
use crate::record::Record;
use std::io::ErrorKind;
use std::path::Path;

/// Makes `point` lead to `tree`; nothing to do if it does. An empty directory in its place gives way.
pub(crate) fn put(point: &Path, tree: &Path) -> Result<(), AgentError> {
    if std::fs::read_link(point).is_ok_and(|target| target == tree) {
        return Ok(());
    }
    mounting::make_mount_point(point)?;
    mounting::remove_mount_point(point)?;
    std::os::unix::fs::symlink(tree, point).map_err(|error| AgentError::system("make link", point, error))
}

/// Removes the link of an instance; leaves anything else that is there.
pub(crate) fn take_away(point: &Path, record: &Record) -> Result<(), AgentError> {
    let fragments = &record.description.fragments;
    let is_ours = std::fs::read_link(point)
        .is_ok_and(|target| fragments.iter().any(|fragment| target.starts_with(&fragment.directory)));
    match is_ours.then(|| std::fs::remove_file(point)) {
        Some(Err(error)) if error.kind() != ErrorKind::NotFound => {
            Err(AgentError::system("remove link", point, error))
        }
        _ => Ok(()),
    }
}
