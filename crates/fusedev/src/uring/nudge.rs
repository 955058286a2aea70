//! A request that this process makes to a queue of its own.
//!
//! The kernel is asked to hand over nothing of a file's cached content, and answers with a request (NOTIFY_REPLY) to the queue of the
//! processor that this thread runs on. Its only purpose is that whoever answers it fetches the next request of the queue.
//!
//! Linux does this for regular files only: a burst of locks of one directory may have to wait until somebody asks for something else.

use crate::abi::{notification, opcode};
use crate::record::Record;
use crate::transport::{out_header, write_message};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The kernel's own numbers count from 0 in steps of two, and odd ones stand for interrupts: these are none of them.
const FIRST: u64 = 1 << 63;
const STEP: u64 = 2;
static NEXT: AtomicU64 = AtomicU64::new(FIRST);

/// Has the kernel make a request to the queue of this processor, about a file that is open. Errors: the mount is gone.
pub(super) fn nudge(device: &OwnedFd, file: u64) -> Result<(), Errno> {
    let unique = NEXT.fetch_add(STEP, Relaxed);
    let (offset, length) = (0, 0);
    let record = Record::new().u64(unique).u64(file).u64(offset).u32(length).u32(0);
    let fixed = record.as_bytes();
    match write_message(device, &out_header(0, notification::RETRIEVE, fixed.len()), fixed, &[]) {
        Err(Errno::INVAL) => Ok(()), // a directory
        made => made,
    }
}

/// The operation is that of this request.
pub(super) fn is_nudge(operation: Option<u32>) -> bool {
    operation == Some(opcode::NOTIFY_REPLY)
}
