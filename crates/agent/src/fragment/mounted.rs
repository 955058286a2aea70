//! The mount of a fragment that is a file system of its own, in the fragment's place.
//!
//! What is mounted is asked of the kernel's mount table each time, so a process that finds a mount which another one made treats
//! it as its own. The caller holds the instance's gate.

use super::place::Place;
use super::resolved;
use crate::error::AgentError;
use crate::mount_table;
use crate::mounting::{self, Departure};
use std::fs::File;
use std::path::{Path, PathBuf};

const MOUNT: &str = "mount";

/// See the module.
pub(crate) struct XfsMount<'a> {
    pub place: &'a Place,
}

impl XfsMount<'_> {
    fn point(&self) -> PathBuf {
        resolved(&self.place.inside()).join(MOUNT)
    }

    /// Answers where the content is; if it is not mounted, `attach` is called and mounts the device that it finds.
    pub fn bring_up(
        &self,
        attach: impl FnOnce(&dyn Fn(&Path) -> Result<(), AgentError>) -> Result<(), AgentError>,
    ) -> Result<PathBuf, AgentError> {
        let point = self.point();
        if mount_table::at(&point)?.is_none() {
            mounting::make_mount_point(&point)?;
            attach(&|device| mounting::mount_xfs(device, &point))?;
        }
        Ok(point)
    }

    /// Unmounts, if it is mounted.
    pub fn take_down(&self) -> Result<Departure, AgentError> {
        let point = self.point();
        let departure = mounting::unmount(&point)?;
        mounting::remove_mount_point(&point)?;
        Ok(departure)
    }

    /// What has not reached the disk yet never has to.
    pub fn abandon(&self) {
        let point = self.point();
        if mount_table::at(&point).is_ok_and(|mount| mount.is_some_and(|mount| mount.kind == "xfs")) {
            // If it cannot be stopped, unmounting writes everything back: slower, not wrong.
            let _ = File::open(&point).map(|root| mounting::stop_xfs(&root));
        }
    }
}
