//! The way an answer takes to the kernel.
//!
//! [`Transport`] has one implementation for each kind of connection. Answers may be sent from any thread, once for each
//! request; [`crate::reply`] sees to that.

use crate::abi::OUT_HEADER_BYTES;
use crate::window::{Pipe, Window};
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// Where answers go.
pub(crate) trait Transport: Send + Sync {
    /// Sends an answer of the fixed part and data. The kernel copies before this returns.
    fn answer(&self, unique: u64, fixed: &[u8], data: &[u8]) -> rustix::io::Result<()>;

    /// Refuses a request.
    fn refuse(&self, unique: u64, errno: Errno) -> rustix::io::Result<()>;

    /// Answers by what `show` puts into a window, up to so many bytes. `false`: the request is not answered, be it that there
    /// is no window of that size.
    fn show(&self, unique: u64, bytes: usize, show: &mut dyn FnMut(&mut Window<'_>)) -> bool {
        let _ = (unique, bytes, show);
        false
    }
}

/// A descriptor of `/dev/fuse`. Requests must be answered on the descriptor they were read from.
pub(crate) struct Device {
    device: Arc<OwnedFd>,
    data_bytes: usize,
    pipe: Mutex<Spare>,
}

/// The pipe of a device between two answers.
enum Spare {
    /// One is made for the next answer that wants it.
    ToMake,
    Empty(Pipe),
    /// None can be made that is large enough.
    Impossible,
}

impl Device {
    /// For answers of up to so much data.
    pub(crate) fn new(device: Arc<OwnedFd>, data_bytes: usize) -> Device {
        Device { device, data_bytes, pipe: Mutex::new(Spare::ToMake) }
    }

    /// The pipe, which nobody else has meanwhile.
    fn pipe(&self) -> Option<Pipe> {
        let mut spare = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *spare, Spare::ToMake) {
            Spare::Empty(pipe) => return Some(pipe),
            Spare::ToMake => {}
            Spare::Impossible => {
                *spare = Spare::Impossible;
                return None;
            }
        }
        let made = Pipe::new(self.data_bytes);
        if matches!(made, Err(Errno::PERM)) {
            *spare = Spare::Impossible;
        }
        made.ok()
    }

    /// The pipe is empty again.
    fn give_back(&self, pipe: Pipe) {
        *self.pipe.lock().unwrap_or_else(PoisonError::into_inner) = Spare::Empty(pipe);
    }
}

impl Transport for Device {
    fn answer(&self, unique: u64, fixed: &[u8], data: &[u8]) -> rustix::io::Result<()> {
        let header = out_header(unique, 0, fixed.len() + data.len());
        write_message(&*self.device, &header, fixed, data)
    }

    fn refuse(&self, unique: u64, errno: Errno) -> rustix::io::Result<()> {
        let header = out_header(unique, -errno.raw_os_error(), 0);
        write_message(&*self.device, &header, &[], &[])
    }

    fn show(&self, unique: u64, bytes: usize, show: &mut dyn FnMut(&mut Window<'_>)) -> bool {
        let Some(pipe) = self.pipe() else { return false };
        if !pipe.takes(bytes) {
            self.give_back(pipe);
            return false;
        }
        let mut window = Window::new(pipe, self.device.as_fd(), unique);
        show(&mut window);
        let (is_answered, pipe) = window.end();
        if let Some(pipe) = pipe {
            self.give_back(pipe);
        }
        is_answered
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
