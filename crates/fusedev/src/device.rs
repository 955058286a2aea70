//! `/dev/fuse`: opening it, and further descriptors of one connection.
//!
//! Everything here may be called from any thread; nothing is left behind by a crash, the kernel closes the device.

use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Where the kernel offers FUSE.
pub const PATH: &str = "/dev/fuse";

const IOC_WRITE: u32 = 1;
const IOC_READ: u32 = 2;

const IOC_CLONE: libc::c_ulong = ioctl_code(IOC_READ, 0, size_of::<u32>());
pub(crate) const IOC_BACKING_OPEN: libc::c_ulong = ioctl_code(IOC_WRITE, 1, size_of::<BackingMap>());
pub(crate) const IOC_BACKING_CLOSE: libc::c_ulong = ioctl_code(IOC_WRITE, 2, size_of::<u32>());

/// `struct fuse_backing_map`.
#[repr(C)]
pub(crate) struct BackingMap {
    pub(crate) fd: i32,
    pub(crate) flags: u32,
    pub(crate) padding: u64,
}

/// Request `number` of the device, as `include/uapi/asm-generic/ioctl.h` makes its code.
const fn ioctl_code(direction: u32, number: u32, size: usize) -> libc::c_ulong {
    ((direction << 30) | ((size as u32) << 16) | (229 << 8) | number) as libc::c_ulong
}

/// Opens the device for a new connection.
pub fn open() -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(PATH, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// A further descriptor of a connection, with a queue of its own for requests under way. A process may hold a connection
/// and yet not be allowed to open the device again, as in some containers.
pub fn clone(connection: impl AsFd) -> io::Result<OwnedFd> {
    let further = open()?;
    let source = connection.as_fd().as_raw_fd() as u32;
    // SAFETY: both descriptors are open and `source` outlives the call, which only reads it.
    match unsafe { libc::ioctl(further.as_raw_fd(), IOC_CLONE as _, &source) } {
        0 => Ok(further),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_codes_are_those_of_the_kernel_header() {
        assert_eq!(IOC_CLONE, 0x8004_e500);
        assert_eq!(IOC_BACKING_OPEN, 0x4010_e501);
        assert_eq!(IOC_BACKING_CLOSE, 0x4004_e502);
    }
}
