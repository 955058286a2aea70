//! `/dev/fuse` and the two requests of it that the `fuser` crate keeps to itself.
//!
//! Everything here may be called from any thread; nothing is left behind by a crash, the kernel closes the device.

use rustix::fs::{Mode, OFlags};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Where the kernel offers FUSE.
pub(crate) const PATH: &str = "/dev/fuse";

const IOC_CLONE: libc::c_ulong = ioctl_code(IOC_READ, 0);
const IOC_BACKING_CLOSE: libc::c_ulong = ioctl_code(IOC_WRITE, 2);

const IOC_WRITE: u32 = 1;
const IOC_READ: u32 = 2;

/// `_IOR(229, number, u32)` and `_IOW(229, number, u32)` as in `include/uapi/asm-generic/ioctl.h`.
const fn ioctl_code(direction: u32, number: u32) -> libc::c_ulong {
    ((direction << 30) | (4 << 16) | (229 << 8) | number) as libc::c_ulong
}

/// Opens the device for a new connection.
pub(crate) fn open() -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(PATH, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// Whether further descriptors of a connection can be made, so that each thread has a queue of its own. A process
/// may hold a connection and yet not be allowed to open the device again, as in some containers.
pub(crate) fn can_clone(connection: impl AsFd) -> bool {
    let Ok(probe) = open() else { return false };
    let source = connection.as_fd().as_raw_fd() as u32;
    // SAFETY: both descriptors are open and `source` outlives the call, which only reads it.
    unsafe { libc::ioctl(probe.as_raw_fd(), IOC_CLONE as _, &source) == 0 }
}

/// Whether the kernel takes backing files from this process: registers one unnamed file in memory and gives it back.
/// The connection must be initialised with passthrough, or the answer is no.
pub(crate) fn takes_backing_files(connection: impl AsFd) -> Result<(), rustix::io::Errno> {
    let probe = rustix::fs::memfd_create("passthrough-probe", rustix::fs::MemfdFlags::CLOEXEC)?;
    let id = fuser::BackingId::create_raw(&connection, &probe)
        .map_err(|error| rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO))?;
    // SAFETY: the descriptor is open and `id` outlives the call, which only reads it.
    unsafe { libc::ioctl(connection.as_fd().as_raw_fd(), IOC_BACKING_CLOSE as _, &id) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_codes_are_those_of_the_kernel_header() {
        assert_eq!(IOC_CLONE, 0x8004_e500);
        assert_eq!(IOC_BACKING_CLOSE, 0x4004_e502);
    }
}
