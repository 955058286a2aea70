//! A thread that serves one place: register it, then serve, answer and fetch the next in one call, until the mount is gone.

use super::ring::ENTRY_BYTES;
use super::slot::Slot;
use super::{Lane, Muster};
use crate::closings::Closings;
use crate::dispatch::Dispatch;
use crate::flags::Features;
use crate::handler::Handler;
use crate::request::decode_parts;
use crate::session::is_close;
use crate::transport::Transport;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// io_uring's operation "command to a device".
const DEVICE_COMMAND: u8 = 46;
/// FUSE's commands.
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// Serves until the mount is gone.
pub(crate) fn serve(
    mut lane: Lane,
    device: &OwnedFd,
    (handler, closings): (&dyn Handler, &Closings),
    features: Features,
    muster: &Muster,
) -> Result<(), Errno> {
    stay_on(lane.processor);
    let slot = Arc::new(Slot::new(lane.place.parts()[1].iov_base as usize));
    let answers = Arc::clone(&slot) as Arc<dyn Transport>;
    let dispatch = Dispatch { handler, features, answers };
    let post = closings.enter();
    let registered = register(&mut lane, device);
    muster.report(registered.is_ok());
    let first = registered
        .inspect_err(|error| handler.complain(&format_args!("registering with io_uring: {error}")))?;
    if !muster.wait() {
        return Err(Errno::CANCELED); // another thread has complained
    }
    let mut result = first.map_or_else(|| lane.ring.wait(), Ok)?;
    loop {
        match result {
            0 => {}
            result if is_end(result) => return Ok(()),
            result => {
                handler.complain(&format_args!("a serving thread ends, io_uring says error {}", -result));
                return Err(as_errno(result));
            }
        }
        post.begin(is_close(lane.place.arrived().header));
        one(&dispatch, &mut lane);
        post.end();
        let answer = slot.take();
        lane.place.answer(answer.unique, answer.error, &answer.bytes, answer.in_payload);
        result = lane.ring.submit_and_wait(&entry(&lane, device, COMMIT_AND_FETCH))?;
    }
}

/// Tells the kernel of the place. What is refused is refused at once; the first request may be there at once, too.
fn register(lane: &mut Lane, device: &OwnedFd) -> Result<Option<i32>, Errno> {
    match lane.ring.submit(&entry(lane, device, REGISTER))? {
        Some(refused) if refused != 0 && !is_end(refused) => Err(as_errno(refused)),
        first => Ok(first),
    }
}

fn as_errno(result: i32) -> Errno {
    Errno::from_raw_os_error(result.saturating_neg().clamp(1, 4095))
}

/// The connection is cut, or this place is taken from us because it is being cut.
fn is_end(result: i32) -> bool {
    [libc::ENOTCONN, libc::ECONNABORTED, libc::ENODEV, libc::ECANCELED].contains(&-result)
}

/// A panic has answered EIO when it gets here, as the reply was dropped on its way.
fn one(dispatch: &Dispatch<'_>, lane: &mut Lane) {
    let arrived = lane.place.arrived();
    let decoded = decode_parts(arrived.header, arrived.fixed, arrived.rest, dispatch.features);
    let room = arrived.room;
    if catch_unwind(AssertUnwindSafe(|| dispatch.serve(decoded, room))).is_err() {
        dispatch.panicked(arrived.header);
    }
}

fn entry(lane: &Lane, device: &OwnedFd, command: u32) -> [u8; ENTRY_BYTES] {
    let mut entry = [0; ENTRY_BYTES];
    let mut put = |at: usize, bytes: &[u8]| entry[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &[DEVICE_COMMAND]);
    put(4, &device.as_raw_fd().to_ne_bytes());
    put(8, &command.to_ne_bytes());
    let parts = lane.place.parts();
    put(16, &(parts.as_ptr() as u64).to_ne_bytes());
    put(24, &(parts.len() as u32).to_ne_bytes());
    if command == COMMIT_AND_FETCH {
        put(56, &lane.place.commit().to_ne_bytes());
    }
    put(64, &lane.processor.to_ne_bytes());
    entry
}

/// Only a wish: a process that may not use this processor serves its queue from another one.
fn stay_on(processor: u16) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(usize::from(processor));
    let _ = rustix::thread::sched_setaffinity(None, &set);
}
