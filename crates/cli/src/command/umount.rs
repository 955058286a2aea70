//! `forebay umount`: takes away what `forebay mount` mounted.

use crate::args::Umount;
use crate::error::CommandError;
use crate::exit::Exit;

/// Unmounts.
pub fn umount(umount: &Umount) -> Result<Exit, CommandError> {
    forebay_agent::node::unmount(&umount.mountpoint, umount.lazy)?;
    Ok(Exit::Success)
}
