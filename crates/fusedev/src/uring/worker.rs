//! A thread that serves one place: register it, then serve, answer and fetch the next in one call, until the mount is gone. Of a place
//! that comes later the queue is nudged, for requests that are in it already ([`super::reserve`]).

use super::Lane;
use super::nudge::{is_nudge, nudge};
use super::reserve::{Begun, Reserve};
use super::ring::ENTRY_BYTES;
use super::slot::Slot;
use crate::abi::opcode;
use crate::closings::Closings;
use crate::dispatch::Dispatch;
use crate::flags::Features;
use crate::handler::Handler;
use crate::request::{decode_parts, glance};
use crate::transport::Transport;
use forebay_awake::Awake;
use rustix::io::Errno;
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// io_uring's operation "command to a device".
const DEVICE_COMMAND: u8 = 46;
/// FUSE's commands.
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// What the threads of a connection have in common.
#[derive(Clone, Copy)]
pub(crate) struct Service<'a> {
    pub(crate) device: &'a OwnedFd,
    pub(crate) handler: &'a dyn Handler,
    pub(crate) closings: &'a Closings,
    pub(crate) features: Features,
    pub(crate) reserve: &'a Reserve,
    pub(crate) awake: &'a Awake,
}

/// Serves until the mount is gone. `late`: of a place that comes later, the file of the lock that it comes for. `enlist` is told
/// whether the kernel knows the place, and says whether to begin; `more` begins to give a queue one place and one thread more.
pub(crate) fn serve(
    mut lane: Lane,
    service: Service<'_>,
    late: Option<u64>,
    enlist: &dyn Fn(bool) -> bool,
    more: &dyn Fn(u16, u64),
) -> Result<(), Errno> {
    let Service { device, handler, closings, features, reserve, awake } = service;
    let slot = Arc::new(Slot::new(lane.place.parts()[1].iov_base as usize));
    let answers = Arc::clone(&slot) as Arc<dyn Transport>;
    let dispatch = Dispatch { handler, features, answers, awake };
    let post = closings.enter_queue(lane.processor);
    let registered = register(&mut lane, device);
    let begins = enlist(registered.is_ok());
    // Not before: the processor of a queue that needs a place at once is busy.
    stay_on(lane.processor);
    let first = registered
        .inspect_err(|error| handler.complain(&format_args!("registering with io_uring: {error}")))?;
    if !begins {
        return Err(Errno::CANCELED); // another thread has complained
    }
    if let Some(file) = late {
        // A connection that has just ended says so at the next step.
        nudge(device, file)
            .unwrap_or_else(|error| handler.complain(&format_args!("a request of its own: {error}")));
    }
    let mut result = first.map_or_else(|| lane.ring.wait(), Ok)?;
    loop {
        match result {
            0 => {}
            result if is_end(result) => {
                reserve.end();
                return Ok(());
            }
            result => {
                handler.complain(&format_args!("a serving thread ends, io_uring says error {}", -result));
                return Err(as_errno(result));
            }
        }
        let header = lane.place.arrived().header;
        let (operation, unique, file) =
            (glance::operation(header), glance::unique(header), glance::node(header));
        // Its answer may take as long as somebody else keeps a lock.
        let is_late = operation == Some(opcode::SETLKW);
        post.begin(operation == Some(opcode::RELEASE));
        let begun = if is_late { reserve.begin(lane.processor, &slot) } else { Begun::Kept };
        if let Begun::Wants(places) = begun {
            (0..places).for_each(|_| more(lane.processor, file));
        }
        match begun {
            // Both are noted for below, which cannot fail.
            _ if is_nudge(operation) => _ = slot.answer(unique, &[], &[]),
            Begun::Refused => _ = slot.refuse(unique, Errno::NOLCK),
            _ => one(&dispatch, &mut lane),
        }
        post.end();
        let answer = slot.take();
        if is_late {
            reserve.done(lane.processor, &slot);
        }
        let Some(answer) = answer else { return Ok(()) }; // the connection was cut meanwhile
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
