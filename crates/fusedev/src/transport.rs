//! The way an answer takes to the kernel.
//!
//! [`Transport`] has one implementation for each kind of connection. Answers may be sent from any thread, once for each
//! request; [`crate::reply`] sees to that.

use crate::abi::OUT_HEADER_BYTES;
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// Where answers go.
pub(crate) trait Transport: Send + Sync {
    /// Sends an answer of the fixed part and data. The kernel copies before this returns.
    fn answer(&self, unique: u64, fixed: &[u8], data: &[u8]) -> rustix::io::Result<()>;

    /// Refuses a request.
    fn refuse(&self, unique: u64, errno: Errno) -> rustix::io::Result<()>;
}

/// A descriptor of `/dev/fuse`. Requests must be answered on the descriptor they were read from.
pub(crate) struct Device(Arc<OwnedFd>);

impl Device {
    pub(crate) fn new(device: Arc<OwnedFd>) -> Device {
        Device(device)
    }
}

impl Transport for Device {
    fn answer(&self, unique: u64, fixed: &[u8], data: &[u8]) -> rustix::io::Result<()> {
        let header = out_header(unique, 0, fixed.len() + data.len());
        write_message(&*self.0, &header, fixed, data)
    }

    fn refuse(&self, unique: u64, errno: Errno) -> rustix::io::Result<()> {
        let header = out_header(unique, -errno.raw_os_error(), 0);
        write_message(&*self.0, &header, &[], &[])
    }
}

/// Length, error and number of an answer. The length of what follows is at most that of a request buffer.
pub(crate) fn out_header(unique: u64, error: i32, length: usize) -> [u8; OUT_HEADER_BYTES] {
    let mut header = [0; OUT_HEADER_BYTES];
    header[..4].copy_from_slice(&((OUT_HEADER_BYTES + length) as u32).to_ne_bytes());
    header[4..8].copy_from_slice(&error.to_ne_bytes());
    header[8..].copy_from_slice(&unique.to_ne_bytes());
    header
}

/// One message in one call: the kernel takes no message in pieces. Empty parts are left out; with the header they would
/// cost the kernel a look.
pub(crate) fn write_message(
    device: impl AsFd,
    header: &[u8],
    fixed: &[u8],
    data: &[u8],
) -> rustix::io::Result<()> {
    let mut parts = [IoSlice::new(header), IoSlice::new(&[]), IoSlice::new(&[])];
    let mut count = 1;
    for part in [fixed, data] {
        if !part.is_empty() {
            parts[count] = IoSlice::new(part);
            count += 1;
        }
    }
    loop {
        match rustix::io::writev(&device, &parts[..count]) {
            Err(Errno::INTR) => continue,
            result => return result.map(drop),
        }
    }
}
