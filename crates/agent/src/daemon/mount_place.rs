//! Where a mount is made: on a way that only root, or the user who runs the agent, can change.
//!
//! Whoever could exchange a directory on the way would choose what is covered, and by what. Looked at before anything is made or
//! written down, so that what is refused leaves nothing and takes nothing away, and once more when the mount point is there: in a
//! directory like `/tmp` somebody may have made it first. Changes nothing.

use super::error::TaskError;
use crate::error::AgentError;
use crate::mount_table;
use forebay_controller::custody::{self, CustodyError};
use std::path::Path;

/// In such a directory nobody exchanges what is somebody else's.
const STICKY: u32 = 0o1000;

/// Before: what there is of the way.
pub(super) fn check_way(point: &Path) -> Result<(), TaskError> {
    // What is mounted there is taken away first, or is in the way: that is for who does it.
    if mount_table::at(&mount_table::resolved(point))?.is_some() {
        return Ok(());
    }
    match custody::unchangeable(point) {
        // The rest of the way is going to be ours.
        Err(CustodyError::Writable { mode, .. }) if !point.exists() && mode & STICKY != 0 => Ok(()),
        judged => Ok(judged.map_err(AgentError::from)?),
    }
}

/// Afterwards: all of it.
pub(super) fn check(point: &Path) -> Result<(), TaskError> {
    Ok(custody::unchangeable(point).map_err(AgentError::from)?)
}
