//! A fragment that is an XFS image of fixed size on a loop device.
//!
//! The space is reserved on the node's disk before the image has its name: an image that found no room later would
//! make XFS shut down and lose what was written last. A [`Room::Sparse`] image takes exactly that risk, because its
//! operator said so: it takes space as it is written.
//!
//! Order of events in making: directory - `.image.xfs.new` of full size - `mkfs.xfs` in it - fsync - rename to
//! `image.xfs` - fsync of the directory. Crash before the rename: the unfinished file is made anew by the next try, or
//! removed; after it: the image is whole. Bringing up: loop device (goes by itself with its last user) - mount. Crash in
//! between: nothing is left; after: the mount is found in the mount table by the next attach or clean-up.
//!
//! The caller holds the instance's gate: two loop devices over one image would destroy the file system.

use super::image_size::{self, ImagePlan};
use super::mounted::XfsMount;
use super::place::Place;
use super::{Fragment, mkfs};
use crate::error::AgentError;
use crate::loop_device::DiscardSwitch;
use crate::mounting::Departure;
use crate::{atomic_file, loop_device};
use forebay_model::units::Bytes;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const IMAGE: &str = "image.xfs";

/// Where an image's blocks come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// They are the image's from the beginning.
    Reserved,
    /// They are looked for when they are written, and given back with the image, or earlier where they are discarded.
    Sparse,
}

/// See the module.
pub(crate) struct XfsImage {
    place: Place,
    capacity: Bytes,
    room: Room,
    /// Will tell the device never to give space back; holds it open until then.
    switch: Mutex<Option<DiscardSwitch>>,
}

impl XfsImage {
    pub fn new(place: Place, capacity: Bytes, room: Room) -> XfsImage {
        XfsImage { place, capacity, room, switch: Mutex::new(None) }
    }

    fn image(&self) -> PathBuf {
        self.place.path(IMAGE)
    }

    fn mount(&self) -> XfsMount<'_> {
        XfsMount { place: &self.place }
    }

    fn make_image(&self) -> Result<(), AgentError> {
        let image = self.image();
        let new = atomic_file::new_name(&image);
        match std::fs::remove_file(&new) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(AgentError::system("remove", new, error));
            }
            _ => {}
        }
        let plan = image_size::plan(self.capacity);
        let made = self.fill(&new, plan);
        if made.is_err() {
            // Ours and without content: the space goes back at once.
            let _ = std::fs::remove_file(&new);
        }
        made?;
        std::fs::rename(&new, &image).map_err(|error| AgentError::system("rename to", &image, error))?;
        atomic_file::sync_directory(&self.place.inside())
    }

    fn fill(&self, new: &Path, plan: ImagePlan) -> Result<(), AgentError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(new)
            .map_err(|error| AgentError::system("create image", new, error))?;
        match self.room {
            Room::Reserved => self.reserve(&file, plan.size)?,
            Room::Sparse => {
                file.set_len(plan.size.0).map_err(|error| AgentError::system("size image", new, error))?;
            }
        }
        mkfs::make_xfs(new, plan)?;
        file.sync_all().map_err(|error| AgentError::system("sync", new, error))
    }

    /// What the file system keeps back for root is not for burst buffers, so it is counted out first.
    fn reserve(&self, file: &File, size: Bytes) -> Result<(), AgentError> {
        let directory = self.place.directory();
        let free = free_bytes(file).map_err(|error| AgentError::system("look at", directory, error))?;
        let no_room = || AgentError::NoRoom { directory: directory.to_owned(), wanted: size, free };
        if free < size {
            return Err(no_room());
        }
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size.0) {
            Ok(()) => Ok(()),
            Err(Errno::NOSPC | Errno::FBIG | Errno::DQUOT) => Err(no_room()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                Err(AgentError::CannotReserve { directory: directory.to_owned() })
            }
            Err(error) => Err(AgentError::system("reserve space in", directory, error)),
        }
    }
}

impl Fragment for XfsImage {
    fn make(&self) -> Result<(), AgentError> {
        if self.is_made() {
            return Ok(());
        }
        self.place.make()?;
        self.make_image()
    }

    fn is_made(&self) -> bool {
        self.image().is_file()
    }

    fn bring_up(&self) -> Result<PathBuf, AgentError> {
        let image = self.image();
        self.mount().bring_up(|mount| {
            let device = loop_device::attach(&image)?;
            mount(&device.path)?;
            if self.room == Room::Reserved {
                *self.switch.lock().unwrap_or_else(PoisonError::into_inner) = device.forbid_discard();
            }
            Ok(())
        })
    }

    fn take_down(&self) -> Result<Departure, AgentError> {
        let switch = self.switch.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(switch) = switch {
            switch.cancel();
        }
        self.mount().take_down()
    }

    fn abandon(&self) {
        self.mount().abandon();
    }

    fn remove(&self) -> Result<Departure, AgentError> {
        let departure = self.take_down()?;
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

fn free_bytes(file: &File) -> Result<Bytes, Errno> {
    let space = rustix::fs::fstatvfs(file)?;
    Ok(Bytes(space.f_bavail.saturating_mul(space.f_frsize)))
}

/// Whether the file system that will hold `directory` can promise space for good. Those that write every change to a
/// new place (btrfs, ZFS, bcachefs) accept a reservation and may still run out.
pub(crate) fn can_reserve(directory: &Path) -> bool {
    const COPY_ON_WRITE: [u64; 3] = [0x9123_683E, 0x2FC1_2FC1, 0xCA45_1A4E];
    let Some(existing) = directory.ancestors().find(|path| path.exists()) else { return false };
    let kind = rustix::fs::statfs(existing).map(|space| space.f_type as u64 & 0xFFFF_FFFF);
    if !kind.is_ok_and(|kind| !COPY_ON_WRITE.contains(&kind)) {
        return false;
    }
    let unnamed = OpenOptions::new().write(true).mode(0o600).custom_flags(libc::O_TMPFILE).open(existing);
    unnamed.is_ok_and(|file| {
        let reserved = rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 4096);
        // A full disk is not one that cannot reserve; it gets its own error later.
        matches!(reserved, Ok(()) | Err(Errno::NOSPC | Errno::DQUOT))
    })
}

#[cfg(test)]
mod tests;
