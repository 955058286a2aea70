//! A fragment that is an LVM volume with XFS, for nodes whose disk is a volume group instead of a file system.
//!
//! The volume's space is its own from the beginning, as that of a reserved image is, without a file system and a loop device in
//! between. Its name carries instance and fragment, its tags the registry: a volume without them is somebody else's, and is
//! neither used nor removed.
//!
//! Order of events in making: directory - volume - `mkfs.xfs` in it - sync of the device. That the volume is there says nothing about
//! the rest, so whoever makes one keeps a record (`daemon::fragments`): a crash in between leaves a record without an end, and
//! the volume is removed and made anew. In removing: unmount - volume, with a discard of its blocks - directory. A crash after
//! each leaves what the next call goes on with. Bringing up: volume shown by the kernel - mount. Crash in between: a volume that is
//! shown and not mounted, which hinders nobody.

mod lvm;

use super::image_size;
use super::mounted::XfsMount;
use super::place::Place;
use super::{Fragment, mkfs};
use crate::error::AgentError;
use crate::mounting::Departure;
use forebay_model::ids::{FragmentId, InstanceId};
use forebay_model::units::Bytes;
use lvm::Lvm;
use std::fs::File;
use std::path::PathBuf;

/// Whose volume it is.
#[derive(Clone, Debug)]
pub(crate) struct Owner<'a> {
    /// The registry that the numbers are of.
    pub registry: &'a str,
    /// The instance.
    pub instance: InstanceId,
    /// The fragment.
    pub fragment: FragmentId,
}

/// See the module.
pub(crate) struct LvmVolume {
    place: Place,
    lvm: Lvm,
    name: String,
    registry: String,
    capacity: Bytes,
}

/// Says what keeps a node from making volumes in a group.
pub(crate) fn check(group: &str) -> Result<(), AgentError> {
    Lvm::new(group).check()
}

impl LvmVolume {
    pub fn new(place: Place, group: &str, owner: &Owner<'_>, capacity: Bytes) -> LvmVolume {
        LvmVolume {
            place,
            lvm: Lvm::new(group),
            name: format!("forebay_i{}_f{}", owner.instance, owner.fragment),
            registry: owner.registry.to_owned(),
            capacity,
        }
    }

    fn device(&self) -> PathBuf {
        self.lvm.device(&self.name)
    }

    fn mount(&self) -> XfsMount<'_> {
        XfsMount { place: &self.place }
    }

    /// Whether the volume is there; one that is not ours is refused.
    fn is_there(&self) -> Result<bool, AgentError> {
        match self.lvm.find(&self.name)? {
            None => Ok(false),
            Some(found) if found.is_of(&self.registry) => Ok(true),
            Some(_) => {
                Err(AgentError::ForeignVolume { device: self.device(), registry: self.registry.clone() })
            }
        }
    }

    fn create(&self, size: Bytes) -> Result<(), AgentError> {
        let free = self.lvm.free()?;
        if free < size {
            let directory = self.device().parent().map(PathBuf::from).unwrap_or_default();
            return Err(AgentError::NoRoom { directory, wanted: size, free });
        }
        self.lvm.create(&self.name, size, &self.registry)
    }

    fn show(&self) -> Result<PathBuf, AgentError> {
        let device = self.device();
        if !device.exists() {
            self.lvm.activate(&self.name)?;
        }
        Ok(device)
    }
}

impl Fragment for LvmVolume {
    /// A volume that is there is never given a new file system: what came only half of the way is removed first.
    fn make(&self) -> Result<(), AgentError> {
        if self.is_there()? {
            return Ok(());
        }
        self.place.make()?;
        let plan = image_size::plan(self.capacity);
        self.create(plan.size)?;
        let device = self.show()?;
        mkfs::make_xfs(&device, plan)?;
        let synced = File::open(&device).and_then(|file| file.sync_all());
        synced.map_err(|error| AgentError::system("sync", device, error))
    }

    /// What LVM cannot be asked about counts as there: a fragment must not be taken for lost because a program failed.
    fn is_made(&self) -> bool {
        self.device().exists() || self.is_there().unwrap_or(true)
    }

    fn bring_up(&self) -> Result<PathBuf, AgentError> {
        self.mount().bring_up(|mount| mount(&self.show()?))
    }

    fn take_down(&self) -> Result<Departure, AgentError> {
        self.mount().take_down()
    }

    fn abandon(&self) {
        self.mount().abandon();
    }

    fn remove(&self) -> Result<Departure, AgentError> {
        let departure = self.take_down()?;
        if self.is_there()? {
            self.lvm.remove(&self.name)?;
        }
        self.place.remove()?;
        Ok(departure)
    }

    fn hard_size(&self) -> bool {
        true
    }

    fn capacity(&self) -> Bytes {
        self.capacity
    }
}

#[cfg(test)]
mod tests;
