//! Files that the kernel reads and writes itself (passthrough, Linux 6.9).
//!
//! A file is registered with the connection and gets a number, which open replies name. The kernel keeps the file and the
//! credentials of the registering thread until the number is given back, which dropping it does. May be used from any
//! thread; a crash leaves nothing, the kernel drops registrations with the connection.

use crate::device::{BackingMap, IOC_BACKING_CLOSE, IOC_BACKING_OPEN};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Weak};

/// Registers files. Holding one does not keep the connection open.
#[derive(Clone, Debug)]
pub struct Registrar(Weak<OwnedFd>);

impl Registrar {
    pub(crate) fn new(device: &Arc<OwnedFd>) -> Registrar {
        Registrar(Arc::downgrade(device))
    }

    /// Has the kernel take `file`. Errors: not agreed at the start, no privilege (EPERM), a file that cannot be passed
    /// (one that is itself on such a mount), or the mount is gone (ENOTCONN).
    pub fn register(&self, file: impl AsFd) -> io::Result<BackingId> {
        let device = self.0.upgrade().ok_or(io::ErrorKind::NotConnected)?;
        let map = BackingMap { fd: file.as_fd().as_raw_fd(), flags: 0, padding: 0 };
        // SAFETY: both descriptors are open, and `map` outlives the call, which only reads it.
        let number = unsafe { libc::ioctl(device.as_raw_fd(), IOC_BACKING_OPEN as _, &map) };
        match number {
            1.. => Ok(BackingId { number, device: self.0.clone() }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// A registered file.
#[derive(Debug)]
pub struct BackingId {
    number: i32,
    device: Weak<OwnedFd>,
}

impl BackingId {
    pub(crate) fn number(&self) -> i32 {
        self.number
    }
}

impl Drop for BackingId {
    fn drop(&mut self) {
        let Some(device) = self.device.upgrade() else { return };
        let number = self.number as u32;
        // SAFETY: the descriptor is open and `number` outlives the call, which only reads it. Its failure means that the
        // connection is cut, and with it the registration.
        unsafe { libc::ioctl(device.as_raw_fd(), IOC_BACKING_CLOSE as _, &number) };
    }
}
